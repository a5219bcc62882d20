"""What the comparison wants of a tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..vocabularies import Vocabulary


class CannotError(Exception):
    """The tool does not do this; the message says why."""


class Trained(NamedTuple):
    """What a trainer found."""

    tokens: list[bytes]
    """What each merge makes, in order."""
    merges: list[tuple[bytes, bytes]] | None
    """The merges themselves, where the tool tells them."""


class Tool:
    """A tokenizer package.

    A subclass says which works it takes part in by overriding `train` or `load`; the texts below go into the tables.
    """

    name: str
    package: str
    """Name of the distribution."""

    train_note = ""
    """From what, and to what, the trainer goes within the timer."""
    tie_rule: str | None = None
    """bpejit's name for the rule by which the trainer chooses among equally frequent pairs; None: merges not comparable."""
    no_train = "it has no trainer"

    encode_note = ""
    """What is encoded from, and into."""
    bytes_a_second = 1e8
    """Roughly, to keep slow tools to a part of the text."""
    no_encode = "it has no encoder of its own"

    @property
    def trains(self) -> bool:
        return type(self).train is not Tool.train

    @property
    def encodes(self) -> bool:
        return type(self).load is not Tool.load

    def prepare(self) -> None:
        """Import, and compile whatever has to be: not part of any time but that of starting."""

    def train(self, path: Path, vocab_size: int, *, workers: int, rule: str, folder: Path) -> Any:
        """Train on a file to a vocabulary of that size, the special token included."""
        raise CannotError(self.no_train)

    def trained(self, result: Any) -> Trained:
        """What was learned, outside the timer."""
        raise NotImplementedError

    def load(self, vocabulary: Vocabulary) -> Any:
        """Load a vocabulary, or say that it cannot be."""
        raise CannotError(self.no_encode)

    def text_of(self, data: bytes) -> Any:
        """The text in the form that the tool takes, outside the timer."""
        return data

    def encode(self, encoder: Any, text: Any) -> Any:
        """Encode on one thread; special tokens become their ids."""
        raise CannotError(self.no_encode)

    def ids_of(self, result: Any, vocabulary: Vocabulary) -> np.ndarray:
        """The ids as an array, outside the timer."""
        return np.asarray(result, dtype=np.uint32)

    def encode_short(self, encoder: Any, text: str) -> Any:
        """Encode one short string, by the call that the package offers for it."""
        return self.encode(encoder, text)


def join_documents(parts: list[Any], n_documents: int, special: int, ends_with_special: bool) -> np.ndarray:
    """Ids of documents that were encoded one by one, with the special token's id between them."""
    between = np.array([special], dtype=np.uint32)
    joined: list[np.ndarray] = []
    for number, part in enumerate(parts):
        joined.append(np.asarray(part, dtype=np.uint32))
        if number + 1 < n_documents or ends_with_special:
            joined.append(between)
    return np.concatenate(joined) if joined else np.zeros(0, dtype=np.uint32)
