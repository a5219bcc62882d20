"""Tests of dividing pre-tokens: never where a merge could cross, and otherwise nearly everywhere."""

from __future__ import annotations

from itertools import chain, pairwise

import numpy as np
import twins
from helpers.encoding import make_model, merge_lists, naive_rules
from hypothesis import given, strategies as st

from bpejit.arrays import ByteStrings, padded_text
from bpejit.encoding.encoder_tables import make_inner_pairs, make_tables
from bpejit.kernels.encoding import boundary_filter

pieces = st.sampled_from(
    [b"a", b"-", "é".encode(), "あ".encode(), "語".encode(), "😀".encode(), b"\xe3", b"\x81", b"\xff", b"\xf0"]
)
strings = st.lists(pieces, max_size=12).map(b"".join)


def cuts(data: bytes, inner_pairs: np.ndarray) -> list[int]:
    text, length = padded_text(data + b"\x81")  # bytes after the pre-token must not matter
    stop = np.uint64(length - 1)
    found = []
    before, at = boundary_filter.load_character(text, np.uint64(0), stop)
    while at < stop:
        after, width = boundary_filter.load_character(text, at, stop)
        if boundary_filter.is_boundary(inner_pairs, text, at, before, after):
            found.append(int(at))
        before = after
        at += width
    return found


def candidate_cuts(data: bytes) -> list[tuple[int, bytes, bytes]]:
    """Return candidates for cuts: positions between valid characters that are not both ASCII."""
    candidates, at = [], 0
    for before, after in pairwise(twins.encoding.characters(data)):
        at += len(before)
        whole = all(piece[0] < 0x80 or len(piece) > 1 for piece in (before, after))
        if whole and (before[-1] >= 0x80 or after[0] >= 0x80):
            candidates.append((at, before, after))
    return candidates


@given(st.lists(strings.filter(bool), max_size=12), strings)
def test_cuts_are_never_inside_a_token(tokens, data):
    known = twins.encoding.build_inner_pairs(tokens)
    free = [
        at for at, before, after in candidate_cuts(data) if (before, after) not in known and (before[-1], after[0]) not in known
    ]
    # A bit may be set by another pair, so a cut may be missing, but none is ever added.
    assert set(cuts(data, make_inner_pairs(ByteStrings.from_list([*tokens, b"x"])))) <= set(free)
    nothing = np.zeros(boundary_filter.BYTE_PAIR_WORDS + 1, dtype=np.uint64)
    assert cuts(data, nothing) == [at for at, _, _ in candidate_cuts(data)]


@given(st.lists(strings.filter(bool), min_size=1, max_size=12))
def test_build_inner_pairs(tokens):
    packed = ByteStrings.from_list(tokens)
    inner_pairs = np.zeros(boundary_filter.BYTE_PAIR_WORDS + 64, dtype=np.uint64)
    n = boundary_filter.build_inner_pairs(np.concatenate([packed.pool, np.zeros(8, np.uint8)]), packed.starts, inner_pairs)
    known = twins.encoding.build_inner_pairs(tokens)
    bits = np.unpackbits(inner_pairs.view(np.uint8), bitorder="little")
    pieces_set = {(int(bit) >> 8, int(bit) & 0xFF) for bit in np.flatnonzero(bits[: 64 * boundary_filter.BYTE_PAIR_WORDS])}
    assert pieces_set == {pair for pair in known if isinstance(pair[0], int)}
    pairs = [pair for pair in known if isinstance(pair[0], bytes)]
    assert (bits[64 * boundary_filter.BYTE_PAIR_WORDS :].sum() > 0) == bool(pairs)
    assert n >= len(pairs)
    assert all(not cuts(before + after, inner_pairs) for before, after in pairs)


@given(merge_lists(), strings)
def test_fragments_are_encoded_independently(merges, data):
    """The ids of the fragments, concatenated, are the ids of the pre-token."""
    model = make_model(merges)
    rules, ids = naive_rules(model)
    bounds = [0, *cuts(data, make_tables(model, {}).inner_pairs), len(data)]
    alone = [twins.encoding.encode_pretoken(data[start:stop], rules, ids) for start, stop in pairwise(bounds)]
    assert list(chain.from_iterable(alone)) == twins.encoding.encode_pretoken(data, rules, ids)


def test_cuts_between_words():
    words = ["中国", "日本", "東京", "大学"]
    inner_pairs = make_inner_pairs(ByteStrings.from_list([word.encode() for word in words]))
    assert cuts("中国人民".encode(), inner_pairs) == [6, 9]
    assert cuts("大学中国日本".encode(), inner_pairs) == [6, 12]
