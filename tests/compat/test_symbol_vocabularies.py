"""Tests of the interfaces in Python with vocabularies of characters and incomplete bytes: the results of `tokenizers`."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.symbols import KINDS, TEXT, TEXTS, UNSEEN, write_kind
from tokenizers import AddedToken, Tokenizer as HuggingFace

import bpejit
from bpejit.errors import UnsupportedError


@pytest.fixture(params=list(KINDS))
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_kind(request.param, tmp_path)


def test_batches_streams_and_pieces(file: Path) -> None:
    tokenizer = bpejit.load(file)
    reader = HuggingFace.from_file(str(file))
    texts = [f"{text} {number}" for number in range(40) for text in TEXTS]
    expected = [found.ids for found in reader.encode_batch(texts, add_special_tokens=False)]
    assert [found.tolist() for found in tokenizer.encode_batch(texts)] == expected
    text = TEXT + UNSEEN
    ids = reader.encode(text, add_special_tokens=False).ids
    assert list(tokenizer.encode_iterable(text[start : start + 7] for start in range(0, len(text), 7))) == ids
    assert "".join(tokenizer.decode_stream(ids)) == tokenizer.decode(ids) == reader.decode(ids, skip_special_tokens=False)
    decoder = tokenizer.stream_decoder()
    assert "".join([*(decoder.feed([number]) for number in ids), decoder.finish()]) == tokenizer.decode(ids)


def test_as_hf(file: Path) -> None:
    tokenizer = bpejit.load(file).as_hf()
    reader = HuggingFace.from_file(str(file))
    assert tokenizer.get_vocab() == reader.get_vocab()
    for text in TEXTS:
        found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        expected = reader.encode(text, add_special_tokens=False)
        assert found["input_ids"] == expected.ids
        assert found["offset_mapping"] == expected.offsets
        assert tokenizer.tokenize(text) == expected.tokens
        assert tokenizer.convert_tokens_to_ids(expected.tokens) == expected.ids
        decoded = reader.decoder.decode(expected.tokens) if reader.decoder else " ".join(expected.tokens)
        assert tokenizer.convert_tokens_to_string(expected.tokens) == decoded
        for skip in (False, True):
            assert tokenizer.decode(expected.ids, skip_special_tokens=skip) == reader.decode(
                expected.ids, skip_special_tokens=skip
            )


def test_added_tokens(file: Path) -> None:
    tokenizer = bpejit.load(file).as_hf()
    reader = HuggingFace.from_file(str(file))
    added = [AddedToken("<tool>", special=True), AddedToken("the", normalized=False), AddedToken("☃", lstrip=True)]
    assert tokenizer.add_tokens(added) == reader.add_tokens(added)
    assert tokenizer.get_vocab() == reader.get_vocab()
    for text in [*TEXTS, "the <tool> the☃", "other ☃ cats"]:
        assert tokenizer(text, add_special_tokens=False)["input_ids"] == reader.encode(text, add_special_tokens=False).ids


def test_as_tiktoken(file: Path) -> None:
    tokenizer = bpejit.load(file)
    encoding = tokenizer.as_tiktoken()
    text = "the cats ☃ 東"
    ids = tokenizer.encode(text)
    assert encoding.encode(text) == ids
    assert encoding.decode(ids) == tokenizer.decode(ids)
    assert [encoding.encode_single_token(encoding.decode_single_token_bytes(number)) for number in ids] == ids
    if tokenizer.model.decoder:
        with pytest.raises(UnsupportedError, match="decodes ids to other text than that of their tokens"):
            encoding.decode_with_offsets(ids)
