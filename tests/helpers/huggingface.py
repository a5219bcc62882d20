"""Pipelines of Hugging Face tokenizers for tests, as `tokenizer.json`."""

# ruff: noqa: RUF001 (look-alike characters are intended)

from __future__ import annotations

import json
from itertools import product
from typing import Any

from hypothesis import strategies as st

from bpejit.normalization.byte_characters import encode_byte_characters

PAIRED = " ab1-\n.Asé<"
"""Characters whose adjacent bytes always merge, so that ids show where text was split."""

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
GPT2_LEVEL = {**BYTE_LEVEL, "use_regex": True}


def vocabulary() -> tuple[dict[str, int], list[list[str]]]:
    """Return vocabulary and merges: all bytes, and the pairs of some of them."""
    vocab = {encode_byte_characters(bytes([byte])): number for number, byte in enumerate(reversed(range(256)))}
    merges = []
    for left, right in product(sorted(set(PAIRED.encode())), repeat=2):
        pair = [encode_byte_characters(bytes([byte])) for byte in (left, right)]
        merges.append(pair)
        vocab["".join(pair)] = len(vocab)
    return vocab, merges


def split(pattern: str, behavior: str = "Isolated", *, invert: bool = False, regex: bool = True) -> dict[str, Any]:
    """Return a `Split` pre-tokenizer."""
    return {
        "type": "Split",
        "pattern": {"Regex" if regex else "String": pattern},
        "behavior": behavior,
        "invert": invert,
    }


def sequence(*parts: dict[str, Any]) -> dict[str, Any]:
    """Return a `Sequence` of pre-tokenizers."""
    return {"type": "Sequence", "pretokenizers": list(parts)}


def added_token(content: str, **flags: bool) -> dict[str, Any]:
    """Return an added token; `tokenizer_json` sets its id."""
    usual = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": 0, "content": content, **usual, **flags}


def tokenizer_json(
    *,
    added: tuple[dict[str, Any], ...] = (),
    normalizer: dict[str, Any] | None = None,
    pre_tokenizer: dict[str, Any] | None = None,
    post_processor: dict[str, Any] | None = None,
    **model: Any,
) -> dict[str, Any]:
    """Return the content of a `tokenizer.json`."""
    vocab, merges = vocabulary()
    following = len(vocab)
    tokens = []
    for token in added:
        tokens.append({**token, "id": vocab.get(token["content"], following)})
        following += token["content"] not in vocab
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": tokens,
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer if pre_tokenizer is not None else GPT2_LEVEL,
        "post_processor": post_processor,
        "decoder": GPT2_LEVEL,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": merges,
            **model,
        },
    }


def dumped(content: dict[str, Any]) -> str:
    """Return the text of the file."""
    return json.dumps(content, ensure_ascii=False)


NORMALIZERS: dict[str, Any] = {
    "none": None,
    **{form: {"type": form} for form in ("NFC", "NFD", "NFKC", "NFKD")},
    "lower": {"type": "Lowercase"},
    "prepend": {"type": "Prepend", "prepend": "a "},
    "replace": {"type": "Replace", "pattern": {"String": " "}, "content": "_"},
    "replace-regex": {"type": "Replace", "pattern": {"Regex": "[ab]{2}+|^-"}, "content": "<a>"},
    "strip": {"type": "Strip", "strip_left": True, "strip_right": True},
    "strip-left": {"type": "Strip", "strip_left": True, "strip_right": False},
    "sequence": {
        "type": "Sequence",
        "normalizers": [
            {"type": "NFD"},
            {"type": "Lowercase"},
            {"type": "Replace", "pattern": {"Regex": r"\p{M}"}, "content": ""},
        ],
    },
}

DEEPSEEK = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BEHAVIORS = ("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous")

PRE_TOKENIZERS: dict[str, Any] = {
    "gpt2": GPT2_LEVEL,
    "whole": BYTE_LEVEL,
    "space": {**GPT2_LEVEL, "add_prefix_space": True},
    "space-whole": {**BYTE_LEVEL, "add_prefix_space": True},
    "llama3": sequence(split(LLAMA3), BYTE_LEVEL),
    "llama3-removed": sequence(split(LLAMA3, "Removed", invert=True), BYTE_LEVEL),
    "starcoder": sequence({"type": "Digits", "individual_digits": True}, GPT2_LEVEL),
    "digits-space": sequence({"type": "Digits", "individual_digits": False}, {**GPT2_LEVEL, "add_prefix_space": True}),
    "falcon": sequence(
        {"type": "Punctuation", "behavior": "Contiguous"},
        GPT2_LEVEL,
        {"type": "Digits", "individual_digits": False},
        split("[0-9][0-9][0-9]"),
    ),
    "superbpe": sequence(split(r"\p{N}+"), split(r"(?=(\d{3})+(?!\d))"), BYTE_LEVEL),
    "deepseek": sequence(split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"), split(DEEPSEEK), BYTE_LEVEL),
    **{
        f"{behavior}{'-inverted' if invert else ''}": sequence(split(r"-|a+|(?=b)|\s", behavior, invert=invert), BYTE_LEVEL)
        for behavior, invert in product(BEHAVIORS, (False, True))
    },
    **{f"string-{behavior}": sequence(split(" a", behavior, regex=False, invert=True), BYTE_LEVEL) for behavior in BEHAVIORS},
    **{
        f"punctuation-{behavior}": sequence({"type": "Punctuation", "behavior": behavior}, BYTE_LEVEL) for behavior in BEHAVIORS
    },
}

ADDED: dict[str, tuple[dict[str, Any], ...]] = {
    "none": (),
    "plain": (added_token("<a>"), added_token("ab", special=False)),
    "normalized": (
        added_token("<a>"),
        added_token("AB", normalized=True, special=False),
        added_token(" a ", normalized=True),
        added_token("éa", normalized=True),
    ),
    "stripping": (
        added_token("<a>", lstrip=True),
        added_token("<b>", rstrip=True),
        added_token("ab", single_word=True),
        added_token("A", single_word=True, normalized=True, rstrip=True, lstrip=True),
        added_token(" \n"),
    ),
    "overlapping": (added_token("a-"), added_token("-b", normalized=True)),
}


# ---- generated pipelines ---------------------------------------------------------------------------------------------

COMPONENTS: list[dict[str, Any]] = [
    *({"type": form} for form in ("NFC", "NFD", "NFKC", "NFKD")),
    {"type": "Lowercase"},
    *({"type": "Prepend", "prepend": prefix} for prefix in ("_", "é ", "<a>")),
    *({"type": "Strip", "strip_left": left, "strip_right": right} for left, right in product((False, True), repeat=2)),
    *(
        {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}
        for pattern, content in (
            (r"\s+", " "),
            (r"\p{M}", ""),
            ("[ab]", "éa"),
            (r"\z", "b!"),
            ("(?<=a)", "-"),
            ("i|İ|ﬁ", "<a>"),
            (r"^\s", ""),
        )
    ),
    {"type": "Replace", "pattern": {"String": "e"}, "content": "ﬁ"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
]
"""Normalizers. None matches nothing at the start of a text: `tokenizers` would insert its content twice."""

_CUTS: list[dict[str, Any]] = [
    {"type": "Digits", "individual_digits": True},
    {"type": "Punctuation", "behavior": "Removed"},
    *(split(r"\s", behavior) for behavior in BEHAVIORS),
    *(split("[Ġ ]|a", behavior, invert=True) for behavior in ("Removed", "Contiguous", "MergedWithNext")),
    split("Ã", "Removed", regex=False),
]

WORDS = [
    *("a", "b", "A", "B", "ab", "AB", "1", "12", " ", "  ", "-", ".", "\n", "<a>", "<b>", "éa", "é", "e\u0301", "e", "i", "_"),
    *("ﬁ", "ﷺ", "İ", "Σ", "½", "²", "\u0301", "\u0323", "e\u0302\u0323", "\u0344\u0323", "\u1e9b\u0323", "ệ", "Å", "\u212b"),
    *("각", "\u1100\u1161\u11a8", "가\u11a8", "\u1112\u1161", "\u11ab", "か\u3099", "ｶﾞ", "\u0f73\u0f71", "\u09c7\u09be"),
    *(
        "\u0958",
        "\u2adc",
        "\ufb2c",
        "\U0001d15e",
        "\u00a8",
        "㍿",
        "中",
        "龥",
        "🎉",
        "👩‍👩‍👧",
        "🇩🇪",
        "\u3000",
        "\u00a0",
        "\u1abf",
        "\u0315",
    ),
]
"""Edge cases of alignments: marks that combine or are reordered, jamo, ligatures, characters that expand or disappear."""

words = st.lists(st.sampled_from(WORDS), max_size=12).map("".join)

_flags = st.fixed_dictionaries({name: st.booleans() for name in ("single_word", "lstrip", "rstrip", "normalized", "special")})


@st.composite
def added_tokens(draw: st.DrawFn) -> tuple[dict[str, Any], ...]:
    """Draw added tokens with any flags."""
    texts = draw(
        st.lists(st.sampled_from(["<a>", "<b>", "ab", "A", "éa", "e\u0301", " \n", "ﬁ", "각"]), max_size=4, unique=True)
    )
    return tuple(added_token(text, **draw(_flags)) for text in texts)


@st.composite
def post_processors(draw: st.DrawFn) -> dict[str, Any] | None:
    """Draw post-processors that may trim offsets and may add tokens around a text."""
    trimming = {"trim_offsets": draw(st.booleans()), "add_prefix_space": draw(st.booleans())}
    level = {"type": "ByteLevel", "use_regex": True, **trimming}
    roberta = {"type": "RobertaProcessing", "sep": ["a", 1], "cls": ["b", 2], **trimming}
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "a", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"a": {"id": "a", "ids": [1], "tokens": ["a"]}},
    }
    both = {"type": "Sequence", "processors": draw(st.permutations([level, template]))}
    return draw(st.sampled_from([None, level, roberta, both]))


@st.composite
def pipelines(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the content of a `tokenizer.json` with any normalizers, pre-tokenizers, added tokens and post-processor."""
    normalizers = draw(st.lists(st.sampled_from(COMPONENTS), max_size=3))
    maps = draw(st.integers(0, 4)) == 0
    if maps:
        normalizers.append({"type": "ByteLevel"})
        pre_tokenizer = sequence(*draw(st.lists(st.sampled_from(_CUTS), max_size=2)))
    else:
        level = {**BYTE_LEVEL, "add_prefix_space": draw(st.booleans()), "use_regex": draw(st.booleans())}
        parts = [draw(st.lists(st.sampled_from(_CUTS), max_size=2)) for _ in range(2)]
        whole = sequence(*parts[0], level, *parts[1])
        pre_tokenizer = draw(st.one_of(st.just(whole), st.sampled_from(list(PRE_TOKENIZERS.values()))))
    return tokenizer_json(
        added=draw(added_tokens()),
        normalizer={"type": "Sequence", "normalizers": normalizers} if normalizers else None,
        pre_tokenizer=pre_tokenizer,
        post_processor=draw(post_processors()),
    )
