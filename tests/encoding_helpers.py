"""Small models for the tests of encoding, and the plainest encoder for them."""

from __future__ import annotations

import naive
import regex
from hypothesis import strategies as st

from bpejit.model import Model

ALPHABET = [b"a", b"b", b" ", b"\xe3\x81\x82", b"0"]
"""What the texts and tokens of small models are made of: few pieces, so that merges apply."""

WORDS = r"\p{L}+|\s"
"""A pattern that leaves gaps: what it does not match is a pre-token too."""

FALLBACK = r"(?<=a)b+|\p{L}+| "
"""A pattern that the split compiler does not take, so that it runs through the `regex` package."""

texts = st.lists(st.sampled_from([*ALPHABET, b"aaaa", b"ab", b"\x81", b"\xff", b"\n"]), max_size=120).map(b"".join)


@st.composite
def merge_lists(draw: st.DrawFn, max_merges: int = 40) -> list[tuple[bytes, bytes]]:
    """Merges over a small alphabet, in an order that no trainer would make as often as in one that it would."""
    tokens = [bytes([byte]) for byte in b"".join(ALPHABET)]
    merges: list[tuple[bytes, bytes]] = []
    for left, right in draw(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=max_merges)):
        pair = tokens[left % len(tokens)], tokens[right % len(tokens)]
        if pair not in merges and len(pair[0] + pair[1]) <= 40:
            merges.append(pair)
            tokens.append(pair[0] + pair[1])
    return draw(st.one_of(st.just(merges), st.permutations(merges)))


def make_model(
    merges: list[tuple[bytes, bytes]], specials: list[str] | None = None, *, pattern: str = "gpt2", step: int = 1
) -> Model:
    """A model whose ids go down from the end, with gaps if `step` is above 1, so that nothing hides behind an identity."""
    tokens = list(dict.fromkeys([*(bytes([byte]) for byte in range(256)), *(left + right for left, right in merges)]))
    numbers = [number * step for number in reversed(range(len(tokens) + len(specials or [])))]
    return Model(
        tokens=dict(zip(numbers, tokens, strict=False)),
        merges=merges,
        special_tokens=dict(zip(specials or [], numbers[len(tokens) :], strict=True)),
        pattern=pattern,
    )


@st.composite
def ranked_models(draw: st.DrawFn) -> Model:
    """Models whose tokens merge by rank; some of them no merges can make, and some bytes have larger ids than these."""
    parts = st.sampled_from([b"a", b"b", b" ", b"\xe3", b"\x81", b"\x82", b"0"])
    longer = draw(st.sets(st.lists(parts, min_size=2, max_size=9).map(b"".join), max_size=25))
    tokens = draw(st.permutations([*(bytes([byte]) for byte in range(256)), *sorted(longer)]))
    return Model(tokens=dict(enumerate(tokens)), merges=[], special_tokens={"<|e|>": 900}, ranked=True)


def naive_rules(model: Model) -> tuple[naive.Rules, list[int]]:
    """Rules and ids of a model, as the twins take them."""
    numbers: dict[bytes, int] = {bytes([byte]): byte for byte in range(256)}
    if model.ranked:
        for _, token in sorted(model.tokens.items()):
            numbers.setdefault(token, len(numbers))
        rows = [(left, right, token, token) for left, right, token in naive.list_splits(list(numbers))]
    else:
        for left, right in model.merges:
            numbers.setdefault(left + right, len(numbers))
        rows = [
            (numbers[left], numbers[right], numbers[left + right], rank)
            for rank, (left, right) in enumerate(model.merges)
            if left in numbers and right in numbers
        ]
    return naive.build_pairs(rows), [model.ids[token] for token in numbers]


def naive_ids(model: Model, data: bytes, pattern: str) -> list[int]:
    """Ids of a text by the plainest means; `pattern` is the regular expression that the model's pattern stands for."""
    rules, ids = naive_rules(model)
    specials = {text.encode("utf-8", "surrogateescape"): number for text, number in model.special_tokens.items()}
    whole = model.ids if model.ranked or model.ignore_merges else None
    return naive.encode_text(data, regex.compile(pattern), rules, ids, specials, whole)
