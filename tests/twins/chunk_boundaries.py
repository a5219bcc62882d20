"""The boundaries of chunks by their definition, on a text in memory."""

from __future__ import annotations


def find_chunk_boundaries(text: bytes, n_chunks: int, token: bytes, block: int = 4096) -> list[int]:
    """Return where chunks begin and end: multiples of the size of a chunk, moved to the next token within one block."""
    found = {0, len(text)}
    for number in range(1, n_chunks):
        first = len(text) // n_chunks * number
        starts = range(first, len(text), block)
        begins = [start + text[start : start + block].index(token) for start in starts if token in text[start : start + block]]
        found.add(min(begins, default=len(text)))
    return sorted(found)
