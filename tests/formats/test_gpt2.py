"""Tests of GPT-2's pair of files, of its byte characters, and of models built from vocabularies."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.formats import load_gpt2_pair, models, save_gpt2_pair
from hypothesis import example, given, strategies as st

from bpejit.errors import OutputError, TokenizerFormatError
from bpejit.formats.gpt2 import model_from_vocab, read_gpt2_pair
from bpejit.model import Model, special_bytes
from bpejit.normalization.byte_characters import CHARACTERS, decode_byte_characters, encode_byte_characters

BYTES = {byte: bytes([byte]) for byte in range(256)}

END = "<|endoftext|>"


# ---- byte characters


def test_byte_characters_match_gpt2() -> None:
    """Compare with the code of GPT-2."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    codes = printable[:]
    characters = printable[:]
    for byte in range(256):
        if byte not in printable:
            codes.append(byte)
            characters.append(256 + len(codes) - len(printable) - 1)
    assert {code: chr(character) for code, character in zip(codes, characters, strict=True)} == dict(enumerate(CHARACTERS))
    assert len(set(CHARACTERS)) == 256
    assert encode_byte_characters(b"\x00\t\n\r \x7f\xad") == "ĀĉĊčĠġŃ"


@given(st.binary())
def test_byte_characters_round_trip(data: bytes) -> None:
    assert decode_byte_characters(encode_byte_characters(data)) == data


@pytest.mark.parametrize("text", [" ", "a b", "\n", "\xa0", "ń", "日", "\ud800"])
def test_other_characters_represent_no_byte(text: str) -> None:
    with pytest.raises(UnicodeEncodeError):
        decode_byte_characters(text)


# ---- models from vocabularies


def test_special_tokens_of_the_vocabulary_keep_their_ids() -> None:
    vocab = {0: END.encode(), **{byte + 1: token for byte, token in BYTES.items()}, 300: b"he"}
    merges = [(b"h", b"e")]
    model = model_from_vocab(vocab, merges, [END, "<pad>", "he", "h", "<pad>", "<eot>"])
    assert model.special_tokens == {END: 0, "<pad>": 301, "he": 300, "h": ord("h") + 1, "<eot>": 302}
    # Those that merges need remain ordinary tokens, too.
    assert model.tokens == {token_id: token for token_id, token in vocab.items() if token_id != 0}
    assert model.vocab == {**vocab, 301: b"<pad>", 302: b"<eot>"}
    assert model.vocab_size == 303


def test_arguments_are_not_modified() -> None:
    vocab = {**BYTES, 256: b"he", 257: END.encode()}
    merges = [(b"h", b"e")]
    specials = [END, "<pad>"]
    before = dict(vocab), list(merges), list(specials)
    model = model_from_vocab(vocab, merges, specials)
    assert (vocab, merges, specials) == before
    assert model.merges is not merges


def test_without_special_tokens_all_tokens_are_ordinary() -> None:
    vocab = {**BYTES, 256: END.encode()}
    for specials in (None, []):
        model = model_from_vocab(vocab, [], specials)
        assert model.special_tokens == {}
        assert model.tokens == vocab


def test_equivalent_types_of_keys_and_pairs() -> None:
    numpy = pytest.importorskip("numpy")
    vocab = {numpy.int64(byte): bytearray(token) for byte, token in BYTES.items()} | {numpy.uint16(256): b"ab"}
    model = model_from_vocab(vocab, [[b"a", b"b"]], (END,))  # type: ignore[list-item]
    assert model == Model(tokens={**BYTES, 256: b"ab"}, merges=[(b"a", b"b")], special_tokens={END: 257})
    assert all(type(token_id) is int and type(token) is bytes for token_id, token in model.tokens.items())


@pytest.mark.parametrize(
    ("vocab", "merges", "specials", "message"),
    [
        ({"a": 1}, [], None, r"token 'a' of the vocabulary is 1, an int; expected a dict of int to bytes"),
        ({1: "a"}, [], None, r"token 1 of the vocabulary is 'a', a str"),
        ({"a": b"a"}, [], None, r"has the id 'a', a str"),
        ({1.5: b"a"}, [], None, r"has the id 1.5, a float"),
        (BYTES, ["ab"], None, r"merge 1 is 'ab'; expected a pair of bytes"),
        (BYTES, [(b"a",)], None, r"merge 1 is \(b'a',\)"),
        (BYTES, [("a", "b")], None, r"merge 1 is \('a', 'b'\)"),
        (BYTES, [], END, r"expected a list of str: give \['<\|endoftext\|>'\]"),
        (BYTES, [], [b"<pad>"], r"special token b'<pad>' is a bytes; expected a str"),
    ],
)
def test_arguments_of_wrong_types(vocab: Any, merges: Any, specials: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        model_from_vocab(vocab, merges, specials)


@pytest.mark.parametrize(
    ("vocab", "merges", "specials", "message"),
    [
        ({}, [], None, r"lacks 256 of the 256 single bytes \(0x00, 0x01"),
        ({key: value for key, value in BYTES.items() if key != 7}, [], None, r"lacks 1 of the 256 single bytes \(0x07\)"),
        ({**BYTES, 256: b"a"}, [], None, "1 tokens with the bytes of another token"),
        ({**BYTES, -1: b"ab"}, [], None, "negative token id -1"),
        (BYTES, [(b"a", b"b")], None, "merge 1 joins b'a' and b'b', but b'ab' is not in the vocabulary"),
        ({**BYTES, 256: b"abc"}, [(b"a", b"bc")], None, "but b'bc' is not in the vocabulary"),
        ({**BYTES, 256: b"abc"}, [(b"ab", b"c")], None, "but b'ab' is not in the vocabulary"),
        ({**BYTES, 256: b"ab"}, [(b"a", b"b")] * 2, None, "merge 2 joins b'a' and b'b' again"),
        (BYTES, [], ["ok", ""], "a special token is empty"),
        (BYTES, [], ["\ud800"], "contains a lone surrogate"),
    ],
)
def test_invalid_vocabularies(vocab: Any, merges: Any, specials: Any, message: str) -> None:
    with pytest.raises(TokenizerFormatError, match=message):
        model_from_vocab(vocab, merges, specials)


@pytest.mark.parametrize(
    ("specials", "message"),
    [
        ({"<a>": 300, "<b>": 300}, "'<a>' and '<b>' both have the id 300"),
        ({"<a>": -5}, "the special token '<a>' has the id -5"),
        ({"<a>": 97}, "'<a>' has id 97, which belongs to the token b'a'"),
    ],
)
def test_ids_of_special_tokens(specials: dict[str, int], message: str) -> None:
    with pytest.raises(TokenizerFormatError, match=message):
        Model(tokens=BYTES, merges=[], special_tokens=specials)


# ---- hash of a model


def test_hash_covers_exactly_what_determines_ids() -> None:
    tokens = {**BYTES, 256: b"ab", 257: b"bc", 258: b"abc"}
    merges = [(b"a", b"b"), (b"b", b"c"), (b"ab", b"c")]
    base = Model(tokens=tokens, merges=merges, special_tokens={"<a>": 300, "<b>": 301}, pattern="gpt2")
    same = Model(
        tokens=dict(reversed(tokens.items())),
        merges=merges,
        special_tokens={"<b>": 301, "<a>": 300},
        tie_break="hf",
        merge_counts=[3, 2, 1],
        training={"note": 1},
    )
    assert same.sha256 == base.sha256
    others = [
        Model(tokens=tokens, merges=merges, special_tokens=base.special_tokens, pattern="cl100k"),
        Model(tokens=tokens, merges=merges, special_tokens={"<a>": 301, "<b>": 300}),
        Model(tokens=tokens, merges=merges, special_tokens={"<a>": 300}),
        Model(tokens=tokens, merges=merges[::-1], special_tokens=base.special_tokens),
        Model(tokens=tokens, merges=[*merges[:2], (b"a", b"bc")], special_tokens=base.special_tokens),
        Model(tokens={**BYTES, 257: b"ab", 256: b"bc", 258: b"abc"}, merges=merges, special_tokens=base.special_tokens),
        Model(tokens={**tokens, 259: b"zz"}, merges=merges, special_tokens=base.special_tokens),
        Model(tokens={**tokens, 300: b"<a>"}, merges=merges, special_tokens=base.special_tokens),
    ]
    assert len({base.sha256, *(other.sha256 for other in others)}) == 1 + len(others)


def test_hash_of_preset_equals_hash_of_its_pattern() -> None:
    from bpejit.splitting.presets import PRESETS

    named = Model(tokens=BYTES, merges=[], pattern="gpt2")
    assert Model(tokens=BYTES, merges=[], pattern=PRESETS["gpt2"]).sha256 == named.sha256


def test_hash_is_stable_across_versions() -> None:
    """Token files store the hash: if it changes, they no longer match their tokenizers."""
    tokens = {**BYTES, 256: b"ab"}
    model = Model(tokens=tokens, merges=[(b"a", b"b")], special_tokens={"<é>": 257}, pattern=r"\s+|\S+")
    assert model.sha256 == "fea940deb737f84fb31aebc8fb9355e7f70446f3b66b008edf9173581ce7f14e"


# ---- the files


def files(tmp_path: Path, vocab: Any, merges: str | bytes) -> tuple[Path, Path]:
    """Write the two files; `vocab` is text, or a dict to which the single bytes are added."""
    if isinstance(vocab, dict):
        vocab = json.dumps(
            {**{encode_byte_characters(token): byte for byte, token in BYTES.items()}, **vocab}, ensure_ascii=False
        )
    data = vocab if isinstance(vocab, bytes) else vocab.encode()
    (tmp_path / "vocab.json").write_bytes(data)
    (tmp_path / "merges.txt").write_bytes(merges if isinstance(merges, bytes) else merges.encode())
    return tmp_path / "vocab.json", tmp_path / "merges.txt"


@given(models(reachable=True))
@example(Model(tokens=BYTES, merges=[], special_tokens={"<\udc80>": 256, "a": 97}))
@example(Model(tokens=BYTES, merges=[], special_tokens={"<é>": 257, "日": 256, "a": 97}))
@example(Model(tokens=BYTES, merges=[], special_tokens={"<é>": 257, "<Ã©>": 258}))
@example(Model(tokens=BYTES, merges=[], special_tokens={" ": 32}))
@example(Model(tokens=BYTES, merges=[], special_tokens={"é": 256, "Ã©": 257}))
@example(Model(tokens={**BYTES, 256: b" t"}, merges=[(b" ", b"t")], special_tokens={" t": 256, "Ġt": 257}))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, model: Model) -> None:
    folder = tmp_path_factory.mktemp("pair")
    model = replace(model, pattern="gpt2")
    pair = folder / "vocab.json", folder / "merges.txt"
    taken = set(map(encode_byte_characters, model.tokens.values()))
    is_plain = True
    for text, token_id in model.special_tokens.items():
        written = encode_byte_characters(special_bytes(text))
        if token_id in model.tokens:
            is_plain &= written == text
            continue
        is_plain &= len(text) > 1 or text not in CHARACTERS
        is_plain &= not any(0xDC80 <= ord(character) <= 0xDCFF for character in text)
        is_plain &= text not in taken
        is_plain &= written not in taken
        taken |= {text, written}
    if not is_plain:
        with pytest.raises(TokenizerFormatError, match="cannot be written"):
            save_gpt2_pair(model, folder)
        assert list(folder.iterdir()) == []
        return
    save_gpt2_pair(model, folder)
    again = read_gpt2_pair(*pair, list(model.special_tokens), pattern=model.pattern, unicode=model.unicode)
    assert again == Model(model.tokens, model.merges, model.special_tokens, model.pattern, unicode=model.unicode)
    assert again.sha256 == model.sha256
    assert load_gpt2_pair(pair[0]) == again


@pytest.mark.parametrize("first", ["", "#version: 0.2\n", "#version: 0.2 - Trained by someone\n", "#version: 0.2\r\n"])
@pytest.mark.parametrize("last", ["", "\n", "\n\n", "\r\n"])
def test_first_and_last_lines_of_merges(tmp_path: Path, first: str, last: str) -> None:
    pair = files(tmp_path, {"Ġt": 256, "##": 257}, f"{first}Ġ t\n# #{last}")
    assert read_gpt2_pair(*pair).merges == ((b" ", b"t"), (b"#", b"#"))


def test_no_merges(tmp_path: Path) -> None:
    for merges in ("", "#version: 0.2\n"):
        assert read_gpt2_pair(*files(tmp_path, {}, merges)).merges == ()


def test_text_outside_byte_characters_is_preserved(tmp_path: Path) -> None:
    pair = files(tmp_path, {"<a b>": 300, "日": 301}, "")
    assert read_gpt2_pair(*pair).tokens == {**BYTES, 300: b"<a b>", 301: "日".encode()}
    model = read_gpt2_pair(*pair, ["<a b>"])
    assert (model.tokens, model.special_tokens) == ({**BYTES, 301: "日".encode()}, {"<a b>": 300})


def test_special_token_that_looks_like_bytes(tmp_path: Path) -> None:
    # It is read literally, since there is no other interpretation ...
    model = read_gpt2_pair(*files(tmp_path, {"<é>": 300}, ""), ["<é>"])
    assert (model.tokens, model.special_tokens) == (BYTES, {"<é>": 300})
    # ... unless a merge makes these bytes, or the vocabulary has their usual form, or the token is not declared special.
    model = read_gpt2_pair(*files(tmp_path, {"<é": 256, "<é>": 300}, "< é\n<é >"), ["<é>"])
    assert (model.tokens[300], model.special_tokens) == (b"<\xe9>", {"<é>": 301})
    model = read_gpt2_pair(*files(tmp_path, {"<é>": 300, "<Ã©>": 301}, ""), ["<é>"])
    assert (model.tokens[300], model.special_tokens) == (b"<\xe9>", {"<é>": 301})
    assert read_gpt2_pair(*files(tmp_path, {"<é>": 300}, "")).tokens[300] == b"<\xe9>"
    assert read_gpt2_pair(*files(tmp_path, {}, ""), ["é"]).special_tokens == {"é": 256}


@pytest.mark.parametrize(
    ("vocab", "message"),
    [
        ("", r"vocab.json` is broken at line 1, column 1"),
        ('{"a": 1', r"vocab.json` is broken at line 1, column 8"),
        ('{"a": 1,\n"b"}', r"vocab.json` is broken at line 2, column 4"),
        (b'{"\xff": 1}', r"vocab.json` is broken at byte 2 is not UTF-8"),
        ("[]", r"vocab.json` is not a JSON object"),
        ('["a"]', r"vocab.json` is not a JSON object"),
        ("3", r"vocab.json` is not a JSON object"),
        ({"ab": "256"}, r"'ab' has the id '256'; expected a whole number"),
        ({"ab": 256.0}, r"'ab' has the id 256.0; expected a whole number"),
        ({"ab": True}, r"'ab' has the id True; expected a whole number"),
        ({"ab": None}, r"'ab' has the id None; expected a whole number"),
        ({"ab": {"id": 1}}, r"'ab' has the id .*; expected a whole number"),
        ({"ab": -1}, r"vocab.json.*negative token id -1"),
        ({"ab": 300, "ac": 300}, r"'ab' and 'ac' both have the id 300"),
        ('{"a": 1, "a": 2}', r"'a' and 'a' both represent the bytes b'a'"),
        ({" ": 300}, r"'Ġ' and ' ' both represent the bytes b' '"),
        ({"日": 300, "æĹ¥": 301}, r"'日' and 'æĹ¥' both represent the bytes"),
        ('{"a": 97}', r"vocab.json.*lacks 255 of the 256 single bytes"),
    ],
)
def test_invalid_vocab_json(tmp_path: Path, vocab: Any, message: str) -> None:
    pair = files(tmp_path, vocab, "")
    with pytest.raises(TokenizerFormatError, match=message) as caught:
        read_gpt2_pair(*pair)
    assert str(pair[0]) in str(caught.value)


@pytest.mark.parametrize(
    ("merges", "message"),
    [
        ("a b\nab\n", "line 2 is broken: 'ab'; expected two tokens with one space between them"),
        ("a b\na b c\n", "line 2 is broken: 'a b c'"),
        ("a b\na  b\n", "line 2 is broken: 'a  b'"),
        ("a b\n a\n", "line 2 is broken: ' a'"),
        ("a b\na \n", "line 2 is broken: 'a '"),
        ("a b\n\na c\n", "line 2 is broken: ''"),
        ("a b\na\tb\n", r"line 2 is broken: 'a\\tb'"),
        ("a b\n日 a\n", "line 2 is broken: '日 a'"),
        (b"a b\n\xff a\n", r"line 2 is broken: '\\\\xff a'"),
        ("a b\n#version: 0.2\n", "line 2 joins b'#version:' and b'0.2', but b'#version:' is not in"),
        ("a b\nab c\na b\n", r"line 3 is broken: 'a b'; expected each pair only once \(this one is in line 1\)"),
        ("#version: 0.2\na b\na c\n", "line 3 joins b'a' and b'c', but b'ac' is not in"),
        ("a b\nabc d\n", "line 2 joins b'abc' and b'd', but b'abcd' is not in"),
        ("x" * 1000, r"line 1 is broken: 'x+ \.\.\. x+'"),
    ],
)
def test_invalid_merges_txt(tmp_path: Path, merges: str | bytes, message: str) -> None:
    pair = files(tmp_path, {"ab": 256, "abc": 257}, merges)
    with pytest.raises(TokenizerFormatError, match=message) as caught:
        read_gpt2_pair(*pair)
    assert str(pair[1]) in str(caught.value)


def test_missing_files(tmp_path: Path) -> None:
    vocab, merges = files(tmp_path, {}, "")
    with pytest.raises(TokenizerFormatError, match=re.escape(f"cannot read `{tmp_path / 'no.json'}`: there is no such file")):
        read_gpt2_pair(tmp_path / "no.json", merges)
    with pytest.raises(TokenizerFormatError, match=re.escape(f"cannot read `{tmp_path / 'no.txt'}`: there is no such file")):
        read_gpt2_pair(vocab, tmp_path / "no.txt")


def test_failed_write_preserves_both_files(tmp_path: Path) -> None:
    pair = files(tmp_path, "old vocab", "old merges")
    with pytest.raises(OutputError):
        save_gpt2_pair(Model(tokens=BYTES, merges=[]), pair[0], overwrite=True)
    with pytest.raises(TokenizerFormatError, match=r"'a' cannot be written .* or written like another token"):
        save_gpt2_pair(Model(tokens=BYTES, merges=[], special_tokens={"a": 256}), tmp_path, overwrite=True)
    with pytest.raises(OutputError, match="already exist"):
        save_gpt2_pair(Model(tokens=BYTES, merges=[]), tmp_path)
    assert [path.read_text() for path in pair] == ["old vocab", "old merges"]
    assert len(list(tmp_path.iterdir())) == 2


# ---- published files


def test_published_gpt2_files(shared_data: Path, tmp_path: Path) -> None:
    pair = shared_data / "cs336" / "gpt2_vocab.json", shared_data / "cs336" / "gpt2_merges.txt"
    model = read_gpt2_pair(*pair, [END, "<pad>"])
    assert (len(model.tokens), len(model.merges), model.vocab_size) == (50256, 50000, 50258)
    assert model.special_tokens == {END: 50256, "<pad>": 50257}
    assert [left + right for left, right in model.merges] == [model.tokens[256 + rank] for rank in range(50000)]
    assert model.vocab[262] == b" the"
    save_gpt2_pair(read_gpt2_pair(*pair, [END]), tmp_path)
    assert json.loads((tmp_path / "vocab.json").read_bytes()) == json.loads(pair[0].read_bytes())
    lines = (tmp_path / "merges.txt").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "#version: 0.2"
    assert lines[1:] == [line for line in pair[1].read_text(encoding="utf-8").split("\n") if line and not line.startswith("#v")]
    plain = read_gpt2_pair(*pair)
    assert (plain.special_tokens, plain.tokens[50256]) == ({}, END.encode())


def test_cs336_reference_files(shared_data: Path) -> None:
    folder = shared_data / "cs336"
    model = read_gpt2_pair(folder / "train-bpe-reference-vocab.json", folder / "train-bpe-reference-merges.txt", [END])
    assert model.special_tokens == {END: 0}
    assert len(model.merges) == 243
    assert model.merges[0] == (b" ", b"t")
    assert model.vocab_size == len(model.vocab) == 500
