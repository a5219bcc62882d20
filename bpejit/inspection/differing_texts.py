"""The texts of a corpus that two tokenizers encode most differently."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from bpejit.corpus.chunks import CHUNK_BYTES, Chunker, ChunkReader
from bpejit.corpus.sources import Source
from bpejit.encoding.codec import Codec
from bpejit.inspection.tables import Row

SAMPLED_BYTES = 4 << 20
"""Bytes read from the start of each input."""

LONGEST_TEXT = 240
"""Bytes of a text; longer lines are divided."""

SHORTEST_TEXT = 24

FEWEST_TOKENS = 8
"""Tokens of a text with the tokenizer that makes more: the ratios of shorter texts are of little interest."""


def read_sample(codec: Codec, source: Source, n_bytes: int = SAMPLED_BYTES) -> Iterator[bytes]:
    """Yield the lines at the start of a source, divided at characters into texts of at most `LONGEST_TEXT` bytes.

    Parameters
    ----------
    codec : Codec
        Its splitter divides the source into chunks.
    source : Source
    n_bytes : int
        Approximate number of bytes to read.
    """
    reader = ChunkReader()
    chunker = Chunker(codec.encoder.splitter, chunk_bytes=min(n_bytes, CHUNK_BYTES), group_files=False)
    rest = n_bytes
    for chunk in chunker.chunks([source]):
        block = reader.read(chunk)
        data = block.text[: block.cut].tobytes()
        ends = [block.cut] if block.ends is None else block.ends.tolist()
        for begin, end in pairwise([0, *ends]):
            for line in data[begin:end].split(b"\n"):
                yield from _divided(line)
        rest -= block.cut
        if rest <= 0:
            return


def _divided(line: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(line):
        stop = min(start + LONGEST_TEXT, len(line))
        while stop < len(line) and stop > start + 1 and line[stop] & 0xC0 == 0x80:
            stop -= 1
        yield line[start:stop]
        start = stop


def find_differing_texts(first: Codec, second: Codec, sources: Sequence[Source], *, n_texts: int) -> list[Row]:
    """Return the texts for which the ratio of the numbers of tokens is farthest from 1, at most one for each source in turn.

    Each has its `path`, the `text`, its number of `tokens` with each tokenizer, and their `ratio`.

    Parameters
    ----------
    first, second : Codec
    sources : sequence of Source
    n_texts : int
    """
    by_source: list[list[Row]] = []
    for source in sources:
        texts = [text for text in dict.fromkeys(read_sample(first, source)) if len(text) >= SHORTEST_TEXT]
        if not texts:
            continue
        numbers = [np.diff(codec.encode_batch(texts).starts) for codec in (first, second)]
        logarithms = np.log(np.maximum(numbers[0], 1) / np.maximum(numbers[1], 1))
        distances = np.where(np.maximum(*numbers) < FEWEST_TOKENS, 0.0, np.abs(logarithms))
        order = np.argsort(np.negative(distances), kind="stable")[:n_texts].tolist()
        found = []
        for at in order:
            ours = int(numbers[0][at])
            theirs = int(numbers[1][at])
            if ours != theirs and ours and theirs:
                found.append({"path": source.path, "text": texts[at], "tokens": (ours, theirs), "ratio": ours / theirs})
        by_source.append(found)
    turns = [entries[turn] for turn in range(n_texts) for entries in by_source if turn < len(entries)]
    return turns[:n_texts]
