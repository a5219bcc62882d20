"""The small encoders of Tensor2Tensor, under their published names: ids, bytes, listed tokens, class labels and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bpejit import arguments
from bpejit.errors import CorpusError, OptionError, TokenIdError, TokenizerFormatError, shorten
from bpejit.storage.files import StrPath, read_file
from bpejit.storage.outputs import write_output

PAD = "<pad>"
EOS = "<EOS>"
RESERVED_TOKENS = [PAD, EOS]
NUM_RESERVED_TOKENS = len(RESERVED_TOKENS)
PAD_ID = 0
EOS_ID = 1
RESERVED_TOKENS_BYTES = [PAD.encode(), EOS.encode()]


class UnencodableTokenError(TokenizerFormatError, AssertionError):
    """A vocabulary cannot represent a token. The published code raises an AssertionError."""


class UnlistedTokenError(CorpusError, KeyError):
    """A token is not in the vocabulary. The published code raises a KeyError."""

    __str__ = Exception.__str__  # that of KeyError returns the repr of the message


def native_text(text: Any, name: str = "text") -> str:
    """Return text as a `str`. Bytes must be valid UTF-8."""
    if isinstance(text, str):
        return text
    try:
        return bytes(arguments.text(name, text)).decode("utf-8")  # type: ignore[arg-type]
    except UnicodeDecodeError as cause:
        raise CorpusError(
            f"{name} is not valid UTF-8 at byte {cause.start}; expected text: decode it with errors='surrogateescape' or "
            "'replace', or pass it to `encode_lines`, which accepts any bytes"
        ) from cause


def strip_ids(ids: Iterable[int], ids_to_strip: Iterable[int]) -> list[int]:
    """Return the ids without those at the end that are in `ids_to_strip`."""
    stripped = list(ids)
    removed = set(ids_to_strip)
    while stripped and stripped[-1] in removed:
        stripped.pop()
    return stripped


def vocabulary_lines(name: str, path: StrPath, what: str) -> list[str]:
    """Return the lines of a vocabulary file, the argument `name`, without a byte-order mark at its start.

    A byte that is not part of valid UTF-8 is a character of its own.
    """
    path = arguments.path(name, path, error=TokenizerFormatError)
    data = read_file(path, error=TokenizerFormatError, what=what)
    lines = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff").split("\n")
    return lines if lines[-1] else lines[:-1]


class TextEncoder:
    """The base class: a text is a list of numbers, and reserved ids precede them.

    Parameters
    ----------
    num_reserved_ids : int
        Added to each number. The first ids are `<pad>` and `<EOS>`.

    Examples
    --------
    >>> encoder = TextEncoder()
    >>> encoder.encode("0 5")
    [2, 7]
    >>> encoder.decode([2, 7, 1])
    '0 5 <EOS>'
    """

    def __init__(self, num_reserved_ids: int = NUM_RESERVED_TOKENS) -> None:
        self._num_reserved_ids = num_reserved_ids

    @property
    def num_reserved_ids(self) -> int:
        """The number of reserved ids."""
        return self._num_reserved_ids

    def encode(self, s: str) -> list[int]:
        """Return the ids of a text, without EOS_ID.

        Raises
        ------
        CorpusError
            (a ValueError) If a word is not a number.
        """
        try:
            return [int(word) + self._num_reserved_ids for word in arguments.string("s", s).split()]
        except ValueError as cause:
            raise CorpusError(
                f"s is {shorten(s)}, which is not a list of numbers: {cause}; expected e.g. '3 14': change it"
            ) from cause

    def decode(self, ids: Iterable[int], strip_extraneous: bool = False) -> str:
        """Return the text of ids.

        Parameters
        ----------
        ids : iterable of int
        strip_extraneous : bool
            Whether to leave out reserved ids at the end.
        """
        return " ".join(self.decode_list(self._stripped(ids) if strip_extraneous else ids))

    def decode_list(self, ids: Iterable[int]) -> list[str]:
        """Return the string of each id.

        Raises
        ------
        TokenIdError
            If a reserved id has no token.
        """
        reserved = self._num_reserved_ids
        return [self._reserved(token_id) if 0 <= token_id < reserved else str(token_id - reserved) for token_id in ids]

    @property
    def vocab_size(self) -> int:
        """The number of ids; without a limit here."""
        raise NotImplementedError

    def _stripped(self, ids: Iterable[int]) -> list[int]:
        return strip_ids(ids, range(self._num_reserved_ids or 0))

    @staticmethod
    def _reserved(token_id: int) -> str:
        if token_id < NUM_RESERVED_TOKENS:
            return RESERVED_TOKENS[int(token_id)]
        raise TokenIdError(
            f"the reserved id {shorten(token_id)} has no token; expected one of {RESERVED_TOKENS}: remove it, or change "
            "`num_reserved_ids=`"
        )


class ByteTextEncoder(TextEncoder):
    """Encoding of each byte as an id.

    Examples
    --------
    >>> encoder = ByteTextEncoder()
    >>> encoder.encode("aé")
    [99, 197, 171]
    >>> encoder.decode([99, 197, 171, 1])
    'aé<EOS>'
    """

    def encode(self, s: str | bytes) -> list[int]:
        """Return the ids of the bytes of a text."""
        try:
            data = s.encode() if isinstance(s, str) else bytes(arguments.text("s", s))  # type: ignore[arg-type]
        except UnicodeEncodeError as cause:
            raise CorpusError(
                f"s contains the character {shorten(s[cause.start])}, which UTF-8 cannot represent; expected text: remove lone "
                "surrogates, or pass bytes"
            ) from cause
        return [byte + self._num_reserved_ids for byte in data]

    def decode(self, ids: Iterable[int], strip_extraneous: bool = False) -> str:
        """Return the text of ids. Bytes that are not valid UTF-8 become U+FFFD."""
        return b"".join(self.decode_list(self._stripped(ids) if strip_extraneous else ids)).decode("utf-8", "replace")

    def decode_list(self, ids: Iterable[int]) -> list[bytes]:  # type: ignore[override]
        """Return the bytes of each id.

        Raises
        ------
        TokenIdError
            If an id is neither a reserved token nor a byte.
        """
        return [self._bytes_of(token_id) for token_id in ids]

    def _bytes_of(self, token_id: int) -> bytes:
        byte = token_id - self._num_reserved_ids
        if 0 <= token_id < self._num_reserved_ids:
            return self._reserved(token_id).encode()
        if not 0 <= byte < 256:
            raise TokenIdError(
                f"id {shorten(token_id)} is not a byte; expected 0 to {self.vocab_size - 1}: decode ids of a ByteTextEncoder"
            )
        return bytes([byte])

    @property
    def vocab_size(self) -> int:
        """256 and the number of reserved ids."""
        return 256 + self._num_reserved_ids


class TokenTextEncoder(TextEncoder):
    """Encoding of tokens between white space, which are listed in a file or in a list.

    Parameters
    ----------
    vocab_filename : path or None
        A file with one token per line, in order of id, including the reserved tokens.
    reverse : bool
        Whether to reverse the order of the ids of a text.
    vocab_list : iterable of str, optional
        The tokens, if there is no file. The reserved tokens come first, and are left out where they occur in the list.
    replace_oov : str, optional
        The token that replaces tokens which are not in the vocabulary. Without it, such a token is an error.
    num_reserved_ids : int
        The value of `num_reserved_ids`; it does not change the ids.

    Examples
    --------
    >>> encoder = TokenTextEncoder(None, vocab_list=["low", "<unk>"], replace_oov="<unk>")
    >>> encoder.encode("low lower")
    [2, 3]
    >>> encoder.decode([2, 3, 9])
    'low <unk> ID_9'
    """

    def __init__(
        self,
        vocab_filename: StrPath | None,
        reverse: bool = False,
        vocab_list: Iterable[str] | None = None,
        replace_oov: str | None = None,
        num_reserved_ids: int = NUM_RESERVED_TOKENS,
    ) -> None:
        super().__init__(num_reserved_ids=num_reserved_ids)
        self._reverse = reverse
        self._replace_oov = replace_oov
        if vocab_filename:
            lines = vocabulary_lines("vocab_filename", vocab_filename, "vocabulary file")
            tokens = [line.replace("\r", "").strip() for line in lines]
        elif vocab_list is None:
            raise OptionError(
                "vocab_filename and vocab_list are None; expected one of them: name a file, or give a list of tokens"
            )
        else:
            listed = arguments.texts("vocab_list", vocab_list)
            tokens = [*RESERVED_TOKENS, *(token for token in listed if token not in RESERVED_TOKENS)]  # type: ignore[list-item]
        self._id_to_token = dict(enumerate(tokens))
        self._token_to_id = {token: token_id for token_id, token in self._id_to_token.items()}

    def encode(self, s: str) -> list[int]:
        """Return the ids of a text.

        Raises
        ------
        UnlistedTokenError
            (a KeyError) If a token is not in the vocabulary and there is no replacement that is.
        """
        known, replacement = self._token_to_id, self._replace_oov
        tokens = arguments.string("s", s).split()
        if replacement is not None:
            tokens = [token if token in known else replacement for token in tokens]
        try:
            ids = [known[token] for token in tokens]
        except KeyError as cause:
            raise UnlistedTokenError(
                f"the token {shorten(cause.args[0])} is not in the vocabulary of {len(known)} tokens; expected a listed token: "
                "add it to the vocabulary, or give a listed `replace_oov=`"
            ) from None
        return ids[::-1] if self._reverse else ids

    def decode(self, ids: Iterable[int], strip_extraneous: bool = False) -> str:  # noqa: ARG002
        """Return the text of ids. `strip_extraneous` has no effect, as in the published code."""
        return " ".join(self.decode_list(ids))

    def decode_list(self, ids: Iterable[int]) -> list[str]:
        """Return the token of each id, and `ID_n` for an id `n` that is not in the vocabulary."""
        strings = [self._id_to_token.get(token_id, f"ID_{int(token_id)}") for token_id in ids]
        return strings[::-1] if self._reverse else strings

    @property
    def vocab_size(self) -> int:
        """The number of tokens, including reserved tokens."""
        return len(self._id_to_token)

    def store_to_file(self, filename: StrPath, *, overwrite: bool = True) -> None:
        """Write the vocabulary, one token per line, in order of id, including the reserved tokens.

        Parameters
        ----------
        filename : path
        overwrite : bool
            Whether to replace an existing file, as the published code does. Otherwise an existing file is an error.

        Raises
        ------
        OutputError
            If the file cannot be written, or exists and `overwrite` is false.
        """
        text = "".join(f"{token}\n" for token in self._id_to_token.values())
        write_output(filename, text.encode("utf-8", "surrogateescape"), overwrite=overwrite, name="filename")


class ClassLabelEncoder(TextEncoder):
    """Encoding of a class label as its index.

    Parameters
    ----------
    class_labels : list of str, optional
    class_labels_fname : path, optional
        A file with one label per line, which takes precedence.

    Examples
    --------
    >>> encoder = ClassLabelEncoder(["neg", "pos"])
    >>> encoder.encode("pos")
    1
    >>> encoder.decode([1])
    'pos'
    """

    def __init__(self, class_labels: Sequence[str] | None = None, class_labels_fname: StrPath | None = None) -> None:
        super().__init__(num_reserved_ids=0)
        if class_labels_fname:
            lines = vocabulary_lines("class_labels_fname", class_labels_fname, "file of class labels")
            class_labels = [line.replace("\r", "").strip() for line in lines]
        if not class_labels:
            raise OptionError("there are no class labels; expected at least one: give `class_labels=` or `class_labels_fname=`")
        self._class_labels = list(class_labels)

    def encode(self, s: str) -> int:  # type: ignore[override]
        """Return the index of a label.

        Raises
        ------
        CorpusError
            (a ValueError) If it is not in the list.
        """
        try:
            return self._class_labels.index(s)
        except ValueError:
            raise unknown_label(s, self._class_labels) from None

    def decode(self, ids: Any, strip_extraneous: bool = False) -> str:  # noqa: ARG002
        """Return the label of an index, which may be in a list or an array of length 1."""
        if isinstance(ids, list):
            if len(ids) != 1:
                raise TokenIdError(f"ids is {shorten(ids)}; expected one class label: decode them one by one")
            (ids,) = ids
        if isinstance(ids, np.ndarray):
            ids = np.squeeze(ids)
        return self._label(ids)

    def decode_list(self, ids: Iterable[int]) -> list[str]:
        """Return the label of each index."""
        return [self._label(label_id) for label_id in ids]

    def _label(self, label_id: int) -> str:
        try:
            return self._class_labels[label_id]
        except (IndexError, TypeError) as cause:
            raise TokenIdError(
                f"{shorten(label_id)} is not the index of a class label; expected 0 to {self.vocab_size - 1}: use the list of "
                "labels that was used for encoding"
            ) from cause

    @property
    def vocab_size(self) -> int:
        """The number of labels."""
        return len(self._class_labels)


def unknown_label(label: object, labels: Sequence[str], place: str = "") -> CorpusError:
    """Return the error for a class label outside the list; `place` begins the message."""
    return CorpusError(
        f"{place}the class label {shorten(label)} is not in the list; expected one of {shorten(list(labels), 200)}: correct "
        "the label, or add it to the list"
    )


class OneHotClassLabelEncoder(ClassLabelEncoder):
    """Encoding of a class label as a list with a 1 at its index.

    Examples
    --------
    >>> encoder = OneHotClassLabelEncoder(["neg", "pos"])
    >>> encoder.encode("pos")
    [0, 1]
    """

    def encode(self, s: str, on_value: int = 1, off_value: int = 0) -> list[int]:  # type: ignore[override]
        """Return a list with `on_value` at the index of the label, and `off_value` elsewhere."""
        ids = [int(off_value)] * self.vocab_size
        ids[super().encode(s)] = int(on_value)
        return ids

    def decode(self, ids: Any, strip_extraneous: bool = False) -> str:  # noqa: ARG002
        """Return the label at the index of the first 1."""
        if isinstance(ids, np.ndarray):
            ids = np.squeeze(ids).astype(np.int8).tolist()
        if not isinstance(ids, list) or len(ids) != self.vocab_size or 1 not in ids:
            raise TokenIdError(
                f"ids is {shorten(ids)}; expected a list of {self.vocab_size} numbers with a 1: decode such a list"
            )
        return self._class_labels[ids.index(1)]


class RealEncoder:
    """Encoding of numbers between white space as floats.

    Examples
    --------
    >>> RealEncoder().encode("1.5 2")
    [1.5, 2.0]
    """

    def encode(self, s: str) -> list[float]:
        """Return the numbers in a text."""
        return [float(word) for word in arguments.string("s", s).split()]

    def decode(self, ids: Iterable[float], strip_extraneous: bool = False) -> str:  # noqa: ARG002
        """Return the text of numbers."""
        return " ".join(map(str, ids))
