"""`Counts`: the distinct pre-tokens of a corpus and how often each occurs, as a value of its own."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bpejit import arguments
from bpejit.arguments import showing_progress
from bpejit.arrays import ByteStrings, PretokenTable
from bpejit.counting.count_options import SplitSettings
from bpejit.counting.counts_file import CountsReader, write_counts
from bpejit.counting.hash_tables import HashTables
from bpejit.counting.header import CountSettings, CountsHeader, merge_headers
from bpejit.counting.pretoken_counter import PretokenCounter
from bpejit.counting.spilling import MOST_RUNS, SpilledRuns, write_run
from bpejit.counting.table_streams import even_blocks, merge_streams, read_table, sort_blocks, sort_table
from bpejit.counting.tsv import format_lines, read_lines
from bpejit.errors import CountsError, OutputError
from bpejit.options import takes
from bpejit.progress_bar import Progress
from bpejit.splitting import Pattern, compile_pattern
from bpejit.splitting.presets import pattern_source
from bpejit.storage.files import is_remote, local_path, read_error, scratch_folder
from bpejit.storage.outputs import check_outputs, existing_parent, opened_output
from bpejit.storage.remote import check_remote_output, remote_access

if TYPE_CHECKING:
    from typing_extensions import Unpack

StrPath = str | os.PathLike[str]

AnyTable = PretokenTable | HashTables | CountsReader | SpilledRuns
"""A table in memory, or one that is read from somewhere."""


class Counts:
    """The distinct pre-tokens of a corpus, how often each occurs, and the settings they were counted with.

    Created by `bpejit.count`, `Counts.load` and `Counts.from_tsv`. Counts of several corpora can be merged, and tokenizers are
    trained from them with `bpejit.train_from_counts`. Counts are immutable, and equal if their settings and tables are.
    `len(counts)` is the number of distinct pre-tokens, and `for word, n in counts` yields each of them and its count.

    Attributes
    ----------
    header : CountsHeader
        Settings, inputs and totals.
    """

    def __init__(self, header: CountsHeader, table: AnyTable, *, in_order: bool = True) -> None:
        self.header = header
        self._source = None if isinstance(table, (PretokenTable, HashTables)) else table
        self._table = table if isinstance(table, (PretokenTable, HashTables)) else None
        self._in_order = in_order

    # ---- content -----------------------------------------------------------------------------------------------------

    @property
    def pattern(self) -> Pattern:
        """The split pattern: the name of a preset, a regular expression, or several of these."""
        return self.header.settings.pattern

    @property
    def unicode(self) -> str:
        """The version of Unicode that the pattern follows."""
        return self.header.settings.unicode

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """The texts that separate pre-tokens and are not counted."""
        return self.header.settings.special_tokens

    @property
    def normalize_newlines(self) -> bool:
        """True if CR LF and CR were converted to LF before counting."""
        return self.header.settings.normalize_newlines

    @property
    def inputs(self) -> Sequence[Mapping[str, Any]]:
        """The inputs that were counted, each with `path` and `bytes`, in the order of their paths."""
        return self.header.inputs

    @property
    def n_bytes(self) -> int:
        """Bytes of text that were read, special tokens included."""
        return self.header.n_bytes

    @property
    def n_pretokens(self) -> int:
        """Number of pre-tokens of the corpus: the sum of all counts."""
        return self.header.n_pretokens

    def __len__(self) -> int:
        """Return the number of distinct pre-tokens."""
        if isinstance(self._source, CountsReader):
            return int(self._source.n_distinct)
        return len(self._table) if isinstance(self._table, HashTables) else len(self.any_order)

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        """Yield each distinct pre-token and its count, sorted by bytes. A file is read block by block."""
        for block in even_blocks(self.blocks()):
            yield from zip(ByteStrings(block.pool, block.starts), block.counts.tolist(), strict=True)

    @property
    def is_stored(self) -> bool:
        """True if the table can be read again after `take_table`."""
        return self._source is not None

    @property
    def table(self) -> PretokenTable:
        """The distinct pre-tokens and their counts, sorted by bytes. Read from the file on first use."""
        table = self.any_order
        if not self._in_order:
            table = self._table = sort_table(table)
            self._in_order = True
        return table

    @property
    def any_order(self) -> PretokenTable:
        """The same as `table`, but in the order in which it is available."""
        if self._table is None:
            assert self._source is not None
            self._table = self._source.read_table()
        if isinstance(self._table, HashTables):
            self._table = self._table.pack()
        return self._table

    def take_table(self) -> PretokenTable | HashTables:
        """Return the table in any order. The counts forget it, and read it again if they can."""
        table, self._table = self._table or self.any_order, None
        return table

    def blocks(self) -> Iterator[PretokenTable]:
        """Yield the table in blocks, sorted by bytes, without reading a file as a whole."""
        if self._table is None and self._source is not None:
            return self._source.blocks()
        table = self.any_order
        return iter((table,)) if self._in_order else sort_blocks(table)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counts):
            return NotImplemented
        return self.header.settings.difference(other.header.settings) is None and self.table == other.table

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<bpejit.Counts of {self.n_pretokens:,} pre-tokens, {len(self):,} of them distinct>"

    # ---- files -------------------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: StrPath) -> Counts:
        """Read a counts file, or one at a URL, which is copied to a temporary folder. The table is read when it is used.

        Raises
        ------
        CountsError
            If the file cannot be read, is damaged, or is not a counts file. A table is checked against its hash when it is
            read.
        """
        name = local_path(arguments.path("path", path, error=CountsError))
        if not is_remote(name):
            reader = CountsReader(name)
            return cls(reader.header, reader)
        folder = tempfile.mkdtemp(prefix="bpejit-")
        try:
            with remote_access(name, "read", error=CountsError, noun="the counts") as (file_system, remote_name):
                file_system.get_file(remote_name, str(Path(folder) / "counts"))
            reader = CountsReader(Path(folder) / "counts")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        counts = cls(reader.header, reader)
        weakref.finalize(counts, shutil.rmtree, folder, ignore_errors=True)
        return counts

    def save(self, path: StrPath, *, overwrite: bool = False) -> None:
        """Write a counts file. Equal counts of equal inputs give equal files.

        Parameters
        ----------
        path : path
        overwrite : bool
            Whether to replace an existing file.

        Raises
        ------
        OutputError
            If the file cannot be written, or exists and `overwrite` is False.
        """
        write_counts(self._checked(path, overwrite), self.header, self.blocks())

    def _checked(self, path: StrPath, overwrite: bool) -> str:
        """Return the path of an output, which must not be the file of these counts."""
        path = arguments.path("path", path, error=OutputError)
        inputs = [self._source.path] if isinstance(self._source, CountsReader) else []
        check_outputs([path], inputs=inputs, overwrite=arguments.flag("overwrite", overwrite))
        return path

    def merge(self, *others: Counts, allow_repeated_inputs: bool = False) -> Counts:
        """Return the sum of these counts and others, in memory. Neither order nor grouping changes the result.

        Parameters
        ----------
        *others : Counts
        allow_repeated_inputs : bool, default False
            Whether the same input (path, size and hash) may be in several of them, and is then counted as often.

        Raises
        ------
        CountsError
            If they differ in pattern, version of Unicode, special tokens or normalization of newlines, or have counts of the
            same input.

        See Also
        --------
        merge_counts : The same for files of any size.
        """
        all_counts = [self, *(arguments.instance(f"others[{i}]", given, Counts, "load it") for i, given in enumerate(others))]
        names = [f"counts {number}" for number in range(1, len(all_counts) + 1)]
        for number, counts in enumerate(all_counts):
            if isinstance(counts._source, CountsReader):
                names[number] = f"`{counts._source.path}`"
        header = merge_headers(
            [counts.header for counts in all_counts],
            names,
            allow_repeated_inputs=arguments.flag("allow_repeated_inputs", allow_repeated_inputs),
        )
        n = sum(map(len, all_counts))
        n_bytes = sum(counts.any_order.pool.size for counts in all_counts)
        return Counts(header, read_table(merge_streams([counts.blocks() for counts in all_counts]), n, n_bytes))

    def to_tsv(self, path: StrPath, *, overwrite: bool = False) -> None:
        """Write a line `count<TAB>word` for each distinct pre-token, sorted by the bytes of the words.

        Words are escaped as `bpejit.counting.tsv` describes. The settings of the counts are not written.

        Parameters
        ----------
        path : path
            `-` is standard output.
        overwrite : bool
            Whether to replace an existing file.

        Raises
        ------
        CountsError, OutputError
        """
        path = self._checked(path, overwrite)
        with opened_output(path) as file:
            for lines in map(format_lines, even_blocks(self.blocks())):
                file.write(lines)

    @classmethod
    @takes(SplitSettings)
    def from_tsv(cls, path: StrPath, **options: Unpack[SplitSettings]) -> Counts:
        """Read lines `count<TAB>word` that were counted elsewhere. The counts of equal words are added up.

        The options say how the words were found. This cannot be checked, and it becomes part of tokenizers that are trained
        from the counts.

        Parameters
        ----------
        path : path
            Words are escaped as `bpejit.counting.tsv` describes.
        {options}

        Raises
        ------
        CountsError
            If the file cannot be read, or a line is broken.
        """
        path = arguments.path("path", path, error=CountsError)
        settings = CountSettings.checked(**options)
        compile_pattern(pattern_source(settings.pattern), unicode=settings.unicode)  # checks it
        counter = PretokenCounter()
        n_bytes = n_pretokens = 0
        try:
            with Path(path).open("rb") as file:
                for table in read_lines(file, path):
                    n_bytes += int(np.diff(table.starts) @ table.counts)
                    n_pretokens += int(table.counts.sum())
                    counter.add_table(table)
                inputs = [{"path": path, "bytes": file.tell()}]
        except OSError as cause:
            raise read_error(path, cause, error=CountsError) from cause
        return cls(CountsHeader(settings, inputs, n_bytes, n_pretokens), counter.table(), in_order=False)


@showing_progress
def merge_counts(
    paths: Sequence[StrPath],
    out: StrPath,
    *,
    overwrite: bool = False,
    allow_repeated_inputs: bool = False,
    progress: Progress | bool | None = None,
) -> Counts:
    """Merge counts files, block by block, to another one.

    Neither the order of the files nor any grouping changes the result. Memory does not grow with the files. More than
    `MOST_RUNS` files are merged in several passes, with temporary files beside `out`.

    Parameters
    ----------
    paths : paths
        At least one counts file.
    out : path
    overwrite : bool
        Whether to replace an existing file.
    allow_repeated_inputs : bool, default False
        Whether the same input (path, size and hash) may be in several files, and is then counted as often.
    progress : callable or bool, optional
        As for `bpejit.train`.

    Returns
    -------
    Counts
        The merged counts, which are read from `out` when they are used.

    Raises
    ------
    CountsError
        If a file is damaged, or they differ in pattern, version of Unicode, special tokens or normalization of newlines, or
        have counts of the same input.
    OutputError
    """
    if not arguments.is_iterable(paths):
        raise arguments.wrong_type("paths", paths, "a list of paths", "give one")
    names = [local_path(arguments.path(f"paths[{index}]", path, error=CountsError)) for index, path in enumerate(paths)]
    if not names:
        raise CountsError("paths is empty; expected at least one counts file: give one")
    out = local_path(arguments.path("out", out, error=OutputError))
    overwrite = arguments.flag("overwrite", overwrite)
    allow_repeated_inputs = arguments.flag("allow_repeated_inputs", allow_repeated_inputs)
    if is_remote(out):
        check_remote_output(out, overwrite=overwrite)
    else:
        check_outputs([out], inputs=names, overwrite=overwrite)
    loaded = [Counts.load(name) for name in names]
    shown = [f"`{name}`" for name in names]
    header = merge_headers([counts.header for counts in loaded], shown, allow_repeated_inputs=allow_repeated_inputs)
    report = arguments.progress(progress)
    if len(loaded) <= MOST_RUNS:
        write_counts(out, header, merge_streams([counts.blocks() for counts in loaded]), report)
        return Counts.load(out)
    with scratch_folder(Path(tempfile.gettempdir()) if is_remote(out) else existing_parent(out), "merging") as folder:
        groups = (loaded[begin : begin + MOST_RUNS] for begin in range(0, len(loaded), MOST_RUNS))
        runs = [write_run(str(folder), merge_streams([counts.blocks() for counts in group])) for group in groups]
        write_counts(out, header, SpilledRuns(str(folder), runs).blocks(), report)
    return Counts.load(out)
