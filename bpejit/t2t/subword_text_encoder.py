"""Tensor2Tensor's subword tokenizer, `SubwordTextEncoder`, under its published names.

A text is split into tokens, which are maximal runs of letters and digits or of other characters; a single space between two
runs of letters and digits is dropped. Each token is escaped so that it ends with an underscore and contains only characters of
the alphabet, and is then encoded as subtokens by greedy longest match. Letters and digits are the Unicode categories L* and N*
of Python's `unicodedata`, as in the published code.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array
from bpejit.errors import TokenIdError, TokenizerFormatError, TrainingError, shorten
from bpejit.storage.files import StrPath
from bpejit.storage.outputs import write_output
from bpejit.t2t import word_tokenizer
from bpejit.t2t.greedy_encoding import GreedyEncoder
from bpejit.t2t.text_encoders import EOS_ID, TextEncoder, native_text, vocabulary_lines
from bpejit.t2t.vocabulary_building import SubtokenBuilder, Subtokens, TokenCounter as TokenCounter, checked_number

_logger = logging.getLogger("bpejit.subword")

_LINE_BREAK = '"\\n"'
"""Representation of the subtoken "\n" in a vocabulary file. No other subtoken is written in double quotes."""


class SubwordTextEncoder(TextEncoder):
    """Invertible encoding of text as subtokens of a limited vocabulary.

    Parameters
    ----------
    filename : path, optional
        A vocabulary file to load. Without one, the encoder is empty until a `build` method is called.

    Examples
    --------
    >>> encoder = SubwordTextEncoder.build_from_generator(["low lower lowest"], 40)
    >>> encoder.decode(encoder.encode("lower low"))
    'lower low'
    """

    def __init__(self, filename: StrPath | None = None) -> None:
        super().__init__()
        self._alphabet: set[str] = set()
        self._all_subtoken_strings: list[str] = []
        self._subtoken_string_to_id: dict[str, int] = {}
        self._max_subtoken_len = 0
        self._encoder: GreedyEncoder | None = None
        self.filename = filename
        if filename is not None:
            self._load_lines(vocabulary_lines("filename", filename, "vocabulary file"), os.fspath(filename))

    # -- encoding

    def encode(self, s: str | bytes) -> list[int]:
        """Return the ids of a text.

        Raises
        ------
        UnencodableTokenError
            (a ValueError and an AssertionError) If the vocabulary cannot represent one of its characters.
        """
        greedy = self._greedy  # which has the memory of the function, also if a finalizer that runs meanwhile replaces it
        ids = greedy.encode_line(s)
        return self.encode_array(s).tolist() if ids is None else ids

    def encode_array(self, s: str | bytes) -> Array:
        """Return the ids of a text as uint32 [tokens]."""
        return np.concatenate([np.zeros(0, np.uint32), *self._encode_text(native_text(s, "s"))])

    def encode_lines(self, data: bytes | bytearray, *, append_eos: bool = False) -> Iterator[Array]:
        """Encode each line of `data` as a text, and yield the ids in blocks, as uint32 arrays.

        Parameters
        ----------
        data : bytes
            Whole lines. A byte that is not part of valid UTF-8 is a character of its own.
        append_eos : bool
            Append EOS_ID to each line.
        """
        if isinstance(data, str):
            raise arguments.wrong_type("data", data, "bytes", "encode it, for example with .encode('utf-8')")
        data = bytes(arguments.text("data", data))  # type: ignore[arg-type]
        if append_eos and data and not data.endswith(b"\n"):
            data = data + b"\n"
        return self._greedy.encode(data, by_lines=True, line_id=EOS_ID if append_eos else -1)

    def encode_without_tokenizing(self, token_text: str | bytes) -> list[int]:
        """Return the ids of a text that is treated as one token."""
        return self._greedy.encode_plainly([native_text(token_text, "token_text")])

    def _encode_text(self, text: str) -> Iterable[Array]:
        try:
            return self._greedy.encode(text.encode(), by_lines=False, line_id=-1)
        except UnicodeEncodeError:  # lone surrogates
            return [np.array(self._greedy.encode_plainly(word_tokenizer.encode(text)), np.uint32)]

    @property
    def _greedy(self) -> GreedyEncoder:
        """What encodes with the vocabulary as it is now."""
        if self._encoder is None:
            # From the dict, not the list, because existing programs modify the dict.
            self._encoder = GreedyEncoder(self._subtoken_string_to_id, self._alphabet, self._max_subtoken_len)
        return self._encoder

    # -- decoding

    def decode(self, ids: Iterable[int], strip_extraneous: bool = False) -> str:
        """Decode ids to text.

        Parameters
        ----------
        ids : iterable of int
            An id that is not in the vocabulary has no text, as in the published code: the last layer of a model may have more
            outputs than the vocabulary has subtokens.
        strip_extraneous : bool
            Whether to leave out PAD_ID and EOS_ID at the end.
        """
        joined = "".join(self.decode_list(self._stripped(_listed(ids)) if strip_extraneous else ids))
        return word_tokenizer.decode(
            [token for escaped in joined.split("_") if (token := word_tokenizer.unescape_token(escaped))]
        )

    def decode_list(self, ids: Iterable[int]) -> list[str]:
        """Return the subtoken of each id, and an empty string for an id that is not in the vocabulary."""
        strings = self._all_subtoken_strings
        token_ids = _listed(ids)
        n = len(strings)
        try:
            if not token_ids or (min(token_ids) >= 0 and max(token_ids) < n):
                return [strings[token_id] for token_id in token_ids]
            return [strings[token_id] if 0 <= token_id < n else "" for token_id in token_ids]
        except TypeError:
            index = next(i for i, item in enumerate(token_ids) if not isinstance(item, (int, np.integer)))
            raise TokenIdError(
                f"{shorten(token_ids[index])} at position {index} is not an id; expected integers: pass a list of ids"
            ) from None

    @property
    def vocab_size(self) -> int:
        """The number of subtokens, including reserved tokens."""
        return len(self._all_subtoken_strings)

    @property
    def all_subtoken_strings(self) -> tuple[str, ...]:
        """The subtokens in order of id."""
        return tuple(self._all_subtoken_strings)

    @property
    def sha256(self) -> str:
        """SHA-256 of the subtokens in order of id. It identifies the vocabulary."""
        return hashlib.sha256("\n".join(self._all_subtoken_strings).encode("utf-8", "surrogatepass")).hexdigest()

    # -- building

    @classmethod
    def build_from_generator(
        cls,
        generator: Iterable[str | bytes],
        target_size: int,
        max_subtoken_length: int | None = None,
        reserved_tokens: list[str] | None = None,
    ) -> SubwordTextEncoder:
        """Build a vocabulary of about `target_size` subtokens from texts.

        Parameters
        ----------
        generator : iterable of str
        target_size : int
        max_subtoken_length : int, optional
            Subtokens are shorter than this; the bound is exclusive, as in the published code. Time and memory do not depend on
            it.
        reserved_tokens : list of str, optional
            Tokens with the first ids, in escaped form. Must start with RESERVED_TOKENS, which is the default, or be empty.

        Raises
        ------
        CorpusError
            If there is no text.
        TrainingError
            If an argument is invalid.
        """
        counter = TokenCounter()
        counter.add_texts(generator, "generator")
        return cls.build_to_target_size(
            target_size, counter.counts(), 1, 1000,
            max_subtoken_length=max_subtoken_length, reserved_tokens=reserved_tokens,
        )  # fmt: skip

    @classmethod
    def build_to_target_size(
        cls,
        target_size: int,
        token_counts: Mapping[str, int],
        min_val: int,
        max_val: int,
        max_subtoken_length: int | None = None,
        reserved_tokens: list[str] | None = None,
        num_iterations: int = 4,
        *,
        report: Callable[[int], None] | None = None,
    ) -> SubwordTextEncoder:
        """Build a vocabulary of about `target_size` subtokens by bisection on `min_count`.

        Parameters
        ----------
        target_size : int
        token_counts : mapping of str to int
        min_val, max_val : int
            Bounds of `min_count`.
        max_subtoken_length, reserved_tokens
            As for `build_from_generator`.
        num_iterations : int
            Number of refinements for each value of `min_count`.
        report : callable, optional
            Called after each refinement with the number of refinements so far.

        Raises
        ------
        CorpusError, TrainingError
            As `build_from_generator`.
        """
        target = checked_number("target_size", target_size)
        least, most = checked_number("min_val", min_val), checked_number("max_val", max_val)
        if target < 1:
            raise TrainingError(f"target_size is {shorten(target_size)}; expected a number from 1 up: choose another number")
        if least > most:
            raise TrainingError(
                f"min_val is {shorten(min_val)} and max_val is {shorten(max_val)}; expected min_val <= max_val: swap them"
            )

        builder = SubtokenBuilder(token_counts, num_iterations, reserved_tokens, max_subtoken_length, report)
        encoder = cls()
        encoder._take(builder, builder.bisect(target, least, most))
        return encoder

    def build_from_token_counts(
        self,
        token_counts: Mapping[str, int],
        min_count: int,
        num_iterations: int = 4,
        reserved_tokens: list[str] | None = None,
        max_subtoken_length: int | None = None,
    ) -> None:
        """Build the vocabulary of this encoder from token counts.

        Parameters
        ----------
        token_counts : mapping of str to int
        min_count : int
            Subtokens that occur less often are left out, except single characters.
        num_iterations : int
            Number of refinements. With 0, the vocabulary is the alphabet.
        reserved_tokens, max_subtoken_length
            As for `build_from_generator`.

        Raises
        ------
        CorpusError, TrainingError
            As `build_from_generator`.
        """
        min_count = math.ceil(checked_number("min_count", min_count))
        builder = SubtokenBuilder(token_counts, num_iterations, reserved_tokens, max_subtoken_length)
        self._take(builder, builder.build(min_count))

    def _take(self, builder: SubtokenBuilder, found: Subtokens) -> None:
        """Set the vocabulary to what was built."""
        self._alphabet = builder.alphabet
        reserved, strings = builder.strings(found)
        self._init_subtokens_from_list(strings, reserved_tokens=reserved)

    def _init_subtokens_from_list(self, subtoken_strings: list[str], reserved_tokens: list[str] | None = None) -> None:
        """Set the list of subtokens. `reserved_tokens` come first, are not escaped, and are never used to encode text."""
        reserved = reserved_tokens or []
        self._all_subtoken_strings = [*reserved, *subtoken_strings]
        self._max_subtoken_len = max(map(len, subtoken_strings))
        self._subtoken_string_to_id = {string: len(reserved) + i for i, string in enumerate(subtoken_strings) if string}
        self._encoder = None

    def _init_alphabet_from_tokens(self, tokens: Iterable[str]) -> None:
        """Set the alphabet to the characters of the tokens and the escape characters."""
        self._alphabet = {character for token in tokens for character in token} | word_tokenizer.ESCAPE_CHARS
        self._encoder = None

    # -- files

    def dump(self) -> None:
        """Print each subtoken that texts are encoded to, with its id, in one line."""
        entries = sorted((token_id, string) for string, token_id in self._subtoken_string_to_id.items())
        sys.stdout.write(", ".join(f"{token_id} : '{string}'" for token_id, string in entries) + "\n")

    def store_to_file(self, filename: StrPath, add_single_quotes: bool = True, *, overwrite: bool = True) -> None:
        """Write the vocabulary, one subtoken per line, in order of id.

        Parameters
        ----------
        filename : path
            `-` is standard output.
        add_single_quotes : bool
            Whether to enclose subtokens in single quotes, which preserve leading and trailing white space.
        overwrite : bool
            Whether to replace an existing file, as the published code does. Otherwise an existing file is an error.

        Raises
        ------
        TokenizerFormatError
            If a subtoken contains a newline.
        OutputError
            If the file cannot be written, or exists and `overwrite` is false.
        """
        quote = "'" if add_single_quotes else ""
        lines = []
        for token_id, string in enumerate(self._all_subtoken_strings):
            if string != "\n" and "\n" in string:
                raise TokenizerFormatError(
                    f"subtoken {token_id} is {shorten(string)}, which contains a line break; expected a single line: reserve "
                    "another token"
                )
            lines.append(f"{_LINE_BREAK}\n" if string == "\n" else f"{quote}{string}{quote}\n")
        try:
            data = "".join(lines).encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as cause:
            raise TokenizerFormatError(
                f"the vocabulary contains the character {shorten(cause.object[cause.start])}, which UTF-8 cannot represent; "
                "expected text: remove lone surrogates from the training text"
            ) from cause
        write_output(filename, data, overwrite=overwrite, name="filename")

    def _load_from_file_object(self, f: Iterable[str | bytes]) -> None:
        """Load a vocabulary from a file object or an iterable of lines, without quotes or with quotes of either kind."""
        self._load_lines([native_text(line) for line in f], str(getattr(f, "name", "the vocabulary")))

    def _load_lines(self, lines: list[str], name: str) -> None:
        if not lines:
            raise TokenizerFormatError(
                f"`{name}` is empty; expected one subtoken per line: get a new copy of the file, or build it again "
                "(`bpejit subword train --overwrite`)"
            )
        strings = [_unquote(line.rstrip()) for line in lines]
        self._init_subtokens_from_list(strings)
        self._init_alphabet_from_tokens(strings)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_encoder": None}


def _unquote(line: str) -> str:
    """Return the subtoken of a line, without its quotes.

    An empty line, or a line that is a single quote, is an empty subtoken, as in the published code: it has an id that no text
    is encoded to. Files without quotes have one for each subtoken of white space.
    """
    if line == _LINE_BREAK:
        return "\n"
    return line[1:-1] if line and line[0] == line[-1] and line[0] in "'\"" else line


def _listed(ids: Iterable[int]) -> list[int]:
    return ids.tolist() if isinstance(ids, np.ndarray) and ids.ndim == 1 else list(arguments.ids("ids", ids))
