"""Comparison of patterns translated for tiktoken with tiktoken itself."""

# ruff: noqa: RUF001 (look-alike characters are intended)
from __future__ import annotations

from itertools import pairwise

import pytest
from conftest import data_text, examples, small
from helpers.splitting import split_whole
from helpers.strategies import PATTERN_ALPHABET, awkward_text, split_patterns
from hypothesis import example, given, strategies as st

from bpejit.errors import PatternError
from bpejit.formats.missing_parts import TOOLS_UNICODE
from bpejit.splitting import PRESETS, Splitter, to_fancy_regex

tiktoken = pytest.importorskip("tiktoken")

SINGLE = sorted(name for name, pattern in PRESETS.items() if isinstance(pattern, str))

BYTES = {bytes([byte]): byte for byte in range(256)}


def split_by_us(source: str, text: str) -> list[bytes]:
    data = text.encode()
    ends = split_whole(Splitter(source, unicode=TOOLS_UNICODE), data)
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def assert_equal_pieces(source: str, translated: str, text: str) -> None:
    """Make each piece and each two adjacent pieces a token: then each piece is encoded as its own token."""
    pieces = split_by_us(source, text)
    ranks = dict(BYTES)
    for piece in [*pieces, *(left + right for left, right in pairwise(pieces))]:
        ranks.setdefault(piece, len(ranks))
    encoding = tiktoken.Encoding("test", pat_str=translated, mergeable_ranks=ranks, special_tokens={})
    assert encoding.encode_ordinary(text) == [ranks[piece] for piece in pieces], translated


@pytest.mark.parametrize("name", SINGLE)
def test_presets_are_not_rewritten(name: str) -> None:
    assert to_fancy_regex(PRESETS[name]) == PRESETS[name]


@given(st.sampled_from(SINGLE), awkward_text())
@example("cl100k", "a\n  ")
@example("cl100k", "12345678")
@example("o200k", "we'Re 'ſ it'S\u0345")
@example("gpt2", "a \x1c\x1d\x85\u180e b")
def test_presets(name: str, text: str) -> None:
    assert_equal_pieces(PRESETS[name], to_fancy_regex(PRESETS[name]), text)


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("file", ["prose.txt", "code.txt", "cjk.txt"])
def test_presets_on_real_text(name: str, file: str) -> None:
    text = data_text(file)[: small(100_000, 3_000)].decode(errors="ignore")
    assert_equal_pieces(PRESETS[name], to_fancy_regex(PRESETS[name]), text)


@examples(1.5)
@given(split_patterns(), st.lists(st.text(alphabet=PATTERN_ALPHABET + "²iI\u0130\u0131S\u212aß", max_size=14), max_size=5))
def test_random_patterns(source: str, texts: list[str]) -> None:
    try:
        translated = to_fancy_regex(source)
    except PatternError as error:
        assert "cannot be translated because" in str(error) or "no split pattern named" in str(error)  # noqa: PT017
        return
    for text in texts:
        assert_equal_pieces(source, translated, text)


@pytest.mark.parametrize(
    ("source", "translated"),
    [
        (r"a$|[\s\S]\Z|[\s\S]", r"a$|[\s\S]\z|[\s\S]"),
        (r"(?i:dont)|[\s\S]", r"(?i:dont)|[\s\S]"),
        (r"(?i:d[io])|[\s\S]", r"(?:[Dd][IOio\x{130}])|[\s\S]"),
        (r"a{2}?b{,3}c{2,}+|[\s\S]", r"a{2}?b{0,3}c{2,}+|[\s\S]"),
        (r"\xe9[\x41-Z]\u4e2d\U0001F600|[\s\S]", r"\x{E9}[A-Z]\x{4E2D}\x{1F600}|[\s\S]"),
        (r"\p{L}+", r"\p{L}+|(?:(?!\p{L}+)[\s\S])++"),
        (r"\p{L}+|.", r"\p{L}+|.|(?:(?!\p{L}+|.)[\s\S])++"),
        (r"ab|[^a]", r"ab|[^a]|(?:(?!ab|[^a])[\s\S])++"),
        (r"\s+$|\S|\s\s", r"\s+$|\S|\s\s|(?:(?!\s+$|\S|\s\s)[\s\S])++"),
    ],
)
def test_translations(source: str, translated: str) -> None:
    assert to_fancy_regex(source) == translated
    for text in ("ab  a \n", "DONT dont aabbbcc", "é A é中😀éA中😀 ", "  "):
        assert_equal_pieces(source, to_fancy_regex(source), text)


@pytest.mark.parametrize("source", [r"(?<=a)b", r"a++a", r"\p{L}*", "(", "nonsense"])
def test_untranslatable_patterns(source: str) -> None:
    with pytest.raises(PatternError, match=r"cannot be translated because|does not compile|no split pattern named"):
        to_fancy_regex(source)
