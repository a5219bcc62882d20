"""Checks that a format of another package does what those of bpejit do; the tests of bpejit call them for each of these.

`check_token_format`, `check_input_format` and `check_record_format` need no test framework, and write to a temporary folder.
The first thing that differs raises `ConformanceError`, which test frameworks count as a failure. What a format stores, and what
it does with damaged files of other tools, is for tests of its own.
"""

from __future__ import annotations

import gzip
import io
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from bpejit import tokenfiles
from bpejit.arrays import Array, lengths_of, starts_of
from bpejit.corpus import registry as input_formats
from bpejit.corpus.base import InputFormat
from bpejit.corpus.blocks import AnyChunk, ChunkReader
from bpejit.corpus.contents import Contents
from bpejit.corpus.sources import Source, find_sources
from bpejit.counting.count_corpus import count
from bpejit.errors import BpejitError, OutputError, TokenFileError, shorten
from bpejit.t2t.example_arrays import write_examples
from bpejit.t2t.record_formats import registry as record_formats
from bpejit.t2t.record_formats.registry import RecordFormat
from bpejit.tokenfiles.base import TokenFileFormat
from bpejit.tokenfiles.conversion import convert_tokens
from bpejit.tokenfiles.opening import open_tokens, recognized_format
from bpejit.tokenfiles.readers import TokenReader
from bpejit.tokenizer import Tokenizer

_END = "<|endoftext|>"

_HASH = "a" * 64

_DOCUMENTS: tuple[list[list[int]], ...] = (
    [],
    [[]],
    [[1, 2, 3], [], [4, 5]],
    [[], [], [6], [7, 8, 9, 10, 11, 12, 13]],
    [list(range(size * size % 23)) for size in range(30)],
)

_TEXTS = ["one", "", "two words", "é", *(f"sentence {number} of some" for number in range(40)), "the last one"]


class ConformanceError(BpejitError, AssertionError):
    """A format does something that formats must not do."""


def _equal(what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise ConformanceError(f"{what}: it is {shorten(found)}; expected {shorten(expected)}: correct the format")


@contextmanager
def _refusing(what: str, *errors: type[BaseException]) -> Iterator[None]:
    """Raise an exception unless the block raises one of `errors`."""
    try:
        yield
    except errors:
        return
    raise ConformanceError(f"{what}: there is no error; expected {errors[0].__name__}: have the format raise it")


@contextmanager
def _named(registry: Any, form: Any, names: Callable[[], Sequence[str]]) -> Iterator[str]:
    """Yield the name of a format, which is registered for the duration of the block unless its name is given, or it has one."""
    if isinstance(form, str):
        yield form
        return
    name = getattr(form, "name", "checked")
    if name in names():
        yield name
        return
    registry.register(name, form)
    try:
        yield name
    finally:
        registry.unregister(name)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bpejit-") as folder:
        yield Path(folder)


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


# ---- token files


def check_token_format(form: str | type[TokenFileFormat]) -> None:
    """Check a format of token files that stores ids, and the borders of documents with `document_index`.

    Parameters
    ----------
    form : str or type
        The name of a registered format, or a class, which is registered under its `name` while it is checked.

    Raises
    ------
    ConformanceError
        If files do not contain what was written, or depend on the blocks in which it was written; if ids that do not fit,
        existing files, and files that were damaged or belong to another tokenizer are not refused; or if a job that is
        interrupted or divided writes other files.
    """
    with _named(tokenfiles, form, tokenfiles.format_names) as name, _folder() as folder:
        _check_documents(name)
        _check_indexing(name)
        _check_refusals(name)
        _check_damage(name)
        _check_stream(name)
        _check_jobs(name, folder)


def write_documents(form: str, path: Any, documents: list[list[int]], block: int = 3, **options: Any) -> None:
    """Write a token file with documents in blocks of `block` ids; `options` are those of the writer."""
    numbers, starts = _lists(documents)
    ids, ends = numbers.astype(np.uint32), starts[1:]
    options = {"document_index": True, "vocab_size": 1000, "tokenizer_sha256": _HASH, **options}
    with tokenfiles.load_format(form).writer(path, **options) as writer:
        done = 0
        for start in range(0, max(ids.size, 1), block):
            stop = min(start + block, ids.size)
            n_ended = int(np.searchsorted(ends, stop, side="right"))
            writer.write(ids[start:stop], n_bytes=stop - start, ends=ends[done:n_ended] - start)
            done = n_ended


@contextmanager
def _new(form: str) -> Iterator[Path]:
    """Yield the path of a new token file in an empty folder."""
    with _folder() as folder:
        yield folder / f"tokens{tokenfiles.load_format(form).suffix}"


def _check_documents(name: str) -> None:
    for documents in _DOCUMENTS:
        written = None
        for block in (1, 2, 7, 1000):
            with _new(name) as path:
                write_documents(name, path, documents, block)
                files = _contents(path.parent)
                written = written or files
                _equal("files after writing in other blocks", files, written)
                found = recognized_format(path)
                _equal("the format that recognizes a file", None if found is None else found.name, name)
                _check_reading(open_tokens(path), documents)
    with _new(name) as path:
        with tokenfiles.load_format(name).writer(path, vocab_size=10, tokenizer_sha256=_HASH, document_index=True) as writer:
            writer.write(np.array([1, 2, 3]), ends=np.array([2]))
            writer.write(np.array([4]))
        _check_reading(open_tokens(path), [[1, 2], [3, 4]])


def _check_reading(tokens: TokenReader, documents: list[list[int]]) -> None:
    """Compare a token file with its documents, read in all ways."""
    numbers, starts = _lists(documents)
    ids, ends = numbers.tolist(), starts[1:].tolist()
    _equal("`ids`", tokens.ids.tolist(), ids)
    _equal("the length", (len(tokens), tokens.n_tokens), (len(ids), len(ids)))
    _equal("`n_documents`", tokens.n_documents, len(documents))
    _equal("`document`", [tokens.document(number).tolist() for number in range(len(documents))], documents)
    _equal("single ids", [tokens[index] for index in range(len(ids))], ids)
    for size in (1, 4, 1000):
        blocks = list(tokens.blocks(size))
        _equal("`blocks`", [number for block in blocks for number in block.tolist()], ids)
        _equal("the dtypes of `blocks`", {str(block.dtype) for block in blocks} <= {"uint32"}, True)
        done = 0
        found: list[int] = []
        ended: list[int] = []
        for part, some in tokens.document_blocks(size):
            found += part.tolist()
            ended += (np.empty(0, np.int64) if some is None else some + done).tolist()
            done += part.size
        _equal("the ids of `document_blocks`", found, ids)
        _equal("the ends of `document_blocks`", ended, ends)
    tokens.verify()


def _check_indexing(name: str) -> None:
    with _new(name) as path:
        write_documents(name, path, [[1, 2, 3], [], [4, 5]])
        tokens = open_tokens(path)
        _equal("`[0]`, `[-1]` and an integer of NumPy", (tokens[0], tokens[-1], tokens[np.int64(2)]), (1, 5, 3))  # type: ignore[call-overload]
        _equal("the type of an id", type(tokens[0]), int)
        for index in (slice(1, 3), slice(None, None, -2), slice(10, None), slice(3, 1)):
            _equal(f"`[{index}]`", tokens[index].tolist(), [1, 2, 3, 4, 5][index])
        _equal("`document(-1)`", tokens.document(-1).tolist(), [4, 5])
        _equal("whether ids can be changed", tokens[1:3].flags.writeable or tokens.document(0).flags.writeable, False)
        for number in (3, -4):
            with _refusing(f"`document({number})` of 3", IndexError):
                tokens.document(number)
        for number in (5, -6):
            with _refusing(f"`[{number}]` of 5", IndexError):
                tokens[number]
        with _refusing("`['0']`", TypeError):
            tokens["0"]  # type: ignore[call-overload]


def _check_refusals(name: str) -> None:
    form = tokenfiles.load_format(name)
    with _new(name) as path:
        write_documents(name, path, [[1, 2], [3]])
        before = _contents(path.parent)
        _equal("`files`", {Path(file).name for file in form.files(path)}, set(before))
        with _refusing("writing to an existing file", OutputError):
            write_documents(name, path, [[7]])
        small: Any = {"vocab_size": 10, "tokenizer_sha256": _HASH, "overwrite": True}
        for wrong in (10, -1):
            what = f"writing the id {wrong} of a vocabulary of 10"
            with _refusing(what, TokenFileError), form.writer(path, **small) as writer:
                writer.write(np.array([1, wrong]))
        with _refusing("an interrupt while a file is written", KeyboardInterrupt), form.writer(path, **small) as writer:
            writer.write(np.array([3, 4]))
            raise KeyboardInterrupt
        _equal("files after these errors", _contents(path.parent), before)
        open_tokens(path, tokenizer_sha256=_HASH, vocab_size=1000)
        for other in ({"tokenizer_sha256": "b" * 64}, {"vocab_size": 999}):
            with _refusing(f"opening a file with {other}, of another tokenizer", TokenFileError):
                open_tokens(path, **other)  # type: ignore[arg-type]
        write_documents(name, path, [[7]], overwrite=True)
        _check_reading(open_tokens(path), [[7]])
        convert_tokens(path, path.with_name("other"), format="npy")
        _check_reading(open_tokens(path.with_name("other")), [[7]])


def _check_damage(name: str) -> None:
    """Check that `verify` finds other ids and other borders, and opening or `verify` files that are too short."""
    form = tokenfiles.load_format(name)
    with _new(name) as path, _new(name) as other:
        right = [[1, 2], [], [3], [4, 5, 6]]
        write_documents(name, path, right)
        before = _contents(path.parent)
        described = Path(form.files(path)[-1]).name
        wrong = {"ids": [[1, 2], [], [3], [4, 5, 7]], "borders": [[1], [2], [3], [4, 5, 6]]}
        for what, documents in wrong.items():
            write_documents(name, other, documents, overwrite=True)
            for file, content in _contents(other.parent).items():
                path.with_name(file).write_bytes(before[file] if file == described else content)
            with _refusing(f"verifying a file with other {what}", TokenFileError):
                open_tokens(path).verify()
        write_documents(name, path, right, overwrite=True)
        for file, content in before.items():
            path.with_name(file).write_bytes(content[:-3])
            with suppress(TokenFileError):  # unless what is missing does not matter
                _check_reading(open_tokens(path), right)
            path.with_name(file).write_bytes(content)
        main = path.with_name(Path(form.files(path)[0]).name)
        main.write_bytes(main.read_bytes()[:-3])
        with _refusing("a file that ends 3 bytes early", TokenFileError):
            open_tokens(path).verify()


def _check_stream(name: str) -> None:
    """Check that a stream is refused, or receives what can be read from a stream."""
    form = tokenfiles.load_format(name)
    stream = io.BytesIO()
    try:
        write_documents(name, stream, [[1, 2, 3], [4]], document_index=False)
    except OutputError:
        return
    read = form.open_stream(io.BytesIO(stream.getvalue()), dtype=next(iter(form.dtypes)))
    _equal("ids of a stream", [number for block in read.blocks(2) for number in block.tolist()], [1, 2, 3, 4])


def _check_jobs(name: str, folder: Path) -> None:
    """Check that jobs write the same files whether they run at once, are interrupted, or are divided."""
    tokenizer = Tokenizer({number: bytes([number]) for number in range(256)}, [], [_END])
    (folder / "texts").write_text("\n".join(_TEXTS), encoding="utf-8")
    options: Any = {"format": name, "documents": "line", "document_index": True, "append_token": _END, "unit_bytes": 200}
    expected = None
    for way in ("at once", "interrupted", "divided"):
        with _new(name) as path:
            if way == "interrupted":
                for calls in (2, 5, 11):
                    with suppress(KeyboardInterrupt):
                        stop = _stopping(calls)
                        tokenizer.encode_files(folder / "texts", path, resume=True, chunk_bytes=50, progress=stop, **options)
            for part in range(3) if way == "divided" else ():
                tokenizer.encode_files(folder / "texts", path, shard=(part, 3), engine="serial", **options)
            if way != "divided":
                tokenizer.encode_files(folder / "texts", path, resume=way == "interrupted", engine="serial", **options)
            _check_reading(open_tokens(path), [[*text.encode(), 256] for text in _TEXTS])
            found = _contents(path.parent)
            expected = expected or found
            _equal(f"files of a job that is {way}", found, expected)


def _stopping(calls: int) -> Callable[..., None]:
    """Return a callback of progress that interrupts a job after some calls."""
    left = iter(range(calls))

    def stop(*_: Any) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    return stop


# ---- inputs


def check_input_format(
    form: str | type[InputFormat], content: bytes, texts: Sequence[str], *, name: str, **options: Any
) -> None:
    """Check a format of inputs with an example.

    Parameters
    ----------
    form : str or type
        The name of a registered format, or a class, which is registered while it is checked.
    content : bytes
        Of a file.
    texts : sequence of str
        The texts of its records, in order.
    name : str
        Of such a file, by which it is recognized.
    **options
        How it is read, such as `documents="line"`.

    Raises
    ------
    ConformanceError
        If the file is not recognized, or has other texts when it is read in chunks or ranges of any size, from its start to its
        end, or by another engine; or if the sizes of chunks and ranges do not add up to that of the file.
    """
    with _named(input_formats, form, input_formats.input_format_names) as known, _folder() as folder:
        path, compressed = folder / name, folder / f"{name}.gz"
        path.write_bytes(content)
        compressed.write_bytes(gzip.compress(content))
        (source,) = find_sources(path, Contents(**options))
        _equal("the format that recognizes a file", source.input_format, known)
        loaded: InputFormat = input_formats.load_format(known)
        in_order = not loaded.indexed or not content.startswith(loaded.indexed)
        (streamed,) = find_sources(compressed if in_order else path, Contents(**options))
        _equal("the format that recognizes a compressed file", streamed.input_format, known)
        expected = [text.encode() for text in texts]
        for size in (1, 7, 100, 1 << 20):
            _equal(f"texts in chunks of {size} bytes", _texts(loaded.chunks(source, size), len(content)), expected)
            if in_order:
                with streamed.open_stream() as stream:
                    chunks = loaded.stream_chunks(stream, streamed, size)
                    _equal(f"texts of a stream in chunks of {size} bytes", _texts(chunks, streamed.size), expected)
            found = []
            for start, stop, n_bytes in loaded.ranges(source, size):
                part = Source(
                    source.path, source.size, start, stop, input_format=known, options=source.options, range_bytes=n_bytes
                )
                found += _texts(loaded.chunks(part, 100), n_bytes)
            _equal(f"texts in ranges of {size} bytes", found, expected)
            _equal("the sizes of ranges", sum(one[2] for one in loaded.ranges(source, size)), len(content) - source.start)
        _check_engines(folder, [path, Path(streamed.path)], texts, options)


def _texts(chunks: Iterator[AnyChunk], n_bytes: int | None) -> list[bytes]:
    """Return the texts of chunks, whose sizes have to add up to `n_bytes`."""
    reader = ChunkReader()
    found: list[bytes] = []
    n_read = 0
    for chunk in chunks:
        block = chunk.read(reader)
        n_read += block.n_read
        texts = block.documents() if block.ends is not None else []
        _equal("where the last text of a chunk ends", sum(map(len, texts)), block.cut)
        found += texts
    _equal("the bytes of input of all chunks", n_read, n_bytes)
    return found


def _check_engines(folder: Path, paths: Sequence[Path], texts: Sequence[str], options: dict[str, Any]) -> None:
    """Compare counts and ids with those of the texts."""
    expected = count(iter(texts)).table
    tokenizer = Tokenizer({number: bytes([number]) for number in range(256)}, [], [_END])
    for path, engine in zip([*paths, *paths], ("serial", "threads", "processes", "serial"), strict=True):
        work: Any = {"engine": engine, "workers": 2, "chunk_bytes": 100, "overwrite": True, **options}
        _equal(f"counts of `{path.name}` by the engine {engine}", count(path, **work).table == expected, True)
        out = folder / f"{path.name}-{engine}.npy"
        tokenizer.encode_files(path, out, append_token=_END, document_index=True, unit_bytes=200, **work)
        _check_reading(open_tokens(out), [[*text.encode(), 256] for text in texts])


# ---- examples


def check_record_format(
    form: str | type[RecordFormat], read: Callable[[bytes], list[dict[str, list[int]]]] | None = None
) -> None:
    """Check a format of files of examples.

    Parameters
    ----------
    form : str or type
        The name of a registered format, or a class, which is registered while it is checked.
    read : callable, optional
        Returns the examples in the content of a file, each a dict with a list for each feature.

    Raises
    ------
    ConformanceError
        If files depend on the blocks in which examples arrive, do not contain them, or are written to after an error.
    """
    names = ["targets", "inputs", "inputs_position"]
    with _named(record_formats, form, record_formats.record_format_names) as known:
        for number in (0, 1, 101):
            rows = [
                {name: [17 * row + at for at in range(1 + (row + size) % 5)] for size, name in enumerate(names)}
                for row in range(number)
            ]
            features = {name: _lists([row[name] for row in rows]) for name in names}
            files = {write_examples_file(known, features, block) for block in (1, 10, 1000)}
            _equal(f"the number of different files of {number} examples in other blocks", len(files), 1)
            if read is not None:
                _equal(f"{number} examples that are read back", read(files.pop()), rows)
        file = io.BytesIO()
        writer = record_formats.load_record_format(known).writer(file, names)
        size = len(file.getvalue())
        writer.abandon()
        _equal("the bytes that are written after an error", len(file.getvalue()) - size, 0)


def write_examples_file(form: str, features: dict[str, tuple[Array, Array]], block: int) -> bytes:
    """Return a file of examples that are written in blocks of `block`; `features` are as for `write_examples`."""
    data, starts = write_examples(features)
    file = io.BytesIO()
    writer = record_formats.load_record_format(form).writer(file, list(features))
    for first in range(0, starts.size - 1, block):
        own = starts[first : first + block + 1]
        writer.write(data[own[0] : own[-1]].copy(), own - own[0])
    writer.finish()
    return file.getvalue()


def _lists(rows: Sequence[Sequence[int]]) -> tuple[Array, Array]:
    numbers = np.array([number for row in rows for number in row], np.int64)
    return numbers, starts_of(lengths_of(rows))
