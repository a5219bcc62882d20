"""A tokenizer with the interface of `tiktoken.Encoding`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence, Set as AbstractSet
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, padded_text
from bpejit.encoding.codec import Codec
from bpejit.encoding.decoder import decode_batch, decode_bytes_batch
from bpejit.encoding.encoder import Encoder
from bpejit.encoding.kernel_runner import AnySplitter
from bpejit.encoding.offsets import token_offsets
from bpejit.encoding.workspace import Workspace
from bpejit.engines import count_cpus
from bpejit.errors import ArgumentTypeError, TokenIdError, UnsupportedError, shorten
from bpejit.kernels.constants import POSITION_MASK, SPECIAL_FLAG
from bpejit.model import pattern_source
from bpejit.normalization.pipeline import TextPipeline
from bpejit.splitting import Splitter
from bpejit.utf8 import encode_utf8, is_utf8

Allowed: TypeAlias = "Literal['all'] | AbstractSet[str]"
"""The special tokens that are found."""

Disallowed: TypeAlias = "Literal['all'] | Collection[str]"
"""The special tokens that must not occur."""

_NONE: frozenset[str] = frozenset()
_ID_LIMIT = 1 << 32

_SPACES = b" \n\t"

_PYTHON_ONLY_SPACES = "\x1c\x1d\x1e\x1f"
"""Characters that are white space in Python, and not in tiktoken."""


class UnknownTokenError(TokenIdError, KeyError):
    """A token or an id is not in the vocabulary; tiktoken raises KeyError."""

    __str__ = Exception.__str__


class TokenRangeError(TokenIdError, OverflowError):
    """An id is negative or has more than 32 bits; tiktoken raises OverflowError."""


class TokenKindError(TokenIdError, TypeError):
    """An id is not an integer; tiktoken raises TypeError."""


class Encoding:
    """A tokenizer with the interface of `tiktoken.Encoding`; created by `Tokenizer.as_tiktoken`.

    Signatures, results and error types are those of tiktoken 0.14, with three exceptions: all methods accept lone surrogates,
    as `encode` does in tiktoken; the array returned by `encode_to_numpy` is writable; `num_threads` is limited to the number of
    processors, and ignored in decoding.

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

    def encode_with_unstable(
        self, text: str, *, allowed_special: Allowed = _NONE, disallowed_special: Disallowed = "all"
    ) -> tuple[list[int], list[list[int]]]:
        """Return the ids of a text that do not change if text is appended, and the possible ids of the rest."""
        codec = self._codec
        text = arguments.string("text", text)
        splitter = codec.splitter_for([text], allowed_special, disallowed_special)
        with codec.workspace() as workspace:
            data = encode_utf8(text)
            stable, completions = _encode_with_unstable(codec.encoder, data, splitter, self._sorted_tokens, workspace)
        return stable, [list(completion) for completion in completions]

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

    def decode_batch(self, batch: Sequence[Sequence[int]], *, errors: str = "replace", num_threads: int = 8) -> list[str]:  # noqa: ARG002
        """Return the texts of several lists of ids."""
        rows = list(batch)
        try:
            return decode_batch(self._codec.encoder, rows, errors=errors, skip_special_tokens=False)
        except (TokenIdError, ArgumentTypeError):
            return [self.decode(tokens, errors) for tokens in rows]  # raises the error of tiktoken

    def decode_bytes_batch(self, batch: Sequence[Sequence[int]], *, num_threads: int = 8) -> list[bytes]:  # noqa: ARG002
        """Return the bytes of several lists of ids."""
        rows = list(batch)
        try:
            return decode_bytes_batch(self._codec.encoder, rows)
        except (TokenIdError, ArgumentTypeError):
            return [self.decode_bytes(tokens) for tokens in rows]

    # ---- properties --------------------------------------------------------------------------------------------------

    def token_byte_values(self) -> list[bytes]:
        """Return the bytes of all ordinary tokens, sorted."""
        return list(self._sorted_tokens)

    @cached_property
    def _sorted_tokens(self) -> list[bytes]:
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


def _encode_with_unstable(
    encoder: Encoder, data: bytes, splitter: AnySplitter, tokens: list[bytes], workspace: Workspace
) -> tuple[list[int], set[tuple[int, ...]]]:
    """Return the stable ids of a text, and the completions of its unstable end, given the ordinary tokens, sorted.

    The last pre-token of a text may change when text is appended: "hello fan" may become "hello fantastic". Its tokens are
    unstable. A completion is a list of ids whose bytes begin with the bytes of the unstable tokens, where the last id may have
    bytes beyond them. As in tiktoken, completions are found by brute force; here the encodings run in batches.
    """
    if isinstance(splitter, TextPipeline):
        raise UnsupportedError(
            "this tokenizer normalizes text before it splits it, so completions are not defined; "
            "expected a tokenizer without a normalization pipeline: use `encode`"
        )
    ids = encoder.encode(data, workspace, splitter).tolist()
    count = _count_unstable(encoder, ids, _last_length(data, splitter))
    if not count:
        return ids, set()
    vocab = encoder.model.tokens
    unstable = b"".join(vocab[token_id] for token_id in ids[-count:])
    known = encoder.model.ids
    completions: set[tuple[int, ...]] = {(known[token],) for token in _tokens_with_prefix(tokens, unstable)}
    texts: list[bytes] = []
    pretokens: list[bytes] = []
    for i in range(1, len(unstable)):
        for token in _tokens_with_prefix(tokens, unstable[i:]):
            # tiktoken splits valid UTF-8 only; other bytes are one pre-token.
            possible = unstable[:i] + token
            (texts if is_utf8(possible) else pretokens).append(possible)
    ordinary = encoder.splitter_for(frozenset())
    encoded = [encoder.encode(text, workspace, ordinary) for text in texts]
    encoded += encoder.encode_pretokens(pretokens, workspace)
    completions.update(_first_ids(encoder, row, len(unstable)) for row in encoded)
    last = unstable.decode("utf-8", "replace")[-1]
    if last.isspace() and last not in _PYTHON_ONLY_SPACES and last.encode() != unstable:
        # White space at the end may become a pre-token of its own when text is appended.
        parts = encoder.encode_pretokens([unstable[: -len(last.encode())], last.encode()], workspace)
        completions.add(tuple(np.concatenate(parts).tolist()))
    return ids[:-count], completions


def _last_length(data: bytes, splitter: Splitter) -> int:
    """Return the number of bytes of the last pre-token: 0 if the text ends with a special token."""
    ends = splitter.split(*padded_text(data)) if data else np.zeros(0, np.uint32)
    if not ends.size or int(ends[-1]) & SPECIAL_FLAG:
        return 0
    return int(ends[-1]) - (int(ends[-2]) & POSITION_MASK if ends.size > 1 else 0)


def _count_unstable(encoder: Encoder, ids: list[int], n_bytes: int) -> int:
    """Return the number of ids at the end that have `n_bytes` bytes; tokens of spaces before them count if the first is one."""
    vocab = encoder.model.tokens
    count = 0
    while n_bytes > 0:
        count += 1
        n_bytes -= len(vocab[ids[-count]])

    def is_spaces(token_id: int) -> bool:
        return not vocab.get(token_id, b"x").strip(_SPACES)

    if count and is_spaces(ids[-count]):
        while count < len(ids) and is_spaces(ids[-count - 1]):
            count += 1
    return count


def _tokens_with_prefix(tokens: list[bytes], prefix: bytes) -> Iterator[bytes]:
    index = bisect_left(tokens, prefix)
    while index < len(tokens) and tokens[index].startswith(prefix):
        yield tokens[index]
        index += 1


def _first_ids(encoder: Encoder, ids: Array, n_bytes: int) -> tuple[int, ...]:
    """Return the shortest prefix of `ids` that has at least `n_bytes` bytes, or all ids."""
    ends = np.cumsum(encoder.token_lengths(ids))
    return tuple(ids[: int(np.searchsorted(ends, n_bytes)) + 1].tolist())
