"""What a problem is: what a data set consists of, how it is encoded, and the samples that its code yields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from bpejit.errors import BpejitError, CorpusError, OptionError, shorten
from bpejit.storage.files import StrPath
from bpejit.t2t.datagen.sample_reading import LABEL, Layout, SampleChunk, read_texts
from bpejit.t2t.text_encoders import unknown_label


class DatasetSplit:
    """The names of the parts of a data set."""

    TRAIN = "train"
    EVAL = "eval"
    TEST = "test"


FILE_NAMES = {DatasetSplit.TRAIN: "train", DatasetSplit.EVAL: "dev", "dev": "dev", DatasetSplit.TEST: "test"}
"""The name of each split in the names of files."""


class VocabType:
    """The kinds of vocabularies.

    Attributes
    ----------
    CHARACTER : str
        Bytes.
    SUBWORD : str
        The vocabularies of `SubwordTextEncoder`.
    TOKEN : str
        Tokens between white space, listed in a file.
    BPE : str
        A tokenizer of bpejit; this one is not in the published class.
    """

    CHARACTER = "character"
    SUBWORD = "subwords"
    TOKEN = "tokens"
    BPE = "bpe"


VOCAB_TYPES = (VocabType.SUBWORD, VocabType.BPE, VocabType.TOKEN, VocabType.CHARACTER)


def shard_name(base: str, split: str, shard: int, shards: int, *, shuffled: bool = True, suffix: str = "") -> str:
    """Return the published name of a shard.

    Examples
    --------
    >>> shard_name("wmt", "eval", 0, 1)
    'wmt-dev-00000-of-00001'
    """
    return f"{base}{'' if shuffled else '-unshuffled'}-{FILE_NAMES[split]}-{shard:05d}-of-{shards:05d}{suffix}"


class Problem:
    """The attributes and methods of all problems, under their published names (see `bpejit.t2t.datagen.problems`)."""

    # -- what a subclass may override, also by properties

    vocab_type: str = VocabType.SUBWORD
    """The kind of vocabulary (see `VocabType`)."""

    approx_vocab_size: int = 2**15
    """Approximate size of a vocabulary that is built."""

    additional_reserved_tokens: list[str] = []  # noqa: RUF012 - problems have their own
    """Tokens with the ids from 2 on, in a subword vocabulary."""

    oov_token: str | None = None
    """Token that replaces those that are not listed, for `VocabType.TOKEN`."""

    max_samples_for_vocab: int | None = None
    """Number of samples for building a vocabulary; None for all."""

    max_subtoken_length: int | None = 200
    """Subtokens of a vocabulary that is built have fewer characters than this."""

    file_byte_budget: float = 1_000_000
    """Size of the sample of each input for a vocabulary that is built; this attribute is not in the published class."""

    packed_length: int | None = None
    """Length of examples that several short ones are packed into; None to leave them alone."""

    packed_spacing: int = 0
    """Number of zeros between packed examples."""

    has_inputs: bool = True
    """Whether examples have inputs, or only targets."""

    inputs_prefix: str = ""
    """Text to put before inputs."""

    targets_prefix: str = ""
    """Text to put before targets."""

    has_shared_vocab: bool = True
    """Whether inputs and targets have the same vocabulary; this attribute is not in the published class."""

    use_vocab_from_other_problem: Problem | None = None
    """Problem whose vocabulary is used."""

    already_shuffled: bool = False
    """Whether the samples have a random order, so that they need not be shuffled."""

    dataset_splits: list[dict[str, Any]] = [  # noqa: RUF012
        {"split": DatasetSplit.TRAIN, "shards": 100},
        {"split": DatasetSplit.EVAL, "shards": 1},
    ]
    """The parts of the data set, each with its number of shards."""

    @property
    def name(self) -> str:
        """The name of the problem: that of the class in lower case, with underscores."""
        first = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", type(self).__name__)
        return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", first).lower()

    def dataset_filename(self) -> str:
        """Return the name with which the names of files begin."""
        return self.name

    @property
    def is_generate_per_split(self) -> bool:
        """Whether each split has samples of its own. Otherwise all samples are divided among the shards of all splits."""
        raise OptionError(
            f"the problem {self.name} does not say whether each split has samples of its own; expected True or False: define "
            "`is_generate_per_split`"
        )

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[dict[str, Any]]:
        """Yield samples, such as `{"inputs": text, "targets": text}`.

        Parameters
        ----------
        data_dir : str
            The folder of the vocabularies and the results.
        tmp_dir : str
            A folder for temporary files.
        dataset_split : str
            The split; `train` if all samples are generated by one call.
        """
        raise NotImplementedError("the class does not define `generate_samples`")

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yield the texts from which a vocabulary is built."""
        return self.sampled_texts(self.text_features, data_dir, tmp_dir)

    @property
    def vocab_filename(self) -> str:
        """The name of the vocabulary in the folder of the data."""
        return self.vocab_filename_of("")

    def class_labels(self, data_dir: StrPath) -> list[str] | None:  # noqa: ARG002
        """Return the names of the classes, in the order of their numbers; None if samples have no class labels."""
        return None

    # -- derived

    def sampled_texts(self, features: Sequence[str], data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yield the texts of features of the samples for a vocabulary; this method is not in the published class."""
        samples = self.generate_samples(data_dir, tmp_dir, DatasetSplit.TRAIN)
        for number, sample in enumerate(islice(samples, self.max_samples_for_vocab), start=1):
            for name in features:
                yield text_of(sample, name, self, number)

    def inputs_of(self, split: str) -> Layout | None:  # noqa: ARG002
        """Return layout and inputs of a split if its samples are in files; this method is not in the published class."""
        return None

    @property
    def text_features(self) -> tuple[str, ...]:
        """The features of a sample that are texts and become ids; this property is not in the published class."""
        return ("inputs", "targets") if self.has_inputs else ("targets",)

    @property
    def vocab_features(self) -> Sequence[str]:
        """The features with a vocabulary of their own, or an empty string for a shared one; not in the published class."""
        return ("",) if self.has_shared_vocab or len(self.text_features) == 1 else self.text_features

    def vocab_filename_of(self, feature: str) -> str:
        """Return the name of the vocabulary of a feature; that of the shared one for an empty string."""
        other = self.use_vocab_from_other_problem
        if other is not None:
            return other.vocab_filename_of(feature)
        name = f"{self.dataset_filename()}-{feature}" if feature else self.dataset_filename()
        if self.vocab_type in (VocabType.SUBWORD, VocabType.BPE):
            return f"vocab.{name}.{self.approx_vocab_size}.{self.vocab_type}"
        return f"vocab.{name}.{VocabType.TOKEN}"


def text_of(sample: Any, name: str, problem: Problem, number: int) -> str:
    """Return the text of the feature `name` of a sample; `number` is that of the sample, from 1, for messages.

    Raises
    ------
    CorpusError
        If the sample is not a dict, or has no such text.
    """
    expected = f"expected a dict with the texts {', '.join(map(repr, problem.text_features))}: correct `generate_samples`"
    if not isinstance(sample, Mapping):
        raise CorpusError(f"problem {problem.name}, sample {number}: it is {shorten(sample)}; {expected}")
    if name not in sample:
        raise CorpusError(f"problem {problem.name}, sample {number}: it has no {name}; {expected}")
    text = sample[name]
    if isinstance(text, bytes):
        return text.decode("utf-8", "surrogateescape")
    if not isinstance(text, str):
        raise CorpusError(
            f"problem {problem.name}, sample {number}: {name} is {shorten(text)}; expected a text: correct `generate_samples`"
        )
    return text


def generated_chunks(layout: Layout, problem: Problem, split: str, data_dir: str, tmp_dir: str) -> Iterator[SampleChunk]:
    """Yield the samples of a problem.

    Raises
    ------
    CorpusError
        If a sample lacks a feature, or one has a wrong type.
    """
    labels = problem.class_labels(data_dir)
    samples = problem.generate_samples(data_dir, tmp_dir, split)
    waiting: list[dict[str, Any]] = []
    first, size = 1, 0
    for number, sample in enumerate(calling(problem, samples), start=1):
        if sample is None:
            continue
        row = _checked(sample, problem, labels, number)
        if waiting and (size >= layout.chunk_bytes or row.keys() != waiting[0].keys()):
            yield _chunk(layout, problem, waiting, first)
            waiting, size = [], 0
        if not waiting:
            first = number
        waiting.append(row)
        size += sum(len(row[name]) for name in problem.text_features)
    if waiting:
        yield _chunk(layout, problem, waiting, first)


def _chunk(layout: Layout, problem: Problem, rows: list[dict[str, Any]], first: int) -> SampleChunk:
    texts = {name: [row[name] for row in rows] for name in layout.names}
    numbers = {name: [row[name] for row in rows] for name in rows[0] if name not in texts}
    read = partial(read_texts, layout, texts, numbers, f"problem {problem.name}", first)
    return SampleChunk(read, 0, texts)


def _checked(sample: Mapping[str, Any], problem: Problem, labels: list[str] | None, number: int) -> dict[str, Any]:
    """Return a sample with its texts as bytes, and its numbers as lists."""
    place = f"problem {problem.name}, sample {number}"
    row: dict[str, Any] = {}
    for name in problem.text_features:
        row[name] = text_of(sample, name, problem, number).encode("utf-8", "surrogateescape")
    for name, value in sample.items():
        if name in row:
            continue
        if name == LABEL and labels is not None:
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < len(labels):
                raise unknown_label(value, tuple(f"{i} ({label})" for i, label in enumerate(labels)), f"{place}: ")
            row["targets"] = [int(value)]
            continue
        values = value if isinstance(value, (list, tuple, np.ndarray)) else [value]
        if not all(isinstance(one, (int, np.integer)) for one in values) or not len(values):
            raise CorpusError(
                f"{place}: {name} is {shorten(value)}; expected a whole number, or a list of them: leave it out, or convert it"
            )
        row[name] = [int(one) for one in values]
    if labels is not None and "targets" not in row:
        raise CorpusError(f"{place}: it has no label; expected a number from 0 to {len(labels) - 1}: yield it as `{LABEL}`")
    return row


def calling(problem: Problem, found: Iterable[Any]) -> Iterator[Any]:
    """Yield what a method of a problem yields. Its own errors are raised as CorpusError, with the name of the problem."""
    try:
        yield from found
    except (BpejitError, MemoryError):
        raise
    except Exception as cause:
        reason = f"{type(cause).__name__}: {cause}".removesuffix(": ")
        raise CorpusError(
            f"the problem {problem.name} failed to generate its samples: {reason}; expected samples: correct "
            "`generate_samples`, or what it reads"
        ) from cause
