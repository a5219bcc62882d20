"""Comparison of patterns read from Hugging Face tokenizers with `tokenizers`."""

# ruff: noqa: RUF001 (look-alike characters are intended)

from __future__ import annotations

import itertools
import random

import pytest
from conftest import small

from bpejit.errors import PatternError
from bpejit.normalization.normalizers import read_pattern
from bpejit.splitting import PRESETS, from_oniguruma, to_oniguruma

tokenizers = pytest.importorskip("tokenizers")

CHARACTERS = [
    *("aabbccdxXyzsStT'  \n\n\r\t.-_[]{}^$123" + "４²½中龥のßſKéÉ\u0301\u200c\u00a0\u2028\x1cIiİıǅfi🎉а~&|!,"),
    *("'s", "ſ", "  ", "\r\n", "ab", "st"),
]

ALIKE = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|x",
    "a++b|a",
    "(?<=a)b",
    "[-a]+|[b-]",
    ".+",
    "(?>a+)ab|b",
    r"[\s\S]",
    "[一-龥\u3040-ゟ゠-ヿ]",
    r"[\p{P}\$\+<=>\^~\|`]+",
    "[0-9][0-9][0-9]",
    r" ?[^(\s|.,!?…。，、।۔،)]+".replace("(", r"\("),
    r"\x41|\u4e2d",
]

REWRITTEN = {
    r"\p{N}{1,3}+|x": r"(?:\p{N}{1,3})+|x",
    "a{2}?b": "(?:a{2})?b",
    "a{,2}b|{x}": r"a{0,2}b|\{x\}",
    "a{1,2}?b": "a{1,2}?b",
    r"\h\H": "[0-9a-fA-F][^0-9a-fA-F]",
    r"a\z": r"a\z",
    "(ab|a)(c|bcd)": "(?:ab|a)(?:c|bcd)",
    "[a-c&&b-d]+": "[b-c]+",
    "[^a[bc]]": r"[\x00-\x60d-\U0010FFFF]",
    r"\x{4e00}": r"\u4E00",
    r"[\x{61}-\x{63}]": "[a-c]",
    "(?i)ab|c": "(?i:ab|c)",
    r"\p{^L}": r"\P{L}",
}

OTHERS = [
    *("^a|b$", r"\Z|x", r"\ba|\Bb", r"\w+|[^\w\s]+", r"\W+", r"[^\W_]+", r"[a\-z\w]+", r"[\w-]+", r"\R", r"[[:alpha:]]+"),
    *("[[:punct:]&&[^.]]", r"[\p{L}&&[^\p{Han}]]+", "[^[:^alpha:]x]", r"[[:word:]]+", r"[[:digit:]b]+", r"(?=(\d{3})+(?!\d))"),
    *(r"\d{1,3}(?=(?:\d{3})*\b)", r"[^[^a-c]b]", r"[\h]+", r"\Aa|b", "[[:upper:]][[:lower:]]", r"[[:space:][:blank:]]+"),
]

REFUSED = {
    r"\X": r"`\X`",
    r"\K": r"`\K`",
    r"(a)\1": r"`\1`",
    "(?m:.)": "the group `(?m:`",
    "(?<n>a)": "the group",
    "(?~a)": "the group",
    r"\xE9": "a byte",
    r"\p{Graph}": "the property 'Graph'",
    "(?i)st|x": "ß",
    "(?i:i)": "'i'",
    r"(?i:\w)": "under (?i)",
    "(?i:[a-z])": "under (?i)",
    "[]a]": "begins with `]`",
    "(a": "a missing `)`",
    "a)": "an unmatched `)`",
    "[a": "a missing `]`",
    "a**": "a quantifier after a quantifier",
    "*a": "nothing before it",
    "{2}": "nothing before it",
    "^*": "a repeated condition",
    "(?=a)+": "a repeated condition",
    "a{3,2}": "is larger",
    "a{100001}": "too large",
    "[a-\\d]": "a range without an end",
    "[[:graph:]]": "`[:graph:]",
    "\\": "`\\`",
    "(" * 5000: "nested too deep",
}


def check(source: str) -> None:
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(source), "isolated")
    finder = read_pattern({"Regex": source}, "pattern")
    generator = random.Random(source)
    for _ in range(small(300, 30)):
        text = "".join(generator.choices(CHARACTERS, k=generator.randrange(1, 14)))
        bounds = sorted({0, len(text)}.union(*finder.spans(text)))
        pieces = [text[start:end] for start, end in itertools.pairwise(bounds)]
        assert pieces == [piece for piece, _ in split.pre_tokenize_str(text)], text


@pytest.mark.parametrize("source", ALIKE)
def test_equivalent_patterns_are_not_rewritten(source):
    assert from_oniguruma(source) == source
    check(source)


@pytest.mark.parametrize("source", REWRITTEN)
def test_different_patterns_are_rewritten(source):
    assert from_oniguruma(source) == REWRITTEN[source]
    check(source)


@pytest.mark.slow
@pytest.mark.parametrize("source", OTHERS)
def test_matches_are_equal(source):
    check(source)


@pytest.mark.parametrize("name", [name for name, pattern in PRESETS.items() if isinstance(pattern, str)])
def test_presets_are_recognized(name):
    source = to_oniguruma(str(PRESETS[name]))
    check(source)
    assert read_pattern({"Regex": source}, "pattern").source == PRESETS[name]


@pytest.mark.parametrize("source", REFUSED)
def test_untranslatable_patterns_are_refused(source):
    with pytest.raises(PatternError) as caught:
        from_oniguruma(source)
    assert REFUSED[source] in str(caught.value)
