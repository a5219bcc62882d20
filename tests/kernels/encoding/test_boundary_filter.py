"""Where pre-tokens fall apart: never where a merge could cross, and otherwise nearly everywhere."""

from __future__ import annotations

from itertools import chain, pairwise

import naive
import numpy as np
from encoding_helpers import make_model, merge_lists, naive_rules
from hypothesis import given
from hypothesis import strategies as st

from bpejit.arrays import ByteStrings, padded_text
from bpejit.encoding.encoder_tables import make_joints, make_tables
from bpejit.kernels.encoding import boundary_filter

pieces = st.sampled_from(
    [b"a", b"-", "é".encode(), "あ".encode(), "語".encode(), "😀".encode(), b"\xe3", b"\x81", b"\xff", b"\xf0"]
)
strings = st.lists(pieces, max_size=12).map(b"".join)


def cuts(data: bytes, joints: np.ndarray) -> list[int]:
    text, length = padded_text(data + b"\x81")  # what follows a pre-token must not matter
    found = []
    start = 0
    while start < length - 1:
        start = int(boundary_filter.find_part(text, np.uint64(start), np.uint64(length - 1), joints))
        found.append(start)
    return found[:-1]


def places_between_characters(data: bytes) -> list[tuple[int, bytes, bytes]]:
    """The places that may be cuts: between whole characters, of which one is not ASCII."""
    places, at = [], 0
    for before, after in pairwise(naive.characters(data)):
        at += len(before)
        whole = all(piece[0] < 0x80 or len(piece) > 1 for piece in (before, after))
        if whole and (before[-1] >= 0x80 or after[0] >= 0x80):
            places.append((at, before, after))
    return places


@given(st.lists(strings.filter(bool), max_size=12), strings)
def test_a_cut_is_where_no_token_has_a_joint(tokens, data):
    known = naive.build_joints(tokens)
    free = [
        at
        for at, before, after in places_between_characters(data)
        if (before, after) not in known and (before[-1], after[0]) not in known
    ]
    # A bit may be set by another pair, so a cut may be missing; none is ever added.
    assert set(cuts(data, make_joints(ByteStrings.from_list([*tokens, b"x"])))) <= set(free)
    nothing = np.zeros(boundary_filter.PIECE_WORDS + 1, dtype=np.uint64)
    assert cuts(data, nothing) == [at for at, _, _ in places_between_characters(data)]


@given(st.lists(strings.filter(bool), min_size=1, max_size=12))
def test_build_joints(tokens):
    packed = ByteStrings.from_list(tokens)
    joints = np.zeros(boundary_filter.PIECE_WORDS + 64, dtype=np.uint64)
    n = boundary_filter.build_joints(np.concatenate([packed.pool, np.zeros(8, np.uint8)]), packed.starts, joints)
    known = naive.build_joints(tokens)
    bits = np.unpackbits(joints.view(np.uint8), bitorder="little")
    pieces_set = {(int(bit) >> 8, int(bit) & 0xFF) for bit in np.flatnonzero(bits[: 64 * boundary_filter.PIECE_WORDS])}
    assert pieces_set == {place for place in known if isinstance(place[0], int)}
    pairs = [place for place in known if isinstance(place[0], bytes)]
    assert (bits[64 * boundary_filter.PIECE_WORDS :].sum() > 0) == bool(pairs)
    assert n >= len(pairs)
    assert all(not cuts(before + after, joints) for before, after in pairs)


@given(merge_lists(), strings)
def test_parts_are_encoded_as_they_are_alone(merges, data):
    """The proof, tried: the ids of the parts, one after the other, are the ids of the whole."""
    model = make_model(merges)
    rules, ids = naive_rules(model)
    borders = [0, *cuts(data, make_tables(model, {}).joints), len(data)]
    alone = [naive.encode_pretoken(data[start:stop], rules, ids) for start, stop in pairwise(borders)]
    assert list(chain.from_iterable(alone)) == naive.encode_pretoken(data, rules, ids)


def test_a_large_vocabulary_leaves_most_places_free():
    words = ["中国", "日本", "東京", "大学"]
    joints = make_joints(ByteStrings.from_list([word.encode() for word in words]))
    assert cuts("中国人民".encode(), joints) == [6, 9]
    assert cuts("大学中国日本".encode(), joints) == [6, 12]
