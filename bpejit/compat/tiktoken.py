"""A tokenizer with the interface of `tiktoken.Encoding`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set as AbstractSet
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.encoding.codec import Codec
from bpejit.encoding.decoder import decode_bytes_batch
from bpejit.encoding.offsets import token_offsets
from bpejit.engines import count_cpus
from bpejit.errors import ArgumentTypeError, TokenIdError, UnsupportedError, shorten
from bpejit.model import pattern_source

Allowed: TypeAlias = "Literal['all'] | AbstractSet[str]"
"""The special tokens that are found."""

Disallowed: TypeAlias = "Literal['all'] | Collection[str]"
"""The special tokens that must not occur."""

_NONE: frozenset[str] = frozenset()
_ID_LIMIT = 1 << 32


class UnknownTokenError(TokenIdError, KeyError):
    """A token or an id is not in the vocabulary; tiktoken raises KeyError."""

    __str__ = Exception.__str__


class TokenRangeError(TokenIdError, OverflowError):
    """An id is negative or has more than 32 bits; tiktoken raises OverflowError."""


class TokenKindError(TokenIdError, TypeError):
    """An id is not an integer; tiktoken raises TypeError."""


class Encoding:
    """A tokenizer with the interface of `tiktoken.Encoding`; created by `Tokenizer.as_tiktoken`.

    Signatures, results and error types are those of tiktoken 0.14, with four exceptions: there is no `encode_with_unstable`;
    all methods accept lone surrogates, as `encode` does in tiktoken; the array returned by `encode_to_numpy` is writable;
    `num_threads` is limited to the number of processors, and ignored in decoding.

    Parameters
    ----------
    codec : Codec
        Encodes and decodes; shared with the tokenizer.
    name : str
        The name of the encoding.
    """

    def __init__(self, codec: Codec, name: str) -> None:
        self.name = name
        self._codec = codec

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Encoding, (self._codec, self.name)

    # ---- encoding ----------------------------------------------------------------------------------------------------

    def encode_ordinary(self, text: str) -> list[int]:
        """Return the ids of a text, without special tokens."""
        ids = self._codec.encode_short_ordinary(text)
        return self._codec.encode_list(text, None, ()) if ids is None else ids

    def encode(self, text: str, *, allowed_special: Allowed = _NONE, disallowed_special: Disallowed = "all") -> list[int]:
        """Return the ids of a text; raise SpecialTokenError if it contains a disallowed special token."""
        codec = self._codec
        ids = None
        if allowed_special is _NONE:
            if disallowed_special == "all":
                ids = codec.encode_short_checked(text)
            elif type(disallowed_special) is tuple and not disallowed_special:
                ids = codec.encode_short_ordinary(text)
        elif type(allowed_special) is str and allowed_special == "all" == disallowed_special:
            ids = codec.encode_short(text)
        if ids is not None:
            return ids
        return codec.encode_list(text, allowed_special, disallowed_special)

    def encode_to_numpy(self, text: str, *, allowed_special: Allowed = _NONE, disallowed_special: Disallowed = "all") -> Array:
        """Return the ids of a text as uint32 [tokens]; the options are the same as for `encode`."""
        return self._codec.encode(text, allowed_special, disallowed_special)

    def encode_ordinary_batch(self, text: list[str], *, num_threads: int = 8) -> list[list[int]]:
        """Return the ids of several texts, without special tokens."""
        return self.encode_batch(text, num_threads=num_threads, disallowed_special=())

    def encode_batch(
        self, text: list[str], *, num_threads: int = 8, allowed_special: Allowed = _NONE, disallowed_special: Disallowed = "all"
    ) -> list[list[int]]:
        """Return the ids of several texts; the options are the same as for `encode`."""
        num_threads = min(arguments.whole_number("num_threads", num_threads, least=1), count_cpus())
        return self._codec.encode_batch(text, num_threads, allowed_special, disallowed_special).tolist()

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """Return the id of one token, ordinary or special; raise KeyError if there is none."""
        data = (
            text_or_bytes.encode("utf-8")
            if isinstance(text_or_bytes, str)
            else bytes(arguments.text("text_or_bytes", text_or_bytes))  # type: ignore[arg-type]
        )
        model = self._codec.model
        found = model.ids.get(data)
        if found is None:
            found = next((number for number, token in model.unused_tokens.items() if token == data), None)
        if found is None:
            found = self._special_tokens.get(data.decode("utf-8", "surrogateescape"))
        if found is None:
            raise UnknownTokenError(
                f"there is no token {shorten(text_or_bytes)}; expected the text of exactly one: encode the text"
            )
        return found

    # ---- decoding ----------------------------------------------------------------------------------------------------

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """Return the bytes of ids; raise KeyError if one is not in the vocabulary."""
        try:
            return self._codec.decode_bytes(tokens)
        except TokenIdError as error:
            raise _as_tiktoken(error, tokens) from None

    def decode(self, tokens: Sequence[int], errors: str = "replace") -> str:
        """Return the text of ids; `errors` is passed to `bytes.decode`."""
        return self.decode_bytes(tokens).decode("utf-8", errors=errors)

    def decode_single_token_bytes(self, token: int) -> bytes:
        """Return the bytes of one id; raise KeyError if it is not in the vocabulary."""
        found = self._codec.model.vocab.get(token)
        return self.decode_bytes([token]) if found is None else found

    def decode_tokens_bytes(self, tokens: Sequence[int]) -> list[bytes]:
        """Return the bytes of each id."""
        return [self.decode_single_token_bytes(token) for token in tokens]

    def decode_with_offsets(self, tokens: Sequence[int]) -> tuple[str, list[int]]:
        """Return the text of ids, and the index of the character in which each token begins; raise if it is not valid UTF-8."""
        if self._codec.model.decoder:
            raise UnsupportedError(
                "this tokenizer decodes ids to other text than that of their tokens; expected one that joins the tokens: use "
                "`encode_with_offsets` of the tokenizer on the text"
            )
        parts = self.decode_tokens_bytes(tokens)
        text = b"".join(parts).decode("utf-8", errors="strict")
        lengths = np.array([len(part) for part in parts], np.int64)
        return text, token_offsets(lengths, lengths, [text]).char_starts.tolist()

    def decode_batch(self, batch: Sequence[Sequence[int]], *, errors: str = "replace", num_threads: int = 8) -> list[str]:
        """Return the texts of several lists of ids."""
        return [data.decode("utf-8", errors) for data in self.decode_bytes_batch(batch, num_threads=num_threads)]

    def decode_bytes_batch(self, batch: Sequence[Sequence[int]], *, num_threads: int = 8) -> list[bytes]:  # noqa: ARG002
        """Return the bytes of several lists of ids."""
        rows = list(batch)
        try:
            return decode_bytes_batch(self._codec.encoder, rows)
        except (TokenIdError, ArgumentTypeError):
            return [self.decode_bytes(tokens) for tokens in rows]  # raises the error of tiktoken

    # ---- properties --------------------------------------------------------------------------------------------------

    def token_byte_values(self) -> list[bytes]:
        """Return the bytes of all ordinary tokens, sorted."""
        return sorted(self._mergeable_ranks)

    @property
    def eot_token(self) -> int:
        """The id of `<|endoftext|>`; raises KeyError if there is no such token."""
        return self._special_tokens["<|endoftext|>"]

    @cached_property
    def special_tokens_set(self) -> set[str]:
        """The texts of all special tokens."""
        return set(self._special_tokens)

    def is_special_token(self, token: int) -> bool:
        """Return True if an id belongs to a special token."""
        return token in self._special_token_values

    @property
    def max_token_value(self) -> int:
        """The largest id."""
        return self._codec.model.vocab_size - 1

    @property
    def n_vocab(self) -> int:
        """One more than the largest id."""
        return self._codec.model.vocab_size

    # Private members of `tiktoken.Encoding` that programs use.

    @property
    def _pat_str(self) -> str:
        source = pattern_source(self._codec.model.pattern)
        if isinstance(source, str):
            return source
        raise UnsupportedError(
            f"this tokenizer splits by {len(source)} patterns in sequence; expected one pattern, as tiktoken has: use `encode`"
        )

    @cached_property
    def _mergeable_ranks(self) -> dict[bytes, int]:
        return dict(self._codec.model.ids)

    @cached_property
    def _special_tokens(self) -> dict[str, int]:
        return dict(self._codec.model.special_tokens)

    @cached_property
    def _special_token_values(self) -> set[int]:
        return set(self._special_tokens.values())


def _as_tiktoken(error: TokenIdError, tokens: Iterable[Any]) -> TokenIdError:
    """Return the error that tiktoken raises; it checks the types and ranges of all ids before it looks them up."""
    for number in tokens:
        if not hasattr(number, "__index__"):
            return TokenKindError(str(error))
        if not 0 <= number < _ID_LIMIT:
            return TokenRangeError(str(error))
    return UnknownTokenError(str(error))
