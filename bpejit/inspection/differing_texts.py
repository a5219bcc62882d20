"""The texts of a corpus that two tokenizers encode most differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

import numpy as np

from bpejit.arrays import lengths_of
from bpejit.corpus.chunks import CHUNK_BYTES, Chunker, ChunkReader
from bpejit.corpus.sources import Source
from bpejit.encoding.codec import Codec
from bpejit.inspection.tables import Row
from bpejit.inspection.token_counts import group_names

SAMPLED_BYTES = 4 << 20
"""Bytes read from the start of each input."""

LONGEST_TEXT = 240
"""Bytes of a text; longer lines are divided."""

SHORTEST_TEXT = 24

PASSAGE_BYTES = 600
"""Bytes of a sample."""

PASSAGES_BYTES = 1 << 18
"""Bytes read from the start of an input to find a sample."""

_SYMBOLS = bytes(byte for byte in range(128) if not chr(byte).isalpha())

FEWEST_TOKENS = 8
"""Tokens of a text with the tokenizer that makes more: the ratios of shorter texts are of little interest."""


def _documents(codec: Codec, source: Source, n_bytes: int) -> Iterator[bytes]:
    """Yield the documents, or parts of a plain text, at the start of a source."""
    reader = ChunkReader()
    chunker = Chunker(codec.encoder.splitter, chunk_bytes=min(n_bytes, CHUNK_BYTES), group_files=False)
    rest = n_bytes
    for chunk in chunker.chunks([source]):
        block = chunk.read(reader)
        yield from block.documents()
        rest -= block.cut
        if rest <= 0:
            return


def _divided(line: bytes, longest: int) -> Iterator[bytes]:
    """Yield the parts of a line, divided at characters, of at most `longest` bytes."""
    start = 0
    while start < len(line):
        stop = min(start + longest, len(line))
        while stop < len(line) and stop > start + 1 and line[stop] & 0xC0 == 0x80:
            stop -= 1
        yield line[start:stop]
        start = stop


def typical_texts(codec: Codec, sources: Sequence[Source], labels: Mapping[str, str], n_texts: int) -> dict[str, bytes]:
    """Return a typical passage of each of the first labels or files, by name.

    Of the passages at the start of the first file, it is one of those with the most letters, and the one whose bytes per token
    are nearest to their median. The labels are those of `count_inputs`.
    """
    first: dict[str, Source] = {}
    for name, source in zip(group_names([source.path for source in sources], labels), sources, strict=True):
        first.setdefault(name, source)
    found = {}
    for name, source in list(first.items())[:n_texts]:
        passages = [passage for document in _documents(codec, source, PASSAGES_BYTES) for passage in _passages(document)]
        longest = max(map(len, passages), default=0)
        passages = [passage for passage in passages if passage and 2 * len(passage) >= longest]
        letters = [_share_of_letters(passage) for passage in passages]
        passages = [passage for passage, share in zip(passages, letters, strict=True) if share >= np.median(letters)]
        if passages:
            ratios = lengths_of(passages) / np.diff(codec.encode_batch(passages).starts)
            found[name] = passages[int(np.argmin(np.abs(ratios - np.median(ratios))))]
    return found


def _share_of_letters(text: bytes) -> float:
    """Return the share of the bytes of a text that are letters or not ASCII."""
    return len(text.translate(None, _SYMBOLS)) / len(text)


def _passages(document: bytes) -> Iterator[bytes]:
    """Yield successive lines of a document together, at most `PASSAGE_BYTES` bytes; of a longer line only the beginning."""
    passage = b""
    for line in document.splitlines(keepends=True):
        part = next(_divided(line, PASSAGE_BYTES))
        if len(passage) + len(part) > PASSAGE_BYTES:
            yield passage.strip(b"\n")
            passage = b""
        passage += part
    yield passage.strip(b"\n")


def find_differing_texts(first: Codec, second: Codec, sources: Sequence[Source], *, n_texts: int) -> list[Row]:
    """Return the texts for which the ratio of the numbers of tokens is farthest from 1, at most one for each source in turn.

    Each has its `path`, the `text`, its number of `tokens` with each tokenizer, and their `ratio`.
    """
    by_source: list[list[Row]] = []
    for source in sources:
        parts: dict[bytes, None] = {}
        for document in _documents(first, source, SAMPLED_BYTES):
            for line in document.split(b"\n"):
                parts |= dict.fromkeys(_divided(line, LONGEST_TEXT))
        texts = [part for part in parts if len(part) >= SHORTEST_TEXT]
        if not texts:
            continue
        numbers = [np.diff(codec.encode_batch(texts).starts) for codec in (first, second)]
        logarithms = np.log(np.maximum(numbers[0], 1) / np.maximum(numbers[1], 1))
        is_prose = [_share_of_letters(text) >= 0.5 for text in texts]
        distances = np.where((np.maximum(*numbers) < FEWEST_TOKENS) | ~np.array(is_prose), 0.0, np.abs(logarithms))
        order = np.argsort(np.negative(distances), kind="stable")[:n_texts].tolist()
        found = []
        for at in order:
            ours = int(numbers[0][at])
            theirs = int(numbers[1][at])
            if ours != theirs and ours and theirs:
                found.append({"path": source.path, "text": texts[at], "tokens": (ours, theirs), "ratio": ours / theirs})
        by_source.append(found)
    return [row for turn in zip_longest(*by_source) for row in turn if row is not None][:n_texts]
