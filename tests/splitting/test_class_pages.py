"""Tests of the tables of classes for wide registers: an entry never differs from the class of a character."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.splitting import cached_splitter

from bpejit.splitting import PRESETS
from bpejit.splitting.automaton import class_pages

PATTERNS = [*PRESETS, r"\p{L}+", r"[\u4e00-\u9fa5]+|\s+|[^\s\u4e00-\u9fa5]"]


def classes_of(points: np.ndarray, pages: np.ndarray) -> np.ndarray:
    """Return the classes of code points below 0x10000; those that the tables do not have are above 127."""
    ascii_classes, leads, entries, nodes = np.split(pages, [128, 192, 192 + 1024])
    found = np.where(points < 0x800, leads[points // 64 & 0x1F], entries[points // 64])
    found = np.where((found & 0xC0) == 0x80, nodes[(found.astype(np.int64) & 15) * 64 + points % 64], found)
    return np.where(points < 0x80, ascii_classes[points & 0x7F], found)


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_class_pages(pattern) -> None:
    automaton = cached_splitter(pattern).automaton
    assert automaton is not None
    points = np.arange(0x10000)
    found = classes_of(points, automaton.class_pages)
    listed = found < 0x80
    assert (found[listed] == automaton.class_of[points[listed]]).all()
    assert not listed[0xD800:0xE000].any()
    assert listed[0x3000:0x3100].all()
    assert listed[0x4E00:0x9F80].all()
    assert listed[:0x80].all()


def test_class_pages__without_rules() -> None:
    assert class_pages(np.zeros(0x110000, np.uint8), np.zeros(0, np.uint8)).size == 0


def test_class_pages__never_valid() -> None:
    """Lead bytes and pages whose forms are too long, or that begin no character, have no class."""
    leads, entries = np.split(class_pages(np.full(0x110000, 5, np.uint8), np.ones(1, np.uint8))[128 : 192 + 1024], [64])
    assert (leads[[0, 1, *range(32, 64)]] == 0xFF).all()
    assert (leads[2:32] == 5).all()
    assert (entries[:32] == 0xFF).all()
    assert (entries[0xD800 // 64 : 0xE000 // 64] == 0xFF).all()
    assert (entries[32 : 0xD800 // 64] == 5).all()
    assert (entries[0xE000 // 64 :] == 5).all()
