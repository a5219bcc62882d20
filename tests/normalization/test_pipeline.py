"""Comparison of the components of pipelines with those of `tokenizers`."""

from __future__ import annotations

import random
import unicodedata

import numpy as np
import pytest
from conftest import small
from helpers import huggingface as hf
from hypothesis import assume, given, settings, strategies as st

from bpejit.encoding.encoder import Encoder
from bpejit.errors import TokenizerFormatError
from bpejit.formats.huggingface_reading import model_from_json
from bpejit.formats.missing_parts import TOOLS_UNICODE
from bpejit.normalization.added_tokens import is_word, overlap
from bpejit.normalization.alignment import AlignedText, one_to_one
from bpejit.normalization.normalizers import WHITE_SPACE, make_normalizer
from bpejit.normalization.pretokenizers import make_pretokenizer
from bpejit.normalization.unicode_forms import (
    FORMS,
    form_sources,
    is_normalized,
    lowered,
    normalized,
    starts_anew,
)
from bpejit.utf8 import widths

tokenizers = pytest.importorskip("tokenizers")

EVERY = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
SOME = EVERY[:: small(1, 97)]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_normal_forms_of_every_character(form):
    theirs = getattr(tokenizers.normalizers, form)()
    assert [hex(point) for point in SOME if theirs.normalize_str(chr(point)) != normalized(form, chr(point))] == []


@pytest.fixture(scope="module")
def combining() -> list[str]:
    """Return characters that are reordered, combine or decompose, in Python's version of Unicode or a later one."""
    found = [chr(point) for point in EVERY if unicodedata.combining(chr(point)) or unicodedata.decomposition(chr(point))]
    later = "\u0898\u1ac1\u0c3c\u1df9\U00011935\U00011930\U00011938\U000105d2\U000113c2\U0001611e\U00016d67\U0001e030\ua7f2"
    return [*found, *later, *("".join(found[::50]) * 3), *map(chr, range(0x1100, 0x1200))]


def test_normal_forms_of_sequences(combining):
    generator = random.Random(7)
    theirs = {form: getattr(tokenizers.normalizers, form)() for form in FORMS}
    for _ in range(small(8000, 500)):
        text = "".join(generator.choices(combining, k=generator.randrange(1, 7))) + generator.choice("abc\u0345\u0334\u0301")
        for form, normalizer in theirs.items():
            assert normalized(form, text) == normalizer.normalize_str(text), text.encode("unicode_escape")
            assert not is_normalized(form, text) or normalized(form, text) == text


@pytest.fixture(scope="module")
def their_sources():
    """Return, for each normal form, a function that returns the source character of each byte of the normalized text."""
    vocab = {character: number for number, character in enumerate(tokenizers.pre_tokenizers.ByteLevel.alphabet())}
    made = {}
    for form in FORMS:
        made[form] = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, []))
        made[form].normalizer = getattr(tokenizers.normalizers, form)()
        made[form].pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return {form: lambda text, one=one: [start for start, _ in one.encode(text).offsets] for form, one in made.items()}


@pytest.mark.slow
def test_sources_of_normal_forms(combining, their_sources):
    generator = random.Random(8)
    for _ in range(small(4000, 200)):
        text = "".join(generator.choices(combining, k=generator.randrange(1, 9))) + generator.choice("abc\u0345\u0334\u0301")
        for form, theirs in their_sources.items():
            sources = form_sources(form, text)
            changed = normalized(form, text)
            assert np.repeat(sources.of, widths(changed)).tolist() == theirs(text), (form, text.encode("unicode_escape"))
            assert (sources.low <= sources.of).all()
            assert (sources.of <= sources.high).all()


@pytest.mark.slow
def test_sources_of_normal_forms_of_every_character(their_sources):
    """Put each affected character between two letters, so that nothing combines across them."""
    for form, theirs in their_sources.items():
        changing = [
            chr(point) for point in SOME if unicodedata.combining(chr(point)) or normalized(form, chr(point)) != chr(point)
        ]
        for start in range(0, len(changing), 256):
            text = "a".join(changing[start : start + 256])
            sources = form_sources(form, text)
            assert np.repeat(sources.of, widths(normalized(form, text))).tolist() == theirs(text)


@given(text=st.text(st.sampled_from("ab\u0301\u0323e\u0338ﬁ각\u1100\u1161\u11a8é\u0344"), max_size=8), index=st.integers(0, 8))
def test_sources_cover_all_contributing_characters(text, index):
    """If no source range spans an index, both sides of it are normalized independently."""
    for form in FORMS:
        sources = form_sources(form, text)
        before = int((sources.high < index).sum())
        if (sources.low[before:] >= index).all():
            assert normalized(form, text)[:before] == normalized(form, text[:index])
            assert normalized(form, text)[before:] == normalized(form, text[index:])


@pytest.mark.slow
def test_lower_case_of_every_character():
    theirs = tokenizers.normalizers.Lowercase()
    assert [hex(point) for point in SOME if theirs.normalize_str(chr(point)) != lowered(chr(point))] == []
    assert lowered("ΑΣ ΑΣ\u0130") == theirs.normalize_str("ΑΣ ΑΣ\u0130")


def test_whitespace():
    theirs = tokenizers.normalizers.Strip()
    assert {chr(point) for point in SOME if not theirs.normalize_str(chr(point))} == {chr(point) for point in SOME} & set(
        WHITE_SPACE
    )


def test_boundary_characters():
    seconds = {
        unicodedata.normalize("NFD", chr(point))[1:2]
        for point in EVERY
        if unicodedata.decomposition(chr(point))[:1] not in ("", "<")
    }
    for point in EVERY:
        if starts_anew(chr(point)):
            assert chr(point) not in seconds
            assert not unicodedata.combining(chr(point))


@pytest.mark.slow
def test_words_around_single_words():
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE({"x": 0}, []))
    theirs.add_tokens([tokenizers.AddedToken("<>", single_word=True)])
    some = [chr(point) for point in SOME[:: small(7, 1)]]
    assert [hex(ord(one)) for one in some if is_word(one, TOOLS_UNICODE) == bool(theirs.encode(f"{one}<>").ids)] == []


@pytest.mark.slow
@pytest.mark.parametrize("component", ["punctuation", "digits"])
def test_sets_of_characters(component):
    theirs, ours = {
        "punctuation": (tokenizers.pre_tokenizers.Punctuation("isolated"), {"type": "Punctuation"}),
        "digits": (tokenizers.pre_tokenizers.Digits(True), {"type": "Digits", "individual_digits": True}),
    }[component]
    split = make_pretokenizer(ours, mapped=True, unicode=TOOLS_UNICODE).pieces
    text = "".join(f"\ue000{chr(point)}" for point in SOME)
    assert [piece.text for piece in split(AlignedText(text))] == [piece for piece, _ in theirs.pre_tokenize_str(text)]


@given(one=st.text("ab-", min_size=1, max_size=4), other=st.text("ab-", min_size=1, max_size=4))
def test_overlap(one, other):
    joined = {
        one[: len(one) - size] + other for size in range(len(one) + 1) if one.endswith(other[:size]) and size <= len(other)
    }
    joined |= {
        other[: len(other) - size] + one for size in range(len(other) + 1) if other.endswith(one[:size]) and size <= len(one)
    }
    shorter = min(len(text) for text in joined)
    assert overlap([one], [other]) == (shorter < len(one) + len(other) or one in other or other in one)


STRIPPING = ["<a>", "<b>", "<<a>", "a><", "\n", "  "]

FLAGS = st.fixed_dictionaries({name: st.booleans() for name in ("single_word", "lstrip", "rstrip", "normalized")})


@settings(deadline=None)
@given(
    tokens=st.dictionaries(st.sampled_from(STRIPPING), FLAGS, min_size=1, max_size=3),
    texts=st.lists(st.lists(st.sampled_from([*STRIPPING, " ", "\u3000", "\x1c", "ab", "é", ">"]), max_size=9), max_size=9),
)
def test_white_space_beside_added_tokens(tokens, texts):
    content = hf.tokenizer_json(added=tuple(hf.added_token(text, **flags) for text, flags in tokens.items()))
    try:
        encoder = Encoder(model_from_json(content))
    except TokenizerFormatError:
        assume(False)
    theirs = tokenizers.Tokenizer.from_str(hf.dumped(content))
    for text in map("".join, texts):
        try:
            expected = theirs.encode(text).ids
        except BaseException as error:
            assert "bad split" in str(error), error  # noqa: PT017
            continue
        assert encoder.encode(text).tolist() == encoder.encode_batch([text]).ids.tolist() == expected, text


def test_text_with_stripping_tokens_is_encoded_together():
    """The pipeline by itself takes ten times as long."""
    strip = hf.added_token("<a>", lstrip=True, rstrip=True), hf.added_token("<b>", normalized=True, rstrip=True)
    pipeline = Encoder(model_from_json(hf.tokenizer_json(added=strip))).splitter
    assert pipeline.rewrite("a b <a> \u3000c<b>\n\nd <b".encode()) == b"a b<a>c<b>d <b"
    crossing = hf.added_token("<a>", lstrip=True), hf.added_token("b<a>")
    pipeline = Encoder(model_from_json(hf.tokenizer_json(added=crossing))).splitter
    assert pipeline.rewrite(b"b <a>") is None, "there would be another token"


BERT = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}


@pytest.mark.slow
@pytest.mark.parametrize("change", [None, *BERT])
def test_removed_characters(change):
    """Compare StripAccents and each part of BertNormalizer over all code points."""
    if change is None:
        theirs, ours = tokenizers.normalizers.StripAccents(), make_normalizer({"type": "StripAccents"})
    else:
        fields = {**BERT, change: True}
        theirs, ours = tokenizers.normalizers.BertNormalizer(**fields), make_normalizer({"type": "BertNormalizer", **fields})
    assert [hex(point) for point in SOME if theirs.normalize_str(chr(point)) != ours(AlignedText(chr(point))).text] == []


@given(text=st.text(st.sampled_from("aé\u0301 \x00\ufffd中ÀΣ\u0130\t\u1734\u0345"), max_size=9))
def test_sources_of_bert(text):
    vocab = {character: number for number, character in enumerate(tokenizers.pre_tokenizers.ByteLevel.alphabet())}
    for value in ({"type": "BertNormalizer", **dict.fromkeys(BERT, True)}, {"type": "StripAccents"}):
        theirs = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, []))
        theirs.normalizer = (
            tokenizers.normalizers.StripAccents() if len(value) == 1 else tokenizers.normalizers.BertNormalizer(*[True] * 4)
        )
        theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        found = make_normalizer(value)(AlignedText(text, one_to_one(len(text))))
        assert np.repeat(found.sources.of, widths(found.text)).tolist() == [start for start, _ in theirs.encode(text).offsets]
