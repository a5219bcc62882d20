"""`max_token_bytes` and the `max_token_length` of Hugging Face's trainer, which counts otherwise.

That trainer makes a new pair only if its two parts together are *shorter* than `max_token_length`. It looks at pairs that a
merge brings about, not at those of two bytes that the text begins with. So `max_token_length=k` equals `max_token_bytes=k - 1`
for every k from 3; and 1 and 2 act as 3 does, since pairs of two bytes are merged nevertheless.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import data_text, small

import bpejit
from bpejit.normalization.byte_characters import text_to_bytes

VOCAB_SIZE = small(1200, 300)


@pytest.fixture(scope="module")
def text() -> str:
    """Prose, Chinese, whose characters have three bytes, and runs of one byte."""
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
    return [tuple(text_to_bytes(part) for part in pair) for pair in merges]


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
        return tokenizer.merges

    return learn


@pytest.mark.parametrize("length", [3, 4, 5, 6, 8, 13])
def test_one_less_is_the_same(ours, text: str, length: int) -> None:
    merges = ours(length - 1)
    assert merges == hugging_face(text, length)
    assert max(len(left + right) for left, right in merges) == length - 1
    assert merges != ours(length)


@pytest.mark.parametrize("length", [1, 2])
def test_pairs_of_two_bytes_are_always_merged_there(ours, text: str, length: int) -> None:
    assert hugging_face(text, length) == ours(2)


def test_no_limit(ours, text: str) -> None:
    assert ours(None) == hugging_face(text, None)
