"""Comparison of merging from characters with merging from bytes, and of its tables with their twins."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import twins
from helpers.encoding import (
    character_merges,
    characters,
    make_model,
    make_workspace,
    merge_lists,
    naive_rules,
    ranked_character_models,
)
from hypothesis import given, strategies as st

from bpejit.arrays import ByteStrings, padded_text
from bpejit.encoding import encoder_tables
from bpejit.encoding.encoder import Encoder
from bpejit.encoding.encoder_tables import make_tables, padded
from bpejit.kernels.encoding import character_joins, token_derivations
from bpejit.kernels.encoding.character_merging import MAX_ELEMENTS, encode_characters
from bpejit.kernels.encoding.merge_rules import RuleTables
from bpejit.model import Model


@pytest.fixture(autouse=True, scope="module")
def _for_all_vocabularies():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder_tables, "LEAST_CHARACTERS", 0)
        yield


def encode(data: bytes, model: Model) -> list[int] | None:
    """Encode a pre-token in the middle of a text and of an output; return the ids of what was encoded."""
    tables = make_tables(model, {})
    if not tables.characters.size:
        return None
    text, _ = padded_text(b"\xe3\x81" + data + b"\x84\xe3")  # the bytes around it must not matter
    out = np.full(len(data) + 40, 0xABCDEF, dtype=np.uint32)
    end, position = encode_characters(text, np.uint64(2), np.uint64(len(data) + 2), tables, make_workspace(), out, np.uint64(3))
    rest = data[int(position) - 2 :]
    table, ids = naive_rules(model)
    return out[3 : int(end)].tolist() + (twins.encoding.encode_pretoken(rest, table, ids) if rest else [])


@given(character_merges(), characters)
def test_encode_characters(merges, data):
    model = make_model(merges)
    ids = encode(data, model)
    if ids is not None:
        assert ids == twins.encoding.encode_pretoken(data, *naive_rules(model))


@given(character_merges(), st.lists(characters, min_size=1, max_size=6))
def test_encode_text__with_characters(merges, pieces):
    """Any vocabulary, with and without the tables; known and unknown pre-tokens."""
    model = make_model(merges)
    data = b" ".join(pieces * 3)
    encoder = Encoder(model)
    table, ids = naive_rules(model)
    text, n_bytes = padded_text(data)
    ends = encoder.splitter.split(text, n_bytes).tolist()
    pretokens = [data[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    expected = [number for pretoken in pretokens for number in twins.encoding.encode_pretoken(pretoken, table, ids)]
    assert encoder.encode(data).tolist() == expected


@given(ranked_character_models(), characters)
def test_encode_characters__ranked(model, data):
    ids = encode(data, model)
    if ids is not None:
        assert ids == twins.encoding.encode_pretoken(data, *naive_rules(model))


@pytest.mark.parametrize("n", [1, 2, 3, 15, 16, 17, 18, 64, MAX_ELEMENTS, MAX_ELEMENTS + 1, 2 * MAX_ELEMENTS])
def test_encode_characters__sizes(n):
    """Fragments of all sizes; one with too many elements is left to the caller."""
    merges = [(b"\xe3", b"\x81"), (b"\xe3\x81", b"\x82"), (b"\xe3\x81", b"\x84")]
    merges += [("あ".encode(), "い".encode()), ("い".encode(), "あ".encode()), ("あい".encode(), "あい".encode())]
    model = make_model(merges)
    for data in (("あい" * n)[:n], "い" * n, "いい" + ("あい" * n)[:n] + "語" + "いあ"):
        assert encode(data.encode(), model) == twins.encoding.encode_pretoken(data.encode(), *naive_rules(model))


def test_make_tables__needs_increasing_ranks():
    """A token that is made at a lower rank than one of its parts rules out merging from characters."""
    rising = [(b"\xe3", b"\x81"), (b"\xe3\x81", b"\x82")]
    assert make_tables(make_model(rising), {}).characters.size == character_joins.N_CODES
    assert make_tables(make_model(rising[::-1]), {}).characters.size == 0
    long = [(b"a" * (1 << power), b"a" * (1 << power)) for power in range(10)]
    assert make_tables(make_model(long[:-1]), {}).characters.size == character_joins.N_CODES
    assert make_tables(make_model(long), {}).characters.size == 0


@given(st.one_of(character_merges(), merge_lists()).map(make_model) | ranked_character_models())
def test_derive_tokens_and_build_joins(model):
    rules, _ = naive_rules(model)
    tables = make_tables(model, {})
    made = model.tokens.values() if model.ranked else (left + right for left, right in model.merges)
    tokens = list(dict.fromkeys([*(bytes([byte]) for byte in range(256)), *made]))
    strings = ByteStrings.from_list(tokens)
    pool = padded(strings.pool)
    splits = np.zeros(len(tokens), dtype=np.uint64)
    scratch = np.full(2 * max(map(len, tokens)), 0xABCDEF, dtype=np.uint32)
    increasing = token_derivations.derive_tokens(pool, strings.starts, RuleTables(*tables[:4]), False, scratch, splits)
    expected, expected_increasing = twins.encoding.derive_tokens(tokens, rules)
    words = []
    for token, split in zip(tokens, expected, strict=True):
        if len(token) == 1:
            words.append(0)
        elif split is None:
            words.append(int(token_derivations.UNREACHABLE))
        else:
            left, right, rank = split
            words.append(left << 43 | right << 22 | rank + 1 - (256 if model.ranked else 0))
    assert splits.tolist() == words
    no_rules = 0, int(token_derivations.UNREACHABLE)
    assert {*tables.merges.tolist()} - {*no_rules} == {*words} - {*no_rules}
    assert bool(increasing) == expected_increasing
    joins, found = twins.encoding.build_joins(tokens, expected)
    bits = np.zeros(8, dtype=np.uint64)
    characters = np.full(character_joins.N_CODES, character_joins.NO_CHARACTER, dtype=np.uint32)
    neighbors = np.zeros((character_joins.N_CODES, 2), dtype=np.uint64)
    n = character_joins.build_joins(pool, strings.starts, splits, bits, characters, neighbors.reshape(-1))
    complete = [pair for pair in joins if len(pair[0]) == len(pair[1]) == 3]
    assert n >= len(complete)
    wanted = np.zeros_like(bits)
    for pair in complete:
        bit = int(character_joins._join_bit(wanted, *map(np.uint64, map(_code_of, pair))))
        wanted[bit >> 6] |= np.uint64(1 << (bit & 63))
    assert bits.tolist() == wanted.tolist()
    wanted = np.full_like(characters, character_joins.NO_CHARACTER)
    for character, number in found.items():
        wanted[_code_of(character)] = number
    assert characters.tolist() == wanted.tolist()
    # Every character has the sets of characters next to it of which a merge may have only a part.
    codes = np.arange(character_joins.N_CODES)
    wanted = np.zeros_like(neighbors)
    for last, first in joins:
        if len(first) == 1:
            wanted[codes & 63 == last[0] & 63 if len(last) == 1 else _code_of(last), 0] |= np.uint64(1 << (first[0] & 15))
        if len(last) == 1:
            wanted[codes >> 12 == first[0] & 15 if len(first) == 1 else _code_of(first), 1] |= np.uint64(1 << (last[0] & 63))
    assert (neighbors == wanted).all()
    if tables.characters.size:
        assert (tables.characters & character_joins.NO_CHARACTER == characters).all()
        assert (tables.neighbors.reshape(-1, 2)[tables.characters >> character_joins.KIND_SHIFT] == neighbors).all()


@given(merges=character_merges(), data=characters)
def test_find_join(merges, data):
    """The bits of all merges between two characters are set."""
    model = make_model(merges)
    tables = make_tables(model, {})
    if not tables.characters.size:
        return
    tokens = list(dict.fromkeys([*(bytes([byte]) for byte in range(256)), *(left + right for left, right in merges)]))
    joins, _ = twins.encoding.build_joins(tokens, twins.encoding.derive_tokens(tokens, naive_rules(model)[0])[0])
    for before, after in pairwise(twins.encoding.characters(data)):
        if len(before) == len(after) == 3:
            codes = [np.uint64(_code_of(character)) for character in (before, after)]
            kinds = [np.uint64(tables.characters[code]) >> character_joins.KIND_SHIFT for code in codes]
            found = int(character_joins.find_join(tables, codes[0], kinds[0], codes[1], kinds[1]))
            parts = (before[-1:], after) in joins, (before, after[:1]) in joins, (before[-1:], after[:1]) in joins
            assert found & 2 == 2 * (parts[0] or parts[2])
            assert found & 4 == 4 * (parts[1] or parts[2])
            assert found & 1 >= ((before, after) in joins)


def test_number_kinds():
    sets = np.zeros((character_joins.N_CODES, 2), dtype=np.uint64)
    sets[5], sets[7], sets[9] = (1, 2), (2, 1), (1, 2)
    kinds, neighbors = encoder_tables.number_kinds(sets.reshape(-1))
    assert kinds[[4, 5, 7, 9]].tolist() == [0, 1, 2, 1]
    assert neighbors.tolist() == [0, 0, 1, 2, 2, 1]
    # With too many kinds, the sets of some characters have more elements than they need.
    sets[:, 0] = np.arange(character_joins.N_CODES)
    kinds, neighbors = encoder_tables.number_kinds(sets.reshape(-1))
    assert neighbors.size == 2 * character_joins.MAX_KINDS
    given_sets = neighbors.reshape(-1, 2)[kinds]
    assert (given_sets & sets == sets).all()
    assert (given_sets[:4000] == sets[:4000]).all()


def _code_of(character: bytes) -> int:
    """Return the code point of a character, which may be overlong or a surrogate."""
    return (character[0] & 15) << 12 | (character[1] & 63) << 6 | character[2] & 63
