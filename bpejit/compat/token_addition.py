"""Adding tokens to a model, as `tokenizers` adds them to a tokenizer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from bpejit.errors import ArgumentTypeError, PatternError, TokenizerFormatError, UnsupportedError, shorten
from bpejit.formats.huggingface_writing import pre_tokenizer
from bpejit.model import Model, special_bytes
from bpejit.normalization import PipelineConfig, TokenFlags
from bpejit.normalization.byte_characters import decode_byte_characters
from bpejit.normalization.json_fields import canonical


@dataclass(frozen=True)
class AddedToken:
    """An added token, with the attributes of `tokenizers.AddedToken`.

    Parameters
    ----------
    content : str
    single_word, lstrip, rstrip, normalized, special : bool
        See `bpejit.normalization.TokenFlags`.
    """

    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = True
    special: bool = False

    def __str__(self) -> str:
        return self.content

    @property
    def flags(self) -> TokenFlags:
        """The flags, as a model stores them."""
        return TokenFlags(self.special, self.single_word, self.lstrip, self.rstrip, self.normalized)


def added_tokens(model: Model) -> dict[int, AddedToken]:
    """Return the added tokens of a model by id, in order of ids."""
    found = {}
    for text, token_id in sorted(model.special_tokens.items(), key=lambda item: item[1]):
        found[token_id] = AddedToken(text, **model.token_flags.get(text, TokenFlags()).as_dict)
    return found


def as_added_token(token: Any, *, special: bool) -> AddedToken:
    """Return a token, given as str or as an object with the attributes of `AddedToken`; a str gets the usual flags."""
    if isinstance(token, str):
        return AddedToken(token, normalized=not special, special=special)
    if not isinstance(getattr(token, "content", None), str):
        raise ArgumentTypeError(f"a token is {shorten(token)}; expected a str or an AddedToken: pass the text of the token")
    names = ("content", "single_word", "lstrip", "rstrip", "normalized")
    return AddedToken(**{name: getattr(token, name) for name in names}, special=special or bool(token.special))


def _known_id(model: Model, text: str, following: int) -> int:
    """Return the id of the token that `tokenizer.json` writes as a text, or `following` if there is none."""
    try:
        data = decode_byte_characters(text)
    except UnicodeEncodeError:
        return following
    token_id = model.ids.get(data)
    if token_id is None:
        return following
    if data != special_bytes(text):
        raise UnsupportedError(
            f"{shorten(text)} is how `tokenizer.json` writes the token {shorten(data)}; expected the text of a new token, "
            "since one id cannot have two meanings: choose another text"
        )
    return token_id


def add_tokens(model: Model, tokens: Iterable[AddedToken]) -> tuple[Model, int]:
    """Return a model with added tokens, and the number of tokens added or changed.

    A token that is in the vocabulary already keeps its id; others get the ids after the last one.

    Raises
    ------
    UnsupportedError
        If the model cannot be split with these tokens as `tokenizers` would.
    """
    special_tokens, flags, count = dict(model.special_tokens), dict(model.token_flags), 0
    following = model.vocab_size
    for token in tokens:
        text = token.content
        if not text or (text in special_tokens and flags.get(text, TokenFlags()) == token.flags):
            continue
        if text not in special_tokens:
            special_tokens[text] = _known_id(model, text, following)
            following += special_tokens[text] == following
        if token.flags == TokenFlags():
            flags.pop(text, None)
        else:
            flags[text] = token.flags
        count += 1
    if not count:
        return model, 0
    pipeline = model.pipeline
    if pipeline is None and any(found.single_word or found.lstrip or found.rstrip for found in flags.values()):
        try:
            pipeline = PipelineConfig(pre_tokenizer=canonical(pre_tokenizer(model)))
        except PatternError as cause:
            raise UnsupportedError(f"a token with these flags cannot be added to this tokenizer: {cause}") from cause
    try:
        return replace(model, special_tokens=special_tokens, token_flags=flags, pipeline=pipeline), count
    except TokenizerFormatError as cause:
        raise UnsupportedError(f"the tokens cannot be added: {cause}") from cause
