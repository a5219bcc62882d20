"""Tensor2Tensor's subword tokenizer, by its published names: `SubwordTextEncoder`.

A text is cut into tokens, maximal runs of letters and digits and of everything else; a single space between two of the
former is left out. Each token is escaped so that it ends with an underscore and has only characters of the alphabet, and is
then written with subtokens by greedy longest match. Letters and digits are the Unicode categories L* and N* of this
Python's `unicodedata`, as in the published code.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, padded_text
from bpejit.errors import CorpusError, OutputError, TokenIdError, TokenizerFormatError, TrainingError, shorten
from bpejit.kernels.constants import MAX_TEXT_BYTES, NEED_SCRATCH, NEED_SPACE
from bpejit.kernels.t2t import subtoken_encoding as kernels
from bpejit.kernels.t2t.subtoken_tree import ESCAPE_ROOM
from bpejit.storage.files import read_file, replacing
from bpejit.storage.outputs import check_outputs, is_standard_output
from bpejit.t2t.vocabulary_building import CODE_POINTS, SubtokenBuilder, Subtokens, alphabet_table, pack_strings
from bpejit.training.counting import PretokenCounter

PAD = "<pad>"
EOS = "<EOS>"
RESERVED_TOKENS = [PAD, EOS]
PAD_ID = 0
EOS_ID = 1

ReportIteration = Callable[[int], None]

_ESCAPE_CHARS = set("\\_u;0123456789")
_UNESCAPE_REGEX = re.compile(r"\\u|\\\\|\\([0-9]+);")
_UNDEFINED = "\u3013"
_LINE_BREAK = '"\\n"'
"""How a vocabulary file writes the subtoken that is a line break: in double quotes, which no other subtoken is written with."""

_BLOCK_SPANS = 1 << 15
_BLOCK_IDS = 1 << 18
_CACHE_SLOTS = 1 << 17
_BATCH_BYTES = 1 << 22


@lru_cache(maxsize=1)
def _word_classes() -> bytes:
    """For each code point whether it is a letter or digit: 1 or 0."""
    category = unicodedata.category
    return bytes(category(chr(point))[0] in "LN" for point in range(CODE_POINTS))


@lru_cache(maxsize=2)
def _classes(by_lines: bool) -> tuple[Array, Array]:
    """Classes of code points, and of bytes that are characters by themselves; line ends have one of their own if wanted."""
    class_of = np.frombuffer(bytearray(_word_classes()), dtype=np.uint8)
    if by_lines:
        class_of[0x0A] = kernels.LINE_END
    byte_class = np.full(256, kernels.OTHER, dtype=np.uint8)
    byte_class[:0x80] = class_of[:0x80]
    return class_of, byte_class


def _split(text: Array, stop: int, *, by_lines: bool) -> Iterator[tuple[int, Array, int]]:
    """Yield blocks of spans: where the first starts, the ends (an array that is used again), and their number."""
    class_of, byte_class = _classes(by_lines)
    ends = np.zeros(min(_BLOCK_SPANS, stop) + 2, dtype=np.uint32)
    state = np.array([0, -1], dtype=np.int64)
    first = 0
    while state[kernels.POSITION] < stop:
        n_ends = kernels.split_words(text, stop, class_of, byte_class, ends, state)
        last = int(ends[n_ends - 1]) if n_ends else first
        yield first, ends, n_ends
        first = last


def _check_size(n_bytes: int) -> None:
    if n_bytes > MAX_TEXT_BYTES:
        raise CorpusError(
            f"a text or line has {n_bytes:,} bytes; expected at most {MAX_TEXT_BYTES:,}: put line breaks between the sentences"
        )


class TokenCounter:
    r"""Counts the tokens of texts.

    Examples
    --------
    >>> counter = TokenCounter()
    >>> counter.add_lines(b"low lower\nlow, low")
    >>> counter.counts()
    {', ': 1, 'low': 3, 'lower': 1}
    """

    def __init__(self) -> None:
        self._counter = PretokenCounter()
        self._others: dict[str, int] = {}

    def add_lines(self, data: bytes | bytearray) -> None:
        """Add the tokens of bytes, each line of which is a text; a byte that is not UTF-8 is a character by itself."""
        self._add(data, by_lines=True)

    def add_text(self, text: str) -> None:
        """Add the tokens of one text."""
        try:
            self._add(text.encode(), by_lines=False)
        except UnicodeEncodeError:  # lone surrogates
            for token in _tokenize(text):
                self._others[token] = self._others.get(token, 0) + 1

    def _add(self, data: bytes | bytearray, *, by_lines: bool) -> None:
        _check_size(len(data))
        text, stop = padded_text(data)
        for first, ends, n_ends in _split(text, stop, by_lines=by_lines):
            kernels.drop_spaces(text, first, ends, n_ends, stop, by_lines)
            self._counter.add_spans(text, first, ends, n_ends)

    def counts(self) -> dict[str, int]:
        """Return how often each token occurred, in order of bytes."""
        counts = {token.decode("utf-8", "surrogateescape"): count for token, count in self._counter.table().to_counts().items()}
        for token, count in self._others.items():
            counts[token] = counts.get(token, 0) + count
        return counts


def _tokenize(text: str) -> list[str]:
    """Split a text in plain Python: for strings that are no UTF-8."""
    classes = _word_classes()
    tokens: list[str] = []
    start = 0
    for place in range(1, len(text) + 1):
        if place == len(text) or classes[ord(text[place])] != classes[ord(text[start])]:
            if text[start:place] != " " or start == 0 or place == len(text):
                tokens.append(text[start:place])
            start = place
    return tokens


def _detokenize(tokens: list[str]) -> str:
    classes = _word_classes()
    pieces: list[str] = []
    before = False
    for token in tokens:
        word = bool(classes[ord(token[0])])
        if word and before:
            pieces.append(" ")
        pieces.append(token)
        before = word
    return "".join(pieces)


def _escape_token(token: str, alphabet: set[str]) -> str:
    """Write a token with characters of the alphabet only, and an underscore at its end and nowhere else."""
    if not isinstance(token, str):
        raise ValueError(f"the token is {shorten(token)}, expected a string")
    token = token.replace("\\", "\\\\").replace("_", "\\u")
    kept = (character if character in alphabet and character != "\n" else f"\\{ord(character)};" for character in token)
    return "".join(kept) + "_"


def _unescape_token(escaped_token: str) -> str:
    """Undo `_escape_token`; a number that is no code point becomes U+3013."""

    def unescape(match: re.Match[str]) -> str:
        if match[1] is None:
            return "_" if match[0] == "\\u" else "\\"
        try:
            return chr(int(match[1]))
        except (ValueError, OverflowError):
            return _UNDEFINED

    trimmed = escaped_token.removesuffix("_")
    return _UNESCAPE_REGEX.sub(unescape, trimmed) if "\\" in trimmed else trimmed


def _native(text: Any, name: str = "text") -> str:
    """Return text as a `str`; of bytes, which must be UTF-8."""
    if isinstance(text, str):
        return text
    try:
        return bytes(arguments.text(name, text)).decode("utf-8")  # type: ignore[arg-type]
    except UnicodeDecodeError as cause:
        raise CorpusError(
            f"{name} is not valid UTF-8 at byte {cause.start}; expected text: decode it with errors='surrogateescape' or "
            "'replace', or give its lines to `encode_lines`, which takes every byte"
        ) from cause


class _Workspace:
    """What one call of the encoding kernels writes to."""

    def __init__(self) -> None:
        self.slots = np.zeros(4 * _CACHE_SLOTS, dtype=np.uint64)
        self.arena = np.zeros(_CACHE_SLOTS, dtype=np.uint32)
        self.scratch = np.zeros(1 << 12, dtype=np.uint32)
        self.out = np.zeros(_BLOCK_IDS, dtype=np.uint32)
        self.state = np.zeros(4, dtype=np.int64)


class SubwordTextEncoder:
    """Writes any text with the subtokens of a limited vocabulary, and reads it back.

    Parameters
    ----------
    filename : path, optional
        A vocabulary file to load. Without one the encoder is empty until one of the `build` methods fills it.

    Examples
    --------
    >>> encoder = SubwordTextEncoder.build_from_generator(["low lower lowest"], 40)
    >>> encoder.decode(encoder.encode("lower low"))
    'lower low'
    """

    def __init__(self, filename: str | os.PathLike[str] | None = None) -> None:
        self._alphabet: set[str] = set()
        self._all_subtoken_strings: list[str] = []
        self._subtoken_string_to_id: dict[str, int] = {}
        self._max_subtoken_len = 0
        self._tables: tuple[Array, Array] | None = None
        self._spaces: list[_Workspace] = []
        self.filename = filename
        if filename is not None:
            self._load_from_file(arguments.path("filename", filename, error=TokenizerFormatError))

    # -- encoding

    def encode(self, s: str | bytes) -> list[int]:
        """Return the ids of a text.

        Raises
        ------
        TokenizerFormatError
            (a ValueError) If the vocabulary cannot write one of its characters.
        """
        return self.encode_array(s).tolist()  # type: ignore[no-any-return]

    def encode_array(self, s: str | bytes) -> Array:
        """Return the ids of a text as uint32 [tokens]."""
        return np.concatenate([np.zeros(0, dtype=np.uint32), *self._encode_text(_native(s, "s"))])

    def encode_lines(self, data: bytes | bytearray, *, append_eos: bool = False) -> Iterator[Array]:
        """Yield the ids of lines, each of which is a text, in pieces of uint32.

        Parameters
        ----------
        data : bytes
            Whole lines. A byte that is not UTF-8 is a character by itself.
        append_eos : bool
            Write EOS_ID behind each line.
        """
        if isinstance(data, str):
            raise arguments.wrong_type("data", data, "bytes", "encode it, for example with .encode('utf-8')")
        data = bytes(arguments.text("data", data))  # type: ignore[arg-type]
        if append_eos and data and not data.endswith(b"\n"):
            data = data + b"\n"
        return self._encode_bytes(data, by_lines=True, line_id=EOS_ID if append_eos else -1)

    def encode_without_tokenizing(self, token_text: str | bytes) -> list[int]:
        """Return the ids of a text that is taken as one token."""
        return self._encode_tokens([_native(token_text, "token_text")])

    def _encode_text(self, text: str) -> Iterable[Array]:
        try:
            return self._encode_bytes(text.encode(), by_lines=False, line_id=-1)
        except UnicodeEncodeError:  # lone surrogates
            return [np.array(self._encode_tokens(_tokenize(text)), dtype=np.uint32)]

    def _encode_tokens(self, tokens: list[str]) -> list[int]:
        """Return the ids of tokens, in plain Python."""
        known, longest = self._subtoken_string_to_id, self._max_subtoken_len
        ids: list[int] = []
        for token in tokens:
            escaped = _escape_token(token, self._alphabet)
            start = 0
            while start < len(escaped):
                for end in range(min(len(escaped), start + longest), start, -1):
                    if escaped[start:end] in known:
                        break
                else:
                    raise _unwritable(token)
                ids.append(known[escaped[start:end]])
                start = end
        return ids

    def _encode_bytes(self, data: bytes | bytearray, *, by_lines: bool, line_id: int) -> Iterator[Array]:
        _check_size(len(data))
        if self._tables is None:
            self._tables = self._make_tables()
        alphabet, edges = self._tables
        text, stop = padded_text(data)
        # Kernels run without the GIL: a workspace belongs to one call at a time.
        space = self._spaces.pop() if self._spaces else _Workspace()
        state = space.state
        for first, ends, n_ends in _split(text, stop, by_lines=by_lines):
            state[kernels.NEXT] = 0
            while True:
                state[kernels.WRITTEN] = 0
                status = kernels.encode_words(
                    text, first, ends, n_ends, stop, by_lines, line_id, alphabet, edges,
                    space.slots, space.arena, space.scratch, space.out, state,
                )  # fmt: skip
                written = int(state[kernels.WRITTEN])
                if written:
                    yield space.out[:written].copy()
                if status not in (NEED_SPACE, NEED_SCRATCH):
                    break
                if status == NEED_SCRATCH:
                    space.scratch = np.zeros(self._room(first, ends, state), dtype=np.uint32)
                elif not written:
                    space.out = np.zeros(2 * self._room(first, ends, state), dtype=np.uint32)
            if status == kernels.UNWRITABLE:
                start = int(ends[state[kernels.NEXT] - 1]) if state[kernels.NEXT] else first
                token = text[start : ends[state[kernels.NEXT]]].tobytes().decode("utf-8", "surrogateescape")
                raise _unwritable(token)
        if space.scratch.size + space.out.size < 8 * _BLOCK_IDS:
            self._spaces.append(space)

    @staticmethod
    def _room(first: int, ends: Array, state: Array) -> int:
        """Elements that the span which stopped the kernel may need."""
        place = int(state[kernels.NEXT])
        start = int(ends[place - 1]) if place else first
        return ESCAPE_ROOM * (int(ends[place]) - start + 1)

    def _make_tables(self) -> tuple[Array, Array]:
        # By the dict, not the list: code that changes it expects that to count.
        numbers = sorted(self._subtoken_string_to_id.items(), key=lambda item: item[1])
        by_id = [""] * (numbers[-1][1] + 1 if numbers else 0)
        for string, number in numbers:
            by_id[number] = string
        points, starts = pack_strings(by_id)
        edges = np.zeros(2 << max(2 * points.size, 2).bit_length(), dtype=np.uint64)
        kernels.build_edges(points, starts, edges)
        return alphabet_table(self._alphabet), edges

    # -- decoding

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids.

        Raises
        ------
        TokenIdError
            If the vocabulary does not have one of them.
        """
        joined = "".join(self.decode_list(ids))
        return _detokenize([token for piece in joined.split("_") if piece and (token := _unescape_token(piece + "_"))])

    def decode_list(self, ids: Iterable[int]) -> list[str]:
        """Return the subtoken of each id."""
        strings = self._all_subtoken_strings
        numbers = ids.tolist() if isinstance(ids, np.ndarray) and ids.ndim == 1 else list(arguments.ids("ids", ids))
        try:
            if not numbers or (min(numbers) >= 0 and max(numbers) < len(strings)):
                return [strings[number] for number in numbers]
        except TypeError:
            pass  # what follows says which is no number
        for place, number in enumerate(numbers):
            if not isinstance(number, (int, np.integer)):
                raise TokenIdError(f"{shorten(number)} at position {place} is not an id; expected whole numbers: give a list")
            if 0 <= number < len(strings):
                continue
            raise TokenIdError(
                f"id {shorten(numbers[place])} at position {place} is not in the vocabulary; expected 0 to {len(strings) - 1}: "
                "decode with the vocabulary that encoded"
            )
        return [strings[number] for number in numbers]

    @property
    def vocab_size(self) -> int:
        """How many subtokens there are, reserved ones included."""
        return len(self._all_subtoken_strings)

    @property
    def all_subtoken_strings(self) -> tuple[str, ...]:
        """The subtokens in order of id."""
        return tuple(self._all_subtoken_strings)

    @property
    def sha256(self) -> str:
        """A hash of the subtokens and their order, to tell vocabularies apart."""
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
            Subtokens are shorter than this: the bound is exclusive, as it was published. Time and memory do not depend on it.
        reserved_tokens : list of str, optional
            The first ids; begins with RESERVED_TOKENS, which is the default.

        Raises
        ------
        CorpusError
            If there is no text.
        TrainingError
            If an argument makes no sense.
        """
        counter = TokenCounter()
        batch: list[bytes] = []
        size = 0
        for place, item in enumerate(arguments.texts("generator", generator)):
            text = _native(item, f"generator[{place}]")
            try:
                data = text.encode()
            except UnicodeEncodeError:
                data = b"\n"
            if b"\n" in data:  # a line break is a character of the text here
                counter.add_text(text)
                continue
            batch.append(data)
            size += len(data) + 1
            if size > _BATCH_BYTES:
                counter.add_lines(b"\n".join(batch))
                batch, size = [], 0
        counter.add_lines(b"\n".join(batch))
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
        report: ReportIteration | None = None,
    ) -> SubwordTextEncoder:
        """Build a vocabulary of about `target_size` subtokens by bisection over `min_count`.

        Parameters
        ----------
        target_size : int
        token_counts : mapping of str to int
        min_val, max_val : int
            Bounds of `min_count`.
        max_subtoken_length, reserved_tokens
            As for `build_from_generator`.
        num_iterations : int
            Refinements for each value of `min_count`.
        report : callable, optional
            Called after each refinement with their number so far.

        Raises
        ------
        CorpusError, TrainingError
            As `build_from_generator`.
        """
        target_size = arguments.whole_number("target_size", target_size, least=1, error=TrainingError)
        min_val = arguments.whole_number("min_val", min_val, error=TrainingError)
        max_val = arguments.whole_number("max_val", max_val, error=TrainingError)
        num_iterations = arguments.whole_number("num_iterations", num_iterations, error=TrainingError)
        if min_val > max_val:
            raise TrainingError(
                f"min_val is {min_val} and max_val {max_val}; expected min_val not above max_val: exchange them"
            )
        reserved = _checked_reserved(reserved_tokens)
        encoder = cls()
        builder = encoder._prepare(token_counts, reserved, max_subtoken_length)
        if num_iterations < 1:
            encoder._fill_without_iterations(reserved)
            return encoder
        done = 0

        def count(_iteration: int) -> None:
            nonlocal done
            done += 1
            if report is not None:
                report(done)

        def bisect(low: int, high: int) -> Subtokens:
            middle = (low + high) // 2
            found = builder.build(middle, num_iterations, progress=count)
            if abs(found.size - target_size) * 100 < target_size or low >= high or middle < 2:
                return found
            deeper = bisect(middle + 1, high) if found.size > target_size else bisect(low, middle - 1)
            return deeper if abs(deeper.size - target_size) < abs(found.size - target_size) else found

        encoder._init_subtokens_from_list([*reserved, *builder.strings(bisect(int(min_val), int(max_val)))])
        return encoder

    def build_from_token_counts(
        self,
        token_counts: Mapping[str, int],
        min_count: int,
        num_iterations: int = 4,
        reserved_tokens: list[str] | None = None,
        max_subtoken_length: int | None = None,
    ) -> None:
        """Build the vocabulary of this encoder from counted tokens.

        Parameters
        ----------
        token_counts : mapping of str to int
        min_count : int
            Subtokens that occur less often are left out, but for single characters.
        num_iterations : int
            How often the vocabulary is refined. Without any it is the alphabet.
        reserved_tokens, max_subtoken_length
            As for `build_from_generator`.

        Raises
        ------
        CorpusError, TrainingError
            As `build_from_generator`.
        """
        min_count = arguments.whole_number("min_count", min_count, error=TrainingError)
        num_iterations = arguments.whole_number("num_iterations", num_iterations, error=TrainingError)
        reserved = _checked_reserved(reserved_tokens)
        builder = self._prepare(token_counts, reserved, max_subtoken_length)
        if num_iterations < 1:
            self._fill_without_iterations(reserved)
            return
        found = builder.build(min_count, num_iterations)
        self._init_subtokens_from_list([*reserved, *builder.strings(found)])

    def _prepare(
        self, token_counts: Mapping[str, int], reserved: list[str], max_subtoken_length: int | None
    ) -> SubtokenBuilder:
        if not isinstance(token_counts, Mapping):
            raise arguments.wrong_type("token_counts", token_counts, "a dict of str to int", "count the tokens first")
        if not token_counts:
            raise CorpusError("the sample is empty: it has no token; expected at least one: give text, or a larger byte budget")
        max_subtoken_length = arguments.optional_whole_number(
            "max_subtoken_length", max_subtoken_length, least=1, error=TrainingError
        )
        self._init_alphabet_from_tokens([*token_counts, *reserved])
        return SubtokenBuilder(
            token_counts, alphabet=self._alphabet, reserved_tokens=reserved, max_subtoken_length=max_subtoken_length
        )

    def _fill_without_iterations(self, reserved: list[str]) -> None:
        self._init_subtokens_from_list(sorted(self._alphabet, reverse=True), reserved_tokens=reserved)

    def _init_subtokens_from_list(self, subtoken_strings: list[str], reserved_tokens: list[str] | None = None) -> None:
        """Take a list of subtokens; `reserved_tokens` come first, and text is never written with them."""
        reserved = reserved_tokens or []
        self._all_subtoken_strings = [*reserved, *subtoken_strings]
        self._max_subtoken_len = max(map(len, subtoken_strings))
        self._subtoken_string_to_id = {string: len(reserved) + i for i, string in enumerate(subtoken_strings) if string}
        self._forget()

    def _init_alphabet_from_tokens(self, tokens: Iterable[str]) -> None:
        """Take all characters of the tokens, and those of escapes."""
        self._alphabet = {character for token in tokens for character in token} | _ESCAPE_CHARS
        self._forget()

    def _forget(self) -> None:
        self._tables = None
        self._spaces = []

    # -- files

    def store_to_file(
        self, filename: str | os.PathLike[str], add_single_quotes: bool = True, *, overwrite: bool = False
    ) -> None:
        """Write the vocabulary, a subtoken on each line, in order of id.

        Parameters
        ----------
        filename : path
            `-` is standard output.
        add_single_quotes : bool
            Write the quotes that keep white space at the borders of a subtoken.
        overwrite : bool
            Whether an existing file is replaced; without it that is an error.

        Raises
        ------
        TokenizerFormatError
            If a subtoken cannot be written on a line.
        OutputError
            If the file cannot be written, or exists and `overwrite` is false.
        """
        filename = arguments.path("filename", filename, error=OutputError)
        check_outputs([filename], overwrite=overwrite)
        quote = "'" if add_single_quotes else ""
        lines = []
        for number, string in enumerate(self._all_subtoken_strings):
            if string != "\n" and "\n" in string:
                raise TokenizerFormatError(
                    f"subtoken {number} is {shorten(string)}, and has a line break; expected one line each: reserve another"
                )
            lines.append(f"{_LINE_BREAK}\n" if string == "\n" else f"{quote}{string}{quote}\n")
        try:
            data = "".join(lines).encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as cause:
            raise TokenizerFormatError(
                f"the vocabulary has the character {shorten(cause.object[cause.start])}, which UTF-8 does not have; "
                "expected text: remove lone surrogates from it"
            ) from cause
        if is_standard_output(filename):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        with replacing(filename) as file:
            file.write(data)

    def _load_from_file(self, filename: str | os.PathLike[str]) -> None:
        """Load a vocabulary file."""
        data = read_file(filename, error=TokenizerFormatError, what="vocabulary file")
        lines = data.decode("utf-8", "surrogateescape").split("\n")
        self._load_lines(lines if lines[-1] else lines[:-1], os.fspath(filename))

    def _load_from_file_object(self, f: Iterable[str | bytes]) -> None:
        """Load a vocabulary from a file object or any lines; those without quotes, or with quotes of either kind."""
        self._load_lines([_native(line) for line in f], str(getattr(f, "name", "the vocabulary")))

    def _load_lines(self, lines: list[str], name: str) -> None:
        strings = []
        quoted = bool(lines) and _unquote(lines[0].strip())[1]
        for number, line in enumerate(lines, start=1):
            stripped = line.strip()
            string = "\n" if stripped == _LINE_BREAK else _unquote(stripped)[0]
            if not string or (quoted and stripped in ("'", '"')):
                raise TokenizerFormatError(
                    f"`{name}`, line {number}: {shorten(line.rstrip())} is no subtoken; expected one on each line, in quotes "
                    "where it has white space at its borders: get the file again, or build it again (`bpejit subword train "
                    "--force`)"
                )
            strings.append(string)
        if not strings:
            raise TokenizerFormatError(
                f"`{name}` is empty; expected a subtoken on each line: get the file again, or build it again "
                "(`bpejit subword train --force`)"
            )
        self._init_subtokens_from_list(strings)
        self._init_alphabet_from_tokens(strings)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tables": None, "_spaces": []}


def _unquote(line: str) -> tuple[str, bool]:
    """Take the quotes from a line; say whether it had any. A quote alone is a subtoken."""
    if len(line) > 1 and line[0] == line[-1] and line[0] in "'\"":
        return line[1:-1], True
    return line, False


def _unwritable(token: str) -> TokenizerFormatError:
    return TokenizerFormatError(
        f"the token {shorten(token)} cannot be written with this vocabulary; expected a subtoken for each character of its "
        "escaped form: use a vocabulary that holds its whole alphabet and the escape characters"
    )


def _checked_reserved(reserved_tokens: list[str] | None) -> list[str]:
    if isinstance(reserved_tokens, (str, bytes)) or not isinstance(reserved_tokens, (Iterable, type(None))):
        raise arguments.wrong_type("reserved_tokens", reserved_tokens, "a list of str", f"give {[*RESERVED_TOKENS, '...']}")
    reserved = list(RESERVED_TOKENS if reserved_tokens is None else reserved_tokens)
    if reserved[: len(RESERVED_TOKENS)] != RESERVED_TOKENS:
        raise TrainingError(
            f"the reserved tokens are {shorten(reserved)}; expected them to begin with {RESERVED_TOKENS}: "
            "put these first, in this order"
        )
    for place, token in enumerate(reserved):
        if not isinstance(token, str) or not token or "\n" in token or token in reserved[:place]:
            raise TrainingError(
                f"reserved token {place} is {shorten(token)}; expected texts that differ, each not empty and on one line: "
                "change it"
            )
    return reserved
