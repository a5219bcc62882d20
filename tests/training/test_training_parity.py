"""Comparison of merges with other trainers, each with its own tie rule, on real text."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator

import pytest
from conftest import data_text, read_shared

import bpejit
from bpejit.normalization.byte_characters import decode_byte_characters
from bpejit.splitting import PRESETS

END = "<|endoftext|>"
CORPORA = [
    "corpora/english.txt", "corpora/code.txt", "corpora/multilingual.txt", "corpora/hard.txt",
    "tinystories/tinystories_head_2M.txt",
]  # fmt: skip
CORPUS_BYTES = int(os.environ.get("BPEJIT_PARITY_BYTES", 1_000_000))
"""Size of the prefix of each corpus that is used. The other trainers take minutes for whole corpora."""
VOCAB_SIZE = int(os.environ.get("BPEJIT_PARITY_VOCAB", 8_000))
NO_LIMIT = 1_000_000


def hugging_face(documents: Iterator[str] | list[str], vocab_size: int = VOCAB_SIZE) -> list[bytes]:
    """Return the merges of texts, or of files if `documents` is a list of paths."""
    tokenizers = pytest.importorskip("tokenizers")
    byte_level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = byte_level
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=[END], initial_alphabet=byte_level.alphabet(), show_progress=False
    )
    train = tokenizer.train if isinstance(documents, list) else tokenizer.train_from_iterator
    train(documents, trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [b" ".join(decode_byte_characters(part) for part in pair) for pair in merges]


def rustbpe(documents: Iterator[str]) -> list[bytes]:
    tokenizer = pytest.importorskip("rustbpe").Tokenizer()
    tokenizer.train_from_iterator(documents, VOCAB_SIZE - 1, pattern=PRESETS["gpt2"])
    return [bytes(token) for token, _ in sorted(tokenizer.get_mergeable_ranks(), key=lambda item: item[1])][256:]


def bpeasy(documents: Iterator[str]) -> list[bytes]:
    ranks = pytest.importorskip("bpeasy").train_bpe(documents, PRESETS["gpt2"], NO_LIMIT, VOCAB_SIZE - 1)
    return sorted(ranks, key=ranks.__getitem__)[256:]


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("name", [CORPORA[0], *(pytest.param(name, marks=pytest.mark.parity) for name in CORPORA[1:])])
@pytest.mark.parametrize(
    ("learn", "rule"), [(hugging_face, "hf"), (rustbpe, "smallest-ids"), (bpeasy, "smallest-ids")],
    ids=["tokenizers", "rustbpe", "bpeasy"],
)  # fmt: skip
def test_merges_match_other_trainers(tmp_path, name: str, learn: Callable[[Iterator[str]], list[bytes]], rule: str) -> None:
    """Compare pairs with Hugging Face. bpeasy and rustbpe only return tokens, in the order of their merges."""
    text = read_shared(name)[:CORPUS_BYTES].decode("utf-8", "ignore")
    theirs = learn(iter(text.split(END)))
    path = tmp_path / "corpus.txt"
    path.write_bytes(text.encode())
    _, merges = bpejit.train_bpe(path, VOCAB_SIZE, [END], tie_break=rule)
    assert len(merges) == VOCAB_SIZE - 257
    assert theirs == [(b" " if rule == "hf" else b"").join(pair) for pair in merges]


@pytest.mark.compiled
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_lines_with_ends_match_the_trainer_for_files(tmp_path, line_end: bytes) -> None:
    text = data_text("prose.txt")[:200_000] + b"\n\n  \n" + data_text("code.txt")[:200_000]
    text = text.decode(errors="ignore").replace(" the ", f" the{END}\n", 30).encode().replace(b"\n", line_end) + b"no end"
    path = tmp_path / "corpus.txt"
    path.write_bytes(text)
    options = {"pattern": "gpt2", "tie_break": "hf", "special_tokens": [END], "vocab_size": 2000}
    merges = bpejit.train([path], documents="line-with-end", **options).model.merges
    theirs = hugging_face([str(path)], 2000)
    assert [b" ".join(pair) for pair in merges] == theirs
    assert [b" ".join(pair) for pair in bpejit.train([path], **options).model.merges] != theirs
