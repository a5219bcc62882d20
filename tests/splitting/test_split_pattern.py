"""Tests of compiling patterns inside and outside the dialect: results, kinds, and messages."""

from __future__ import annotations

# ruff: noqa: RUF001 (look-alike characters are intended)
import pytest
import regex
from conftest import JIT, examples
from helpers.splitting import all_cuts, split_at_cuts, split_by_regex, split_stream, split_whole
from helpers.strategies import PATTERN_ALPHABET, awkward_bytes, split_patterns
from hypothesis import assume, given, strategies as st

from bpejit.errors import PatternError
from bpejit.splitting import PRESETS, SplitPattern, Splitter, compile_pattern
from bpejit.splitting.pattern_compiler import compile_uncached

short_texts = st.text(alphabet=PATTERN_ALPHABET, max_size=14)


def compiled(source: str) -> SplitPattern:
    """Compile a random pattern; skip the few that are invalid or look like the name of a preset."""
    try:
        return compile_uncached(source)
    except PatternError:
        assume(False)
        raise


@examples(4)
@given(split_patterns(), st.lists(short_texts, min_size=1, max_size=6))
def test_random_patterns(source: str, texts: list[str]) -> None:
    splitter = Splitter(compiled(source))
    for text in texts:
        data = text.encode()
        expected = split_by_regex(splitter, data)
        assert split_whole(splitter, data) == expected, (splitter.pattern.kind, text)
        if splitter.automaton is not None:
            assert split_stream(splitter, [data[i : i + 2] for i in range(0, len(data), 2)]) == expected
            assert split_at_cuts(splitter, data, all_cuts(splitter, data)) == expected


@given(split_patterns(), awkward_bytes(12))
def test_random_patterns_over_any_bytes(source: str, data: bytes) -> None:
    splitter = Splitter(compiled(source))
    assert split_whole(splitter, data) == split_by_regex(splitter, data)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_fast(name: str) -> None:
    pattern = compile_pattern(name)
    first = {"p50k": "r50k", "olmo2": "llama3"}.get(name, name)
    assert (pattern.kind, pattern.name, pattern.reason) == ("transducer", first, "")
    assert compile_pattern(PRESETS[name]).name == first


@pytest.mark.parametrize(
    ("source", "kind", "reason"),
    [
        (r"\p{N}{1,3}+|\s++$|\s+(?!\S)|[\s\S]", "transducer", ""),
        (r"a{1,2}+b|[\s\S]", "transducer", ""),
        (r"(?:ab|a)++|[\s\S]", "transducer", ""),
        (r"[ab]?+\p{N}|[\s\S]", "transducer", ""),
        (r" ?(?:\p{L}|\p{M})+|[\s\S]", "transducer", ""),
        (r"(?i)[a-k]+|K|[\s\S]", "transducer", ""),
        (r"\p{L}+", "transducer", ""),
        (r"a+b", "restart", "matched by no alternative"),
        (r"[a-z--[aeiou]]+|[\p{L}&&[^a-z]]", "transducer", ""),
        (r"[a-z[0-9]]+", "transducer", ""),
        (r"a+b|[\s\S]", "restart", "pending"),
        (r"a++a|[\s\S]", "regex", "possessive"),
        (r"(?:a|ab)++c|[\s\S]", "regex", "possessive"),
        (r"a*", "regex", "empty string"),
        (r"(?:a|(?=b))|[\s\S]", "regex", "empty string"),
        (r"(?:a?)*b|[\s\S]", "regex", "repeats a group that can match the empty string"),
        (r"(?<=a)b", "regex", "the group `(?<=`"),
        (r"(?=ab)a", "regex", "more than one character"),
        (r"(a)\1", "regex", r"`\1`"),
        (r"\ba|[\s\S]", "regex", r"`\b`"),
        (r"^a", "regex", "`^`"),
        (r"[a-z||x]", "regex", "`||` within a set"),
        (r"(?<=a)[a-z--x]", "regex", "the group `(?<=`"),
        (r"(?V1)[a-z--[aeiou]]", "regex", "the group `(?V1`"),
        (r"(?>a+)b", "regex", "the group `(?>"),
        (r"(?:[ab]{100}c){300}|[\s\S]", "regex", "too large"),
        (r"(?:[ab]*a[ab]{14})c|[\s\S]", "regex", "states"),
    ],
)
def test_kind_of_pattern(source: str, kind: str, reason: str) -> None:
    pattern = compile_pattern(source)
    assert pattern.kind == kind, pattern.reason
    assert reason in pattern.reason
    assert bool(reason) == bool(pattern.reason)
    splitter = Splitter(pattern, [b"<s>"])
    for data in (b"", b"aab ab<s>b123 c\n\n a1\xff", b"AaK\xe2\x84\xaaabcabab \n", b"a" * 20 + b"b" + b"ab" * 20 + b"c"):
        assert split_whole(splitter, data) == split_by_regex(splitter, data)


def test_dollar_matches_only_at_end_of_text() -> None:
    # Inside and outside the dialect; `$` within a set, or escaped, is itself.
    for source in (r"a$|a\n|[\s\S]", r"(?<!x)a$|a\n|[\s\S]", r"(?<!x)a\z|a\n|[\s\S]"):
        assert split_whole(Splitter(source), b"a\na") == [2, 3]
    for source in (r"[$a]+|[\s\S]", r"(?<!x)[$a]+|[\s\S]", r"(?<!x)[^\]$]*\$a\$|[\s\S]"):
        assert split_whole(Splitter(source), b"$a$\n") == [3, 4]
    assert split_whole(Splitter(r"(?m)a$|\n"), b"a\na") == [1, 2, 3]


@pytest.mark.parametrize("source", ["(", "[a", "a**", r"\p{Nonsense}", "(?<name", "a{2,1}"])
def test_invalid_pattern_is_quoted(source: str) -> None:
    with pytest.raises(PatternError, match="does not compile") as error:
        compile_pattern(source)
    assert repr(source) in str(error.value)
    assert "expected" in str(error.value)


def test_unknown_name_is_not_a_pattern() -> None:
    for name in ("gtp2", "cl100k_base", "o200k-base", "qwen3.6", ""):
        with pytest.raises(PatternError, match="no split pattern named"):
            compile_pattern(name)


def test_patterns_of_other_tokenizers_are_fast() -> None:
    letters = r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ranks = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
    older = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
    punctuation = (
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    for source in (letters, ranks, older, punctuation):
        assert compile_pattern(source).kind == "transducer", compile_pattern(source).reason


@pytest.mark.parametrize(
    ("source", "reason", "hint"),
    [
        (r"a|(?<= )\p{L}+", "the group `(?<=` at character 2", r"as in ` ?\p{L}+`"),
        (r"([ab])\1", r"`\1` at character 6", "(?:aa|bb)"),
        (r"a++a|b", "possessive quantifier that may differ from the greedy one at character 1", "remove the `+`"),
        (r"b|(?:a?)*", "repeats a group that can match the empty string at character 8", "write `+` or `*` either"),
        (r"\s+(?=\d{3})|.", "more than one character at character 3", r"`(?=\d)`"),
        (r"a(?!bc)", "more than one character at character 1", "`(?!b)`"),
        (r"\w+\b", r"`\b` at character 3", r"(?!\w)"),
        (r"x|^a", "`^` at character 2", r"write `\^` for the character"),
        (r"(?s:.)+", "the group `(?s:` at character 0", r"[\s\S]"),
        (r"a(?i)b", "the group `(?i)` at character 1", "around a part"),
        (r"(?>a+)b", "the group `(?>a` at character 0", "write `(?:`"),
        (r"(?P<x>a)", "the group `(?P<` at character 0", "write `(?:`"),
        (r"a*", "can match the empty string", "`+` for `*`"),
        (r"[[:alpha:]]+", "a POSIX class at character 1", r"\p{L}"),
        (r"a\Rb", r"`\R` at character 1", r"\r\n"),
    ],
)
def test_reasons_and_hints_outside_the_dialect(source: str, reason: str, hint: str) -> None:
    pattern = compile_pattern(source)
    assert pattern.kind == "regex"
    assert reason in pattern.reason
    assert hint in pattern.reason


def test_hints_for_slower_automaton() -> None:
    assert "`|[\\s\\S]`, may help" in compile_pattern("a+b").reason
    assert "beside `a`" in compile_pattern(r"a+b|[\s\S]").reason


@pytest.mark.skipif(not JIT, reason="about 200 classes of characters and as many alternatives: slow as plain Python")
def test_many_classes() -> None:
    # More classes than the narrowest row of a table has.
    source = "|".join(f"{chr(code)}+" for code in range(0x100, 0x1C8)) + r"|[\s\S]"
    splitter = Splitter(source)
    assert splitter.pattern.kind == "transducer"
    data = "".join(chr(0x100 + code % 230) * (code % 3) for code in range(3000)).encode()
    assert split_whole(splitter, data) == split_by_regex(splitter, data)
    assert split_at_cuts(splitter, data, all_cuts(splitter, data)) == split_by_regex(splitter, data)
    too_many = "|".join(f"{chr(code)}+" for code in range(0x100, 0x210))
    assert "255" in compile_pattern(too_many).reason


def test_sets_are_evaluated_independently() -> None:
    # Classes are computed from single sets: case folding must not depend on adjacent sets.
    for source, text in ((r"(?i)ss|.", "ßSsſS"), (r"(?i)[^k]+|.", "aKk\u212a"), (r"(?i:ǆ)x|.", "ǅxǄX"), (r"(?i)ı|i|.", "Iiİı")):
        splitter = Splitter(source)
        assert splitter.automaton is not None
        assert split_whole(splitter, text.encode()) == split_by_regex(splitter, text.encode())
        assert regex.fullmatch(f"(?:{source})+", text)
