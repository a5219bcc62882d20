"""Comparison of SIMD operations in LLVM IR with plain Python."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from helpers.strategies import INVALID, awkward_bytes
from hypothesis import given, strategies as st

from bpejit.jit import dispatch, memory, simd
from bpejit.jit.simd import CONTEXT_BEFORE, CONTEXT_SIZE
from bpejit.splitting.automaton import class_pages, group_rules

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
def narrow_characters(characters, position, out, index):
    return simd.narrow_characters(characters, position, out, index)


@dispatch.kernel
def pack_characters(text, position, expected, scratch, offset, stride):
    return simd.pack_characters(text, position, expected, scratch, offset, stride)


@dispatch.kernel
def classify_characters(scratch, offset, stride, pages, out):
    return simd.classify_characters(scratch, offset, stride, pages, out)


@dispatch.kernel
def look_up_characters(scratch, offset, stride, class_of, out):
    return simd.look_up_characters(scratch, offset, stride, class_of, out)


@dispatch.kernel
def deposit_bits(bits, mask):
    return simd.deposit_bits(bits, mask)


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
def load_lanes(words, first, tokens, ranks, n, mask):
    simd.load_lanes(words, first, tokens, ranks, n, mask)


@dispatch.kernel
def equal_lanes(words, first, value):
    return simd.equal_lanes(words, first, value)


@dispatch.kernel
def merge_lane(words, first, lane, token, before, after):
    simd.merge_lane(words, first, lane, token, before, after)


@dispatch.kernel
def write_tokens(words, first, n, ids, out, index):
    simd.write_tokens(words, first, n, ids, out, index)


@dispatch.kernel
def count_ones(value):
    return memory.count_ones(value)


del dispatch.KERNELS[-18:]

GUARD = 0xDEADBEEF
GUARD_BYTES = [0xEF, 0xBE, 0xAD, 0xDE]

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


@given(st.sampled_from(["u1", "u2", "u4"]), st.integers(0, 3), st.integers(0, 3), st.data())
def test_narrow_characters(kind, position, index, data):
    """Characters of all widths; only the 32 bytes from `index` on are written."""
    most = min(np.iinfo(kind).max, 0x10FFFF)
    limits = st.sampled_from([0, 0x7F, 0x80, min(0x100, most), most]) | st.integers(0, most)
    characters = np.array(data.draw(st.lists(limits, min_size=35, max_size=35)), kind)
    written = []
    for function in (narrow_characters, simd.narrow_characters.function):
        out = np.full(40, 0xEE, np.uint8)
        others = function(characters, np.uint64(position), out, np.uint64(index))
        assert (out[:index] == 0xEE).all()
        assert (out[index + 32 :] == 0xEE).all()
        written.append((int(others), out.tobytes()))
    assert written[0] == written[1]
    some = characters[position : position + 32].tolist()
    assert written[0][0] == sum(1 << place for place, point in enumerate(some) if point > 0x7F)


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


@given(bits, bits)
def test_deposit_bits(wide, value, mask):
    places = [place for place in range(64) if mask >> place & 1]
    expected = sum(1 << place for number, place in enumerate(places) if value >> number & 1)
    assert deposit_bits(*u64(value, mask)) == simd.deposit_bits.function(*u64(value, mask)) == expected


def _class_of() -> np.ndarray:
    """Return classes of which one page in four is mixed, common ones as well."""
    generator = np.random.default_rng(1)
    classes = np.repeat(generator.integers(0, 128, 0x110000 // 64, dtype=np.uint8), 64)
    mixed = np.repeat(generator.random(0x110000 // 64) < 0.25, 64)
    return np.where(mixed, generator.integers(0, 128, classes.size, dtype=np.uint8), classes)


CLASS_OF = _class_of()
PAGES = class_pages(CLASS_OF, np.ones(1, np.uint8))


def pack(text: np.ndarray, position: int, expected: int) -> tuple[int, int, int, np.ndarray]:
    """Pack characters in both forms; return the results, which must be equal, and the scratch space."""
    results, arrays = [], []
    for function in (pack_characters, simd.pack_characters.function):
        scratch = np.full(80, GUARD, dtype=np.uint32)
        starts, broken, after = map(int, function(text, *u64(position, expected), scratch, *u64(4, 76)))
        ranges = [scratch.view(np.uint8)[first : first + starts.bit_count()] for first in (4, 80, 156, 232)]
        wide = ranges[0] >= 0xF0
        # Of the fourth bytes, only those of such characters matter.
        results.append((starts, broken, after, [part.tolist() for part in ranges[:3]], ranges[3][wide].tolist()))
        arrays.append(scratch)
    assert results[0] == results[1]
    octets = arrays[0].view(np.uint8)
    for end in (4, 80, 156, 232):
        assert octets[end - 4 : end].tolist() == GUARD_BYTES  # between the ranges of 64 bytes there are twelve others
    assert octets[232 + 64 :].tolist() == GUARD_BYTES * 6
    return starts, broken, after, arrays[0]


def classify(scratch: np.ndarray, n: int) -> list[int]:
    """Return the classes of the first `n` packed characters, up to the first that is not valid, by both forms."""
    found, unlisted = [], 0
    for function in (classify_characters, simd.classify_characters.function):
        given_bytes = np.concatenate([scratch, np.full(18, GUARD, dtype=np.uint32)])
        unlisted = int(function(given_bytes, *u64(4, 76), PAGES, np.uint64(324))) & ((1 << n) - 1)
        found.append((unlisted, given_bytes.view(np.uint8)[324 : 324 + n].tolist()))
        assert given_bytes[:81].tolist() == [*scratch.tolist(), GUARD]
        assert given_bytes[97:].tolist() == [GUARD]
    assert found[0] == found[1]
    classes = found[0][1]
    for first in range(0, n, 16):
        if not unlisted >> first & 0xFFFF:
            continue
        looked_up = []
        for function in (look_up_characters, simd.look_up_characters.function):
            given_bytes = np.concatenate([scratch, np.full(6, GUARD, dtype=np.uint32)])
            valid = int(function(given_bytes, *u64(4 + first, 76), CLASS_OF, np.uint64(324)))
            some = given_bytes.view(np.uint8)[324:340].tolist()[: n - first]
            looked_up.append([kind if valid >> i & 1 else None for i, kind in enumerate(some)])
            assert given_bytes[:81].tolist() == [*scratch.tolist(), GUARD]
            assert given_bytes[85:].tolist() == [GUARD]
        assert looked_up[0] == looked_up[1]
        for i, kind in enumerate(looked_up[0], start=first):
            if not unlisted >> i & 1:
                assert kind == classes[i]  # what is listed is valid
            elif kind is None:
                return classes[:i]
            else:
                classes[i] = kind
    return classes


def read(data: bytes) -> list[int]:
    """Return the classes of the characters, up to the first that is not valid, by packing and classifying blocks."""
    n_blocks = (len(data) - 3) // 64
    text = np.frombuffer(data[: 64 * n_blocks + 3], dtype=np.uint8)  # no byte after it may be read
    classes: list[int] = []
    expected = 0
    for position in range(0, 64 * n_blocks, 64):
        starts, broken, expected, scratch = pack(text, position, expected)
        good = starts & ((broken & -broken) - 1) if broken else starts
        some = classify(scratch, good.bit_count())
        classes += some
        if broken or len(some) < good.bit_count():
            break
    return classes


def expected_classes(data: bytes) -> list[int]:
    """Return the same by Python's decoder."""
    n_bytes = (len(data) - 3) // 64 * 64
    classes, at = [], 0
    while at < n_bytes:
        width = 1 + (data[at] >= 0xC0) + (data[at] >= 0xE0) + (data[at] >= 0xF0)
        try:
            character = data[at : at + width].decode()
        except UnicodeDecodeError:
            break
        classes.append(int(CLASS_OF[ord(character)]))
        at += width
    return classes


@given(
    st.one_of(st.text(max_size=70).map(str.encode), awkward_bytes(25)), st.binary(min_size=70, max_size=70) | st.just(b" " * 70)
)
def test_read_characters(wide, data, rest):
    assert read(data + rest) == expected_classes(data + rest)


@given(st.lists(st.characters(exclude_categories=["Cs"]), min_size=16, max_size=60), st.integers(0, 5))
def test_read_characters__of_any_width(wide, characters, n):
    """All characters of valid text are read."""
    data = "".join(["x" * n, *characters]).encode() + b"y" * 70
    assert read(data) == expected_classes(data)
    assert len(read(data)) >= n + len(characters)


def test_read_characters__of_each_page(wide):
    """The first, the last and another character of each page, among others of the same width and of other widths."""
    points = [page + place for page in [*range(0, 0x12000, 64), 0x2FFC0, 0x10FFC0] for place in (0, page // 64 % 64, 63)]
    characters = [chr(point) for point in points if not 0xD800 <= point < 0xE000]
    for between in ("", "é中a"):
        data = between.join(characters).encode()
        assert read(data) == expected_classes(data)


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


@pytest.mark.parametrize("around", ["a", "é", "中", "a中", "é中a", "😀"])
def test_read_characters__invalid_at_every_position(wide, around):
    """Also at the border of two blocks."""
    for broken in BROKEN:
        for offset in (0, 1, 30, *range(59, 66)):
            data = (around * 70).encode()[:offset].decode(errors="ignore").encode() + broken + around.encode() + b"y" * 133
            # An invalid or incomplete character is never read as text.
            assert read(data) == expected_classes(data)


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
    scratch = np.array([GUARD] * first + ranks + tokens, dtype=np.uint32)
    expected = simd.lowest_rank.function(scratch, np.uint64(first))
    assert lowest_rank(scratch, np.uint64(first)) == tuple(map(int, expected)) == (min(ranks), ranks.index(min(ranks)))


@given(some_ranks, st.lists(words, min_size=16, max_size=16), st.integers(1, 16), st.integers(0, 5), words)
def test_load_lanes(ranks, tokens, n, first, mask):
    results = []
    for function in (load_lanes, simd.load_lanes.function):
        scratch = np.array([GUARD] * (first + 32 + 3) + tokens + [GUARD] + ranks + [GUARD], dtype=np.uint32)
        given_words = scratch.tolist()
        function(scratch, *u64(first, first + 35, first + 52, n, mask))
        results.append(scratch.tolist())
        assert results[-1][:first] + results[-1][first + 32 :] == given_words[:first] + given_words[first + 32 :]
    assert results[0] == results[1]
    lanes = results[0][first : first + 32]
    assert lanes == [token & mask for token in tokens] + ranks[: n - 1] + [0xFFFFFFFF] * (17 - n)


@given(some_ranks, st.integers(0, 9), st.sampled_from([0, 2, 0xFFFFFFFF]))
def test_equal_lanes(ranks, first, value):
    scratch = np.array([value] * first + ranks + [value], dtype=np.uint32)
    expected = sum(1 << i for i, rank in enumerate(ranks) if rank == value)
    assert equal_lanes(scratch, *u64(first, value)) == simd.equal_lanes.function(scratch, *u64(first, value)) == expected


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
