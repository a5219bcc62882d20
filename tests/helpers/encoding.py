"""Small models for the tests of encoding, and a naive encoder."""

from __future__ import annotations

from collections import Counter

import numpy as np
import regex
import twins
from conftest import small
from hypothesis import strategies as st

from bpejit.kernels.encoding import (
    boundary_filter,
    interleaved_merging,
    long_pretokens,
    pretoken_cache,
    sentence_merging,
    superword_merging,
    superword_pieces,
)
from bpejit.kernels.encoding.encoder_arrays import WorkspaceArrays
from bpejit.kernels.encoding.interleaved_merging import RECENT_SPANS
from bpejit.kernels.splitting.spans import STATE_SIZE
from bpejit.model import Model
from bpejit.splitting.presets import PRESETS
from helpers.learner import learn_merges
from helpers.training import table_of

ALPHABET = [b"a", b"b", b" ", b"\xe3\x81\x82", b"0"]
"""The pieces of texts and tokens of small models: few, so that merges apply."""

WORDS = r"\p{L}+|\s"
"""A pattern that leaves gaps: text that it does not match is a pre-token, too."""

FALLBACK = r"(?<=a)b+|\p{L}+| "
"""A pattern outside the dialect, which runs through the `regex` package."""

PATTERNS = {"gpt2": PRESETS["gpt2"], "o200k": PRESETS["o200k"], WORDS: WORDS, FALLBACK: FALLBACK}
SMALL = {"cache_bytes": 1 << 10, "cache_limit": 1 << 10, "text_bytes": 48}
"""Sizes of a very small workspace, so that space runs out often."""

texts = st.lists(st.sampled_from([*ALPHABET, b"aaaa", b"ab", b"\x81", b"\xff", b"\n"]), max_size=120).map(b"".join)


@st.composite
def merge_lists(draw: st.DrawFn, max_merges: int = 40) -> list[tuple[bytes, bytes]]:
    """Draw merges over a small alphabet, half of the time in an order that no trainer would produce."""
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
    """Make a model with descending ids, with gaps if `step` is above 1, so that no id equals its index."""
    tokens = list(dict.fromkeys([*(bytes([byte]) for byte in range(256)), *(left + right for left, right in merges)]))
    numbers = [number * step for number in reversed(range(len(tokens) + len(specials or [])))]
    return Model(
        tokens=dict(zip(numbers, tokens, strict=False)),
        merges=merges,
        special_tokens=dict(zip(specials or [], numbers[len(tokens) :], strict=True)),
        pattern=pattern,
    )


def learned_model(text: bytes, n_merges: int, pattern: str = "gpt2", specials: list[str] | None = None) -> Model:
    """Train a model on a text."""
    words = regex.findall(PATTERNS[pattern], text.decode("utf-8", "ignore"))
    table = table_of(dict(Counter(word.encode() for word in words)))
    merges = learn_merges(table, n_merges)
    tokens = twins.training.expand_merges(merges.left.tolist(), merges.right.tolist())
    pairs = zip(merges.left.tolist(), merges.right.tolist(), strict=True)
    return make_model([(tokens[left], tokens[right]) for left, right in pairs], specials, pattern=pattern)


def make_workspace(
    *, slots: int = 1024, entries: int = 256, arena: int = 4096, ends: int = 64, scratch: int = 4096
) -> WorkspaceArrays:
    """Make a small workspace; sizes are numbers of elements."""
    return WorkspaceArrays(
        slots=np.zeros(slots * pretoken_cache.SLOT_WORDS, np.uint64),
        long_index=np.zeros(entries * long_pretokens.ENTRY_WORDS, np.uint64),
        arena=np.full(arena, 0xEE, np.uint8),
        seen_once=np.zeros(1 << 2, np.uint64),
        character_ids=np.zeros(boundary_filter.N_CHARACTERS * boundary_filter.CHARACTER_WORDS, np.uint64),
        batch=np.zeros(long_pretokens.ALL_BATCH_WORDS, np.uint64),
        deferred=np.zeros(interleaved_merging.DEFERRED_WORDS, np.uint64),
        sentences=np.zeros(sentence_merging.SENTENCE_WORDS, np.uint32),
        words=np.zeros(superword_merging.MAX_WORDS, np.uint32),
        run_words=np.zeros(superword_merging.MAX_WORDS, np.uint32),
        pieces=np.zeros(superword_pieces.PIECE_WORDS * superword_pieces.MAX_PIECES, np.uint64),
        piece_slots=np.zeros(4 * superword_pieces.PIECE_SLOTS, np.uint64),
        run_stops=np.zeros(RECENT_SPANS, np.uint64),
        scratch=np.zeros(scratch, np.uint32),
        ends=np.zeros(ends, np.uint32),
        recent_stops=np.zeros(RECENT_SPANS, np.uint64),
        document_stops=np.zeros(0, np.int64),
        id_stops=np.zeros(0, np.int64),
        progress=np.zeros(pretoken_cache.PROGRESS_SIZE, np.int64),
        split_state=np.full(STATE_SIZE, 99, np.int64),
    )


@st.composite
def ranked_models(draw: st.DrawFn) -> Model:
    """Draw ranked models; some tokens are unreachable by merges, and some bytes have larger ids than other tokens."""
    parts = st.sampled_from([b"a", b"b", b" ", b"\xe3", b"\x81", b"\x82", b"0"])
    longer = draw(st.sets(st.lists(parts, min_size=2, max_size=9).map(b"".join), max_size=25))
    tokens = draw(st.permutations([*(bytes([byte]) for byte in range(256)), *sorted(longer)]))
    return Model(tokens=dict(enumerate(tokens)), merges=[], special_tokens={"<|e|>": 900}, ranked=True)


def naive_rules(model: Model) -> tuple[twins.encoding.Rules, list[int]]:
    """Return rules and ids of a model, in the form of the twins."""
    numbers: dict[bytes, int] = {bytes([byte]): byte for byte in range(256)}
    if model.ranked:
        for _, token in sorted(model.tokens.items()):
            numbers.setdefault(token, len(numbers))
        rows = [(left, right, token, token) for left, right, token in twins.encoding.list_splits(list(numbers))]
    else:
        for left, right in model.merges:
            numbers.setdefault(left + right, len(numbers))
        rows = [
            (numbers[left], numbers[right], numbers[left + right], rank)
            for rank, (left, right) in enumerate(model.merges)
            if left in numbers and right in numbers
        ]
    ids = [model.ids.get(token, -1) for token in numbers]  # -1: a byte that texts cannot contain
    return twins.encoding.make_rule_tables(rows), ids


def naive_ids(model: Model, data: bytes, pattern: str) -> list[int]:
    """Encode a text naively; `pattern` is the regular expression of the model's pattern."""
    rules, ids = naive_rules(model)
    specials = {text.encode("utf-8", "surrogateescape"): number for text, number in model.special_tokens.items()}
    whole = model.ids if model.ranked or model.ignore_merges else None
    return twins.encoding.encode_text(data, regex.compile(pattern), rules, ids, specials, whole)


CHARACTERS = ["あ", "い", "し", "で", "語", "本", "ก", "า"]
"""Characters of three bytes, of which several have two bytes in common."""

UNITS = [*(character.encode() for character in CHARACTERS), b"a", b" ", "é".encode(), "😀".encode()]
PARTS = [b"\xe3", b"\x81", b"\x82", b"\xe3\x81", b"\x84", b"\xe0\xb8", b"\xb2", b"\xe0\x80\x80"]


@st.composite
def character_merges(draw: st.DrawFn, max_merges: int = 60) -> list[tuple[bytes, bytes]]:
    """Draw merges that make most characters, then merges of any tokens, sometimes in another order."""
    tokens = [bytes([byte]) for byte in sorted(set(b"".join([*UNITS, *PARTS])))]
    merges: list[tuple[bytes, bytes]] = []

    def add(left: bytes, right: bytes) -> None:
        if (left, right) not in merges and len(left + right) <= 30:
            merges.append((left, right))
            tokens.append(left + right)

    for character in draw(st.lists(st.sampled_from(CHARACTERS), max_size=12)):
        data = character.encode()
        if draw(st.integers(0, 5)):
            add(data[:1], data[1:2])
            add(data[:2], data[2:])
        else:
            add(data[1:2], data[2:])
            add(data[:1], data[1:])
    for left, right in draw(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=max_merges)):
        add(tokens[-1 - left % len(tokens)], tokens[-1 - right % len(tokens)])
    return draw(st.one_of(st.just(merges), st.just(merges), st.permutations(merges)))


characters = st.lists(st.sampled_from([*UNITS, *UNITS, *PARTS]), min_size=1, max_size=small(90, 20)).map(b"".join)


@st.composite
def ranked_character_models(draw: st.DrawFn) -> Model:
    """Draw ranked models: tokens of several splits, unreachable ones, and bytes with larger ids than other tokens."""
    longer = draw(st.lists(st.lists(st.sampled_from([*UNITS, *PARTS]), min_size=1, max_size=5).map(b"".join), max_size=40))
    made = [data[:size] for data in longer for size in range(2, len(data) + 1) if len(data) < 12 or size % 3 == 0]
    tokens = list(dict.fromkeys([*(bytes([byte]) for byte in range(256)), *made]))
    if draw(st.booleans()):
        tokens = draw(st.permutations(tokens))
    return Model(tokens=dict(enumerate(tokens)), merges=[], special_tokens={}, ranked=True)
