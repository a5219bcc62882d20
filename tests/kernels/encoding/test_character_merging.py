"""Comparison of merging from characters with merging from bytes, and of its tables with their twins."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from conftest import small
from encoding_helpers import make_model, make_workspace, merge_lists, naive_rules
from hypothesis import given
from hypothesis import strategies as st

from bpejit.arrays import ByteStrings, padded_text
from bpejit.encoding import encoder_tables
from bpejit.encoding.encoder import Encoder
from bpejit.encoding.encoder_tables import make_tables, padded
from bpejit.kernels.encoding import character_joins, token_derivations
from bpejit.kernels.encoding.character_merging import MAX_ELEMENTS, encode_characters
from bpejit.kernels.encoding.merge_rules import FREE
from bpejit.model import Model

CHARACTERS = ["あ", "い", "し", "で", "語", "本", "ก", "า"]
"""Characters of three bytes, of which several have two bytes in common."""

UNITS = [*(character.encode() for character in CHARACTERS), b"a", b" ", "é".encode(), "😀".encode()]
PARTS = [b"\xe3", b"\x81", b"\x82", b"\xe3\x81", b"\x84", b"\xe0\xb8", b"\xb2", b"\xe0\x80\x80"]


@pytest.fixture(autouse=True, scope="module")
def _for_all_vocabularies():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder_tables, "LEAST_CHARACTERS", 0)
        yield


@st.composite
def character_merges(draw: st.DrawFn, max_merges: int = 60) -> list[tuple[bytes, bytes]]:
    """Draw merges that make most characters, then merges of any tokens, sometimes in another order."""
    tokens = [bytes([byte]) for byte in sorted(set(b"".join([*UNITS, *PARTS])))]
    merges: list[tuple[bytes, bytes]] = []

    def add(left: bytes, right: bytes) -> None:
        if (left, right) not in merges and len(left + right) <= 30:
            merges.append((left, right))
            tokens.append(left + right)

    for character in draw(st.lists(st.sampled_from(CHARACTERS), max_size=12)):
        data = character.encode()
        if draw(st.integers(0, 5)):
            add(data[:1], data[1:2])
            add(data[:2], data[2:])
        else:
            add(data[1:2], data[2:])
            add(data[:1], data[1:])
    for left, right in draw(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=max_merges)):
        add(tokens[-1 - left % len(tokens)], tokens[-1 - right % len(tokens)])
    return draw(st.one_of(st.just(merges), st.just(merges), st.permutations(merges)))


characters = st.lists(st.sampled_from([*UNITS, *UNITS, *PARTS]), min_size=1, max_size=small(90, 20)).map(b"".join)


def encode(data: bytes, model: Model) -> list[int] | None:
    """Encode a pre-token in the middle of a text and of an output; return the ids of what was encoded."""
    tables = make_tables(model, {})
    if not tables.character_tokens.size:
        return None
    text, _ = padded_text(b"\xe3\x81" + data + b"\x84\xe3")  # the bytes around it must not matter
    out = np.full(len(data) + 40, 0xABCDEF, dtype=np.uint32)
    end, position = encode_characters(text, np.uint64(2), np.uint64(len(data) + 2), tables, make_workspace(), out, np.uint64(3))
    rest = data[int(position) - 2 :]
    table, ids = naive_rules(model)
    return out[3 : int(end)].tolist() + (naive.encode_pretoken(rest, table, ids) if rest else [])


@given(character_merges(), characters)
def test_encode_characters(merges, data):
    model = make_model(merges)
    ids = encode(data, model)
    if ids is not None:
        assert ids == naive.encode_pretoken(data, *naive_rules(model))


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
    expected = [number for pretoken in pretokens for number in naive.encode_pretoken(pretoken, table, ids)]
    assert encoder.encode(data).tolist() == expected


@st.composite
def ranked_character_models(draw: st.DrawFn) -> Model:
    """Draw ranked models: tokens of several splits, unreachable ones, and bytes with larger ids than other tokens."""
    longer = draw(st.lists(st.lists(st.sampled_from([*UNITS, *PARTS]), min_size=1, max_size=5).map(b"".join), max_size=40))
    made = [data[:size] for data in longer for size in range(2, len(data) + 1) if len(data) < 12 or size % 3 == 0]
    tokens = list(dict.fromkeys([*(bytes([byte]) for byte in range(256)), *made]))
    if draw(st.booleans()):
        tokens = draw(st.permutations(tokens))
    return Model(tokens=dict(enumerate(tokens)), merges=[], special_tokens={}, ranked=True)


@given(ranked_character_models(), characters)
def test_encode_characters__ranked(model, data):
    ids = encode(data, model)
    if ids is not None:
        assert ids == naive.encode_pretoken(data, *naive_rules(model))


@pytest.mark.parametrize("n", [1, 2, 3, 15, 16, 17, 18, 64, MAX_ELEMENTS, MAX_ELEMENTS + 1, 2 * MAX_ELEMENTS])
def test_encode_characters__sizes(n):
    """Fragments of all sizes; one with too many elements is left to the caller."""
    merges = [(b"\xe3", b"\x81"), (b"\xe3\x81", b"\x82"), (b"\xe3\x81", b"\x84")]
    merges += [("あ".encode(), "い".encode()), ("い".encode(), "あ".encode()), ("あい".encode(), "あい".encode())]
    model = make_model(merges)
    for data in (("あい" * n)[:n], "い" * n, "いい" + ("あい" * n)[:n] + "語" + "いあ"):
        assert encode(data.encode(), model) == naive.encode_pretoken(data.encode(), *naive_rules(model))


def test_make_tables__needs_increasing_ranks():
    """A token that is made at a lower rank than one of its parts rules out merging from characters."""
    rising = [(b"\xe3", b"\x81"), (b"\xe3\x81", b"\x82")]
    assert make_tables(make_model(rising), {}).character_tokens.size == character_joins.N_CODES
    assert make_tables(make_model(rising[::-1]), {}).character_tokens.size == 0
    long = [(b"a" * (1 << power), b"a" * (1 << power)) for power in range(10)]
    assert make_tables(make_model(long[:-1]), {}).character_tokens.size == character_joins.N_CODES
    assert make_tables(make_model(long), {}).character_tokens.size == 0


@given(st.one_of(character_merges(), merge_lists()).map(make_model) | ranked_character_models())
def test_derive_tokens_and_build_joins(model):
    rules, _ = naive_rules(model)
    tables = make_tables(model, {})
    made = model.tokens.values() if model.ranked else (left + right for left, right in model.merges)
    tokens = list(dict.fromkeys([*(bytes([byte]) for byte in range(256)), *made]))
    strings = ByteStrings.from_list(tokens)
    pool = padded(strings.pool)
    splits = np.zeros(len(tokens), dtype=np.uint64)
    scratch = np.zeros(token_derivations.SPLIT_SCRATCH_WORDS, dtype=np.uint32)
    increasing = token_derivations.derive_tokens(
        pool, strings.starts, tables.pairs, tables.byte_pairs, tables.merged, scratch, splits
    )
    expected, expected_increasing = naive.derive_tokens(tokens, rules)
    words = []
    for token, split in zip(tokens, expected, strict=True):
        if len(token) == 1:
            words.append(0)
        elif split is None:
            words.append(int(token_derivations.UNREACHABLE))
        else:
            left, right, rank = split
            words.append(left << 42 | right << 22 | rank + 1 - (256 if model.ranked else 0))
    assert splits.tolist() == words
    first_rank = 256 if model.ranked else 0
    pairs = {left << 43 | right << 22 | rank - first_rank for left, right, rank in filter(None, expected)}
    assert {*tables.pairs[tables.pairs != FREE].tolist()} == pairs
    assert bool(increasing) == expected_increasing
    joins, byte_joins, found = naive.build_joins(tokens, expected)
    bits = np.zeros(character_joins.JOIN_BYTE_WORDS + 8, dtype=np.uint64)
    pair_bits = np.zeros(8, dtype=np.uint64)
    character_tokens = np.full(character_joins.N_CODES, character_joins.NO_CHARACTER, dtype=np.uint32)
    assert character_joins.build_joins(pool, strings.starts, splits, bits, pair_bits, character_tokens) >= len(joins)
    wanted = np.zeros_like(bits)
    for last, first in joins:
        units = [np.uint64(int.from_bytes(unit, "little") | (1 << 24 if len(unit) == 1 else 0)) for unit in (last, first)]
        character_joins._set_bit(wanted, character_joins._join_bit(wanted, *units))
    for before, after in byte_joins:
        character_joins._set_bit(wanted, np.uint64(before << 8 | after))
    assert bits.tolist() == wanted.tolist()
    wanted = np.zeros_like(pair_bits)
    for split in expected:
        if split is not None:
            character_joins._set_bit(wanted, character_joins.token_pair_bit(wanted, np.uint64(split[0]), np.uint64(split[1])))
    assert pair_bits.tolist() == wanted.tolist()
    codes = np.flatnonzero(character_tokens != character_joins.NO_CHARACTER).tolist()
    known = {chr(code).encode(): int(character_tokens[code]) for code in codes}
    assert known == found
