"""Texts that Python code provides: iterators of `str` or `bytes`, or of batches of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from bpejit import arguments
from bpejit.corpus.base import DocumentsChunk, divide_documents, join_documents
from bpejit.corpus.columns import column_documents, is_text
from bpejit.corpus.input_options import InputOptions
from bpejit.utf8 import join_strings


def iterate_texts(texts: Any) -> Iterator[Any]:
    """Return an iterator of texts, or of batches of them.

    Parameters
    ----------
    texts : iterable
        Of `str` or `bytes`, or of lists of them; a column of pyarrow, as one batch.

    Raises
    ------
    ArgumentTypeError
        If it is not iterable, or is a single text, a mapping or a table.
    """
    if _is_column(texts):
        return iter([texts])
    return iter(arguments.texts("texts", texts))


def text_chunks(texts: Iterable[Any], options: InputOptions, chunk_bytes: int) -> Iterator[DocumentsChunk]:
    """Yield texts as chunks in memory, in order.

    Parameters
    ----------
    texts : iterable
        Of `str` or `bytes`, or of batches: iterables of them, or columns of pyarrow.
    options : InputOptions
    chunk_bytes : int

    Raises
    ------
    ArgumentTypeError
        If an item is something else.
    """
    group: list[Any] = []
    kind: type = str
    size = 0
    for index, item in enumerate(texts):
        given = type(item)
        if given is not kind or size >= chunk_bytes:
            if group:
                yield _chunk(group, kind, options)
            group, size = [], 0
            if given is not str and given is not bytes:
                yield from _batch_chunks(item, index, options, chunk_bytes)
                continue
            kind = given
        group.append(item)
        size += len(item)
    if group:
        yield _chunk(group, kind, options)


def _batch_chunks(item: Any, index: int, options: InputOptions, chunk_bytes: int) -> Iterator[DocumentsChunk]:
    if _is_column(item):
        if not is_text(item.type):
            name = f"texts[{index}]"
            raise arguments.wrong_type(
                name, item, f"a column of strings, and not of {item.type}", "give the column of the texts"
            )
        for data, ends, skipped, _ in column_documents(item, "texts", 0, options):
            for text, stops in divide_documents(data, ends, chunk_bytes):
                yield DocumentsChunk(text, stops, options.allow_special, 0, skipped)
        return
    if arguments.is_iterable(item):
        texts = [_as_text(f"texts[{index}][{number}]", text) for number, text in enumerate(item)]
        yield from text_chunks(texts, options, chunk_bytes)
        return
    yield from text_chunks([_as_text(f"texts[{index}]", item)], options, chunk_bytes)


def _as_text(name: str, value: Any) -> str | bytes:
    if isinstance(value, str):
        return str(value)
    return bytes(arguments.as_bytes(name, value))  # type: ignore[arg-type]


def _is_column(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pyarrow" and hasattr(value, "null_count")


def _chunk(group: list[Any], kind: type, options: InputOptions) -> DocumentsChunk:
    data, ends = join_strings(group) if kind is str else join_documents(group)
    return DocumentsChunk(np.frombuffer(data, dtype=np.uint8), ends, options.allow_special)
