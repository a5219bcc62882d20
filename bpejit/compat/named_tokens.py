"""The vocabulary as `transformers` shows it: tokens as text, and special tokens that have a part to play."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from bpejit import arguments
from bpejit.errors import OptionError, SpecialTokenError, UnsupportedError, shorten
from bpejit.model import Model
from bpejit.normalization.byte_characters import bytes_to_text, text_to_bytes

NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""The special tokens that have a name of their own in `transformers`, in its order."""


class _Named:
    """A special token with a name, such as `pad_token`: its text, or None."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, face: NamedTokens | None, owner: type) -> str | None:
        if face is None:
            raise AttributeError(f"{self._name} is that of a tokenizer, not of its class")
        return face._named[self._name]

    def __set__(self, face: NamedTokens, value: Any) -> None:
        face._named[self._name] = None if value is None else face._known(value, self._name)


class _NamedId:
    """The id of a special token with a name, such as `pad_token_id`: a number, or None."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name.removesuffix("_id")

    def __get__(self, face: NamedTokens | None, owner: type) -> int | None:
        if face is None:
            raise AttributeError(f"{self._name}_id is that of a tokenizer, not of its class")
        token = face._named[self._name]
        return None if token is None else face._ids[token]

    def __set__(self, face: NamedTokens, value: int | None) -> None:
        token = None if value is None else face._texts.get(value)
        if value is not None and token is None:
            raise SpecialTokenError(f"{self._name}_id is {value}; expected an id of the vocabulary: choose another")
        face._named[self._name] = token


class NamedTokens:
    """The tokens of a model, and which of them is `eos_token`, `pad_token` and so on.

    Parameters
    ----------
    model : Model
    """

    bos_token, eos_token, unk_token, sep_token = _Named(), _Named(), _Named(), _Named()
    pad_token, cls_token, mask_token = _Named(), _Named(), _Named()
    bos_token_id, eos_token_id, unk_token_id, sep_token_id = _NamedId(), _NamedId(), _NamedId(), _NamedId()
    pad_token_id, cls_token_id, mask_token_id = _NamedId(), _NamedId(), _NamedId()

    def __init__(self, model: Model) -> None:
        self._model = model
        self._named: dict[str, str | None] = dict.fromkeys(NAMED)
        self.extra_special_tokens: list[str] = []

    @cached_property
    def _texts(self) -> dict[int, str]:
        """Each token as `tokenizer.json` writes it, by id."""
        model = self._model
        ordinary = {number: bytes_to_text(token) for number, token in model.tokens.items()}
        return dict(sorted({**ordinary, **{number: text for text, number in model.special_tokens.items()}}.items()))

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {text: number for number, text in self._texts.items()} | self._model.special_tokens

    def _known(self, token: Any, what: str) -> str:
        text = getattr(token, "content", token)  # an AddedToken has content
        if not isinstance(text, str):
            raise arguments.wrong_type(what, text, "a str", "give the text of a token")
        if text not in self._ids:
            raise SpecialTokenError(
                f"{what} is {shorten(text)}, which this tokenizer does not have; expected one of its tokens: "
                "choose another, or make the tokenizer with it among its special_tokens"
            )
        return text

    def get_vocab(self) -> dict[str, int]:
        """Return all tokens, as `tokenizer.json` writes them, with their ids."""
        return dict(self._ids)

    @property
    def vocab(self) -> dict[str, int]:
        """The same as `get_vocab()`."""
        return self.get_vocab()

    @property
    def vocab_size(self) -> int:
        """The number of tokens; special ones count, since the saved vocabulary has them."""
        return len(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __bool__(self) -> bool:
        return True

    def get_added_vocab(self) -> dict[str, int]:
        """Return the special tokens with their ids, in order of ids."""
        return dict(sorted(self._model.special_tokens.items(), key=lambda item: item[1]))

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """The tokens that have a name."""
        return {name: token for name, token in self._named.items() if token is not None}

    @property
    def all_special_tokens(self) -> list[str]:
        """The tokens that have a name, and the extra ones."""
        return list(dict.fromkeys([*self.special_tokens_map.values(), *self.extra_special_tokens]))

    @property
    def all_special_ids(self) -> list[int]:
        """The ids of `all_special_tokens`."""
        return [self._ids[token] for token in self.all_special_tokens]

    def add_special_tokens(self, special_tokens_dict: Mapping[str, Any]) -> int:
        """Name tokens that the vocabulary has, as in `{"pad_token": "<|pad|>"}`; return 0, the number of those added."""
        for name, value in special_tokens_dict.items():
            if name in NAMED:
                setattr(self, name, value)
            elif name in ("extra_special_tokens", "additional_special_tokens"):
                self.extra_special_tokens = [self._known(token, "an extra special token") for token in value]
            else:
                raise OptionError(
                    f"there is no special token named {shorten(name)}; expected one of {', '.join(NAMED)}: choose one"
                )
        return 0

    def convert_tokens_to_ids(self, tokens: str | Iterable[str]) -> Any:
        """Return the id of a token as `tokenizer.json` writes it, or those of several; `unk_token_id` where there is none."""
        if isinstance(tokens, str):
            return self._ids.get(tokens, self.unk_token_id)
        return [self._ids.get(token, self.unk_token_id) for token in tokens]

    def convert_ids_to_tokens(self, ids: int | Iterable[int], skip_special_tokens: bool = False) -> Any:
        """Return the token of an id as `tokenizer.json` writes it, or those of several; None where there is none."""
        if isinstance(ids, int):
            return self._texts.get(ids)
        skipped = set(self.all_special_ids) if skip_special_tokens else set()
        return [self._texts.get(int(number)) for number in ids if int(number) not in skipped]

    def convert_tokens_to_string(self, tokens: Iterable[str]) -> str:
        """Return the text of tokens as `tokenizer.json` writes them."""
        return b"".join(map(_token_bytes, tokens)).decode("utf-8", "replace")

    def get_special_tokens_mask(
        self, token_ids_0: Iterable[int], token_ids_1: None = None, already_has_special_tokens: bool = False
    ) -> list[int]:
        """Return 1 for each id of a special token with a name or among the extra ones, and 0 for the rest."""
        if not already_has_special_tokens or token_ids_1 is not None:
            raise UnsupportedError(
                "get_special_tokens_mask tells special ids from others, of one list; "
                "pass already_has_special_tokens=True and no second list"
            )
        special = set(self.all_special_ids)
        return [int(int(number) in special) for number in token_ids_0]


def _token_bytes(token: str) -> bytes:
    try:
        return text_to_bytes(token)
    except UnicodeEncodeError:
        return token.encode("utf-8", "replace")
