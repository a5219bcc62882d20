"""Comparison of token offsets with a naive implementation, `tokenizers`, and tiktoken."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import data_text, read_shared, small
from helpers import huggingface as hf
from helpers.compat import END, NAMES, listed_tokenizer, plain_text, texts, tiktoken_named, tokenizer_named
from helpers.strategies import awkward_bytes
from hypothesis import assume, given, strategies as st

import bpejit
from bpejit.encoding.offsets import token_offsets
from bpejit.formats.huggingface_reading import model_from_json, read_tokenizer_json
from bpejit.formats.huggingface_writing import pre_tokenizer, tokenizer_json
from bpejit.model import Model
from bpejit.normalization.pipeline import TextPipeline
from bpejit.utf8 import encode_utf8

Ranges = list[tuple[int, int]]


def naive_ranges(characters: list[int], lengths: list[int]) -> Ranges:
    """Return the ranges of tokens in a string whose character `i` has `characters[i]` bytes, byte by byte."""
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
    """A lone surrogate has the three bytes of U+FFFD; a pair is one character with two string indices."""
    found = tokenizer.encode_with_offsets(text)
    assert (found.byte_ends[-1] if len(found.ids) else 0) == len(encode_utf8(text))
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    indices, index = [0], 0
    for character in joined:
        index += 2 if character >= "\U00010000" and text[index] != character else 1
        indices.append(index)
    assert index == len(text)
    lengths = [len(tokenizer.vocab[number]) for number in found.ids.tolist()]
    expected = [(indices[a], indices[b]) for a, b in naive_ranges([len(c.encode()) for c in joined], lengths)]
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
    """Return a model with a list of merges, and its equivalent in `tokenizers`."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = listed_tokenizer()
    return tokenizer, tokenizers.Tokenizer.from_buffer(tokenizer_json(tokenizer.model, pre_tokenizer(tokenizer.model)))


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


# ---- text changed by a pipeline -----------------------------------------------------------------------------------


def prepared(**parts: Any) -> bpejit.Tokenizer:
    return bpejit.Tokenizer.from_model(model_from_json(hf.tokenizer_json(**parts)))


def located(tokenizer: bpejit.Tokenizer, text: str | bytes) -> list[tuple[str, int, int]]:
    """Return each token with the characters that it covers."""
    found = tokenizer.encode_with_offsets(text)
    names = [tokenizer.vocab[number].decode("utf-8", "replace") for number in found.ids.tolist()]
    return list(zip(names, found.char_starts.tolist(), found.char_ends.tolist(), strict=True))


@given(content=hf.pipelines(), texts=st.lists(hf.words, min_size=1, max_size=12))
def test_pipelines(content: dict[str, Any], texts: list[str]) -> None:
    """Compare character offsets with `tokenizers`, and byte offsets with the bytes of these characters."""
    tokenizers = pytest.importorskip("tokenizers")
    try:
        model = model_from_json(content)
    except bpejit.TokenizerFormatError:
        assume(False)
    tokenizer = bpejit.Tokenizer.from_model(model)
    theirs = tokenizers.Tokenizer.from_str(hf.dumped({**content, "post_processor": None}))
    for text in texts:
        found = tokenizer.encode_with_offsets(text)
        assert (found.ids.tolist(), pairs(found.char_starts, found.char_ends)) == from_tokenizers(theirs, text), text
        assert found.ids.tolist() == tokenizer.encode(text)
        starts_of_characters = np.cumsum([0, *(len(character.encode()) for character in text)])
        assert (np.searchsorted(starts_of_characters, found.byte_starts, side="right") - 1 == found.char_starts).all()
        assert (np.searchsorted(starts_of_characters, found.byte_ends, side="left") == found.char_ends).all()
        assert (found.byte_starts < found.byte_ends).all()


@pytest.mark.parametrize("name", ["olmo_gpt-neox-dolma-v1_5", "olmo2_dolma2"])
@pytest.mark.compiled
def test_published_tokenizers(name: str, shared_data: Path, tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    path = tmp_path / "tokenizer.json"
    path.write_bytes(read_shared(f"vocabs/{name}.tokenizer.json"))
    tokenizer = bpejit.Tokenizer.from_model(read_tokenizer_json(path))
    theirs = tokenizers.Tokenizer.from_file(str(path))
    theirs.post_processor = tokenizers.processors.Sequence([])
    text = read_shared("corpora/multilingual.txt")[:200_000].decode("utf-8", "ignore")
    for one in (text, unicodedata.normalize("NFD", text), unicodedata.normalize("NFKD", text)[:100_000]):
        found = tokenizer.encode_with_offsets(one)
        assert (found.ids.tolist(), pairs(found.char_starts, found.char_ends)) == from_tokenizers(theirs, one)


@given(data=awkward_bytes())
def test_unchanged_text_has_equal_offsets_with_and_without_pipeline(data: bytes) -> None:
    """Offsets mapped back to the original text equal direct ones, to the byte, for invalid UTF-8 too."""
    tokenizer = NFC_TOKENIZER
    encoder = tokenizer._codec.encoder
    data = unicodedata.normalize("NFC", data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    assume(encoder.splitter.is_noop(data))
    plain = tokenizer.encode_with_offsets(data)
    pipeline = encoder.splitter
    assert isinstance(pipeline, TextPipeline)
    ids, aligned = encoder.encode_aligned(data, encoder.new_workspace(cache_bytes=1 << 16), pipeline)
    either = token_offsets(ids, encoder.token_lengths(ids), [data], aligned)
    for one, other in zip(plain, either, strict=True):
        assert one.tolist() == other.tolist()


NFC_TOKENIZER = prepared(normalizer={"type": "NFC"}, added=hf.ADDED["plain"])
SPACE_BEFORE = {**hf.GPT2_LEVEL, "add_prefix_space": True}


def test_characters_covered_by_tokens() -> None:
    """Check the documented cases."""
    assert located(prepared(normalizer={"type": "NFKC"}), "xﬁ.") == [("x", 0, 1), ("f", 1, 2), ("i", 1, 2), (".", 2, 3)]
    assert located(prepared(normalizer={"type": "Lowercase"}), "İ") == [("i", 0, 1), ("\ufffd", 0, 1), ("\ufffd", 0, 1)]
    assert located(prepared(pre_tokenizer=SPACE_BEFORE), "xa") == [(" ", 0, 1), ("x", 0, 1), ("a", 1, 2)]
    assert located(NFC_TOKENIZER, "e\u0301a")[0][1:] == (0, 1)
    assert located(NFC_TOKENIZER, "ae\u0301-")[-1] == ("-", 3, 4)
    replace = {"type": "Replace", "pattern": {"Regex": "x+"}, "content": "yz"}
    assert located(prepared(normalizer=replace), "axxxb") == [("a", 0, 1), ("y", 3, 4), ("z", 3, 4), ("b", 4, 5)]
    stripping = prepared(added=(hf.added_token("<a>", lstrip=True, rstrip=True),))
    assert located(stripping, "x  <a> y") == [("x", 0, 1), ("<a>", 1, 7), ("y", 7, 8)]
    removing = prepared(pre_tokenizer=hf.PRE_TOKENIZERS["Removed"])
    assert located(removing, "1-2") == [("1", 0, 1), ("2", 2, 3)]


def test_bytes_of_a_changed_character() -> None:
    """Each part of a changed character covers all of its bytes; in an unchanged one, each byte is separate."""
    found = prepared(normalizer={"type": "NFC"}).encode_with_offsets("e\u0301漢")
    assert pairs(found.byte_starts, found.byte_ends) == [(0, 1), (3, 4), (4, 5), (5, 6)]
    found = prepared(normalizer={"type": "NFKC"}).encode_with_offsets("ﬁ漢")
    assert pairs(found.byte_starts, found.byte_ends) == [(0, 3), (0, 3), (3, 4), (4, 5), (5, 6)]


def test_character_inserted_at_the_start() -> None:
    """It covers the first character; in `tokenizers` it covers nothing, and is inserted twice."""
    insert = {"type": "Replace", "pattern": {"Regex": "^"}, "content": "_"}
    assert located(prepared(normalizer=insert), "x1") == [("_", 0, 1), ("x", 0, 1), ("1", 1, 2)]
    assert located(prepared(normalizer=insert, added=(hf.added_token("<a>"),)), "<a>x") == [
        ("<a>", 0, 3),
        ("_", 3, 4),
        ("x", 3, 4),
    ]
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer.from_str(hf.dumped(hf.tokenizer_json(normalizer=insert)))
    encoding = theirs.encode("x1")
    assert list(zip(encoding.tokens, encoding.offsets, strict=True))[:2] == [("_", (0, 0)), ("_", (0, 0))]
    assert located(prepared(normalizer={"type": "Prepend", "prepend": ""}), "x") == [("x", 0, 1)]


def test_changed_text_that_is_not_utf8() -> None:
    tokenizer = prepared(normalizer={"type": "NFC"})
    found = tokenizer.encode_with_offsets(b"e\xcc\x81\xffx")
    assert pairs(found.byte_starts, found.byte_ends) == [(0, 1), (3, 4), (4, 5)]
    assert pairs(found.char_starts, found.char_ends) == [(0, 1), (2, 3), (3, 4)]
    # A pair of surrogates is one character with two string indices, a lone one is U+FFFD.
    found = tokenizer.encode_with_offsets("\ud83d\ude00e\u0301\ud800x")
    assert found.char_starts.tolist() == [0, 0, 0, 0, 2, 4, 4, 4, 5]
    assert found.byte_starts.tolist() == [0, 1, 2, 3, 4, 7, 8, 9, 10]


def test_text_normalized_to_nothing() -> None:
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    for text in ("", "  "):
        assert [array.tolist() for array in prepared(normalizer=strip).encode_with_offsets(text)] == [[]] * 5


def test_some_special_tokens_in_changed_text() -> None:
    tokenizer = prepared(normalizer={"type": "NFC"}, added=hf.ADDED["normalized"])
    text = "e\u0301a<a>AB"
    assert [token for token, _, _ in located(tokenizer, text)] == ["éa", "<a>", "AB"]
    found = tokenizer.encode_with_offsets(text, allowed_special={"<a>"}, disallowed_special=())
    assert found.ids.tolist() == tokenizer.encode(text, allowed_special={"<a>"}, disallowed_special=())
    assert pairs(found.char_starts, found.char_ends) == [
        (0, 1),
        (0, 3),
        (3, 6),
        (6, 7),
        (7, 8),
    ]  # the second byte of é merges with a
    with pytest.raises(bpejit.SpecialTokenError):
        tokenizer.encode_with_offsets(text, allowed_special=())


# ---- tiktoken ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_tiktoken(name: str) -> None:
    """Compare start offsets; a token that starts within a character has the offset of that character."""
    tokenizer, theirs = tokenizer_named(name), tiktoken_named(name)
    text = data_text("cjk.txt")[: small(100_000, 500)].decode("utf-8", "ignore") + "a😀é"
    found = tokenizer.encode_with_offsets(text)
    assert (text, found.char_starts.tolist()) == theirs.decode_with_offsets(found.ids.tolist())


@given(text=st.text(min_size=1, max_size=40), cuts=st.sets(st.integers(1, 150)))
def test_character_starts(text: str, cuts: set[int]) -> None:
    data = text.encode()
    indices = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    lengths = np.diff(indices)
    expected = [start for start, _ in naive_ranges([len(c.encode()) for c in text], lengths.tolist())]
    assert token_offsets(lengths, lengths, [text]).char_starts.tolist() == expected


def test_model_with_gaps_and_long_ids() -> None:
    model = Model({2**20 + byte: bytes([byte]) for byte in range(256)}, [], {"<s>": 5})
    found = bpejit.Tokenizer.from_model(model).encode_with_offsets("a<s>é")
    assert pairs(found.char_starts, found.char_ends) == [(0, 1), (1, 4), (4, 5), (4, 5)]
