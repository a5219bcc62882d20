"""Join the parts of divided jobs: `bpejit.combine`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bpejit import arguments
from bpejit.arguments import showing_progress
from bpejit.errors import OutputError
from bpejit.jobs.file_encoding import EncodeReport, join_token_files
from bpejit.jobs.job_plan import continuing, open_store
from bpejit.progress_bar import Progress
from bpejit.storage.files import local_path

if TYPE_CHECKING:
    from bpejit.t2t.datagen.problems import GenerationReport


@showing_progress
@arguments.explain_wrong_arguments
def combine(
    out: str | os.PathLike[str], *, overwrite: bool = False, progress: Progress | bool | None = None
) -> EncodeReport | GenerationReport:
    """Join the parts of a job that was divided by `shard`. The last part to finish does this itself.

    Parameters
    ----------
    out : path
        The `out` or `out_dir` of an encoding job; for a data set, the folder and the name with which the names of its shards
        begin.
    overwrite : bool
        Whether to replace existing files.
    progress : callable or bool, optional
        As for `bpejit.train`.

    Returns
    -------
    EncodeReport or GenerationReport
        Of the complete job.

    Raises
    ------
    CorpusError
        If a data set has no samples.
    OutputError
        If there are no parts, some are missing, or another process joins them.

    Examples
    --------
    >>> for part in range(16):  # doctest: +SKIP
    ...     tokenizer.encode_files("corpus/*.txt", "tokens.bin", shard=f"{part}/16")
    >>> combine("tokens.bin")  # doctest: +SKIP
    >>> for part in range(16):  # doctest: +SKIP
    ...     generate_data("translation.toml", "data", shard=f"{part}/16")
    >>> combine("data/translation")  # doctest: +SKIP
    """
    name = local_path(arguments.path("out", out, error=OutputError))
    overwrite = arguments.flag("overwrite", overwrite)
    report = arguments.progress(progress)
    store = open_store(name, per_input=False)
    job = ((store.begun() or store.described() or {}).get("job")) or {}
    if "data_set" in job:
        from bpejit.t2t.datagen.problems import join_dataset  # not above: few jobs need it

        return join_dataset(name, overwrite=overwrite, report=report)
    if "special_tokens" in job:
        raise OutputError(
            f"`{store.folder}` is an unfinished job that counts pre-tokens; expected parts that `shard` has divided: "
            f"{continuing(store.begun())}"
        )
    return join_token_files(name, overwrite=overwrite, report=report)
