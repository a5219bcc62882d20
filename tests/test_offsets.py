"""Where tokens lie in their text: against the plainest way to find out, `tokenizers`, and tiktoken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import data_text, read_shared, small
from face_helpers import END, NAMES, listed_tokenizer, plain_text, texts, tiktoken_named, tokenizer_named
from hypothesis import given
from hypothesis import strategies as st

import bpejit
from bpejit.encoding import text_to_bytes
from bpejit.formats.huggingface import tokenizer_json
from bpejit.model import Model
from bpejit.offsets import character_starts
from bpejit.split import PRESETS, to_oniguruma

Ranges = list[tuple[int, int]]


def naive_ranges(characters: list[int], lengths: list[int]) -> Ranges:
    """Ranges of tokens in a string whose character `i` has `characters[i]` bytes, byte by byte."""
    owners = [number for number, width in enumerate(characters) for _ in range(width)]
    ranges = []
    start = 0
    for length in lengths:
        mine = owners[start : start + length]
        ranges.append((mine[0], mine[-1] + 1))
        start += length
    return ranges


def pairs(starts: np.ndarray, ends: np.ndarray) -> Ranges:
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


@pytest.fixture(scope="module")
def tokenizer() -> bpejit.Tokenizer:
    return tokenizer_named("small")


@given(text=st.text(max_size=60))
def test_text(text: str, tokenizer: bpejit.Tokenizer) -> None:
    found = tokenizer.encode_with_offsets(text)
    lengths = [len(tokenizer.vocab[number]) for number in found.ids.tolist()]
    assert found.ids.tolist() == tokenizer.encode(text)
    assert pairs(found.char_starts, found.char_ends) == naive_ranges([len(c.encode()) for c in text], lengths)
    data = text.encode()
    spans = pairs(found.byte_starts, found.byte_ends)
    assert [data[start:end] for start, end in spans] == [tokenizer.vocab[number] for number in found.ids.tolist()]
    assert found.ids.dtype == np.uint32
    assert {array.dtype for array in found[1:]} == {np.dtype(np.int64)}


@given(text=texts)
def test_surrogates(text: str, tokenizer: bpejit.Tokenizer) -> None:
    """A lone one has the three bytes of U+FFFD; a pair is one character of two places."""
    found = tokenizer.encode_with_offsets(text)
    assert (found.byte_ends[-1] if len(found.ids) else 0) == len(text_to_bytes(text))
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    places, place = [0], 0
    for character in joined:
        place += 2 if character >= "\U00010000" and text[place] != character else 1
        places.append(place)
    assert place == len(text)
    lengths = [len(tokenizer.vocab[number]) for number in found.ids.tolist()]
    expected = [(places[a], places[b]) for a, b in naive_ranges([len(c.encode()) for c in joined], lengths)]
    assert pairs(found.char_starts, found.char_ends) == expected


@given(data=st.binary(max_size=60))
def test_bytes(data: bytes, tokenizer: bpejit.Tokenizer) -> None:
    found = tokenizer.encode_with_offsets(data)
    widths = [len(c.encode("utf-8", "surrogateescape")) for c in data.decode("utf-8", "surrogateescape")]
    lengths = [len(tokenizer.vocab[number]) for number in found.ids.tolist()]
    assert pairs(found.char_starts, found.char_ends) == naive_ranges(widths, lengths)


def test_options(tokenizer: bpejit.Tokenizer) -> None:
    found = tokenizer.encode_with_offsets(f"é{END}", allowed_special={END})
    assert pairs(found.char_starts, found.char_ends)[-1] == (1, 1 + len(END))
    assert tokenizer.encode_with_offsets(END, disallowed_special=()).ids.tolist() == tokenizer.encode_ordinary(END)
    with pytest.raises(bpejit.SpecialTokenError):
        tokenizer.encode_with_offsets(END, allowed_special=())


# ---- Hugging Face ------------------------------------------------------------------------------------------------------


def from_tokenizers(theirs: Any, text: str) -> tuple[list[int], Ranges]:
    encoding = theirs.encode(text, add_special_tokens=False)
    return encoding.ids, encoding.offsets


@pytest.fixture(scope="module")
def listed() -> tuple[bpejit.Tokenizer, Any]:
    """A model with a list of merges, and the same in `tokenizers`."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = listed_tokenizer()
    return tokenizer, tokenizers.Tokenizer.from_buffer(tokenizer_json(tokenizer.model, to_oniguruma(PRESETS["gpt2"])))


@given(text=plain_text)
def test_tokenizers(text: str, listed: tuple[bpejit.Tokenizer, Any]) -> None:
    tokenizer, theirs = listed
    found = tokenizer.encode_with_offsets(text)
    assert (found.ids.tolist(), pairs(found.char_starts, found.char_ends)) == from_tokenizers(theirs, text)


@pytest.mark.parametrize("name", ["prose.txt", "cjk.txt", "code.txt"])
def test_tokenizers_on_real_text(name: str, listed: tuple[bpejit.Tokenizer, Any]) -> None:
    tokenizer, theirs = listed
    text = data_text(name)[: small(300_000, 1_000)].decode("utf-8", "ignore") + END
    found = tokenizer.encode_with_offsets(text)
    assert (found.ids.tolist(), pairs(found.char_starts, found.char_ends)) == from_tokenizers(theirs, text)


@pytest.mark.compiled
def test_tokenizers_with_gpt2(shared_data: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer.from_str(read_shared("vocabs/gpt2.tokenizer.json").decode())
    folder = shared_data / "cs336"
    tokenizer = bpejit.Tokenizer.from_files(folder / "gpt2_vocab.json", folder / "gpt2_merges.txt", [END])
    text = read_shared("corpora/multilingual.txt")[:1_000_000].decode("utf-8", "ignore")
    found = tokenizer.encode_with_offsets(text)
    assert (found.ids.tolist(), pairs(found.char_starts, found.char_ends)) == from_tokenizers(theirs, text)


# ---- tiktoken ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_tiktoken(name: str) -> None:
    """Its offsets are where tokens begin; one within a character begins with that character."""
    tokenizer, theirs = tokenizer_named(name), tiktoken_named(name)
    text = data_text("cjk.txt")[: small(100_000, 500)].decode("utf-8", "ignore") + "a😀é"
    found = tokenizer.encode_with_offsets(text)
    assert (text, found.char_starts.tolist()) == theirs.decode_with_offsets(found.ids.tolist())


@given(text=st.text(min_size=1, max_size=40), cuts=st.sets(st.integers(1, 150)))
def test_character_starts(text: str, cuts: set[int]) -> None:
    data = text.encode()
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    lengths = np.diff(places)
    expected = [start for start, _ in naive_ranges([len(c.encode()) for c in text], lengths.tolist())]
    assert character_starts(data, lengths).tolist() == expected


def test_model_with_gaps_and_long_ids() -> None:
    model = Model({2**20 + byte: bytes([byte]) for byte in range(256)}, [], {"<s>": 5})
    found = bpejit.Tokenizer.from_model(model).encode_with_offsets("a<s>é")
    assert pairs(found.char_starts, found.char_ends) == [(0, 1), (1, 4), (4, 5), (4, 5)]
