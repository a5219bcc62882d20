"""Tests of comparing token files with their corpus."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import data_text
from helpers.cli import invoke

import bpejit
from bpejit.corpus.contents import Contents
from bpejit.errors import TokenFileError
from bpejit.verification import verify
from bpejit.verification.verify import check_corpus

TEXT = data_text("prose.txt")[:20_000] + b"\xff<|endoftext|>" + "日本語".encode()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bpejit.Tokenizer]:
    folder = tmp_path_factory.mktemp("made")
    (folder / "corpus.txt").write_bytes(TEXT)
    tokenizer = bpejit.train(folder / "corpus.txt", vocab_size=400, special_tokens=["<|endoftext|>"])
    tokenizer.save(folder / "tokenizer")
    tokenizer.encode_files(folder / "corpus.txt", folder / "tokens.bin")
    return folder, tokenizer


def check(tokenizer: bpejit.Tokenizer, tokens: Path, *inputs: Path, **reading: Any) -> tuple[int, int]:
    return check_corpus(tokenizer, bpejit.open_tokens(tokens), inputs, Contents(**reading))


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_file_decodes_to_its_corpus(made: Any, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, tokenizer = made
    monkeypatch.setattr(verify, "_BLOCK", size)
    assert check(tokenizer, folder / "tokens.bin", folder / "corpus.txt") == (len(TEXT), 0)


def test_other_corpora(made: Any, tmp_path: Path) -> None:
    folder, tokenizer = made
    changed, longer, shorter = tmp_path / "changed", tmp_path / "longer", tmp_path / "shorter"
    changed.write_bytes(TEXT[:1234] + b"\0" + TEXT[1235:])
    longer.write_bytes(TEXT + b"more")
    shorter.write_bytes(TEXT[:-5])
    for path, message in (
        (changed, "does not decode to the corpus: at byte 1234 its text"),
        (longer, r"ends after \d+ bytes, and the corpus goes on with b'more'"),
        (shorter, "does not decode to the corpus: at byte"),
    ):
        with pytest.raises(TokenFileError, match=message):
            check(tokenizer, folder / "tokens.bin", path)
    with pytest.raises(TokenFileError, match="goes on with"):
        check(tokenizer, folder / "tokens.bin", folder / "corpus.txt", folder / "corpus.txt")


def test_records_and_added_tokens(made: Any, tmp_path: Path) -> None:
    """Special tokens that were added to documents are ignored, and in records their text is ordinary text."""
    _, tokenizer = made
    texts = ["one <|endoftext|> two", "", "three"]
    path = tmp_path / "corpus.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps({"body": text}) + "\n" for text in texts).encode()))
    end = tokenizer.encode("<|endoftext|>")
    ids = [number for text in texts for number in [*tokenizer.encode_ordinary(text), *end]]
    np.save(tmp_path / "ids.npy", np.array(ids))
    assert check(tokenizer, tmp_path / "ids.npy", path, text_field="body") == (sum(map(len, texts)), 3)


def test_command(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = made
    monkeypatch.chdir(folder)
    command = ["tokens", "verify", "tokens.bin", "--corpus", "corpus.txt"]
    done = invoke(*command, "--tokenizer", "tokenizer")
    assert done.exit_code == 0, done.stderr
    assert f"`tokens.bin` decodes to the corpus of {len(TEXT):,} bytes\nverified `tokens.bin`" in done.stdout
    refused = invoke(*command)
    assert (refused.exit_code, "give `--tokenizer`" in refused.stderr) == (2, True)
    (folder / "other.txt").write_bytes(TEXT[:100])
    wrong = invoke(*command, "--corpus", "other.txt", "--tokenizer", "tokenizer")
    assert (wrong.exit_code, "does not decode to the corpus" in wrong.stderr) == (1, True)
