"""The counts of a training, kept beside its output until it is done, so that an interrupted training continues from them."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from bpejit.corpus.contents import Contents
from bpejit.corpus.fingerprints import modified_times
from bpejit.corpus.sources import Source
from bpejit.counting.count_corpus import describe_inputs
from bpejit.counting.counts import Counts
from bpejit.counting.counts_file import write_counts
from bpejit.counting.header import CountSettings
from bpejit.errors import CountsError, shorten
from bpejit.storage.files import is_remote

_COMPARED = ("bytes", "sha256", "checksum", "read_as", "weight", "max_bytes", "seed")
"""What must be equal in the descriptions of an input (see `describe_inputs`)."""

MODIFIED = "modified_ns"
"""The modification time of an input, which only these counts have: most of an input is not hashed."""


FEW_PRETOKENS = 200_000
"""Counts of so few distinct pre-tokens are always kept: sorting and writing them takes at most 0.2 s."""

SAVE_SECONDS = 1e-6
"""Approximate time of sorting and writing the counts of one distinct pre-token: 1.8 s for 1,960,000 of Chinese."""


@dataclass(frozen=True)
class CountsFile:
    """Where a training stores its counts.

    Parameters
    ----------
    path : Path
    resumes : bool
        True to train from the file, which must be complete, and False to write it.
    """

    path: Path
    resumes: bool

    @classmethod
    def beside(cls, out: str | os.PathLike[str], *, resume: bool) -> CountsFile:
        """Return the file for an output, in the current folder if that is at a URL.

        Without a file of an earlier run, there is nothing to resume.
        """
        name = os.fspath(out)
        target = Path(name.rstrip("/").rpartition("/")[2] if is_remote(name) else name).absolute()
        path = target.with_name(f"{target.name}.partial.counts")
        return cls(path, resume and path.exists())

    def save(self, counts: Counts, seconds: float) -> Counts:
        """Write the counts, unless counting again takes less time, or an input is a pipe, which a later run could not compare.

        Parameters
        ----------
        counts : Counts
        seconds : float
            How long counting took.

        Returns
        -------
        Counts
            Those that are read from the file, if the given ones are on disk as well.
        """
        if not counts.n_pretokens or any(entry["bytes"] is None for entry in counts.inputs):
            return counts
        if not counts.is_stored and len(counts) > max(FEW_PRETOKENS, seconds / SAVE_SECONDS):
            self.remove()  # those of an earlier run, perhaps on another text
            return counts
        self.path.parent.mkdir(parents=True, exist_ok=True)
        begun = int((time.time() - seconds) * 1e9)
        times = modified_times(str(entry["path"]) for entry in counts.inputs)
        if any(found is not None and found > begun for found in times.values()):  # while it was counted
            self.remove()
            return counts
        inputs = [{**entry, MODIFIED: times[str(entry["path"])]} for entry in counts.inputs]
        write_counts(self.path, replace(counts.header, inputs=inputs), counts.blocks())
        return Counts.load(self.path) if counts.is_stored else counts

    def load(self, settings: CountSettings, sources: list[Source], contents: Contents) -> Counts:
        """Return the counts of an earlier run.

        Raises
        ------
        CountsError
            If the settings or the inputs of that run are not the given ones, or the file is damaged.
        """
        counts = Counts.load(self.path)
        found = counts.header.settings.difference(settings)
        if found is not None:
            what, theirs, ours = found
            raise self._different(f"the {what} of that run is {theirs}", ours)
        before = {str(entry["path"]): entry for entry in counts.inputs}
        times = modified_times(before)
        now = {str(entry["path"]): entry for entry in describe_inputs(sources, contents)}
        for path in {**before, **now}:
            if path not in now:
                raise self._different(f"that run has the input `{path}`", "the same inputs")
            if path not in before:
                raise self._different(f"that run does not have the input `{path}`", "the same inputs")
            if now[path]["bytes"] is None:
                raise self._different(f"the input `{path}` is a pipe, which can be read only once", "files")
            if any(before[path].get(key) != now[path].get(key) for key in _COMPARED):
                raise self._different(f"the input `{path}` has changed since, or is read in another way", "the same input")
            if before[path].get(MODIFIED, -1) != times[path]:
                raise self._different(f"the input `{path}` was modified since", "an input that was not")
        if len(counts.inputs) != len(sources):
            raise self._different(f"that run has {len(counts.inputs)} inputs", f"{len(sources)} inputs")
        return counts

    def _different(self, found: str, expected: str) -> CountsError:
        return CountsError(
            f"cannot resume from `{shorten(str(self.path), 200)[1:-1]}`: {found}; expected {expected}: run the command without "
            "`resume=True`, which counts again"
        )

    def remove(self) -> None:
        """Remove the file. Called when the output is complete."""
        with suppress(OSError):
            self.path.unlink()
