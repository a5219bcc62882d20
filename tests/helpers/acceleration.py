"""A matrix of calls of tokenizers of `transformers`, and everything that a caller sees of a call."""

# ruff: noqa: RUF001 (look-alike characters are intended)

from __future__ import annotations

import logging
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

PIECES = [
    *(
        "Hello",
        " world",
        "  ",
        "\n\n",
        "\t",
        " ",
        "don't",
        "12345",
        "é",
        "e\u0301",
        "ﬁ",
        "日本語",
        "🙂👍🏽",
        "\u200b",
        "-",
        "...",
        "<",
        ">",
    ),
    *(
        "ÀÉ",
        "ß",
        "\u2581",
        "ａ",
        "\u00a0",
        "\r\n",
        "a" * 40,
        "[MASK]",
        "</s>",
        "<s>",
        "<unk>",
        "<pad>",
        "\x00",
        "\ufffd",
        " ?",
        "ᾳ",
    ),
]


def texts_of(tokenizer: Any) -> st.SearchStrategy[str]:
    """Draw texts with ordinary pieces and the added tokens of a tokenizer."""
    added = [token.content for token in tokenizer.added_tokens_decoder.values()]
    pieces = st.sampled_from(PIECES + added[:6] + added[-6:] + [f" {text} " for text in added[:2]])
    return st.lists(pieces, max_size=8).map("".join)


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "add_special_tokens": st.booleans(),
        "padding": st.sampled_from([True, False, "longest", "max_length", "do_not_pad"]),
        "truncation": st.sampled_from([True, False, None, "longest_first", "only_first", "only_second", "do_not_truncate"]),
        "max_length": st.one_of(st.none(), st.integers(0, 14)),
        "pad_to_multiple_of": st.sampled_from([None, 1, 4, 7]),
        "padding_side": st.sampled_from([None, "left", "right"]),
        "return_tensors": st.sampled_from([None, None, "np"]),
        "return_token_type_ids": st.sampled_from([None, True, False]),
        "return_attention_mask": st.sampled_from([None, True, False]),
        "return_special_tokens_mask": st.booleans(),
        "return_offsets_mapping": st.booleans(),
        "return_length": st.booleans(),
        "verbose": st.booleans(),
        "split_special_tokens": st.booleans(),
    },
)

RARE = {
    "stride": st.integers(0, 3),
    "return_overflowing_tokens": st.booleans(),
    "is_split_into_words": st.booleans(),
    "padding": st.sampled_from(["wrong", 3]),
    "truncation": st.sampled_from(["wrong", 2]),
    "max_length": st.sampled_from([-1, "4", 2.5]),
    "pad_to_multiple_of": st.sampled_from([-1, 0, "2"]),
    "padding_side": st.just("middle"),
    "return_tensors": st.sampled_from(["pt", "wrong"]),
    "split_special_tokens": st.sampled_from([None, 1]),
    "unknown_option": st.just(True),
}
"""Values that are wrong, or that the original has to take."""

STATES = st.fixed_dictionaries(
    {},
    optional={
        "padding_side": st.sampled_from(["left", "right"]),
        "truncation_side": st.sampled_from(["left", "right"]),
        "model_max_length": st.sampled_from([0, 3, 12, int(1e30)]),
        "model_input_names": st.sampled_from([["input_ids"], ["input_ids", "token_type_ids", "attention_mask"]]),
        "_pad_token_type_id": st.sampled_from([0, 3]),
        "split_special_tokens": st.booleans(),
        "verbose": st.booleans(),
    },
)


@st.composite
def calls(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """Draw the name of a method, and its arguments."""
    options = draw(OPTIONS)
    if draw(st.integers(0, 4)) == 0:
        name = draw(st.sampled_from(sorted(RARE)))
        options[name] = draw(RARE[name])
    rows = draw(st.lists(st.tuples(texts, texts), min_size=draw(st.sampled_from([0, 1, 1, 1, 1])), max_size=4))
    firsts, seconds = [first for first, _ in rows], [second for _, second in rows]
    one, two = draw(texts), draw(texts)
    kinds = [
        (one,),
        (one, two),
        (firsts,),
        (firsts, seconds),
        (tuple(firsts),),
        (rows,),
        (firsts, seconds[1:]),
        (one + "\ud800",),
    ]
    weights = [3, 2, 4, 4, 1, 1, 0, 0]
    if options.get("is_split_into_words"):
        kinds, weights = [(firsts,), ([firsts, seconds],), (firsts, seconds)], [1, 1, 1]
    elif draw(st.integers(0, 15)) == 0:
        kinds, weights = [*kinds[-2:], (None,), (3,), ([one, 3],), ([one, None],), ([[one, two]],), (firsts, two)], [1] * 8
    arguments = kinds[draw(st.sampled_from([index for index, weight in enumerate(weights) for _ in range(weight)]))]
    name = draw(st.sampled_from(["__call__"] * 8 + ["encode", "tokenize", "target", "encode_plus", "batch_encode_plus"]))
    return name, arguments, options


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def described(value: Any) -> Any:
    """Return a value with the types of all its parts."""
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.shape, described(value.tolist())
    if hasattr(value, "items"):
        return type(value).__name__, [(key, described(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [described(item) for item in value]
    return type(value).__name__, value


ENCODING = (
    "ids",
    "type_ids",
    "tokens",
    "offsets",
    "attention_mask",
    "special_tokens_mask",
    "word_ids",
    "sequence_ids",
    "n_sequences",
)


def encodings_of(batch: Any) -> Any:
    """Return what a caller sees of the encodings of a batch."""
    if not hasattr(batch, "encodings"):
        return None
    encodings = batch.encodings
    fields = encodings and [[getattr(one, name) for name in ENCODING] for one in encodings]
    overflowing = encodings and [[part.ids for part in one.overflowing] for one in encodings]
    found = [batch.word_ids(0), batch.tokens(0), [batch.char_to_token(place) for place in range(5)]] if encodings else []
    return type(encodings).__name__, batch.is_fast, batch.n_sequences, fields, overflowing, found


def outcome(tokenizer: Any, call: Callable[[], Any], *, encodings: bool) -> Any:
    """Return everything that a caller sees of a call: the result or error, warnings, messages, and how the object changed."""
    records = _Records()
    logger = logging.getLogger("transformers")
    logger.addHandler(records)
    result: Any = None
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = call()
                found: Any = described(result)
            except BaseException as error:  # `tokenizers` raises exceptions of Rust
                if isinstance(error, KeyboardInterrupt):
                    raise
                found = type(error), str(error)
    finally:
        logger.removeHandler(records)
    backend = tokenizer._tokenizer
    state = backend.truncation, backend.padding, backend.encode_special_tokens, dict(tokenizer.deprecation_warnings)
    warned = [str(one.message) for one in caught]
    return found, warned, records.texts, state, encodings_of(result) if encodings else None


def run(tokenizer: Any, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Call a method."""
    if name == "target":
        return tokenizer(*arguments, text_target=arguments[0], **options)
    return getattr(tokenizer, name)(*arguments, **options)


def compare(data: Any, theirs: Any, ours: Any, *, encodings: bool) -> None:
    """Draw a call and the attributes before it, and compare all that a caller sees."""
    state = data.draw(STATES)
    saved = [(one, {name: getattr(one, name) for name in state}) for one in (theirs, ours)]
    name, arguments, options = data.draw(calls(texts_of(theirs)))
    try:
        found = []
        for one in (theirs, ours):
            for attribute, value in state.items():
                setattr(one, attribute, value)
            found.append(outcome(one, lambda one=one: run(one, name, arguments, options), encodings=encodings))
        different = [pair for pair in zip(*found, strict=True) if pair[0] != pair[1]]
        assert not different, (different, name, arguments, options, state)
    finally:
        for one, before in saved:
            one.deprecation_warnings.clear()
            one._tokenizer.no_truncation()
            one._tokenizer.no_padding()
            one._tokenizer.encode_special_tokens = False
            for attribute, value in before.items():
                setattr(one, attribute, value)


def pickled(tokenizer: Any) -> bytes:
    return pickle.dumps(tokenizer)
