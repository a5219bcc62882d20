"""The vocabulary as in `transformers`: tokens as text, special tokens with a role, and added tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from bpejit import arguments
from bpejit.encoding.decoding_rules import file_texts
from bpejit.errors import (
    ArgumentTypeError,
    PatternError,
    SpecialTokenError,
    TokenizerFormatError,
    UnsupportedError,
    shorten,
)
from bpejit.formats.huggingface_writing import pre_tokenizer, written_decoder
from bpejit.model import Model, special_bytes
from bpejit.normalization.byte_characters import decoded_or_none
from bpejit.normalization.decoders import Steps, read_decoder
from bpejit.normalization.json_fields import canonical
from bpejit.normalization.pipeline_config import PipelineConfig, TokenFlags
from bpejit.tokenizer_config import NAMED


class _Named:
    """An attribute such as `pad_token`, the text of a special token, or `pad_token_id`, its id; None if there is none."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = name
        self._name = name.removesuffix("_id")

    def __get__(self, tokens: NamedTokens | None, owner: type) -> Any:
        if tokens is None:
            raise AttributeError(f"{self._attribute} is an attribute of tokenizers, not of the class")
        token = tokens._named[self._name]
        return token if token is None or self._attribute == self._name else tokens._ids[token]

    def __set__(self, tokens: NamedTokens, value: Any) -> None:
        if value is None:
            token = None
        elif self._attribute == self._name:
            token = tokens._checked_token(value, self._name)
        else:
            token = tokens._texts.get(value)
            if token is None:
                raise SpecialTokenError(f"{self._attribute} is {value}; expected an id of the vocabulary: choose another")
        tokens._named[self._name] = token


class NamedTokens:
    """The tokens of a model, and its `eos_token`, `pad_token` and so on."""

    bos_token = _Named()
    eos_token = _Named()
    unk_token = _Named()
    sep_token = _Named()
    pad_token = _Named()
    cls_token = _Named()
    mask_token = _Named()
    bos_token_id = _Named()
    eos_token_id = _Named()
    unk_token_id = _Named()
    sep_token_id = _Named()
    pad_token_id = _Named()
    cls_token_id = _Named()
    mask_token_id = _Named()

    def __init__(self, model: Model) -> None:
        self._model = model
        self._named: dict[str, str | None] = dict.fromkeys(NAMED)
        self._extra: list[str] = []
        sections = model.file_sections
        self._vocab_size = None if sections is None else sections.vocab_size

    def update_model(self, model: Model) -> None:
        """Replace the model by one with further added tokens; `vocab_size` does not count these."""
        self._vocab_size = self.vocab_size
        self._model = model
        for name in ("_texts", "_ids"):
            self.__dict__.pop(name, None)

    @cached_property
    def _texts(self) -> dict[int, str]:
        """The text of each token, as `tokenizer.json` writes it, by id."""
        return dict(sorted(_token_texts(self._model).items()))

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {text: token_id for token_id, text in self._texts.items()} | dict(self._model.special_tokens)

    def _checked_token(self, token: Any, name: str) -> str:
        text = getattr(token, "content", token)  # an AddedToken has content
        if not isinstance(text, str):
            raise arguments.wrong_type(name, text, "a str", "give the text of a token")
        if text not in self._ids:
            raise SpecialTokenError(
                f"{name} is {shorten(text)}, which is not in the vocabulary; expected one of its tokens: "
                "choose another, or add it with add_special_tokens"
            )
        return text

    def get_vocab(self) -> dict[str, int]:
        """Return the id of each token, by its text in `tokenizer.json`."""
        return dict(self._ids)

    @property
    def vocab(self) -> dict[str, int]:
        """The result of `get_vocab()`."""
        return self.get_vocab()

    @property
    def vocab_size(self) -> int:
        """The number of tokens in the vocabulary of `tokenizer.json`; `len` counts all added tokens as well."""
        return len(self._ids) if self._vocab_size is None else self._vocab_size

    def __len__(self) -> int:
        return len(self._ids)

    def __bool__(self) -> bool:
        return True

    def get_added_vocab(self) -> dict[str, int]:
        """Return the id of each added token, in order of ids."""
        return dict(sorted(self._model.special_tokens.items(), key=lambda item: item[1]))

    @property
    def added_tokens_encoder(self) -> dict[str, int]:
        """The ids of the added tokens by text, in order of ids."""
        return self.get_added_vocab()

    @property
    def added_tokens_decoder(self) -> dict[int, AddedToken]:
        """The added tokens by id."""
        flags = self._model.token_flags
        return {
            token_id: AddedToken(text, **flags.get(text, TokenFlags())._asdict())
            for text, token_id in self.get_added_vocab().items()
        }

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """The special tokens with a role, by name."""
        return {name: token for name, token in self._named.items() if token is not None}

    @property
    def extra_special_tokens(self) -> list[str]:
        """Special tokens without a role."""
        return list(self._extra)

    @extra_special_tokens.setter
    def extra_special_tokens(self, tokens: Iterable[Any]) -> None:
        self._extra = [self._checked_token(token, "an extra special token") for token in tokens]

    @property
    def all_special_tokens(self) -> list[str]:
        """The special tokens with a role, and the extra ones."""
        return list(dict.fromkeys([*self.special_tokens_map.values(), *self.extra_special_tokens]))

    @property
    def all_special_ids(self) -> list[int]:
        """The ids of `all_special_tokens`."""
        return [self._ids[token] for token in self.all_special_tokens]

    def convert_tokens_to_ids(self, tokens: str | Iterable[str]) -> Any:
        """Return the id of a token given as text, or the ids of several; `unk_token_id` for unknown tokens."""
        if isinstance(tokens, str):
            return self._ids.get(tokens, self.unk_token_id)
        return [self._ids.get(token, self.unk_token_id) for token in tokens]

    def convert_ids_to_tokens(self, ids: int | Iterable[int], skip_special_tokens: bool = False) -> Any:
        """Return the text of a token, or of several, as `tokenizer.json` writes it; None for unknown ids."""
        if isinstance(ids, int):
            return self._texts.get(ids)
        skipped = set(self.all_special_ids) if skip_special_tokens else set()
        return [self._texts.get(int(token_id)) for token_id in ids if int(token_id) not in skipped]

    def convert_tokens_to_string(self, tokens: Iterable[str]) -> str:
        """Decode tokens given as text."""
        steps = None if self._model.symbols is None else read_decoder(written_decoder(self._model))
        if isinstance(steps, Steps):
            return steps([*tokens])
        return b"".join(map(_token_bytes, tokens)).decode("utf-8", "replace")

    def get_special_tokens_mask(
        self, token_ids_0: Iterable[int], token_ids_1: None = None, already_has_special_tokens: bool = False
    ) -> list[int]:
        """Return 1 for each id in `all_special_ids`, and 0 for the others."""
        if not already_has_special_tokens or token_ids_1 is not None:
            raise UnsupportedError(
                "get_special_tokens_mask supports a single list of ids that has its special tokens; "
                "expected already_has_special_tokens=True and no second list: pass these"
            )
        special = set(self.all_special_ids)
        return [int(int(token_id) in special) for token_id in token_ids_0]


def _token_texts(model: Model) -> dict[int, str]:
    """Return the text of each id; that of an added token as it is found, which may be decoded to another."""
    return {**file_texts(model), **{number: text for text, number in model.special_tokens.items()}}


def _token_bytes(token: str) -> bytes:
    decoded = decoded_or_none(token)
    return token.encode("utf-8", "replace") if decoded is None else decoded


@dataclass(frozen=True)
class AddedToken:
    """An added token, with the attributes of `tokenizers.AddedToken`.

    Parameters
    ----------
    content : str
    single_word, lstrip, rstrip, normalized, special : bool
        See `bpejit.normalization.pipeline_config.TokenFlags`.
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
    if model.symbols is not None:
        token_id = next((number for number, known in _token_texts(model).items() if known == text), None)
        data = special_bytes(text) if token_id is None or model.symbols.characters else model.tokens.get(token_id)
    else:
        data = decoded_or_none(text)
        token_id = None if data is None else model.ids.get(data)
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
    special_tokens = dict(model.special_tokens)
    flags = dict(model.token_flags)
    count = 0
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
