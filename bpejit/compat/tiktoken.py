"""A tokenizer with the methods of `tiktoken.Encoding`, for code that is written for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.compat.unstable import encode_with_unstable
from bpejit.encoding.encoder import text_to_bytes
from bpejit.encoding.offsets import character_starts
from bpejit.errors import TokenIdError, UnsupportedError, shorten
from bpejit.model import pattern_source

if TYPE_CHECKING:
    from bpejit.tokenizer import Tokenizer

_NONE: frozenset[str] = frozenset()
_MOST = 1 << 32


class UnknownTokenError(TokenIdError, KeyError):
    """A token or an id is not in the vocabulary, where tiktoken raises KeyError."""

    __str__ = Exception.__str__


class TokenRangeError(TokenIdError, OverflowError):
    """A number is negative or has more than 32 bits, where tiktoken raises OverflowError."""


class TokenKindError(TokenIdError, TypeError):
    """Something that is no whole number stands among ids, where tiktoken raises TypeError."""


class Encoding:
    """A tokenizer with the methods of `tiktoken.Encoding`; made by `Tokenizer.as_tiktoken`.

    Signatures, results and kinds of errors are those of tiktoken 0.14, but for these: all methods take lone
    surrogates, as `encode` does there; the array of `encode_to_numpy` may be written to; `num_threads` changes nothing.

    Parameters
    ----------
    tokenizer : bpejit.Tokenizer
    name : str
        What `repr` and `name` say.
    """

    def __init__(self, tokenizer: Tokenizer, name: str) -> None:
        self.name = name
        self._tokenizer = tokenizer

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Encoding, (self._tokenizer, self.name)

    # ---- encoding ----------------------------------------------------------------------------------------------------

    def encode_ordinary(self, text: str) -> list[int]:
        """Return the ids of a text in which nothing is a special token."""
        return self._tokenizer.encode(text, disallowed_special=())

    def encode(
        self,
        text: str,
        *,
        allowed_special: Literal["all"] | AbstractSet[str] = _NONE,
        disallowed_special: Literal["all"] | Collection[str] = "all",
    ) -> list[int]:
        """Return the ids of a text; a special token in it is an error unless it is allowed, or not disallowed."""
        return self._tokenizer.encode(text, allowed_special=allowed_special, disallowed_special=disallowed_special)

    def encode_to_numpy(
        self,
        text: str,
        *,
        allowed_special: Literal["all"] | AbstractSet[str] = _NONE,
        disallowed_special: Literal["all"] | Collection[str] = "all",
    ) -> Array:
        """As `encode`, as uint32 [tokens]."""
        return self._tokenizer.encode_array(text, allowed_special=allowed_special, disallowed_special=disallowed_special)

    def encode_ordinary_batch(self, text: list[str], *, num_threads: int = 8) -> list[list[int]]:
        """As `encode_ordinary`, of many texts."""
        return self.encode_batch(text, num_threads=num_threads, disallowed_special=())

    def encode_batch(
        self,
        text: list[str],
        *,
        num_threads: int = 8,  # noqa: ARG002 - a part of tiktoken's signature
        allowed_special: Literal["all"] | AbstractSet[str] = _NONE,
        disallowed_special: Literal["all"] | Collection[str] = "all",
    ) -> list[list[int]]:
        """As `encode`, of many texts."""
        batch = self._tokenizer.encode_batch(text, allowed_special=allowed_special, disallowed_special=disallowed_special)
        return [ids.tolist() for ids in batch]

    def encode_with_unstable(
        self,
        text: str,
        *,
        allowed_special: Literal["all"] | AbstractSet[str] = _NONE,
        disallowed_special: Literal["all"] | Collection[str] = "all",
    ) -> tuple[list[int], list[list[int]]]:
        """Return the ids of a text that stay if it goes on, and what the rest of it may become."""
        tokenizer = self._tokenizer
        text = arguments.string("text", text)
        splitter = tokenizer._choose(allowed_special, disallowed_special, [text])
        with tokenizer._workspace() as workspace:
            data = text_to_bytes(text)
            stable, completions = encode_with_unstable(tokenizer._encoder, data, splitter, self._sorted_tokens, workspace)
        return stable, [list(completion) for completion in completions]

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """Return the id of one token, ordinary or special; KeyError if there is none."""
        data = (
            text_or_bytes.encode("utf-8")
            if isinstance(text_or_bytes, str)
            else bytes(arguments.text("text_or_bytes", text_or_bytes))  # type: ignore[arg-type]
        )
        found = self._mergeable_ranks.get(data)
        if found is None:
            found = self._special_tokens.get(data.decode("utf-8", "surrogateescape"))
        if found is None:
            raise UnknownTokenError(
                f"there is no token {shorten(text_or_bytes)}; expected the text of exactly one: encode the text"
            )
        return found

    # ---- decoding ----------------------------------------------------------------------------------------------------

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """Return the bytes of ids; KeyError if one is not in the vocabulary."""
        try:
            return self._tokenizer.decode_bytes(tokens)
        except TokenIdError as error:
            raise _as_tiktoken(error, tokens) from None

    def decode(self, tokens: Sequence[int], errors: str = "replace") -> str:
        """Return the text of ids; `errors` is that of `bytes.decode`."""
        return self.decode_bytes(tokens).decode("utf-8", errors=errors)

    def decode_single_token_bytes(self, token: int) -> bytes:
        """Return the bytes of one id; KeyError if it is not in the vocabulary."""
        found = self._tokenizer.vocab.get(token)
        return self.decode_bytes([token]) if found is None else found

    def decode_tokens_bytes(self, tokens: Sequence[int]) -> list[bytes]:
        """Return the bytes of each of some ids."""
        return [self.decode_single_token_bytes(token) for token in tokens]

    def decode_with_offsets(self, tokens: Sequence[int]) -> tuple[str, list[int]]:
        """Return the text of ids, which must be valid UTF-8, and the index of the character in which each begins."""
        parts = self.decode_tokens_bytes(tokens)
        data = b"".join(parts)
        text = data.decode("utf-8", errors="strict")
        starts: list[int] = character_starts(data, np.array([len(part) for part in parts], dtype=np.int64)).tolist()
        return text, starts

    def decode_batch(self, batch: Sequence[Sequence[int]], *, errors: str = "replace", num_threads: int = 8) -> list[str]:  # noqa: ARG002
        """As `decode`, of many lists."""
        return [self.decode(tokens, errors) for tokens in batch]

    def decode_bytes_batch(self, batch: Sequence[Sequence[int]], *, num_threads: int = 8) -> list[bytes]:  # noqa: ARG002
        """As `decode_bytes`, of many lists."""
        return [self.decode_bytes(tokens) for tokens in batch]

    # ---- what it is --------------------------------------------------------------------------------------------------

    def token_byte_values(self) -> list[bytes]:
        """Return the bytes of all ordinary tokens, sorted."""
        return list(self._sorted_tokens)

    @cached_property
    def _sorted_tokens(self) -> list[bytes]:
        return sorted(self._mergeable_ranks)

    @property
    def eot_token(self) -> int:
        """The id of `<|endoftext|>`; KeyError if there is no such token."""
        return self._special_tokens["<|endoftext|>"]

    @cached_property
    def special_tokens_set(self) -> set[str]:
        """The texts of all special tokens."""
        return set(self._special_tokens)

    def is_special_token(self, token: int) -> bool:
        """Whether an id is that of a special token."""
        return token in self._special_token_values

    @property
    def max_token_value(self) -> int:
        """The largest id."""
        return self._tokenizer.vocab_size - 1

    @property
    def n_vocab(self) -> int:
        """One more than the largest id."""
        return self._tokenizer.vocab_size

    # Code that extends an encoding reads these four of tiktoken's.

    @property
    def _pat_str(self) -> str:
        source = pattern_source(self._tokenizer.pattern)
        if isinstance(source, str):
            return source
        raise UnsupportedError(f"this tokenizer splits by {len(source)} patterns, one after the other; tiktoken has one")

    @property
    def _mergeable_ranks(self) -> dict[bytes, int]:
        return self._tokenizer.model.ids

    @property
    def _special_tokens(self) -> dict[str, int]:
        return self._tokenizer.special_tokens

    @cached_property
    def _special_token_values(self) -> set[int]:
        return set(self._special_tokens.values())


def _as_tiktoken(error: TokenIdError, tokens: Iterable[Any]) -> TokenIdError:
    """Return the error of the kind that tiktoken raises: it looks at all numbers before it looks for their tokens."""
    for number in tokens:
        if not hasattr(number, "__index__"):
            return TokenKindError(str(error))
        if not 0 <= number < _MOST:
            return TokenRangeError(str(error))
    return UnknownTokenError(str(error))
