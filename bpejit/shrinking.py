"""Models with a part of the merges of a larger one."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from typing import Any

from bpejit import arguments
from bpejit.errors import TokenizerFormatError, shorten
from bpejit.model import Model, in_order
from bpejit.normalization.symbols import Symbols


def shrink_model(model: Model, vocab_size: int) -> Model:
    """Return a model with the first merges of another one only. A trained model becomes that of a training with this size.

    Parameters
    ----------
    model : Model
    vocab_size : int
        Number of tokens, including the single bytes and the special tokens. The tokens that remain keep their order, and are
        numbered from 0.

    Raises
    ------
    ArgumentTypeError
    TokenizerFormatError
        If the size is out of range, a token is made by no merge, or the post-processor contains the id of a special token that
        would change.
    """
    made = _made_in_order(model)
    base = [token for token in model.tokens.values() if token not in made]
    longest = max(base, key=lambda token: _n_symbols(token, model.symbols))
    if _n_symbols(longest, model.symbols) > 1 and model.ids[longest] != (model.symbols and model.symbols.unknown):
        raise TokenizerFormatError(
            f"the tokenizer cannot be shrunk: its token {shorten(longest)} (id {model.ids[longest]}) is made by no merge; "
            "expected merges that make every token but bytes and characters: train a tokenizer of this size instead"
        )
    kinds = {*model.tokens, *model.unused_tokens}
    specials = {text: number for text, number in model.special_tokens.items() if number not in kinds}
    least = len(base) + len(kinds) - len(model.tokens) + len(specials)
    vocab_size = arguments.whole_number(
        "vocab_size",
        vocab_size,
        least=least,
        most=least + len(made),
        note=f"the tokenizer has {least - len(specials)} single bytes{'' if model.symbols is None else ' and characters'}, "
        f"{len(specials)} special tokens and {len(made)} merged tokens",
        error=TokenizerFormatError,
    )
    n_made = vocab_size - least
    kept = {*base, *islice(made, n_made)}
    tokens = {number: token for number, token in model.tokens.items() if token in kept}
    numbers = {old: new for new, old in enumerate(sorted({*tokens, *model.unused_tokens, *specials.values()}))}
    special_tokens = {text: numbers.get(number, -1) for text, number in model.special_tokens.items()}
    _check_special_tokens(model, special_tokens, vocab_size)
    merges = model.merges[: _n_merges(model, made, n_made)]
    if model.symbols is not None:  # in published files a merge may come before those that make its tokens
        merges = [pair for pair in merges if kept.issuperset(pair) and pair[0] + pair[1] in kept]
    training = {**model.training, "vocab_size": vocab_size} if "vocab_size" in model.training else model.training
    return replace(
        model,
        tokens={numbers[number]: token for number, token in tokens.items()},
        merges=merges,
        special_tokens=special_tokens,
        symbols=None if model.symbols is None else model.symbols.renumbered(numbers),
        merge_counts=None if model.merge_counts is None else model.merge_counts[: len(merges)],
        training=training,
    )


def _n_symbols(token: bytes, symbols: Symbols | None) -> int:
    if symbols is None:
        return len(token)
    plain = token.removesuffix(symbols.word_end.encode()) or token
    return len(plain.decode("utf-8", "replace") if symbols.characters else plain)


def first_merges(model: Model, vocab_size: int) -> Model:
    """Return the model of a training with a smaller size, for a model that was trained in this process.

    It is that of `shrink_model`, or all of the model if the text had fewer merges than that.
    """
    if vocab_size < model.vocab_size:
        return shrink_model(model, vocab_size)
    return replace(model, training={**model.training, "vocab_size": vocab_size})


def _made_in_order(model: Model) -> dict[bytes, int]:
    """Return the tokens that merges make, in the order in which they first do, and the number of the first merge of each."""
    if model.ranked:
        return {token: number for number, token in enumerate(token for token in in_order(model.tokens) if len(token) > 1)}
    made: dict[bytes, int] = {}
    for number, (left, right) in enumerate(model.merges):
        made.setdefault(left + right, number)
    return made


def _n_merges(model: Model, made: dict[bytes, int], n_made: int) -> int:
    """Return the number of merges before the one that makes the token after the first `n_made`."""
    if model.ranked or n_made == len(made):
        return len(model.merges)
    return next(islice(made.values(), n_made, None))


def _check_special_tokens(model: Model, special_tokens: dict[str, int], vocab_size: int) -> None:
    """Raise an exception if the special tokens of a model cannot have other ids, or one would be removed."""
    has_ids = _has_numbers(json.loads(model.post_processor))
    for text, number in model.special_tokens.items():
        if special_tokens[text] < 0:
            raise TokenizerFormatError(
                f"the tokenizer cannot be shrunk to {vocab_size} tokens: the special token {shorten(text)} (id {number}) is a "
                "merged token as well, which would be removed; expected a size that includes it: choose a larger one"
            )
        if has_ids and special_tokens[text] != number:
            raise TokenizerFormatError(
                f"the tokenizer cannot be shrunk to {vocab_size} tokens: the id {number} of {shorten(text)} would change, and "
                "its post-processor contains ids; expected special tokens with the first ids, or no post-processor: train a "
                "tokenizer of this size instead"
            )


def _has_numbers(value: Any) -> bool:
    """Return True if a JSON value contains a number, such as an id."""
    if isinstance(value, (dict, list)):
        return any(map(_has_numbers, value.values() if isinstance(value, dict) else value))
    return isinstance(value, (int, float)) and not isinstance(value, bool)
