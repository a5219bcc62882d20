"""Random changes of sessions, compared with encoding anew."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
import pytest

import bpejit
from bpejit.arrays import Array
from bpejit.encoding import session as sessions
from bpejit.encoding.session import Session
from helpers.huggingface import COMPONENTS, NORMALIZERS, PRE_TOKENIZERS, added_token, tokenizer_json

PIECES = (
    *(
        "the",
        " cat",
        "ing",
        " ",
        "  ",
        "   ",
        "\n",
        "\n\n",
        "\r\n",
        "\t",
        "'",
        "'s",
        "'S",
        "n't",
        "a",
        "ab",
        "b",
        "1",
        "12",
        "3456",
    ),
    *(
        ".",
        "!!",
        "...",
        "é",
        "e\u0301",
        "\u0301",
        "中",
        "東京",
        "한",
        "\u1112\u1161",
        "🙂",
        "👩‍👩‍👧",
        "ﬁ",
        "İ",
        "Σ",
        "▁",
        "\u00a0",
        "\u3000",
    ),
    *("<a>", "<b>", "<", "|", "<|", "|>", "<s>", "<pa", "d>", "<|e", "nd|>", "A", "Ab", "x y ", "\x00", "\ufffd", "0", "_"),
)

RUNS = ("a", "ab", " ", "\n", "1", "中", "the", "é", "'", "\u0301", ".")

FEW = ("a", "b", "ab", "ba", "a" * 9, "ab" * 9)
"""Pieces of text without restarts."""

INVALID = (b"\xff", b"\x80", b"\xe3\x81", b"\xf0\x9f", b"\xc3", b"\x82", b"\x98\x80")


@contextmanager
def small_sessions(generator: random.Random) -> Iterator[None]:
    """Let sessions of short texts have several blocks, and long tails."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "BLOCK_BYTES", generator.choice([1, 7, 30, 200, 2048]))
        patch.setattr(sessions, "LONG_TAIL_BYTES", generator.choice([1, 8, 64, 4096]))
        yield


def random_pipeline(generator: random.Random) -> dict[str, Any]:
    """Return the content of a `tokenizer.json` of bytes, with any normalizer, pre-tokenizer and added tokens."""
    texts = generator.sample(["<a>", "<b>", "ab", "A", "é", "e\u0301", " \n", "ﬁ", "<|end|>"], generator.randrange(4))
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    added = tuple(added_token(text, **{name: generator.random() < 0.4 for name in flags}) for text in texts)
    parts = generator.sample(COMPONENTS, generator.randrange(3))
    normalizer = {"type": "Sequence", "normalizers": parts} if generator.random() < 0.4 else None
    if generator.random() < 0.4:
        normalizer = generator.choice([*NORMALIZERS.values()])
    pre_tokenizer = generator.choice([None, *PRE_TOKENIZERS.values()])
    return tokenizer_json(added=added, normalizer=normalizer, pre_tokenizer=pre_tokenizer)


def random_text(generator: random.Random, specials: list[str], most: int) -> str:
    """Return a text of awkward pieces, special tokens and parts of them, and runs of one piece."""
    parts: list[str] = []
    for _ in range(generator.randrange(most)):
        kind = generator.random()
        if kind < 0.1 and specials:
            token = generator.choice(specials)
            place = generator.randrange(len(token) + 1)
            parts.append(generator.choice([token, token, token[:place], token[place:]]))
        elif kind < 0.15:
            parts.append(generator.choice(RUNS) * generator.randrange(60))
        else:
            parts.append(generator.choice(PIECES))
    return "".join(parts)


def check_changes(tokenizer: bpejit.Tokenizer, generator: random.Random, n_changes: int) -> None:
    """Change sessions at random, and compare each result with encoding anew. Raises AssertionError.

    Most texts are short. What is encoded anew is collected, and encoded together.
    """
    specials = [text for text in tokenizer.special_tokens if text.isprintable()]
    as_bytes = generator.random() < 0.3
    longest = generator.choices([100, 400, 3000], [92, 7, 1])[0]
    found: list[_Found] = []

    has_runs = generator.random() < 0.2

    def piece(most: int) -> str | bytes:
        if has_runs and generator.random() < 0.95:
            text = "".join(generator.choices(FEW, k=generator.randrange(most)))
        else:
            text = random_text(generator, specials, most)
        if not as_bytes:
            return text
        data = text.encode()
        if generator.random() < 0.4:
            data += generator.choice(INVALID)
        return data[generator.randrange(2) :]

    def begin(text: str | bytes) -> tuple[Session, str | bytes, Array]:
        session = tokenizer.session(text)
        found.append(_Found(text, session.ids, False, ("begins as", text)))
        return session, text, found[-1].ids

    text = piece(30)
    try:
        forks = [begin(text)]
    except bpejit.CorpusError:
        with pytest.raises(bpejit.CorpusError):
            tokenizer.encode_array(text)
        return
    undo: tuple[Session | None, int, int, str | bytes] = (None, 0, 0, text[:0])
    for _ in range(n_changes):
        number = generator.randrange(len(forks))
        session, text, ids = forks[number]
        added = piece(generator.choices([2, 8, 60], [12, 6, 1])[0])
        start = stop = len(text)
        kind = generator.random()
        edits = kind < 0.5
        if undo[0] is session and kind < 0.1:
            _, start, stop, added = undo
        elif edits:
            start = generator.randrange(len(text) + 1)
            if specials and kind < 0.2:  # within a special token
                token: Any = generator.choice(specials)
                token = token.encode() if as_bytes else token
                start = min(max(text.find(token, start), 0) + generator.randrange(len(token)), len(text))  # type: ignore
            stop = min(len(text), start + generator.choice([0, 0, 1, 2, 5, 40, 400]))
        after = text[:start] + added + text[stop:]  # type: ignore[operator]
        change = (text, start, stop, added)
        try:
            if edits:
                first, last, new = session.edit(start, stop, added)
            else:
                (first, new), last = session.append(added), ids.size
        except bpejit.CorpusError:
            with pytest.raises(bpejit.CorpusError):
                tokenizer.encode_array(after)
            assert session.ids.tolist() == ids.tolist(), f"ids after an error: {change}"
            continue
        ids = np.concatenate([ids[:first], new, ids[last:]])
        found.append(_Found(after, ids, False, change))
        if generator.random() < 0.3:
            assert session.text == after, f"text: {change}"
            assert len(session) == len(after), f"length: {change}"
            assert np.array_equal(session.ids, ids), f"the change is not that of the ids: {change}"
        if generator.random() < 0.2:
            stable = session.stable_prefix()
            assert np.array_equal(stable, ids[: stable.size]), f"stable: {change}"
            found.append(_Found(after + piece(4), stable, True, change))  # type: ignore[operator]
        forks[number] = (session, after, ids)
        undo = (session, start, start + len(added), text[start:stop])
        if generator.random() < 0.1:
            forks = [*forks[-3:], (session.fork(), after, ids)]
        if len(after) > longest:
            with suppress(bpejit.CorpusError):  # the part of a character, without tokens for it
                forks[number % len(forks)] = begin(after[-40:])
    for session, text, ids in forks:
        assert session.text == text, f"text at last: {text!r}"
        assert np.array_equal(session.ids, ids), f"ids at last: {text!r}"
    _compare(tokenizer, found)


class _Found(NamedTuple):
    """The ids that a session gave for a text, or the first of them in a longer text, and what was changed before."""

    text: str | bytes
    ids: Array
    is_stable: bool
    change: tuple[Any, ...]


def _compare(tokenizer: bpejit.Tokenizer, found: list[_Found]) -> None:
    texts = [one.text for one in found]
    try:
        batch = tokenizer.encode_batch(texts)
        expected = [*map(batch.__getitem__, range(len(texts)))]
    except bpejit.CorpusError:
        expected = [None if one.is_stable else tokenizer.encode_array(one.text) for one in found]
    for one, ids in zip(found, expected, strict=True):
        if ids is not None:
            assert np.array_equal(one.ids, ids[: one.ids.size] if one.is_stable else ids), f"{one!r}: expected {ids.tolist()}"
