"""The generation of a data set as a kind of job: samples are encoded in workers, and become records, packed if asked for.

The ids of a feature are one array for all samples; the id of the end of a sentence follows those of each. A part writes the
records into shards that are not shuffled yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bpejit.arrays import Array, padded_text, random_numbers
from bpejit.corpus.blocks import NOTHING_SKIPPED, ChunkReader, Skipped
from bpejit.corpus.fingerprints import checksum
from bpejit.encoding.codec import Codec, warm_encoding
from bpejit.engines import FunctionJob, Job
from bpejit.errors import CorpusError, OptionError
from bpejit.jobs.job_folder import Fields, GrowingFile
from bpejit.jobs.job_plan import JobPlan, PartSink
from bpejit.kernels.constants import WARMING_TEXT
from bpejit.t2t.array_packing import pack_example_arrays
from bpejit.t2t.datagen.dataset_outputs import DatasetOutputs
from bpejit.t2t.datagen.sample_reading import LABEL, FeatureTexts, SampleBlock, SampleChunk, gather_sequences, pack_numbers
from bpejit.t2t.datagen.sample_sources import SampleChunker
from bpejit.t2t.example_arrays import Examples, Lists, warm_records, write_examples
from bpejit.t2t.subword_text_encoder import SubwordTextEncoder
from bpejit.t2t.text_encoders import EOS_ID, NUM_RESERVED_TOKENS, unknown_label
from bpejit.t2t.tfrecords import order_records

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
    encode: Callable[[FeatureTexts, Place], Lists]


def encode_subwords(encoder: SubwordTextEncoder, texts: FeatureTexts, place: Place) -> Lists:
    """Return the ids of texts as subwords."""
    if not texts.are_lines:  # the kernels take a line break for the end of a text
        return encode_one_by_one(encoder, texts, place)
    blocks = list(encoder.encode_lines(texts.lines, append_eos=True))
    ids = np.concatenate([np.zeros(0, np.uint32), *blocks])
    return ids, np.concatenate(([0], np.flatnonzero(ids == EOS_ID) + 1))


def encode_by_codec(codec: Codec, texts: FeatureTexts, _: Place) -> Lists:
    """Return the ids of texts, by a tokenizer with the special tokens `<pad>` and `<EOS>`, whose ids are 0 and 1."""
    data, ends = texts.adjacent()
    text, _size = padded_text(data)
    with codec.workspace() as workspace:
        return _with_ends(*codec.encoder.encode_block(text, ends, workspace, specials=False))


def encode_bytes(texts: FeatureTexts, _: Place) -> Lists:
    """Return the bytes of texts, as `ByteTextEncoder` encodes them."""
    data, ends = texts.adjacent()
    numbers = np.frombuffer(data, np.uint8).astype(np.uint32)
    return _with_ends(numbers + np.uint32(NUM_RESERVED_TOKENS), ends)


def _with_ends(ids: Array, ends: Array) -> Lists:
    """Return the ids of texts, which end at `ends`, with the end of a sentence after each."""
    return np.insert(ids, ends, EOS_ID), np.concatenate(([0], ends + np.arange(1, ends.size + 1)))


def encode_one_by_one(encoder: Any, texts: FeatureTexts, place: Place) -> Lists:
    """Return the ids of texts, by any encoder with a method `encode` that returns the ids of a text."""
    rows: list[list[int]] = []
    try:
        rows.extend([*encoder.encode(text.decode("utf-8", "surrogateescape")), EOS_ID] for text in texts.texts())
    except CorpusError as cause:
        message = str(cause).replace("`replace_oov=`", "`oov_token`")  # the key of a problem
        raise CorpusError(f"{place(len(rows))}: {message}") from cause
    return pack_numbers(rows)


def encode_labels(labels: tuple[str, ...], texts: FeatureTexts, place: Place) -> Lists:
    """Return class labels as their index, without an end."""
    index_of = {label.encode("utf-8", "surrogateescape"): index for index, label in enumerate(labels)}
    listed = texts.texts()
    try:
        found = [index_of[text] for text in listed]
    except KeyError:
        at = next(index for index, text in enumerate(listed) if text not in index_of)
        raise unknown_label(listed[at].decode("utf-8", "replace"), labels, f"{place(at)}: ") from None
    return np.array(found, np.int64), np.arange(len(found) + 1)


def pack_features(features: Examples, packed_length: int, spacing: int) -> dict[str, Lists]:
    """Return packed examples (see `pack_example_arrays`); targets without inputs are divided if they are longer."""
    has_inputs = "inputs" in features
    packed = pack_example_arrays(features, has_inputs, packed_length, spacing=spacing, chop_long_sequences=not has_inputs)
    used = np.flatnonzero(np.diff(packed["targets"][1]))
    if used.size == packed["targets"][1].size - 1:
        return packed
    # Nothing remains of a text that is divided into parts of full length, and an empty example cannot be written.
    return {name: gather_sequences(ids, starts, used) for name, (ids, starts) in packed.items()}


_FIRST_SHARD, _ORDER = 1, 2
"""What is drawn for a chunk: the shard of its first example, and the order of its examples before they are packed."""


@dataclass(frozen=True)
class GeneratedChunk:
    """The records of a chunk.

    Parameters
    ----------
    first : int
        The first of the shards that the records go to.
    data : uint8 [n]
        The records, shard by shard.
    bounds : int64 [shards + 1]
        Where those of each shard begin.
    counts : int64 [shards]
        Number of examples of each shard.
    n_tokens : int
        Ids of all features before packing.
    n_read : int
        Bytes of the input.
    n_bytes : int
        Bytes of text.
    skipped : Skipped
    checksum : bytes
        Of the samples (see `sample_checksum`).
    features : tuple of str
        The names of the features; empty if there are no examples.
    """

    first: int
    data: Array
    bounds: Array
    counts: Array
    n_tokens: int
    n_read: int
    n_bytes: int
    skipped: Skipped = NOTHING_SKIPPED
    checksum: bytes = b""
    features: tuple[str, ...] = ()

    @property
    def n_documents(self) -> int:
        """Number of examples."""
        return int(self.counts.sum())


def generate_records(
    vocabularies: Mapping[str, FeatureVocabulary], job: Fields, reader: ChunkReader, chunk: SampleChunk
) -> GeneratedChunk:
    """Encode samples as records, with the vocabulary of each feature; `job` is what was asked for, as in a manifest."""
    block = chunk.read(reader)
    features = dict(block.ready)
    n_bytes = 0
    for name, given in block.texts.items():
        texts = given.prefixed(job["prefixes"].get(name, "").encode())
        n_bytes += len(texts.lines)
        features["targets" if name == LABEL else name] = vocabularies[name].encode(texts, block.place)
    n_samples = next(iter(features.values()))[1].size - 1
    n_ids = sum(int(starts[-1]) for _, starts in features.values())
    sizes = [shards for _, shards in job["splits"]]
    first, shards = (0, sum(sizes)) if job["divides_samples"] else (sum(sizes[: chunk.split]), sizes[chunk.split])
    draws = (job["seed"], chunk.unit, chunk.index)
    if job["packed_length"] is not None:
        if job["shuffled"]:
            order = np.argsort(random_numbers((*draws, _ORDER), n_samples), kind="stable")
            features = {name: gather_sequences(ids, starts, order) for name, (ids, starts) in features.items()}
        features = pack_features(features, job["packed_length"], job["packed_spacing"])
    n_examples = next(iter(features.values()))[1].size - 1
    offset = int(random_numbers((*draws, _FIRST_SHARD), 1)[0] % np.uint64(shards))
    shard_of = (np.arange(n_examples) + offset) % shards
    order = np.argsort(shard_of, kind="stable")
    data, starts = order_records(*write_examples(features), order)
    bounds = starts[np.searchsorted(shard_of[order], np.arange(shards + 1))]
    counts = np.bincount(shard_of, minlength=shards)
    names = tuple(features) if n_examples else ()
    return GeneratedChunk(first, data, bounds, counts, n_ids, chunk.n_read, n_bytes, block.skipped, _checksum(block), names)


def sample_checksum(reader: ChunkReader, chunk: SampleChunk) -> tuple[bytes, int]:
    """Return a checksum of the samples of a chunk, and its bytes of input."""
    return _checksum(chunk.read(reader)), chunk.n_read


def _checksum(block: SampleBlock) -> bytes:
    arrays: list[Array] = []
    for texts in block.texts.values():
        arrays += [np.frombuffer(texts.lines, np.uint8), texts.ends]
    arrays += [array for pair in block.ready.values() for array in pair]
    return checksum(*arrays, np.array([block.skipped.count]))


def warm_data_sets() -> None:
    """Call each kernel once, so that it is compiled."""
    SubwordTextEncoder.build_from_generator([WARMING_TEXT.decode()], 100).encode("low")
    warm_records()
    pack_example_arrays({"targets": (np.ones(2, np.uint32), np.arange(3))}, False)


@dataclass(frozen=True)
class DatasetPlan(JobPlan):
    """The generation of a data set before it runs.

    Parameters
    ----------
    names, job, options, units, mine, store
        See `JobPlan`. Of the totals of the job, `documents` is the number of examples.
    vocabularies : dict of str to FeatureVocabulary
    max_memory : int
        For shuffling.
    """

    names: DatasetOutputs
    vocabularies: Mapping[str, FeatureVocabulary]
    max_memory: int

    kernels = (warm_encoding, warm_data_sets)
    stage = "bpejit datagen"

    @property
    def paths(self) -> list[str]:
        """The paths of all inputs, since samples may be paired from several."""
        return [entry["path"] for entry in self.job["inputs"]]

    @property
    def begun_fields(self) -> dict[str, Any]:
        """The bound of the memory for shuffling."""
        return {"max_memory": self.max_memory}

    def checksum_job(self, checkpoint: Fields) -> tuple[Job, SampleChunker]:  # noqa: ARG002 - chunks never differ
        """Return what computes checksums of the samples of units."""
        return FunctionJob(sample_checksum, ChunkReader), SampleChunker()

    def chunk_job(self) -> tuple[Job, SampleChunker]:
        """Return the job that encodes samples as records in workers, and the chunker."""
        return FunctionJob(partial(generate_records, self.vocabularies, self.job), ChunkReader), SampleChunker()

    def open_sink(self, folder: Path, checkpoint: Fields | None) -> ShardSink:
        """Return what writes records into unshuffled shards (see `JobPlan`)."""
        return ShardSink(folder, self.names.unshuffled(), checkpoint)

    def check_shared(self) -> None:
        """Raise OptionError if the job is a part, or the samples are made by a Python class."""
        super().check_shared()
        if not self.paths:
            raise OptionError(
                f"the problem {self.job['data_set']} is a Python class, which other machines may not have; expected a problem "
                "that a file describes: write its samples to files first, or use another engine"
            )


class ShardSink(PartSink):
    """Writes records of generated chunks into the unshuffled shards of a part, and counts those of each.

    Parameters
    ----------
    folder : Path
        The folder of the part.
    names : list of str
        Of the shards.
    checkpoint : dict, optional
        The last checkpoint of the part; None to begin.

    Raises
    ------
    OSError, OutputError
        As `GrowingFile`.
    """

    def __init__(self, folder: Path, names: list[str], checkpoint: Fields | None) -> None:
        known = checkpoint or {"sizes": [0] * len(names), "hashes": [None] * len(names), "records": [0] * len(names)}
        self._files = []
        for name, size, sha256 in zip(names, known["sizes"], known["hashes"], strict=True):
            self._files.append(GrowingFile(folder / name, size, sha256))
            self._files[-1].close()  # not all may be open at the same time, so one is opened to write to it
        self._records = list(known["records"])
        self._features: Sequence[str] = known.get("features", ())
        self._changed = set(range(len(names)))

    def write(self, result: GeneratedChunk) -> tuple[int, int]:
        """Append the records of a chunk; return the numbers of ids and of examples."""
        bounds = result.bounds.tolist()
        for index in np.flatnonzero(result.counts).tolist():
            shard = result.first + index
            with closing(self._files[shard]) as file:
                file.write(result.data[bounds[index] : bounds[index + 1]].data)
            self._records[shard] += int(result.counts[index])
            self._changed.add(shard)
        self._features = self._features or result.features
        return result.n_tokens, result.n_documents

    def state(self) -> dict[str, Any]:
        """Return sizes, hashes and numbers of records of the shards, and the names of the features."""
        sizes, hashes = [file.size for file in self._files], [file.sha256 for file in self._files]
        return {"sizes": sizes, "hashes": hashes, "records": list(self._records), "features": self._features}

    def changed(self) -> list[Path]:
        """Return the shards that have changed since the last call."""
        shards, self._changed = self._changed, set()
        return [self._files[shard].path for shard in sorted(shards)]

    def finish(self) -> dict[str, Any]:
        """Return the state."""
        return self.state()

    def close(self) -> None:
        """Do nothing: no shard stays open."""
