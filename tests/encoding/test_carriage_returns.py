"""The warning about carriage returns, for tokenizers that were trained without any."""

from __future__ import annotations

import pickle
import warnings

import pytest
from helpers.cli import invoke

import bpejit
from bpejit import BpejitWarning

TEXT = "a line\r\nanother line\rand more\n"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("newlines")
    (folder / "text.txt").write_bytes(TEXT.encode() * 5)
    trained = bpejit.train(folder / "text.txt", vocab_size=270, normalize_newlines=True)
    trained.save(folder / "tokenizer")
    return folder / "tokenizer"


CALLS = [
    lambda tokenizer, text: tokenizer.encode(text),
    lambda tokenizer, text: tokenizer.encode(text * 1000),
    lambda tokenizer, text: tokenizer.encode(text.encode()),
    lambda tokenizer, text: tokenizer.encode_array(text),
    lambda tokenizer, text: tokenizer.encode_ordinary(text),
    lambda tokenizer, text: tokenizer.encode_batch(["some", text]),
    lambda tokenizer, text: tokenizer.encode_batch([text] * 9, num_threads=2),
    lambda tokenizer, text: list(tokenizer.encode_iterable(["some", text])),
    lambda tokenizer, text: tokenizer.as_hf()(text),
    lambda tokenizer, text: tokenizer.as_tiktoken().encode(text),
]


@pytest.mark.parametrize("call", CALLS)
def test_one_warning(tokenizer, call):
    loaded = bpejit.load(tokenizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(loaded, TEXT.replace("\r", ""))
    with pytest.warns(BpejitWarning, match="carriage returns") as caught:
        call(loaded, TEXT)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(loaded, TEXT)


@pytest.mark.parametrize("options", [{}, {"append_token": None, "engine": "processes", "workers": 2, "chunk_bytes": 10}])
def test_files(tokenizer, tmp_path, options):
    with pytest.warns(BpejitWarning, match="carriage returns") as caught:
        bpejit.load(tokenizer).encode_files(tokenizer.parent / "text.txt", tmp_path / "t.bin", **options)
    assert len(caught) == 1


def test_command(tokenizer, tmp_path):
    for out in (tmp_path / "t.bin", "-"):
        result = invoke("encode", tokenizer.parent / "text.txt", "--tokenizer", tokenizer, "--out", out, "--overwrite")
        assert result.exit_code == 0, result.stderr
        assert result.stderr.count("the text has carriage returns, and the tokenizer was trained with") == 1
    assert "normaliz" in invoke("info", tokenizer).stdout


def test_other_tokenizers_do_not_warn(tokenizer, tmp_path):
    trained = bpejit.train(tokenizer.parent / "text.txt", vocab_size=270)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in CALLS:
            call(trained, TEXT)


def test_the_record_is_kept(tokenizer):
    loaded = bpejit.load(tokenizer)
    for other in (loaded.shrink(260), pickle.loads(pickle.dumps(loaded))):
        assert other.model.training["normalize_newlines"] is True
    counts = bpejit.count(tokenizer.parent / "text.txt", normalize_newlines=True)
    assert bpejit.train_from_counts(counts, vocab_size=270).model.training["normalize_newlines"] is True
