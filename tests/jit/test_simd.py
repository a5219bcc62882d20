"""Comparison of SIMD operations in LLVM IR with plain Python."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import INVALID, awkward_bytes

from bpejit.jit import dispatch, memory, simd
from bpejit.jit.simd import CONTEXT_BEFORE, CONTEXT_SIZE
from bpejit.splitting.rule_groups import group_rules

pytestmark = pytest.mark.compiled


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch):
    # The wrappers below are not kernels of the package, so the cache would not notice an edit.
    monkeypatch.setenv("BPEJIT_CACHE", "0")


@dispatch.kernel
def has_avx512_vbmi():
    return simd.has_avx512_vbmi()


@dispatch.kernel
def match_contexts(text, position, rules, number):
    return simd.match_contexts(text, position, rules, number)


@dispatch.kernel
def has_avx2():
    return simd.has_avx2()


@dispatch.kernel
def match_groups(text, position, rules, n_first, n_sets, n_halves):
    return simd.match_groups(text, position, rules, n_first, n_sets, n_halves)


@dispatch.kernel
def find_non_ascii(text, position):
    return simd.find_non_ascii(text, position)


@dispatch.kernel
def read_characters(text, position, class_of, scratch, places, classes):
    return simd.read_characters(text, position, class_of, scratch, places, classes)


@dispatch.kernel
def write_selected(scratch, index, places, bits):
    return simd.write_selected(scratch, index, places, bits)


@dispatch.kernel
def write_bit_positions(ends, index, position, bits):
    return simd.write_bit_positions(ends, index, position, bits)


@dispatch.kernel
def begin_merge(text, start, length, byte_pairs, words, first):
    simd.begin_merge(text, start, length, byte_pairs, words, first)


@dispatch.kernel
def lowest_rank(words, first):
    return simd.lowest_rank(words, first)


@dispatch.kernel
def merge_lane(words, first, lane, token, before, after):
    simd.merge_lane(words, first, lane, token, before, after)


@dispatch.kernel
def write_tokens(words, first, n, ids, out, index):
    simd.write_tokens(words, first, n, ids, out, index)


@dispatch.kernel
def count_ones(value):
    return memory.count_ones(value)


del dispatch.KERNELS[-13:]

GUARD = 0xDEADBEEF

words = st.integers(0, (1 << 32) - 1)
bits = st.one_of(
    st.integers(0, (1 << 64) - 1),
    st.sampled_from([0, 1, 1 << 63, (1 << 32) - 1, (1 << 33) - 1, 0xFFFF << 32, (1 << 64) - 1]),
    st.sets(st.integers(0, 63)).map(lambda places: sum(1 << place for place in places)),
)


def u64(*numbers: int) -> list[np.uint64]:
    return [np.uint64(number) for number in numbers]


@pytest.fixture(scope="module")
def wide():
    """Skip the test if the processor, or the target set for Numba, lacks the instructions."""
    if not has_avx512_vbmi():
        pytest.skip("needs a processor with AVX-512 VBMI and VBMI2: without it, these operations are never called")


def both(compiled, plain, arrays, numbers, out):
    """Call both forms with copies of `arrays[out]`, to which they write; return results and arrays."""
    results = []
    for function in (compiled, plain.function):
        given_arrays = list(arrays)
        given_arrays[out] = given_arrays[out].copy()
        results.append((function(*numbers(given_arrays)), given_arrays[out]))
    return results


@given(
    st.binary(min_size=63 + CONTEXT_SIZE, max_size=200),
    st.integers(0, 1000),
    st.integers(1, 3),
    st.sampled_from([1, 2, 15, 16, 17, 31, 32]),
    st.integers(0, (1 << 32) - 1),
    st.sampled_from([0.02, 0.3, 0.8]),
)
def test_match_groups(data, position, sets, n_groups, seed, share):
    """The result equals that of `match_contexts` for the same tables over characters."""
    if not has_avx2():
        pytest.skip("needs a processor with AVX2")
    text = np.frombuffer(bytes(byte & 0x7F for byte in data), dtype=np.uint8)
    generator = np.random.default_rng(seed)
    group = generator.integers(0, n_groups, 128).astype(np.uint8)
    group[:n_groups] = np.arange(n_groups)  # all groups occur
    boxes = np.packbits(generator.random((sets * CONTEXT_SIZE, n_groups, 8)) < share, axis=-1)[:, :, 0]
    tables = boxes[:, group].reshape(-1)
    rules = group_rules(np.concatenate([tables, tables]))
    n_halves = (rules.size - 128) // (sets * CONTEXT_SIZE * 16)
    place = CONTEXT_BEFORE + position % (text.size - 62 - CONTEXT_SIZE)
    by_set = [int(simd.match_contexts.function(text, np.uint64(place), tables, number)) for number in range(sets)]
    for n_first in range(sets + 1):
        arguments = (text, *u64(place), rules, *u64(n_first, sets, n_halves))
        expected = tuple(functools.reduce(int.__or__, some, 0) for some in (by_set[:n_first], by_set[n_first:]))
        assert match_groups(*arguments) == simd.match_groups.function(*arguments) == expected


@given(
    st.binary(min_size=63 + CONTEXT_SIZE, max_size=200),
    st.integers(0, 1000),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(0, (1 << 32) - 1),
    st.sampled_from([0.02, 0.3, 0.8]),
)
def test_match_contexts(wide, data, position, sets, number, seed, share):
    """Include the first and the last byte of the text, and tables at the very end of their array."""
    generator = np.random.default_rng(seed)
    rules = (generator.random(sets * CONTEXT_SIZE * 128) < share).astype(np.uint8) * generator.integers(
        1, 256, sets * CONTEXT_SIZE * 128, dtype=np.uint8
    )
    text = np.frombuffer(data, dtype=np.uint8)
    offset = CONTEXT_BEFORE + position % (len(data) - 62 - CONTEXT_SIZE)
    arguments = (text, np.uint64(offset), rules, number % sets)
    assert match_contexts(*arguments) == simd.match_contexts.function(*arguments)


@given(st.integers(0, (1 << 32) - 1), st.integers(1, 4))
def test_match_contexts__of_words(wide, seed, index):
    """In an array of words, positions count words; three bytes of the preceding word are read."""
    generator = np.random.default_rng(seed)
    rules = generator.integers(0, 256, 2 * CONTEXT_SIZE * 128, dtype=np.uint8) * (
        generator.random(2 * CONTEXT_SIZE * 128) < 0.4
    ).astype(np.uint8)
    text = generator.integers(0, 1 << 32, index + 17, dtype=np.uint32)
    for number in range(2):
        arguments = (text, np.uint64(index), rules, number)
        assert match_contexts(*arguments) == simd.match_contexts.function(*arguments)


@given(st.binary(min_size=63 + CONTEXT_SIZE, max_size=90), st.integers(0, 1000))
def test_find_non_ascii(data, position):
    text = np.frombuffer(data, dtype=np.uint8)
    offset = np.uint64(CONTEXT_BEFORE + position % (len(data) - 62 - CONTEXT_SIZE))
    assert find_non_ascii(text, offset) == simd.find_non_ascii.function(text, offset)


def test_find_non_ascii__one_byte():
    """A byte above 127 is found exactly from the positions whose contexts include it."""
    for at in range(63 + CONTEXT_SIZE):
        text = np.full(63 + CONTEXT_SIZE, 0x7F, dtype=np.uint8)
        text[at] = 0x80
        first = np.uint64(CONTEXT_BEFORE)
        expected = sum(1 << offset for offset in range(64) if offset <= at < offset + CONTEXT_SIZE)
        assert find_non_ascii(text, first) == expected == simd.find_non_ascii.function(text, first)


@given(bits, st.integers(0, (1 << 32) - 65), st.integers(0, 20))
def test_write_bit_positions(chosen, position, index):
    """Counts and positions are equal, and only the 64 entries from `index` on are overwritten."""
    ends = np.full(index + 64 + 5, GUARD, dtype=np.uint32)
    expected = ends.copy()
    count = write_bit_positions(ends, *u64(index, position, chosen))
    assert count == simd.write_bit_positions.function(expected, *u64(index, position, chosen)) == chosen.bit_count()
    assert ends[index : index + count].tolist() == expected[index : index + count].tolist()
    assert (ends[:index] == GUARD).all()
    assert (ends[index + 64 :] == GUARD).all()


@given(bits, st.integers(0, 20), st.integers(0, 20), st.integers(0, (1 << 32) - 1))
def test_write_chosen(wide, chosen, index, gap, seed):
    """As above; the positions are not changed, though they may follow the overwritten entries directly."""
    places = index + 64 + gap
    scratch = np.random.default_rng(seed).integers(0, 1 << 32, places + 64, dtype=np.uint32)
    scratch[:places] = GUARD
    expected = scratch.copy()
    count = write_selected(scratch, *u64(index, places, chosen))
    assert count == simd.write_selected.function(expected, *u64(index, places, chosen)) == chosen.bit_count()
    assert scratch[index : index + count].tolist() == expected[index : index + count].tolist()
    assert (scratch[:index] == GUARD).all()
    assert (scratch[index + 64 : places] == GUARD).all()
    assert scratch[places:].tolist() == expected[places:].tolist()


CLASS_OF = np.random.default_rng(1).integers(0, 256, 0x110000, dtype=np.uint8)


def read(data: bytes, position: int) -> int:
    """Read characters in both forms, at the very end of an array; return the size, which must be equal."""
    text = np.frombuffer(data[: position + 67], dtype=np.uint8)
    assert text.size == position + 67
    places, classes = 3, 20
    results = []
    for function in (read_characters, simd.read_characters.function):
        scratch = np.full(28, GUARD, dtype=np.uint32)
        size = function(text, np.uint64(position), CLASS_OF, scratch, *u64(places, classes))
        results.append((int(size), scratch[3:24].tolist() if size else None))
        assert scratch[:3].tolist() == [GUARD] * 3
        assert scratch[24:].tolist() == [GUARD] * 4
    assert results[0] == results[1]
    return results[0][0]


@given(
    st.one_of(st.text(max_size=70).map(str.encode), awkward_bytes(25)),
    st.binary(min_size=70, max_size=70) | st.just(b" " * 70),
    st.integers(0, 20),
)
def test_read_characters(wide, data, rest, position):
    read(b"x" * position + data + rest, position)


@given(st.lists(st.characters(exclude_categories=["Cs"]), min_size=16, max_size=16), st.integers(0, 5))
def test_read_characters__of_any_width(wide, characters, position):
    """In valid text, characters of at most 63 bytes equal those of Python."""
    text = "".join(characters).encode()
    data = b"x" * position + text + b"y" * 70
    assert read(data, position) == (len(text) if len(text) < 64 else 0)


def test_read_characters__of_each_width(wide):
    for character in (
        "a",
        "\x7f",
        "\x80",
        "é",
        "\u07ff",
        "\u0800",
        "中",
        "\ud7ff",
        "\ue000",
        "\uffff",
        "\U00010000",
        "\U0010ffff",
    ):
        text = character.encode()
        size = 16 * len(text)
        assert read(text * 16 + b"y" * 70, 0) == (size if size < 64 else 0)
        # One byte less than the capacity.
        assert read(text * 15 + b"y" * 70, 0) == 15 * len(text) + 1


BROKEN = [
    *INVALID,
    *(bytes([byte]) for byte in (0x80, 0xBF, 0xC0, 0xC1, 0xC2, 0xE0, 0xED, 0xF0, 0xF4, 0xF5, 0xF7, 0xF8, 0xFC, 0xFE, 0xFF)),
    *(b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80"),
    *(
        b"\xf7\xbf\xbf\xbf",
        b"\xff\xbf\xbf\xbf",
        b"\xfb\xbf\xbf\xbf\xbf",
        b"\xc3\xc3",
        b"\xe4\xb8",
        b"\xf0\x9f\x98",
        b"\xe4\xb8A",
    ),
]


@pytest.mark.parametrize("around", ["a", "é", "中", "a中", "é中a"])
def test_read_characters__invalid_at_every_position(wide, around):
    good = (around * 16)[:16]
    for broken in BROKEN:
        for offset in range(17):
            data = good[:offset].encode() + broken + good[offset:].encode() + b"y" * 70
            size = read(data, 0)
            # An invalid or incomplete character is never read as text.
            assert size == 0 or (offset == 16 and size == len(good.encode()) and broken[0] & 0xC0 != 0x80)


@given(st.lists(words, min_size=64, max_size=64), st.binary(min_size=17, max_size=40), st.integers(1, 16), st.data())
def test_begin_merge(ranks, data, length, draw):
    """Give ranks to a few pairs; the text has the least padding, and the words after the lanes are preserved."""
    start = draw.draw(st.integers(0, len(data) - 17))
    text = np.frombuffer(data[: start + 17], dtype=np.uint8)
    byte_pairs = np.full(1 << 16, 0xFFFFFFFF, dtype=np.uint32)
    byte_pairs[(text[:-1].astype(np.uint32) << 8 | text[1:])[: len(ranks)]] = ranks[: text.size - 1]
    first = draw.draw(st.integers(0, 9))
    results = []
    for function in (begin_merge, simd.begin_merge.function):
        scratch = np.full(first + 36, GUARD, dtype=np.uint32)
        function(text, *u64(start, length), byte_pairs, scratch, np.uint64(first))
        results.append(scratch.tolist())
    assert results[0] == results[1]
    assert results[0][first : first + length] == list(data[start : start + length])
    assert results[0][:first] + results[0][first + 32 :] == [GUARD] * (first + 4)


some_ranks = st.lists(
    st.sampled_from([0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF]) | words, min_size=16, max_size=16
)


@given(some_ranks, st.lists(words, min_size=16, max_size=16), st.integers(0, 9))
def test_lowest_rank(ranks, tokens, first):
    scratch = np.array([GUARD] * first + tokens + ranks, dtype=np.uint32)
    expected = simd.lowest_rank.function(scratch, np.uint64(first))
    assert lowest_rank(scratch, np.uint64(first)) == tuple(map(int, expected)) == (min(ranks), ranks.index(min(ranks)))


@given(some_ranks, st.lists(words, min_size=16, max_size=16), st.integers(0, 9), st.integers(0, 14), words, words, words)
def test_merge_lane(ranks, tokens, first, lane, token, before, after):
    results = []
    for function in (merge_lane, simd.merge_lane.function):
        scratch = np.array([GUARD] * first + tokens + ranks + [GUARD] * 3, dtype=np.uint32)
        function(scratch, *u64(first, lane, token, before, after))
        results.append(scratch.tolist())
    compiled, plain = (result[first : first + 32] for result in results)
    # The last lane of the tokens: the lanes after it do not matter.
    assert compiled[:15] + compiled[16:] == plain[:15] + plain[16:]
    assert all(result[:first] + result[-3:] == [GUARD] * (first + 3) for result in results)
    merged = [*tokens[:lane], token, *tokens[lane + 2 :]]
    assert compiled[:15] == merged
    left = [before] if lane else []
    assert compiled[16:] == [*ranks[: max(lane - 1, 0)], *left, after, *ranks[lane + 2 :], 0xFFFFFFFF]


@given(st.lists(st.integers(0, 99), min_size=16, max_size=16), st.integers(1, 16), st.integers(0, 5), st.integers(0, 5))
def test_write_tokens(tokens, n, first, index):
    """Only the used lanes are read: the others may contain anything."""
    tokens = tokens[:n] + [GUARD] * (16 - n)
    scratch = np.array([GUARD] * first + tokens + [GUARD] * 16, dtype=np.uint32)
    ids = np.random.default_rng(n).integers(0, 1 << 32, 100, dtype=np.uint32)
    results = []
    for function in (write_tokens, simd.write_tokens.function):
        out = np.full(index + 16 + 3, GUARD, dtype=np.uint32)
        function(scratch, *u64(first, n), ids, out, np.uint64(index))
        assert (out[:index] == GUARD).all()
        assert (out[index + 16 :] == GUARD).all()
        results.append(out[index : index + n].tolist())
    assert results[0] == results[1] == ids[tokens[:n]].tolist()


@given(bits)
def test_count_ones(value):
    assert count_ones(np.uint64(value)) == memory.count_ones.function(np.uint64(value)) == f"{value:b}".count("1")
