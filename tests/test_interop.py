"""Comparison of ids with `tiktoken` and `tokenizers`, for GPT-2's vocabulary on the shared corpora."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pytest
from conftest import read_shared, small

from bpejit.encoding.encoder import Encoder
from bpejit.model import Model

END = "<|endoftext|>"
SHARED = ["corpora/english.txt", "corpora/code.txt", "corpora/multilingual.txt", "corpora/hard.txt"]
TIKTOKEN_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
SIZE = small(600_000, 1_000)


@pytest.fixture(scope="module")
def gpt2(shared_data: Path) -> Encoder:
    """Load GPT-2 without bpejit's reader, so that an error in the reader cannot hide one in the encoder."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(byte): byte for byte in printable} | {chr(256 + number): byte for number, byte in enumerate(others)}

    def raw(token: str) -> bytes:
        return bytes(byte_of[character] for character in token)

    vocab = json.loads(read_shared("cs336/gpt2_vocab.json"))
    lines = read_shared("cs336/gpt2_merges.txt").decode("utf-8").splitlines()
    merges = [tuple(raw(part) for part in line.split(" ")) for line in lines if line and not line.startswith("#version")]
    tokens = {number: raw(token) for token, number in vocab.items() if token != END}
    return Encoder(Model(tokens, merges, {END: vocab[END]}, pattern="gpt2"))  # type: ignore[arg-type]


def sample(name: str) -> str:
    """Return the first and the last part of a corpus, as text."""
    data = read_shared(name)
    return (data[:SIZE] + data[-SIZE // 4 :]).decode("utf-8", "ignore")


@pytest.mark.parametrize("name", SHARED)
def test_tiktoken(gpt2, name):
    tiktoken = pytest.importorskip("tiktoken")
    lines = read_shared("vocabs/r50k_base.tiktoken").splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}
    theirs = tiktoken.Encoding("r50k", pat_str=TIKTOKEN_PATTERN, mergeable_ranks=ranks, special_tokens={END: 50256})
    text = sample(name)
    assert gpt2.encode(text.encode()).tolist() == theirs.encode(text, allowed_special="all")
    strange = "a\ud83d\ude00b \udc00"
    stream = gpt2.stream()
    assert [*stream.feed(strange).tolist(), *stream.finish().tolist()] == theirs.encode(strange)


@pytest.mark.parametrize("name", SHARED)
def test_tokenizers(gpt2, shared_data, tmp_path, name):
    tokenizers = pytest.importorskip("tokenizers")
    path = tmp_path / "tokenizer.json"
    path.write_bytes(gzip.decompress((shared_data / "vocabs" / "gpt2.tokenizer.json.gz").read_bytes()))
    theirs = tokenizers.Tokenizer.from_file(str(path))
    text = sample(name)
    assert gpt2.encode(text.encode()).tolist() == theirs.encode(text).ids


@pytest.mark.compiled
def test_invalid_utf8(gpt2):
    data = read_shared("corpora/hard_bytes.bin")
    assert gpt2.decode(gpt2.encode(data)) == data
