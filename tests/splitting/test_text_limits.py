"""Tests of the limits of patterns that run through the `regex` package: time, threads, parts of a text."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import regex

import bpejit
from bpejit.arrays import padded_text
from bpejit.errors import OptionError, PatternError
from bpejit.splitting import Splitter, text_limits
from bpejit.splitting.text_limits import TextLimits

EVIL = r"(a*)*b|(a*)*c"
BYTES = {byte: bytes([byte]) for byte in range(256)}
TEXT = "a" * 2000


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a text take a hundredth of a second."""
    monkeypatch.setattr(text_limits, "LEAST_SECONDS", 0.01)


def test_every_way_to_encode_is_limited(tmp_path: Path) -> None:
    tokenizer = bpejit.Tokenizer(BYTES, [], pattern=EVIL)
    file = tmp_path / "a.txt"
    file.write_text(TEXT)
    ways: list[Any] = [
        lambda: tokenizer.encode(TEXT),
        lambda: tokenizer.encode_batch(["b", TEXT]),
        lambda: tokenizer.encode_with_offsets(TEXT),
        lambda: list(tokenizer.encode_iterable(iter([TEXT]))),
        lambda: tokenizer.encode_files([file], tmp_path / "ids.bin", workers=1),
        lambda: tokenizer.as_hf()(TEXT),
        lambda: tokenizer.as_tiktoken().encode(TEXT),
        lambda: tokenizer.show(TEXT),
        lambda: bpejit.train([file], vocab_size=260, pattern=EVIL, workers=1),
        lambda: bpejit.count([file], pattern=EVIL, workers=1),
    ]
    for way in ways:
        with pytest.raises(PatternError) as error:
            way()
        for part in (EVIL, "2000 bytes", "0.01 s", "10 s for one MB", "regex_timeout"):
            assert part in str(error.value)
    assert tokenizer.encode("aab") == [97, 97, 98]


def test_only_the_time_of_the_package_counts() -> None:
    """What happens between matches, such as slicing and collecting garbage, is not the pattern's fault."""
    limits = TextLimits(1, 1.0)
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass
    assert limits.matches(regex.compile("a"), "aba") == [(0, 1), (2, 3)]
    with pytest.raises(PatternError):
        limits.search(regex.compile(EVIL), TEXT, 0)
    with pytest.raises(PatternError):
        limits.search(regex.compile("a"), "a", 0)


def test_parts_share_the_limit_of_their_text() -> None:
    splitter = Splitter(EVIL, [b"<s>"], regex_timeout=1e-6)
    with pytest.raises(PatternError, match=r"has taken 0\.01 s"):
        splitter.split(*padded_text((b"a" * 22 + b"<s>") * 1000))
    assert splitter.split(*padded_text((b"a" * 3 + b"<s>") * 10)).size == 20


def test_limit_follows_the_size_of_the_text() -> None:
    assert TextLimits(5_000_000, 10.0)._seconds == 50
    assert TextLimits(500, 10.0)._seconds == 0.01
    assert TextLimits(5, 1e30)._seconds == TextLimits(5, None)._seconds == 1e9


def test_time_of_other_threads_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_limits, "LEAST_SECONDS", 0.2)
    calls = []

    class Busy:
        pattern = "a"

        def finditer(self, text: str, timeout: float) -> Any:
            """Fail as the package does when other threads use the processor, until the limit is thirty times as long."""
            calls.append(timeout)
            if timeout < 6:
                raise TimeoutError
            return regex.finditer("a", text)

    assert TextLimits(1, 10.0).matches(Busy(), "aa") == [(0, 1), (1, 2)]
    assert len(calls) == 4


def test_limits_belong_to_a_thread() -> None:
    splitter = Splitter(EVIL)
    barrier = threading.Barrier(2)

    def run(text: bytes) -> int:
        barrier.wait()
        return splitter.split(*padded_text(text)).size

    with ThreadPoolExecutor(2) as pool:
        slow, quick = pool.submit(run, TEXT.encode()), pool.submit(run, b"aab")
        assert quick.result() == 1
        with pytest.raises(PatternError):
            slow.result()
    assert splitter.split(*padded_text(b"aab")).size == 1


def test_option_of_load(tmp_path: Path) -> None:
    bpejit.train_from_iterator(["aab"], vocab_size=257, pattern=EVIL, workers=1).save(tmp_path / "t")
    default, free, longer = (
        bpejit.load(tmp_path / "t", **options) for options in ({}, {"regex_timeout": None}, {"regex_timeout": 99})
    )
    assert [tokenizer.model.regex_timeout for tokenizer in (default, free, longer)] == [10.0, None, 99.0]
    assert bpejit.load(tmp_path / "t", regex_timeout=float("inf")).model.regex_timeout is None
    assert default == free
    assert default.sha256 == longer.sha256
    assert longer.with_special_tokens(["<s>"]).model.regex_timeout == 99.0
    free.save(tmp_path / "u")
    assert (tmp_path / "t" / "bpejit.json").read_bytes() == (tmp_path / "u" / "bpejit.json").read_bytes()
    word = "a" * 14
    assert free.encode(word) == [97] * 14
    assert longer.encode("aab") == default.encode("aab")
    for wrong in (0, -1, "10", True, float("nan")):
        with pytest.raises(OptionError, match="expected a number of seconds above 0"):
            bpejit.load(tmp_path / "t", regex_timeout=wrong)  # type: ignore[arg-type]
