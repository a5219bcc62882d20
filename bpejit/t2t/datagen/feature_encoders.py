"""Encode the texts of a feature: ids of all samples in one array, each followed by the id of the end of a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bpejit.arrays import Array, padded_text
from bpejit.encoding.encoder import Encoder
from bpejit.errors import CorpusError, shorten
from bpejit.model import Model
from bpejit.t2t.datagen.sample_reading import pack_numbers
from bpejit.t2t.datagen.texts_of_features import FeatureTexts
from bpejit.t2t.subword_text_encoder import SubwordTextEncoder
from bpejit.t2t.text_encoders import EOS_ID, NUM_RESERVED_TOKENS

Ids = tuple[Array, Array]
"""Ids of samples, and their starts, int64 [samples + 1]."""

Place = Callable[[int], str]


class FeatureEncoder(Protocol):
    """An encoder of one feature in one worker."""

    def encode_texts(self, texts: FeatureTexts, place: Place) -> Ids:
        """Return the ids of texts; `place(i)` describes where text i is, for messages."""


class FeatureVocabulary(Protocol):
    """What a feature is encoded with; it is sent to other processes."""

    @property
    def sha256(self) -> str:
        """Hash that identifies it."""

    @property
    def vocab_size(self) -> int:
        """Number of ids, reserved ones included."""

    def start(self) -> FeatureEncoder:
        """Return an encoder for one worker."""


@dataclass(frozen=True)
class SubwordVocabulary:
    """Subwords.

    Parameters
    ----------
    encoder : SubwordTextEncoder
    """

    encoder: SubwordTextEncoder

    @property
    def sha256(self) -> str:
        """Hash of the subtokens."""
        return self.encoder.sha256

    @property
    def vocab_size(self) -> int:
        """Number of subtokens."""
        return self.encoder.vocab_size

    def start(self) -> SubwordVocabulary:
        """Return itself: threads share the tables."""
        return self

    def encode_texts(self, texts: FeatureTexts, place: Place) -> Ids:  # noqa: ARG002
        """Return the ids of texts."""
        if texts.listed is not None:
            # A text with line breaks, which the kernels take for the end of a text.
            rows = [self.encoder.encode_array(text.decode("utf-8", "surrogateescape")) for text in texts.listed]
            return _with_ends(rows, np.array([EOS_ID], dtype=np.uint32))
        blocks = list(self.encoder.encode_lines(texts.lines, append_eos=True))
        ids = np.concatenate([np.zeros(0, dtype=np.uint32), *blocks])
        return ids, np.concatenate(([0], np.flatnonzero(ids == EOS_ID) + 1))


@dataclass(frozen=True)
class BpeVocabulary:
    """A tokenizer of bpejit with the special tokens `<pad>` and `<EOS>`, whose ids are 0 and 1.

    Parameters
    ----------
    model : Model
    """

    model: Model

    @property
    def sha256(self) -> str:
        """Hash of the tokenizer."""
        return self.model.sha256

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return self.model.vocab_size

    def start(self) -> BpeEncoder:
        """Return an encoder with a workspace."""
        return BpeEncoder(Encoder(self.model))


class BpeEncoder:
    """Encodes texts with a tokenizer of bpejit.

    Parameters
    ----------
    encoder : Encoder
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._workspace = encoder.new_workspace()

    def encode_texts(self, texts: FeatureTexts, place: Place) -> Ids:  # noqa: ARG002
        """Return the ids of texts."""
        data, ends = texts.adjacent()
        text, _ = padded_text(data)
        found, stops = self._encoder.encode_block(text, ends, self._workspace, specials=False)
        ids = np.insert(found, stops, np.uint32(EOS_ID))
        return ids, np.concatenate(([0], stops + np.arange(1, stops.size + 1)))


@dataclass(frozen=True)
class ByteVocabulary:
    """Bytes, as `ByteTextEncoder` encodes them."""

    @property
    def sha256(self) -> str:
        """A name instead of a hash."""
        return "bytes"

    @property
    def vocab_size(self) -> int:
        """256 and the reserved ids."""
        return 256 + NUM_RESERVED_TOKENS

    def start(self) -> ByteVocabulary:
        """Return itself."""
        return self

    def encode_texts(self, texts: FeatureTexts, place: Place) -> Ids:  # noqa: ARG002
        """Return the ids of texts."""
        data, ends = texts.adjacent()
        ids = np.insert(np.frombuffer(data, dtype=np.uint8).astype(np.uint32) + np.uint32(NUM_RESERVED_TOKENS), ends, EOS_ID)
        return ids, np.concatenate(([0], ends + np.arange(1, ends.size + 1)))


@dataclass(frozen=True)
class OtherVocabulary:
    """Any encoder with a method `encode` that returns the ids of a text, such as `TokenTextEncoder`.

    Parameters
    ----------
    encoder : object
    sha256 : str
    """

    encoder: Any
    sha256: str

    @property
    def vocab_size(self) -> int:
        """Its size."""
        return int(self.encoder.vocab_size)

    def start(self) -> OtherVocabulary:
        """Return itself."""
        return self

    def encode_texts(self, texts: FeatureTexts, place: Place) -> Ids:
        """Return the ids of texts.

        Raises
        ------
        CorpusError
            If a text cannot be encoded.
        """
        rows: list[list[int]] = []
        try:
            rows.extend([*self.encoder.encode(text.decode("utf-8", "surrogateescape")), EOS_ID] for text in texts.texts())
        except CorpusError as cause:
            message = str(cause).replace("`replace_oov=`", "`oov_token`")  # the key of a problem
            raise CorpusError(f"{place(len(rows))}: {message}") from cause
        return pack_numbers(rows)


@dataclass(frozen=True)
class LabelVocabulary:
    """Class labels, which are encoded as their index, without an end.

    Parameters
    ----------
    labels : tuple of str
    """

    labels: tuple[str, ...]

    @property
    def sha256(self) -> str:
        """The labels, since there are few."""
        return "labels"

    @property
    def vocab_size(self) -> int:
        """Number of labels."""
        return len(self.labels)

    def start(self) -> LabelVocabulary:
        """Return itself."""
        return self

    def encode_texts(self, texts: FeatureTexts, place: Place) -> Ids:
        """Return the index of each label.

        Raises
        ------
        CorpusError
            If a label is not in the list.
        """
        index_of = {label.encode("utf-8", "surrogateescape"): index for index, label in enumerate(self.labels)}
        listed = texts.texts()
        try:
            found = [index_of[text] for text in listed]
        except KeyError:
            at = next(index for index, text in enumerate(listed) if text not in index_of)
            raise unknown_label(listed[at].decode("utf-8", "replace"), self.labels, place(at)) from None
        return np.array(found, dtype=np.int64), np.arange(len(found) + 1)


def unknown_label(label: object, labels: tuple[str, ...], place: str) -> CorpusError:
    """Return the error for a class label outside the list."""
    return CorpusError(
        f"{place}: the class label {shorten(label)} is not in the list; expected one of {shorten(list(labels), 200)}: correct "
        "the label, or add it to the list"
    )


def _with_ends(rows: list[Array], end: Array) -> Ids:
    """Return sequences, each followed by `end`, and their starts."""
    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(np.fromiter((row.size + end.size for row in rows), dtype=np.int64, count=len(rows)), out=starts[1:])
    return np.concatenate([end[:0], *(part for row in rows for part in (row, end))]), starts
