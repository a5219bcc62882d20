"""Encode the texts of a feature: ids of all samples in one array, each followed by the id of the end of a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bpejit.arrays import Array, padded_text
from bpejit.encoding.codec import Codec
from bpejit.errors import CorpusError, shorten
from bpejit.model import Model
from bpejit.t2t.datagen.sample_reading import pack_numbers
from bpejit.t2t.datagen.texts_of_features import FeatureTexts
from bpejit.t2t.subword_text_encoder import SubwordTextEncoder
from bpejit.t2t.text_encoders import EOS_ID, NUM_RESERVED_TOKENS

Ids = tuple[Array, Array]
"""Ids of samples, and their starts, int64 [samples + 1]."""

LABEL = "label"
"""The feature with the class label of a sample, which becomes the targets."""

Place = Callable[[int], str]


@dataclass(frozen=True)
class FeatureVocabulary:
    """What a feature is encoded with; it is sent to other processes.

    Parameters
    ----------
    sha256 : str
        Hash that identifies it, or a name.
    vocab_size : int
        Number of ids, reserved ones included.
    encode : callable
        `encode(texts, place)` returns the ids of texts; `place(i)` describes where text i is, for messages. Several threads may
        call it.
    """

    sha256: str
    vocab_size: int
    encode: Callable[[FeatureTexts, Place], Ids]


def subword_vocabulary(encoder: SubwordTextEncoder) -> FeatureVocabulary:
    """Return a vocabulary of subwords."""
    return FeatureVocabulary(encoder.sha256, encoder.vocab_size, partial(_encode_subwords, encoder))


def bpe_vocabulary(model: Model) -> FeatureVocabulary:
    """Return a tokenizer of bpejit with the special tokens `<pad>` and `<EOS>`, whose ids are 0 and 1."""
    return FeatureVocabulary(model.sha256, model.vocab_size, partial(_encode_by_codec, Codec(model, lazy=True)))


def byte_vocabulary() -> FeatureVocabulary:
    """Return the bytes, as `ByteTextEncoder` encodes them."""
    return FeatureVocabulary("bytes", 256 + NUM_RESERVED_TOKENS, _encode_bytes)


def listed_vocabulary(encoder: Any, sha256: str) -> FeatureVocabulary:
    """Return any encoder with a method `encode` that returns the ids of a text, such as `TokenTextEncoder`."""
    return FeatureVocabulary(sha256, int(encoder.vocab_size), partial(_encode_one_by_one, encoder))


def label_vocabulary(labels: tuple[str, ...]) -> FeatureVocabulary:
    """Return class labels, which are encoded as their index, without an end."""
    return FeatureVocabulary("labels", len(labels), partial(_encode_labels, labels))


def _encode_subwords(encoder: SubwordTextEncoder, texts: FeatureTexts, place: Place) -> Ids:
    if texts.known_ends is not None:
        # A text with line breaks, which the kernels take for the end of a text.
        return _encode_one_by_one(encoder, texts, place)
    blocks = list(encoder.encode_lines(texts.lines, append_eos=True))
    ids = np.concatenate([np.zeros(0, dtype=np.uint32), *blocks])
    return ids, np.concatenate(([0], np.flatnonzero(ids == EOS_ID) + 1))


def _encode_by_codec(codec: Codec, texts: FeatureTexts, _: Place) -> Ids:
    data, ends = texts.adjacent()
    text, _size = padded_text(data)
    with codec.workspace() as workspace:
        found, stops = codec.encoder.encode_block(text, ends, workspace, specials=False)
        ids = np.insert(found, stops, np.uint32(EOS_ID))
    return ids, np.concatenate(([0], stops + np.arange(1, stops.size + 1)))


def _encode_bytes(texts: FeatureTexts, _: Place) -> Ids:
    data, ends = texts.adjacent()
    numbers = np.frombuffer(data, dtype=np.uint8).astype(np.uint32)
    ids = np.insert(numbers + np.uint32(NUM_RESERVED_TOKENS), ends, EOS_ID)
    return ids, np.concatenate(([0], ends + np.arange(1, ends.size + 1)))


def _encode_one_by_one(encoder: Any, texts: FeatureTexts, place: Place) -> Ids:
    rows: list[list[int]] = []
    try:
        rows.extend([*encoder.encode(text.decode("utf-8", "surrogateescape")), EOS_ID] for text in texts.texts())
    except CorpusError as cause:
        message = str(cause).replace("`replace_oov=`", "`oov_token`")  # the key of a problem
        raise CorpusError(f"{place(len(rows))}: {message}") from cause
    return pack_numbers(rows)


def _encode_labels(labels: tuple[str, ...], texts: FeatureTexts, place: Place) -> Ids:
    index_of = {label.encode("utf-8", "surrogateescape"): index for index, label in enumerate(labels)}
    listed = texts.texts()
    try:
        found = [index_of[text] for text in listed]
    except KeyError:
        at = next(index for index, text in enumerate(listed) if text not in index_of)
        raise unknown_label(listed[at].decode("utf-8", "replace"), labels, place(at)) from None
    return np.array(found, dtype=np.int64), np.arange(len(found) + 1)


def unknown_label(label: object, labels: tuple[str, ...], place: str) -> CorpusError:
    """Return the error for a class label outside the list."""
    return CorpusError(
        f"{place}: the class label {shorten(label)} is not in the list; expected one of {shorten(list(labels), 200)}: correct "
        "the label, or add it to the list"
    )
