"""Comparison of `SubwordTextEncoder` with its twin (vocabularies, ids and texts), and tests of errors."""

from __future__ import annotations

import copy
import io
import pickle
import random
import string
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
import twins
from conftest import data_text, read_shared, small
from hypothesis import given, settings, strategies as st

from bpejit.errors import CorpusError, OutputError, TokenizerFormatError, TrainingError
from bpejit.t2t import greedy_encoding, vocabulary_building, word_tokenizer
from bpejit.t2t.greedy_encoding import LINE_BYTES
from bpejit.t2t.subword_text_encoder import SubwordTextEncoder, TokenCounter
from bpejit.t2t.text_encoders import EOS_ID, RESERVED_TOKENS, TextEncoder

texts = st.text(alphabet="ab _\\u;01\n\réß日本\U0001f600\u0301²<>pd", max_size=60)
words = st.text(alphabet="ab_\\ \nE<>OS", min_size=1, max_size=10)


def count(given_texts) -> dict[str, int]:
    return dict(
        Counter(token for text in given_texts for token in twins.subwords.drop_spaces(twins.subwords.split_words(text)))
    )


def real_lines(name: str, n_bytes: int) -> list[str]:
    data = data_text(name) if "/" not in name else read_shared(name)
    return data[:n_bytes].decode("utf-8", "surrogateescape").split("\n")


@given(st.lists(texts, max_size=6), st.sampled_from([20, 40, 100]), st.sampled_from([None, 1, 2, 4, 9]))
def test_built_from_texts(given_texts, size, bound):
    counts = count(given_texts)
    if not counts:
        with pytest.raises(CorpusError, match="sample is empty"):
            SubwordTextEncoder.build_from_generator(iter(given_texts), size, bound)
        return
    encoder = SubwordTextEncoder.build_from_generator(iter(given_texts), size, bound)
    vocabulary = twins.subwords.bisect_subtokens(counts, size, 1, 1000, RESERVED_TOKENS, bound)
    assert encoder.all_subtoken_strings == tuple(vocabulary)
    assert encoder.vocab_size == len(vocabulary)
    assert encoder._subtoken_string_to_id == twins.subwords.build_edges(vocabulary)
    assert encoder._max_subtoken_len == max(map(len, vocabulary))
    assert encoder._alphabet == set("".join([*counts, *RESERVED_TOKENS])) | set("\\_u;0123456789")
    for text in [*given_texts, "new: ξ_\\\n \U0010ffff"]:
        ids = encoder.encode(text)
        assert ids == twins.subwords.encode_words(text, vocabulary, encoder._alphabet)
        assert encoder.decode(ids) == twins.subwords.decode_words(ids, vocabulary) == text
        assert "".join(encoder.decode_list(ids)) == "".join(vocabulary[number] for number in ids)
        assert encoder.encode_array(text).tolist() == encoder.encode(text.encode()) == ids


@given(
    st.dictionaries(words, st.integers(0, 9), min_size=1, max_size=20),
    st.integers(-1, 12),
    st.integers(0, 4),
    st.sampled_from([None, 1, 2, 3, 6]),
    st.sampled_from([[], ["ab"], ["a_b", "aa"], ["a", "E\\"], ["", "a\nb", "a", "a"]]),
    st.sampled_from([RESERVED_TOKENS, ["<pad>"], []]),
)
def test_built_from_counts(counts, least, iterations, bound, more, first):
    reserved = [*first, *more] if first == RESERVED_TOKENS else first
    encoder = SubwordTextEncoder()
    encoder.build_from_token_counts(counts, least, iterations, reserved, bound)
    vocabulary = twins.subwords.build_subtokens(counts, least, iterations, reserved, bound)
    assert encoder._all_subtoken_strings == vocabulary
    if iterations:
        numbers = twins.subwords.build_edges(vocabulary)
        for word in counts:
            expected = twins.subwords.encode_split([word], numbers, encoder._max_subtoken_len, encoder._alphabet, None)
            assert encoder.encode_without_tokenizing(word) == expected
    encoder = SubwordTextEncoder.build_to_target_size(30, counts, 1, 20, bound, reserved, max(iterations, 1))
    expected = twins.subwords.bisect_subtokens(counts, 30, 1, 20, reserved, bound, max(iterations, 1))
    assert encoder._all_subtoken_strings == expected


SIZES = {"prose.txt": 60_000, "code.txt": 60_000, "cjk.txt": 12_000, "awkward.bin": 20_000}
SIZES |= {"corpora/english.txt": 30_000, "corpora/code.txt": 30_000}
SIZES |= {"corpora/hard.txt": 60_000}  # with a token of 11,025 characters
SIZES |= {"corpora/multilingual.txt": 20_000, "corpora/hard_bytes.bin": 20_000, "tinystories/tinystories_head_2M.txt": 100_000}


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_real_text(name, tmp_path):
    lines = real_lines(name, small(SIZES[name], 2500))
    data = "\n".join(lines).encode("utf-8", "surrogateescape")
    counter = TokenCounter()
    counter.add_lines(data)
    counts = counter.counts()
    assert counts == count(lines)
    # Without a bound the twin's memory is quadratic in the longest token.
    bound = None if max(map(len, counts)) < 100 else 20
    encoder = SubwordTextEncoder.build_to_target_size(1000, counts, 1, 1000, bound)
    vocabulary = twins.subwords.bisect_subtokens(counts, 1000, 1, 1000, RESERVED_TOKENS, bound)
    assert encoder._all_subtoken_strings == vocabulary
    expected = [twins.subwords.encode_words(line, vocabulary, encoder._alphabet, {}) if line else [] for line in lines]
    assert np.concatenate(list(encoder.encode_lines(data))).tolist() == [number for line in expected for number in line]
    for line, ids in zip(lines[:50], expected, strict=False):
        assert encoder.encode(line) == ids
        assert encoder.decode(ids) == line
    encoder.store_to_file(tmp_path / "vocab")
    loaded = SubwordTextEncoder(tmp_path / "vocab")
    assert loaded.all_subtoken_strings == encoder.all_subtoken_strings
    assert loaded.sha256 == encoder.sha256
    assert [loaded.encode(line) for line in lines[:50]] == expected[:50]


def test_long_tokens_take_linear_memory():
    generator = random.Random(0)
    length = small(200_000, 300)
    counts = {"a" * length: 3, "".join(generator.choices(string.ascii_uppercase, k=length)): 2, "a" * (length // 2): 1}
    encoder = SubwordTextEncoder.build_to_target_size(600, counts, 1, 500)
    assert set("".join(counts)) <= set(encoder.all_subtoken_strings)
    for word in counts:
        assert encoder.decode(encoder.encode(word)) == word
    bounded = SubwordTextEncoder.build_to_target_size(600, counts, 1, 500, max_subtoken_length=10, num_iterations=1)
    assert max(map(len, bounded.all_subtoken_strings)) == 9


def test_known_vocabulary():
    encoder = SubwordTextEncoder()
    encoder.build_from_token_counts({"low": 5, "lower": 2}, 3, 1)
    # At first each character is a boundary: "low_", "ow_" and "w_" have 5, "_" has 7. "low" has 7, and 2 without "low_".
    assert encoder.all_subtoken_strings[:11] == ("<pad>_", "<EOS>_", "_", "w_", "ow_", "low_", "w", "r", "o", "l", "e")
    assert twins.subwords.build_subtokens({"low": 5, "lower": 2}, 3, 1, RESERVED_TOKENS) == list(encoder.all_subtoken_strings)


def test_escaping():
    alphabet = set("abc\\_u;0123456789\n")
    assert word_tokenizer.escape_token("a_b\\c\nx", alphabet) == "a\\ub\\\\c\\10;\\120;_"
    assert word_tokenizer.unescape_token("a\\ub\\\\c\\10;\\120;_") == "a_b\\c\nx"
    assert word_tokenizer.unescape_token("\\1114112;\\99999999999999999999;\\9_") == "\u3013\u3013\\9"
    with pytest.raises(ValueError, match="expected a str"):
        word_tokenizer.escape_token(b"bytes", alphabet)


@given(st.text(max_size=20), st.sets(st.characters(), max_size=20))
def test_unescaping(token, alphabet):
    alphabet |= set("\\_u;0123456789")
    escaped = word_tokenizer.escape_token(token, alphabet)
    assert [escaped] == twins.subwords.escape_tokens([token], alphabet)
    assert set(escaped) <= alphabet - {"\n"}
    assert escaped.index("_") == len(escaped) - 1
    assert word_tokenizer.unescape_token(escaped) == twins.subwords.unescape_token(escaped) == token


def test_lone_surrogates():
    text = "a\ud800b \udcff c\udcc3\udca9"
    encoder = SubwordTextEncoder.build_from_generator([text, "plain"], 60)
    assert encoder.all_subtoken_strings == tuple(
        twins.subwords.bisect_subtokens(count([text, "plain"]), 60, 1, 1000, RESERVED_TOKENS)
    )
    ids = encoder.encode(text)
    assert ids == twins.subwords.encode_words(text, list(encoder.all_subtoken_strings), encoder._alphabet)
    assert encoder.decode(ids) == text


def test_reserved_tokens():
    reserved = ["<pad>", "<EOS>", "<sos>", "x"]
    encoder = SubwordTextEncoder.build_from_generator(["the x of <sos> x x xx"], 40, reserved_tokens=reserved)
    assert encoder.all_subtoken_strings[:4] == ("<pad>_", "<EOS>_", "<sos>_", "x_")
    assert encoder.decode([EOS_ID]) == "<EOS>"
    assert encoder.encode_without_tokenizing("<sos>") == [2]
    # "x_" is in the list twice; the last one counts.
    assert encoder._subtoken_string_to_id["x_"] > 3
    text = "<sos> xx <EOS>"
    assert encoder.decode(encoder.encode(text)) == text


def test_loading_lines_with_and_without_quotes():
    for lines in (["the", "and", "of"], ["'the'", "'and'", "'of'"], ['"the"', '"and"', '"of"']):
        encoder = SubwordTextEncoder()
        encoder._load_from_file_object(io.StringIO("\n".join(lines) + "\n"))
        assert encoder.all_subtoken_strings == ("the", "and", "of")
        encoder._load_from_file_object(io.BytesIO("\n".join(lines).encode()))
        assert encoder._subtoken_string_to_id == {"the": 0, "and": 1, "of": 2}
        assert encoder._alphabet == set("theandof\\_u;0123456789")
        assert encoder._max_subtoken_len == 3


def test_files(tmp_path):
    encoder = SubwordTextEncoder.build_from_generator(["a 'quoted' \"word\"\r\n\x85 \u2028 and\tmore"], 60)
    assert "\n" in encoder.all_subtoken_strings
    encoder.store_to_file(tmp_path / "quoted")
    data = (tmp_path / "quoted").read_bytes()
    assert data.count(b"\n") == encoder.vocab_size
    assert data.startswith(b"'<pad>_'\n'<EOS>_'\n")
    assert SubwordTextEncoder(tmp_path / "quoted").all_subtoken_strings == encoder.all_subtoken_strings
    plain = SubwordTextEncoder.build_from_generator(["it's", 'a"word, word'], 60)
    plain.store_to_file(tmp_path / "plain", add_single_quotes=False)
    assert (tmp_path / "plain").read_text().split("\n")[:-1] == list(plain.all_subtoken_strings)
    loaded = SubwordTextEncoder(str(tmp_path / "plain"))
    read = ["" if string in ("'", '"') else string.rstrip() for string in plain.all_subtoken_strings]
    assert loaded.all_subtoken_strings == tuple(read)
    assert loaded.decode(loaded.encode("it's a word")) == "it's a word"
    assert loaded.filename == str(tmp_path / "plain")


@pytest.mark.parametrize(
    ("lines", "strings"),
    [
        ("<pad>\n<EOS>\nthe_\n", ["<pad>", "<EOS>", "the_"]),
        ("'<pad>_'\r\n'<EOS>_'\r\n' the_'", ["<pad>_", "<EOS>_", " the_"]),
        ("a\n  \nb\n\n", ["a", "", "b", ""]),
        ("'\n'\n''\n\"\n'''\n", ["", "", "", "", "'"]),
        ("  a \n'b' \n 'c'\n'd\"\n", ["  a", "b", " 'c'", "'d\""]),
        ('"\\n"\n\'"\\n"\'\n', ["\n", '"\\n"']),
    ],
)
def test_read_like_the_published_code(tmp_path, lines, strings):
    (tmp_path / "vocab").write_bytes(lines.encode())
    encoder = SubwordTextEncoder(tmp_path / "vocab")
    assert encoder.all_subtoken_strings == tuple(strings)
    assert encoder._subtoken_string_to_id == {string: i for i, string in enumerate(strings) if string}
    assert encoder.vocab_size == len(strings)


def test_empty_file(tmp_path):
    (tmp_path / "vocab").write_bytes(b"")
    with pytest.raises(TokenizerFormatError, match="is empty"):
        SubwordTextEncoder(tmp_path / "vocab")


def test_missing_file(tmp_path):
    with pytest.raises(TokenizerFormatError, match="there is no such file"):
        SubwordTextEncoder(tmp_path / "vocab")
    encoder = SubwordTextEncoder.build_from_generator(["a"], 20)
    with pytest.raises(OutputError):
        encoder.store_to_file(tmp_path / "missing" / "vocab")
    encoder = SubwordTextEncoder.build_from_generator(["a \ud800"], 20)
    with pytest.raises(TokenizerFormatError, match="lone surrogates"):
        encoder.store_to_file(tmp_path / "vocab")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("reserved", [["<go>"], ["<EOS>", "<pad>"], ["<pad>", "<go>", "<EOS>"]])
def test_reserved_tokens_missing_or_out_of_order(reserved):
    with pytest.raises(TrainingError, match="put these first, in this order"):
        SubwordTextEncoder().build_from_token_counts({"a": 1}, 1, reserved_tokens=reserved)
    with pytest.raises(TrainingError, match="put these first, in this order"):
        SubwordTextEncoder.build_from_generator(["a"], 20, reserved_tokens=reserved)


def test_invalid_reserved_token():
    with pytest.raises(TrainingError, match="reserved token 2 is 5"):
        SubwordTextEncoder.build_from_generator(["a"], 20, reserved_tokens=[*RESERVED_TOKENS, 5])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((20, {"a": 1}, 5, 4), "min_val <= max_val"),
        ((0, {"a": 1}, 1, 4), "target_size is 0"),
        ((20, {"a": -1}, 1, 4), "expected 0 or more"),
        ((20, {"a": 1.5}, 1, 4), "not an integer"),
        ((20, {"a": 2**70}, 1, 4), "not an integer"),
        ((20, {"a": None}, 1, 4), "not an integer"),
        ((20, {"a": 1}, 1.5, 1.25), "min_val <= max_val"),
        ((20, {"a": 1}, 1, 1e300), "a number below 2.63"),
    ],
)
def test_invalid_arguments(arguments, message):
    with pytest.raises(TrainingError, match=message):
        SubwordTextEncoder.build_to_target_size(*arguments)
    assert issubclass(TrainingError, ValueError)


def test_empty_sample():
    with pytest.raises(CorpusError, match="sample is empty"):
        SubwordTextEncoder().build_from_token_counts({}, 1)


@pytest.mark.parametrize("number", [-1, 10**6, 2**70])
def test_ids_out_of_range(number):
    encoder = SubwordTextEncoder.build_from_generator(["a b"], 20)
    ids = [*encoder.encode("a"), number, *encoder.encode("b")]
    assert encoder.decode(ids) == "a b"
    assert encoder.decode_list([2, number])[1] == ""
    assert encoder.decode(np.array(encoder.encode("a b"), np.uint16)) == "a b"
    assert encoder.decode([]) == ""


def test_reserved_ids_at_the_end():
    encoder = SubwordTextEncoder.build_from_generator(["a b"], 20)
    ids = [*encoder.encode("a b"), 1, 0, 0]
    assert encoder.decode(ids) == "a b<EOS><pad><pad>"
    assert encoder.decode(ids, strip_extraneous=True) == encoder.decode(np.array(ids), True) == "a b"
    assert encoder.num_reserved_ids == 2
    assert isinstance(encoder, TextEncoder)


def test_numbers_as_floats():
    counts = Counter(["the", "then", "there"] * 3)
    expected = SubwordTextEncoder.build_to_target_size(30, counts, 1, 1000).all_subtoken_strings
    assert SubwordTextEncoder.build_to_target_size(30.0, counts, 1.0, 1e3).all_subtoken_strings == expected
    huge = SubwordTextEncoder.build_to_target_size(2**62, counts, 2**62, 9e18, max_subtoken_length=2**70)
    assert set(map(len, huge.all_subtoken_strings[2:])) == {1}
    for bound in (1, 0, -3):
        encoder = SubwordTextEncoder.build_to_target_size(30, counts, 1, 4, max_subtoken_length=bound)
        assert set(map(len, encoder.all_subtoken_strings[2:])) == {1}


def test_token_that_cannot_be_encoded(monkeypatch):
    encoder = SubwordTextEncoder()
    encoder._load_from_file_object(["a", "_", "\\"])
    for text in ("a b", "b" * 20, "a\ud800"):
        for published in (ValueError, AssertionError):
            with pytest.raises(published, match="cannot be encoded with this vocabulary"):
                encoder.encode(text)
    with pytest.raises(ValueError, match="cannot be encoded with this vocabulary"):
        encoder.encode_without_tokenizing("b")
    assert encoder.encode("aaa") == [0, 0, 0, 1]


def test_changed_attributes(monkeypatch):
    monkeypatch.setattr(vocabulary_building, "ESCAPE_CHARS", set("\\_;13579"))
    encoder = SubwordTextEncoder.build_to_target_size(100, Counter(["the", "quick", "brown", "fox"]), 2, 10)
    assert "0" not in encoder._alphabet
    with pytest.raises(ValueError, match="cannot be encoded"):
        encoder.encode("2 0")


def test_copies_and_threads():
    text = data_text("prose.txt")[: small(200_000, 2000)].decode("utf-8", "ignore")
    encoder = SubwordTextEncoder.build_from_generator([text], 500)
    expected = encoder.encode(text)
    for other in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        assert other.encode(text) == expected
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(encoder.encode, [text] * 8)) == [expected] * 8
        parts = [text[start : start + length] for start in range(0, len(text) // 2, 997) for length in (0, 1, 60, 900)]
        assert [*pool.map(encoder.encode, parts)] == [encoder.encode_array(part).tolist() for part in parts]


def test_lengths_near_that_of_short_texts():
    alphabet = "aé日1 _"
    encoder = SubwordTextEncoder.build_from_generator([alphabet], 30)
    for n in range(LINE_BYTES - 2, LINE_BYTES + 3):
        for text in ("a" * n, " " * n, "a " * (n // 2), "日" * (n // 3) + " " * (n % 3), "_" * n):
            expected = twins.subwords.encode_words(text, encoder.all_subtoken_strings, encoder._alphabet)
            assert encoder.encode(text) == encoder.encode_array(text).tolist() == expected
            assert encoder.encode("a") == encoder.encode_array("a").tolist()  # with the rest of a longer text behind it


def test_lines_that_are_no_usual_strings():
    """They are encoded in another way than by the builtin function, or refused, and the next line is not affected."""
    encoder = SubwordTextEncoder.build_from_generator(["a \ufffd \u6771\U0001f642 b"], 30)
    plain = encoder.encode("a b")
    for text in ("\ufffd", "a \ufffd\u6771 b", "\u6771\U0001f642", type("Text", (str,), {})("a b"), b"a b", ""):
        assert encoder.encode(text) == encoder.encode_array(text).tolist()
        assert encoder.encode("a b") == plain
    for text in ("\ud800", "a \ud800 \u6771", "z"):
        expected = twins.subwords.encode_words(text, encoder.all_subtoken_strings, encoder._alphabet)
        assert encoder.encode(text) == expected
        assert encoder.encode("a b") == plain
    for wrong in (None, 5, ["a"]):
        with pytest.raises(TypeError, match="s is"):
            encoder.encode(wrong)


@settings(max_examples=small(300, 30))
@given(st.text("aé日1 _\ufffd\ud800\U0001f642z", max_size=40) | st.none() | st.binary())
def test_encode_line(some):
    encoder = SubwordTextEncoder.build_from_generator(["aé日1 _\ufffd\U0001f642"], 40)

    def encode(text: str) -> list[int] | None:
        with suppress(ValueError):
            return encoder.encode_array(text).tolist()
        return None

    found = encoder._greedy.encode_line(some)
    is_possible = encoder._greedy.encode_line is not greedy_encoding._never
    assert found == (twins.subwords.encode_line(some, LINE_BYTES, encode) if is_possible else None)


def test_lines_with_end_markers():
    encoder = SubwordTextEncoder.build_from_generator(["a b", "c"], 30)
    a, c = encoder.encode("a b"), encoder.encode("c")
    for data in (b"a b\n\n\nc", b"a b\n\n\nc\n"):
        assert np.concatenate(list(encoder.encode_lines(data, append_eos=True))).tolist() == [*a, 1, 1, 1, *c, 1]
        assert np.concatenate(list(encoder.encode_lines(data))).tolist() == [*a, *c]
    assert list(encoder.encode_lines(b"", append_eos=True)) == []
