"""Cursors and the scan by local rules, called directly, against a twin that steps through the table character by character."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from conftest import small
from helpers.splitting import cached_splitter, documents
from hypothesis import given, strategies as st

from bpejit.arrays import padded_text
from bpejit.jit import dispatch, simd
from bpejit.kernels.constants import CUT_RULES, MAX_PENDING, PAIR_SHIFT, SPLIT_KEPT_SHIFT, STRIDE
from bpejit.kernels.splitting import cursors, local_rule_scan
from bpejit.kernels.splitting.automaton_arrays import SplitAutomaton
from bpejit.splitting import PRESETS

# Besides the presets, patterns with gaps, with pending ends, and with many classes.
PATTERNS = [*PRESETS, r"\p{L}+", r"\p{L}+(?=1)|\p{N}{1,3}|\s+$", r"ab|\s+", r"(?:ab)?c|[\s\S]"]

patterns = st.sampled_from([name for name in PATTERNS if cached_splitter(name).pattern.kind == "transducer"])

UNUSED = 0xDEADBEEF


@pytest.fixture(autouse=True)
def _no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    # The wrappers below are not kernels of the package, so the cache would not notice an edit.
    monkeypatch.setenv("BPEJIT_CACHE", "0")


@dispatch.kernel
def run_one(text, position, end, bound, final, automaton, entry, ends):
    position, end, bound, entry = np.uint64(position), np.uint64(end), np.uint64(bound), np.uint64(entry)
    return cursors.run_cursor(text, position, end, bound, final, automaton, entry, ends, np.uint64(0))


@dispatch.kernel
def run_two(text, position, end, bound, final, automaton, entry, ends):
    position, end, bound, entry = np.uint64(position), np.uint64(end), np.uint64(bound), np.uint64(entry)
    reached, entry, out = cursors.run_two_cursors(text, position, end, bound, final, automaton, entry, ends, np.uint64(0))
    position, entry, out = cursors.run_cursor(text, reached, end, bound, final, automaton, entry, ends, out)
    return position, entry, out, reached


@dispatch.kernel
def run_rules(text, position, end, bound, final, automaton, entry, ends):
    position, end, bound, entry = np.uint64(position), np.uint64(end), np.uint64(bound), np.uint64(entry)
    reached, entry, out = local_rule_scan.run_by_rules(text, position, end, bound, final, automaton, entry, ends, np.uint64(0))
    position, entry, out = cursors.run_cursor(text, reached, end, bound, final, automaton, entry, ends, out)
    return position, entry, out, reached


@dispatch.kernel
def take_two_steps(automaton, word, row, ends, position):
    return cursors._two_steps(
        automaton.pair_table, automaton.pair_classes, np.uint64(word), np.uint64(row), ends, np.uint64(0), np.uint64(position)
    )


@dispatch.kernel
def has_wide_registers():
    return simd.has_avx512_vbmi() or simd.has_avx2()


del dispatch.KERNELS[-5:]


def read_character(data: bytes, position: int, bound: int, final: bool, automaton: SplitAutomaton) -> tuple[int, int]:
    """Return class and width of a character; width 0 if it may continue after `bound`."""
    limits = ((1, 0xC2), (2, 0xE0), (3, 0xF0), (4, 0xF5), (1, 0x100))
    width = next(width for width, limit in limits if data[position] < limit)
    if position + width > bound and not final:
        return 0, 0
    try:
        return int(automaton.class_of[ord(data[position : min(position + width, bound)].decode())]), width
    except UnicodeDecodeError:
        return int(automaton.byte_class[data[position]]), 1


def step(automaton: SplitAutomaton, row: int, column: int, ends: list[int], out: int, position: int) -> tuple[int, int]:
    entry = int(automaton.table[row + column])
    ends[out + (entry >> SPLIT_KEPT_SHIFT & 7)] = position
    return entry & ~31, out + (entry & 3)


def run_twin(
    data: bytes, position: int, end: int, bound: int, final: bool, automaton: SplitAutomaton, row: int, ends: list[int]
) -> tuple[int, int, int]:
    """Return position, row and number of ends; the ends, followed by the pending ones, are written to `ends`."""
    out = 0
    while position < end:
        column, width = read_character(data, position, bound, final, automaton)
        if width == 0:
            break
        row, out = step(automaton, row, column, ends, out, position)
        position += width
    return position, row, out


def find_cut(data: bytes, lo: int, hi: int, bound: int, automaton: SplitAutomaton) -> int | None:
    """Return the first position in `lo:hi` between a safe pair of characters."""
    while lo < len(data) and 0x80 <= data[lo] < 0xC0:
        lo += 1
    before = 0
    while lo < hi:
        column, width = read_character(data, lo, bound, False, automaton)
        if width == 0:
            return None
        if automaton.safe[before * int(automaton.settings[STRIDE]) + column]:
            return lo
        before = column
        lo += width
    return None


class Start:
    """A range of a text, and the state of a cursor at its start."""

    def __init__(self, pattern: str, data: bytes, prefix: int, end: int, bound: int, final: bool) -> None:
        automaton = cached_splitter(pattern).automaton
        assert automaton is not None
        self.data, self.automaton, self.end, self.bound, self.final = data, automaton, end, bound, final
        ends = [UNUSED] * (len(data) + 8)
        self.position, self.row, out = run_twin(data, 0, min(prefix, bound), bound, final, automaton, 0, ends)
        self.pending = ends[out : out + MAX_PENDING]

    def arguments(self) -> tuple[object, ...]:
        # Text after `bound` is not known, so it must not matter.
        text, _ = padded_text(self.data[: self.bound] + b"\x80\xadz\xbf" * 30)
        ends = np.full(4 * len(self.data) + 4000, UNUSED, dtype=np.uint32)
        ends[:MAX_PENDING] = self.pending
        return text, self.position, self.end, self.bound, self.final, self.automaton, self.row, ends

    def expected(self) -> tuple[int, int, list[int]]:
        ends = [*self.pending, *[UNUSED] * (len(self.data) + 8)]
        position, row, out = run_twin(
            self.data, self.position, self.end, self.bound, self.final, self.automaton, self.row, ends
        )
        return position, row, ends[:out]


def draw_start(pattern: str, data: bytes, draw: st.DataObject) -> Start:
    bound = len(data) - draw.draw(st.integers(0, min(5, len(data))))
    prefix = draw.draw(st.sampled_from([0, 0, 1, 2, 3, 7, 40]))
    end = draw.draw(st.sampled_from([bound, bound, max(bound - 16, 0), bound // 2]))
    return Start(pattern, data, prefix, end, bound, draw.draw(st.booleans()))


def assert_equal(found: tuple[int, ...], start: Start, ends: np.ndarray) -> None:
    position, row, expected = start.expected()
    assert (int(found[0]), int(found[1]) & ~31, ends[: int(found[2])].tolist()) == (position, row, expected)
    # Unused pending ends may differ, so the ends in the rest of the text are compared.
    rest = [
        [*pending, *[UNUSED] * (len(start.data) + 8)]
        for pending in (ends[int(found[2]) :][:2].tolist(), expected_pending(start))
    ]
    outs = []
    for each in rest:
        at, state, out = run_twin(start.data, position, len(start.data), len(start.data), True, start.automaton, row, each)
        _, out = step(start.automaton, state, 0, each, out, at)
        outs.append(each[:out])
    assert outs[0] == outs[1]


def expected_pending(start: Start) -> list[int]:
    ends = [*start.pending, *[UNUSED] * (len(start.data) + 8)]
    out = run_twin(start.data, start.position, start.end, start.bound, start.final, start.automaton, start.row, ends)[2]
    return ends[out : out + MAX_PENDING]


@given(patterns, documents(), st.data())
def test_run_cursor(pattern: str, data: bytes, draw: st.DataObject) -> None:
    start = draw_start(pattern, data, draw)
    arguments = start.arguments()
    assert_equal(run_one(*arguments), start, arguments[-1])


@given(patterns, documents(), st.data())
def test_run_two_cursors(pattern: str, data: bytes, draw: st.DataObject) -> None:
    start = draw_start(pattern, data, draw)
    if start.automaton.settings[PAIR_SHIFT] < 0 or start.end <= start.position:
        return
    arguments = start.arguments()
    found = run_two(*arguments)
    assert_equal(found, start, arguments[-1])
    middle = start.position + (start.end - start.position) // 2
    cut = find_cut(data[: start.bound], middle, min(middle + 512, start.end), start.bound, start.automaton)
    # Without a safe cut nothing is processed; with one, both halves are.
    assert found[3] >= cut if cut else found[3] == start.position


WIDE = "\u0800\u0e01\u0fff\u1000\u2028\u3000\u3042\u4e2d\uac00\ud7ff\ue000\uff0c\uffff"
"""Characters of three bytes, among them the first and the last ones, and those around the surrogates."""

OTHERS = [*(text.encode() for text in ("\U0001f600", "é", "a", "  ", "\n", "12345678"))]
OTHERS += [b"\xe0\x80\x80", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xe3\x81", b"\xe3", b"\x81"]


@given(patterns, st.lists(st.text(WIDE, max_size=60) | st.sampled_from(OTHERS), min_size=2, max_size=24), st.data())
def test_run_two_cursors__wide_characters(pattern: str, parts: list[str | bytes], draw: st.DataObject) -> None:
    """Long runs of characters of three bytes, interrupted by others, and by surrogates, overlong forms and incomplete ones."""
    data = b"".join(part if isinstance(part, bytes) else part.encode() for part in parts)
    start = draw_start(pattern, data * (1 + 400 // (len(data) + 1)), draw)
    if start.automaton.settings[PAIR_SHIFT] < 0 or start.end <= start.position:
        return
    arguments = start.arguments()
    assert_equal(run_two(*arguments), start, arguments[-1])


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("size", range(0, 600, 97))
def test_run_two_cursors__one_other_character(other: bytes, size: int) -> None:
    """A single other character, in the half of either cursor, and at each place of the two characters that are read at once."""
    n = (WIDE * 20).encode()
    for before in range(size, size + 9, 3):
        data = n[:before] + other + n[: 603 - before]
        start = Start("gpt2", data, 0, len(data), len(data), True)
        arguments = start.arguments()
        assert_equal(run_two(*arguments), start, arguments[-1])


@given(patterns, documents(), st.data())
def test_run_by_rules(pattern: str, data: bytes, draw: st.DataObject) -> None:
    start = draw_start(pattern, data, draw)
    if not has_wide_registers() or start.automaton.settings[CUT_RULES] == 0:
        return
    arguments = start.arguments()
    found = run_rules(*arguments)
    assert_equal(found, start, arguments[-1])


@pytest.mark.parametrize("run", [run_two, run_rules], ids=["two", "rules"])
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"(?:ab)?c|[\s\S]"])
def test_every_end(pattern: str, run) -> None:
    """Text may stop in every state, also with pending ends."""
    if run is run_rules and not has_wide_registers():
        pytest.skip("needs wide registers")
    data = b"ab   ab  \n\n  abc 123   " * 20
    for end in range(280, 280 + small(72, 4)):
        start = Start(pattern, data, 0, end, len(data), True)
        arguments = start.arguments()
        assert_equal(run(*arguments), start, arguments[-1])


@pytest.mark.parametrize("body", [b"The cat's hats,  and\n", "中文 é".encode()], ids=["ascii", "other"])
@pytest.mark.parametrize("run", [run_two, run_rules], ids=["two", "rules"])
def test_most_of_a_text_is_processed(run, body: bytes) -> None:
    automaton = cached_splitter("gpt2").automaton
    if run is run_rules and not has_wide_registers():
        pytest.skip("needs wide registers")
    text, size = padded_text(body * 60)
    ends = np.zeros(8 * size + 4000, dtype=np.uint32)
    reached = run(text, 0, size, size, True, automaton, 0, ends)[3]
    assert reached > size * 3 // 4


@pytest.mark.parametrize("pattern", small([*PRESETS], ["gpt2"]))
def test_two_steps(pattern: str) -> None:
    """Every state, with every pair of ASCII classes."""
    automaton = cached_splitter(pattern).automaton
    assert automaton is not None
    shift, stride = int(automaton.settings[PAIR_SHIFT]), int(automaton.settings[STRIDE])
    if shift < 0:
        assert automaton.pair_table.size == 1
        return
    characters = np.unique(automaton.byte_class[:128], return_index=True)[1].tolist()
    states = range(0, automaton.table.size, stride)
    for row in small(states, states[:3]):
        for first, second in product(characters, repeat=2):
            expected = [1, 2, *[UNUSED] * 6]
            twin_row, out = step(automaton, row, int(automaton.byte_class[first]), expected, 0, 10)
            twin_row, out = step(automaton, twin_row, int(automaton.byte_class[second]), expected, out, 11)
            ends = np.array([1, 2, *[UNUSED] * 6], dtype=np.uint32)
            found_row, found_out = take_two_steps(automaton, first | second << 8 | 0x4141 << 16, row << shift, ends, 10)
            assert (int(found_row) >> shift, found_out, ends[:out].tolist()) == (twin_row, out, expected[:out])
            assert ends[out : out + 2].tolist() == expected[out : out + 2]
