"""Tests of sequences of patterns: as one automaton, and through the `regex` package."""

from __future__ import annotations

import pytest
from conftest import data_text, examples, small
from helpers.splitting import all_cuts, split_at_cuts, split_by_regex, split_stream, split_whole
from helpers.strategies import PATTERN_ALPHABET, awkward_bytes, split_patterns
from hypothesis import assume, given, strategies as st

from bpejit.arrays import padded_text
from bpejit.errors import PatternError
from bpejit.model import Model, pattern_source
from bpejit.splitting import PRESETS, SplitPattern, Splitter, compile_pattern
from bpejit.splitting.pattern_compiler import compile_uncached

EARLIER = [
    *(r"\p{N}", r"\p{N}{1,3}", r"[ab]+", r"\s", "a|b", r"[^\s]+", r"\p{L}+", "a{2}", "[as1]{1,2}", r"[\r\n]+"),
    *(r"[a-zA-Z&&[^as]]+", r"[\w--[a-k]]", r"\p{L}+$", "a+(?=b)", r"\s?\p{L}+", r"\s+(?!\S)"),
]
earlier = st.lists(st.sampled_from(EARLIER), min_size=1, max_size=3)
later = st.one_of(st.sampled_from(EARLIER), st.just(PRESETS["gpt2"]), split_patterns())


def compiled(sources: list[str]) -> SplitPattern:
    try:
        return compile_uncached(tuple(sources))
    except PatternError:
        assume(False)
        raise


def check(splitter: Splitter, data: bytes) -> None:
    expected = split_by_regex(splitter, data)
    assert split_whole(splitter, data) == expected, (splitter.pattern.kind, data)
    assert splitter.split_by_regex(*padded_text(data)).tolist() == expected
    if splitter.automaton is not None:
        assert split_stream(splitter, [data[i : i + 2] for i in range(0, len(data), 2)]) == expected
        assert split_at_cuts(splitter, data, all_cuts(splitter, data)) == expected


@examples(2)
@given(earlier, later, st.lists(st.text(alphabet=PATTERN_ALPHABET, max_size=14), min_size=1, max_size=6), awkward_bytes(12))
def test_random_sequences(first: list[str], last: str, texts: list[str], data: bytes) -> None:
    splitter = Splitter(compiled([*first, last]), [b"<|endoftext|>"])
    for text in texts:
        check(splitter, text.encode())
    check(splitter, data)


@pytest.mark.parametrize("name", ["deepseek-v3", "starcoder"])
@given(data=awkward_bytes())
def test_presets(name: str, data: bytes) -> None:
    check(Splitter(name, [b"<|endoftext|>"]), data)


FALCON = (r"[\p{P}\$\+<=>\^~\|`]+", PRESETS["gpt2"], "[0-9][0-9][0-9]")
DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}")


@pytest.mark.parametrize(
    ("sources", "kind", "reason"),
    [
        ((r"\p{N}", r"[ab]+", r"\s+(?!\S)|\s+|\S+"), "transducer", ""),
        ((r"\p{N}{1,3}", r"\p{L}"), "transducer", ""),
        (FALCON, "regex", "boundaries of expression 2 of 3 depend on more"),
        (DEEPSEEK_CODER, "regex", "boundaries of expression 2 of 5 depend on more"),
        (
            (r"\p{N}", r"(?<=a)b"),
            "regex",
            "the group `(?<=` at character 0, which is outside the dialect (in expression 2 of 2)",
        ),
        ((r"a+b", r"c"), "regex", "more than two characters"),
        (
            (r"a++a", r"c"),
            "regex",
            "possessive quantifier that may differ from the greedy one at character 1 (in expression 1 of 2)",
        ),
        ((r"\p{N}", r"a*"), "regex", "empty string (in expression 2 of 2)"),
    ],
)
def test_kind_of_sequence(sources: tuple[str, ...], kind: str, reason: str) -> None:
    pattern = compile_pattern(sources)
    assert (pattern.kind, pattern.source, pattern.name) == (kind, sources, None)
    assert reason in pattern.reason
    assert bool(reason) == bool(pattern.reason)
    text = data_text("code.txt")[: small(20_000, 2_000)] + data_text("cjk.txt")[: small(20_000, 2_000)]
    splitter = Splitter(pattern)
    assert split_whole(splitter, text) == split_by_regex(splitter, text)


def test_boundary_is_end_of_text_for_the_next_pattern() -> None:
    assert split_whole(Splitter((r"\p{N}", r"a+(?!b)|a+$|\s+(?!\S)|\s")), b"aa1a  2  b") == [2, 3, 4, 6, 7, 8, 9, 10]
    assert split_whole(Splitter(("b", r"a{1,2}|\s")), b"aaabaa") == [2, 3, 4, 6]


def test_boundary_is_not_a_cut_while_earlier_pattern_counts() -> None:
    # There is a boundary between a and b in any text, but the next ones depend on the count of the first pattern.
    splitter = Splitter((r"[ab]{1,3}", r"a|b+|\s+"))
    assert splitter.pattern.kind == "transducer"
    for text in (b"abbbb", b"abbbb aabbbbb babab", b"abbbbabbbbaabbab " * 200):
        check(splitter, text)
    text, n_bytes = padded_text(b"abbbb a")
    assert splitter.find_cut(text, 1, n_bytes, n_bytes) == 5


def test_sequence_of_one_pattern() -> None:
    assert compile_pattern((PRESETS["gpt2"],)).source == PRESETS["gpt2"]
    assert compile_pattern((PRESETS["gpt2"],)).name == "gpt2"
    assert pattern_source((r"\s",)) == r"\s"
    assert pattern_source("starcoder") == PRESETS["starcoder"]


@pytest.mark.parametrize(
    ("sources", "message"),
    [((), "empty sequence"), ((r"\s", "gpt2"), "gpt2"), (("(", r"\s"), "does not compile")],
)
def test_invalid_sequences(sources: tuple[str, ...], message: str) -> None:
    with pytest.raises(PatternError, match=message):
        compile_pattern(sources)


def test_hash_of_a_model() -> None:
    tokens = {byte: bytes([byte]) for byte in range(256)}

    def sha256(pattern: str | tuple[str, ...]) -> str:
        return Model(tokens=tokens, merges=[], pattern=pattern).sha256

    assert sha256("starcoder") == sha256(PRESETS["starcoder"])
    assert sha256((r"\s",)) == sha256(r"\s")
    assert len({sha256(pattern) for pattern in ("starcoder", "gpt2", (r"a|b", "c|d"), (r"a|b|c|d",), ("c|d", "a|b"))}) == 5
    # The hash of a single pattern must not change.
    assert sha256("gpt2") == "6fc04656433ff5572967a30fbc0f3564704aa2d4fe7b5f5d3b6a7cf0b6876d41"
