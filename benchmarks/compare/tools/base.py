"""The interface of a tokenizer under test."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..corpora import documents_of
from ..vocabularies import Vocabulary


class CannotError(Exception):
    """The tool cannot do this work; the message says why."""


class Trained(NamedTuple):
    """The result of a trainer."""

    tokens: list[bytes]
    """The token that each merge creates, in order."""
    merges: list[tuple[bytes, bytes]] | None
    """The merges, if the tool reports them."""


class Tool:
    """A tokenizer package.

    A subclass overrides the methods for the works that it can do; a tool takes part in a work if it overrides the method
    that the work names. All methods run in the worker process, and only those marked "timed" are within the timer.
    """

    name: str
    package: str
    """Name of the distribution."""
    environment: ClassVar[dict[str, str]] = {}
    """Environment variables of its processes."""
    is_reference = False
    """True for code that takes part only in the works that name it, because it is slow on purpose."""
    only_by_name = False
    """True if it takes part only in runs that name it."""
    comparable = True
    """False if its algorithm gives other merges."""
    tie_rule: str = "hf"
    """bpejit's name for the rule by which the trainer chooses among equally frequent pairs."""
    documents = ""
    """bpejit's name for what ends a document in training, if the trainer does not read documents as the others do."""
    bytes_per_second = 1e8
    """Rough encoding speed; tools far below 100 MB/s get a prefix of the text."""

    def version(self) -> str | None:
        """Return the installed version, or None if the tool is not available."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None

    @property
    def interpreter(self) -> str:
        """The Python that has the tool installed."""
        return sys.executable

    @property
    def command(self) -> list[str]:
        """The words before the arguments of its command."""
        return [self.interpreter, "-m", self.package]

    def can(self, method: str) -> bool:
        """Return True if the tool overrides a method."""
        return getattr(type(self), method) is not getattr(Tool, method)

    def prepare(self) -> None:
        """Import the package and compile or load what it needs."""

    # ---- training

    def train(self, path: Path, vocab_size: int, *, workers: int, rule: str, folder: Path) -> Any:
        """Train on a file, special token included in the size. Timed."""
        raise CannotError("it has no trainer")

    def trained(self, result: Any) -> Trained:
        """Return the tokens and merges of a training."""
        raise NotImplementedError

    # ---- encoding

    def load(self, vocabulary: Vocabulary) -> Any:
        """Return an encoder, or raise CannotError. Timed by the work `load`."""
        raise CannotError("it has no encoder")

    def text_of(self, data: bytes) -> Any:
        """Return a text in the form that `encode` takes."""
        return data

    def encode(self, encoder: Any, text: Any) -> Any:
        """Encode on one thread; special tokens become their ids. Timed."""
        raise CannotError("it does not encode")

    def ids_of(self, result: Any, vocabulary: Vocabulary) -> np.ndarray:
        """Return the result of `encode` as an array."""
        return np.asarray(result, dtype=np.uint32)

    def encode_line(self, encoder: Any, text: str) -> Any:
        """Encode one short string with the call that users would choose. Timed."""
        raise CannotError("it has no call for one string")

    def encode_batch(self, encoder: Any, texts: list[str], threads: int) -> Any:
        """Encode a list of strings. Timed."""
        raise CannotError("it has no call for many texts")

    def batch_ids(self, result: Any) -> np.ndarray:
        """Return the ids of a batch, concatenated."""
        return concatenate(result)

    def count_batch(self, encoder: Any, texts: list[str], threads: int) -> Any:
        """Return the number of ids of each string. Timed."""
        raise CannotError("it has no call for many texts")

    def session(self, encoder: Any, text: str) -> Any:
        """Return a text that is changed by `append`, and where the tool has them by `edit` and `fork`."""
        raise CannotError("it has no sessions")

    def session_ids(self, session: Any) -> np.ndarray:
        """Return the ids of a session."""
        return np.asarray(session.ids, dtype=np.uint32)

    def into_transformers(self, tokenizer: Any) -> Any:
        """Return a tokenizer of transformers in which the tool encodes."""
        raise CannotError("it does not encode inside transformers")

    def encode_iterable(self, encoder: Any, pieces: Iterable[str]) -> Iterator[int]:
        """Return an iterator over the ids of a stream of strings. Timed."""
        raise CannotError("it has no call for a stream of texts")

    def encode_file(self, encoder: Any, vocabulary: Vocabulary, path: Path, out: Path, *, workers: int, dtype: str) -> None:
        """Encode a file to a file of ids. Timed."""
        raise CannotError("it does not encode files")

    def encode_documents(self, vocabulary: Vocabulary, form: str, paths: list[Path], out: Path, *, workers: int) -> None:
        """Encode the documents of files to a folder of token files, loading of the vocabulary included. Timed.

        `form` is `text` (a special token after each document), `jsonl`, `parquet`, or `files` (a document in each file).
        """
        raise CannotError("it does not encode corpora")

    def document_ids(self, vocabulary: Vocabulary, out: Path) -> np.ndarray:
        """Return the ids that `encode_documents` wrote, in order, with that of the end of a document after each."""
        raise NotImplementedError

    # ---- decoding

    def decode_file(self, encoder: Any, path: Path, out: Path, *, dtype: str) -> None:
        """Decode a file of ids to a file. Timed."""
        raise CannotError("it does not decode files")

    # ---- other works

    def split(self, pattern: str, data: bytes) -> Any:
        """Return a function without arguments that splits the text, and one that returns the ends of the pre-tokens."""
        raise CannotError("it does not split")

    def script(self, vocabulary: Vocabulary, line: str) -> str:
        """Return a Python script that loads a vocabulary, encodes a line and prints the list of ids."""
        raise CannotError("it does not encode")


def concatenate(parts: Iterable[Any]) -> np.ndarray:
    """Concatenate lists of ids."""
    arrays = [np.asarray(part, dtype=np.uint32) for part in parts]
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.uint32)


def join_documents(parts: list[Any], special: int, ends_with_special: bool) -> np.ndarray:
    """Concatenate the ids of documents with the id of the special token between them."""
    separator = np.array([special], dtype=np.uint32)
    joined = [array for part in parts for array in (np.asarray(part, dtype=np.uint32), separator)]
    return np.concatenate(joined if ends_with_special else joined[:-1]) if joined else np.zeros(0, dtype=np.uint32)


def documents_in(path: Path) -> Iterator[str]:
    """Return the documents of a file, which Python reads and splits."""
    return iter(documents_of(path.read_bytes()))
