"""Comparison of translated patterns with `tokenizers`, if it is installed."""

# ruff: noqa: RUF001 (look-alike characters are intended)
from __future__ import annotations

import numpy as np
import pytest
import regex
from conftest import data_text, examples, read_shared, small
from helpers.splitting import split_whole
from helpers.strategies import PATTERN_ALPHABET, awkward_text, split_patterns
from hypothesis import example, given, strategies as st

from bpejit.errors import PatternError
from bpejit.formats.missing_parts import TOOLS_UNICODE
from bpejit.splitting import PRESETS, Pattern, Splitter, compile_pattern, to_oniguruma
from bpejit.splitting.character_classes import set_boundaries
from bpejit.splitting.dialect_writer import _PROPERTIES
from bpejit.splitting.regex_syntax import Chars, parse

tokenizers = pytest.importorskip("tokenizers")


def translated(pattern: Pattern) -> Pattern:
    if isinstance(pattern, str):
        return to_oniguruma(pattern, unicode=TOOLS_UNICODE)
    return tuple(to_oniguruma(one, unicode=TOOLS_UNICODE) for one in pattern)


def split_by_tokenizers(pattern: Pattern, text: str) -> list[str]:
    sources = (pattern,) if isinstance(pattern, str) else pattern
    splits = [tokenizers.pre_tokenizers.Split(tokenizers.Regex(source), "isolated") for source in sources]
    splitter = tokenizers.pre_tokenizers.Sequence(splits)
    return [piece for piece, _ in splitter.pre_tokenize_str(text)]


def split_by_us(source: Pattern, text: str) -> list[str]:
    data = text.encode()
    ends = split_whole(Splitter(source, unicode=TOOLS_UNICODE), data)
    return [data[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]


def contained(source: str, text: str) -> str:
    """Return the characters of `text` in a set of Oniguruma, in order."""
    splitter = tokenizers.pre_tokenizers.Split(tokenizers.Regex(f"(?:{source})+"), "removed", invert=True)
    return "".join(piece for piece, _ in splitter.pre_tokenize_str(text))


def between(bounds: np.ndarray, text: str) -> str:
    """Return the characters of `text` in a set, given by its boundaries."""
    points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    inside = np.searchsorted(bounds, points, side="right") % 2 == 1
    return points[inside].tobytes().decode("utf-32-le")


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_not_rewritten(name: str) -> None:
    # Some readers of tokenizer.json recognize patterns by their text.
    # Possessive quantifiers are written as equivalent greedy ones; the end of the text is `\z`.
    sources = PRESETS[name] if isinstance(PRESETS[name], tuple) else (PRESETS[name],)
    for source in sources:
        plain = regex.sub(r"(?<=[?*+]|\{1,[23]\})\+", "", source.replace("$|", r"\z|")) if "++" in source else source
        assert to_oniguruma(source) == plain
    assert to_oniguruma(PRESETS["cl100k"]) == (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s+\z|\s*[\r\n]|\s+(?!\S)|\s"
    )


@given(st.sampled_from(sorted(PRESETS)), awkward_text())
@example("cl100k", "a\n  ")
@example("cl100k", "12345678")
@example("o200k", "we'Re 'ſ it'S\u0345")
def test_presets(name: str, text: str) -> None:
    assert split_by_tokenizers(translated(PRESETS[name]), text) == split_by_us(PRESETS[name], text)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("file", ["prose.txt", "code.txt", "cjk.txt"])
def test_presets_on_real_text(name: str, file: str) -> None:
    text = data_text(file)[: small(100_000, 3_000)].decode(errors="ignore")
    assert split_by_tokenizers(translated(PRESETS[name]), text) == split_by_us(PRESETS[name], text)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("name", [name for name in PRESETS if compile_pattern(name).name == name])
@pytest.mark.parametrize("corpus", ["english", "code", "multilingual", "hard"])
def test_presets_on_corpora(name: str, corpus: str) -> None:
    # One preset of each family splits more text than the others, to limit the time.
    n_bytes = 400_000 if name in ("gpt2", "cl100k", "o200k", "deepseek-v3") else 150_000
    text = read_shared(f"corpora/{corpus}.txt")[:n_bytes].decode(errors="ignore")
    assert split_by_tokenizers(translated(PRESETS[name]), text) == split_by_us(PRESETS[name], text)


@examples(1.5)
@given(split_patterns(), st.lists(st.text(alphabet=PATTERN_ALPHABET + "²iI\u0130\u0131S\u212aß", max_size=14), max_size=5))
def test_random_patterns(source: str, texts: list[str]) -> None:
    try:
        translated = to_oniguruma(source)
    except PatternError as error:
        assert "cannot be translated because" in str(error) or "no split pattern named" in str(error)  # noqa: PT017
        return
    for text in texts:
        assert split_by_tokenizers(translated, text) == split_by_us(source, text), translated


SETS = [
    *(r"\s", r"\S", r"\d", r"\D", r"\w", r"\W", r".", r"[^\w]", r"[\W\d]", r"[\w\s]", r"[^\s\p{L}\p{N}]", r"[^\r\n\p{L}\p{N}]"),
    *(r"\p{L}", r"\p{M}", r"\p{N}", r"\p{P}", r"\p{S}", r"\p{Z}", r"\p{Lu}", r"\p{Ll}", r"\p{Lt}", r"\p{Lm}", r"\p{Lo}"),
    *(r"\p{Nd}", r"\p{Nl}", r"\p{No}", r"\pL", r"\P{^Lu}", r"\p{Letter}", r"\p{IsAlphabetic}", r"\p{Script=Greek}", r"\p{Cc}"),
    *(
        r"(?i:s)",
        r"(?i:k)",
        r"(?i:i)",
        r"(?i:ß)",
        r"(?i:σ)",
        r"(?i:ǆ)",
        r"(?i:[a-z])",
        r"(?i:[^a-z])",
        r"(?i:\p{Lu})",
        r"(?i:\x6b)",
    ),
    *(r"[\f\v\a]", r"[\x41-\u0062\U00010400]", r"[-a\].^]", r"[\]\[\\^-]", r"\xe9", r"é", r"[é-ü]"),
]


STAGES = [
    *(r"\p{N}", r"\p{N}{1,3}", r"[ab]+", r"\s", "a|b", r"[^\s]+", r"\p{L}+", "a{2}", "[as1]{1,2}", r"[\r\n]+", r"\p{L}+$"),
    *(r"[a-zA-Z&&[^as]]+", r"[\w--[a-k]]", "a+(?=b)", r"\s?\p{L}+", r"\s+(?!\S)", PRESETS["gpt2"], PRESETS["llama3"]),
]


@given(
    st.lists(st.sampled_from(STAGES), min_size=1, max_size=3).map(tuple),
    st.lists(st.text(alphabet=PATTERN_ALPHABET, max_size=14), max_size=5),
    awkward_text(10),
)
def test_sequences(pattern: tuple[str, ...], texts: list[str], text: str) -> None:
    for one in (*texts, text):
        assert split_by_tokenizers(translated(pattern), one) == split_by_us(pattern, one)


OPERATIONS = [
    *(r"[\p{Lu}\p{Lo}\p{M}&&[^\p{Han}]]", r"[^\p{L}&&[^\p{Lu}]]", r"[\p{L}--\p{Lu}]", r"[\w--[\d_]]", r"[^a-z--[aeiou]]"),
    *(r"[a-e[x-z]\W]", r"[\p{L}&&\p{Greek}&&[α-ω]]", r"[[\w--\d]&&[^\p{Latin}]]"),
]


@pytest.mark.slow
@pytest.mark.compiled
def test_every_character() -> None:
    # Of the mostly unassigned planes, one code point in 61.
    points = [*range(0xD800), *range(0xE000, 0x34000), *range(0x34000, 0x110000, 61), *range(0xE0000, 0xE0200)]
    text = "".join(map(chr, sorted(set(points))))
    for source in SETS + OPERATIONS:
        wanted = between(set_boundaries(parse(source), TOOLS_UNICODE), text)
        found = contained(to_oniguruma(source, unicode=TOOLS_UNICODE), text)
        if found != wanted:  # a plain `assert` would take minutes to explain the difference of such long texts
            pytest.fail(f"{source}: {sorted(set(found) ^ set(wanted))[:20]}")


@pytest.mark.compiled
@pytest.mark.parametrize(
    "script",
    sorted(name for name in _PROPERTIES if len(name) > 2),
)
def test_scripts(script: str) -> None:
    source = rf"\p{{{script}}}"
    assert to_oniguruma(source) == source
    bounds = set_boundaries(Chars(source), TOOLS_UNICODE).tolist()
    text = "".join(chr(point) for pair in zip(bounds[::2], bounds[1::2], strict=True) for point in range(*pair))
    assert contained(source, text) == text


@pytest.mark.parametrize(
    ("source", "translated"),
    [
        (r"a$|\Z|\za", r"a\z|\z|\za"),
        (r"(?i)don't|a", r"(?i:don't|a)"),
        (r"(?i:ll|ve)|(?-i:x)", r"(?i:ll|ve)|(?-i:x)"),
        (r"(?i:ss)", r"(?:[Ss\x{17F}][Ss\x{17F}])"),
        (r"a{2}?b{,3}c{2,}+d{1,2}?", r"a{2}b{0,3}c{2,}d{1,2}?"),
        (r"\xe9[\x41-Z]\u4e2d\U0001F600", r"\x{E9}[A-Z]\x{4E2D}\x{1F600}"),
    ],
)
def test_translations(source: str, translated: str) -> None:
    if r"|\Z" in source:
        # It matches the empty string, but shows the rule.
        source, translated = source.replace(r"|\Z|\za", ""), translated.replace(r"|\z|\za", "")
    assert to_oniguruma(source) == translated


@pytest.mark.parametrize("source", [r"(?<=a)b", r"a++a", r"\p{L}*", "(", "nonsense"])
def test_untranslatable_patterns(source: str) -> None:
    with pytest.raises(PatternError, match=r"cannot be translated because|does not compile|no split pattern named"):
        to_oniguruma(source)


def test_untranslated_patterns_differ() -> None:
    # The untranslated patterns split differently: counted possessive quantifiers, and `$` before a final newline.
    assert split_by_tokenizers(PRESETS["cl100k"], "12345678") == ["12345678"]
    assert split_by_tokenizers(to_oniguruma(PRESETS["cl100k"]), "12345678") == ["123", "456", "78"]
    assert split_by_tokenizers(r"a$|a\n", "a\n") == ["a", "\n"]
    assert split_by_tokenizers(to_oniguruma(r"a$|a\n"), "a\n") == split_by_us(r"a$|a\n", "a\n") == ["a\n"]
