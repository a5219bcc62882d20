"""Comparison of `max_token_bytes` with the `max_token_length` of Hugging Face's trainer.

That trainer adds a pair only if its merged token is *shorter* than `max_token_length`. The limit applies to pairs that result
from a merge, not to the initial pairs of bytes. So `max_token_length=k` is equivalent to `max_token_bytes=k - 1` for k of at
least 3, and 1 and 2 are equivalent to 3, since pairs of bytes are merged anyway.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import data_text, small

import bpejit
from bpejit.normalization.byte_characters import decode_byte_characters

VOCAB_SIZE = small(1200, 300)


@pytest.fixture(scope="module")
def text() -> str:
    """Return prose, Chinese text with characters of three bytes, and runs of one byte."""
    data = b"".join(data_text(name)[: small(150_000, 3_000)] for name in ("prose.txt", "cjk.txt", "code.txt"))
    return data.decode("utf-8", "ignore") + "=" * 1000 + " " + "ab" * 500


def hugging_face(text: str, max_token_length: int | None) -> list[tuple[bytes, ...]]:
    tokenizers = pytest.importorskip("tokenizers")
    byte_level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = byte_level
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        initial_alphabet=byte_level.alphabet(),
        show_progress=False,
        max_token_length=max_token_length,
    )
    tokenizer.train_from_iterator([text], trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [tuple(decode_byte_characters(part) for part in pair) for pair in merges]


@pytest.fixture(scope="module")
def ours(text: str, tmp_path_factory: pytest.TempPathFactory):
    path: Path = tmp_path_factory.mktemp("length") / "corpus.txt"
    path.write_bytes(text.encode())

    def learn(max_token_bytes: int | None) -> list[tuple[bytes, bytes]]:
        tokenizer = bpejit.train(
            [path],
            vocab_size=VOCAB_SIZE,
            special_tokens=[],
            tie_break="hf",
            max_token_bytes=max_token_bytes,
            unicode="16.0",
            workers=1,
        )
        return list(tokenizer.merges)

    return learn


@pytest.mark.slow
@pytest.mark.parametrize("length", [3, 4, 5, 6, 8, 13])
def test_max_token_length_is_one_more(ours, text: str, length: int) -> None:
    merges = ours(length - 1)
    assert merges == hugging_face(text, length)
    assert max(len(left + right) for left, right in merges) == length - 1
    assert merges != ours(length)


@pytest.mark.parametrize("length", [1, 2])
def test_hugging_face_always_merges_pairs_of_bytes(ours, text: str, length: int) -> None:
    assert hugging_face(text, length) == ours(2)


def test_no_limit(ours, text: str) -> None:
    assert ours(None) == hugging_face(text, None)
