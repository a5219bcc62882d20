"""Random changes of sessions, compared with encoding anew."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import bpejit
from bpejit.encoding import long_tail, session as sessions
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

INVALID = (b"\xff", b"\x80", b"\xe3\x81", b"\xf0\x9f", b"\xc3", b"\x82", b"\x98\x80")


@contextmanager
def small_sessions(generator: random.Random) -> Iterator[None]:
    """Let sessions of short texts have several blocks, and long tails."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "BLOCK_BYTES", generator.choice([1, 7, 30, 200, 2048]))
        patch.setattr(sessions, "LONG_TAIL_BYTES", generator.choice([1, 8, 64, 4096]))
        patch.setattr(long_tail, "_OVERLAP_BYTES", generator.choice([1, 3, 20, 256]))
        patch.setattr(long_tail, "_LONG_PRETOKEN_BYTES", generator.choice([30, 50, 2048]))
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
    parts = []
    for _ in range(generator.randrange(most)):
        kind = generator.random()
        if kind < 0.1 and specials:
            token = generator.choice(specials)
            parts.append(token if generator.random() < 0.7 else token[: generator.randrange(len(token) + 1)])
        elif kind < 0.15:
            parts.append(generator.choice(RUNS) * generator.randrange(60))
        else:
            parts.append(generator.choice(PIECES))
    return "".join(parts)


def check_changes(tokenizer: bpejit.Tokenizer, generator: random.Random, n_changes: int) -> None:
    """Edited sessions at random, and compare each result with encoding anew. Raises AssertionError."""
    specials = [text for text in tokenizer.special_tokens if text.isprintable()]
    as_bytes = generator.random() < 0.3

    def piece(most: int) -> str | bytes:
        text = random_text(generator, specials, most)
        if not as_bytes:
            return text
        data = text.encode()
        if generator.random() < 0.4:
            data += generator.choice(INVALID)
        return data[generator.randrange(2) :]

    text = piece(30)
    try:
        session = tokenizer.session(text)
    except bpejit.CorpusError:
        with pytest.raises(bpejit.CorpusError):
            tokenizer.encode_array(text)
        return
    forks: list[tuple[Session, str | bytes]] = [(session, text)]
    for _ in range(n_changes):
        number = generator.randrange(len(forks))
        session, text = forks[number]
        before = session.ids
        added = piece(generator.choice([2, 2, 8, 60]))
        kind = generator.random()
        start = stop = len(text)
        if kind < 0.4 and text:
            start = generator.randrange(len(text) + 1)
            stop = min(len(text), start + generator.choice([0, 0, 1, 2, 5, 40, 400]))
        after = text[:start] + added + text[stop:]
        try:
            expected = tokenizer.encode_array(after)
        except bpejit.CorpusError:
            with pytest.raises(bpejit.CorpusError):
                session.append(added) if kind >= 0.4 else session.edit(start, stop, added)
            assert session.ids.tolist() == before.tolist()
            continue
        if kind < 0.4 and text:
            change = session.edit(start, stop, added)
        else:
            kept, ids = session.append(added)
            change = sessions.Edited(kept, before.size, ids)
        context = f"{text!r}[{start}:{stop}] = {added!r}"
        joined = np.concatenate([before[: change.start], change.ids, before[change.stop :]])
        assert session.text == after, f"text: {context}"
        assert len(session) == len(after), f"length: {context}"
        assert session.ids.tolist() == expected.tolist(), f"ids: {context}"
        assert joined.tolist() == expected.tolist(), f"change: {context}"
        stable = session.stable_prefix().tolist()
        assert stable == expected[: len(stable)].tolist(), f"stable: {context}"
        try:
            continued = tokenizer.encode_array(after + piece(4))
        except bpejit.CorpusError:
            pass
        else:
            assert stable == continued[: len(stable)].tolist(), f"stable, continued: {context}"
        forks[number] = (session, after)
        if generator.random() < 0.1:
            forks.append((session.fork(), after))
            forks = forks[-4:]
        if len(after) > 3000:
            forks[number] = (tokenizer.session(after[-40:]), after[-40:])
    for session, text in forks:
        assert session.ids.tolist() == tokenizer.encode(text)
