"""Turn samples into records in workers, packed if asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.blocks import NOTHING_SKIPPED, Skipped
from bpejit.corpus.chunk_reader import ChunkReader
from bpejit.corpus.fingerprints import checksum
from bpejit.kernels.constants import WARMING_TEXT
from bpejit.t2t.array_packing import pack_example_arrays
from bpejit.t2t.datagen.feature_encoders import FeatureVocabulary
from bpejit.t2t.datagen.sample_reading import SampleBlock, gather_sequences
from bpejit.t2t.datagen.sample_sources import UnitChunk
from bpejit.t2t.example_arrays import order_records, warm_records, write_examples
from bpejit.t2t.shuffling import random_numbers
from bpejit.t2t.subword_text_encoder import SubwordTextEncoder

Features = Mapping[str, tuple[Array, Array]]
"""The ids of each feature, and their starts, int64 [examples + 1]."""


def pack_features(features: Features, packed_length: int, spacing: int) -> dict[str, tuple[Array, Array]]:
    """Return packed examples (see `pack_examples`); targets without inputs are divided if they are longer.

    Parameters
    ----------
    features : dict of str to (Array, Array)
    packed_length, spacing : int
    """
    has_inputs = "inputs" in features
    packed = pack_example_arrays(features, has_inputs, packed_length, spacing=spacing, chop_long_sequences=not has_inputs)
    used = np.flatnonzero(np.diff(packed["targets"][1]))
    if used.size == packed["targets"][1].size - 1:
        return packed
    # Nothing remains of a text that is divided into parts of full length, and an empty example cannot be written.
    return {name: gather_sequences(ids, starts, used) for name, (ids, starts) in packed.items()}


LABEL = "label"
"""The feature with the class label of a sample, which becomes the targets."""

_FIRST_SHARD, _ORDER = 1, 2
"""What is drawn for a chunk: the shard of its first example, and the order of its examples before they are packed."""


@dataclass(frozen=True)
class GenerationSettings:
    """How samples become examples.

    Parameters
    ----------
    slots : tuple of (int, int)
        For each split, the index of the first shard among all shards, and the number of shards.
    seed : int
    prefixes : dict of str to str
        Text to put before each text of a feature.
    packed_length : int, optional
    packed_spacing : int
    reorders : bool
        Whether examples are put into a random order before they are packed.
    """

    slots: tuple[tuple[int, int], ...]
    seed: int = 0
    prefixes: Mapping[str, str] = field(default_factory=dict)
    packed_length: int | None = None
    packed_spacing: int = 0
    reorders: bool = True


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
    ids : int
        Ids of all features before packing.
    n_read : int
        Bytes of the input.
    n_bytes : int
        Bytes of text.
    skipped : Skipped
    checksum : bytes
        Of the samples (see `sample_checksum`).
    """

    first: int
    data: Array
    bounds: Array
    counts: Array
    ids: int
    n_read: int
    n_bytes: int
    skipped: Skipped = NOTHING_SKIPPED
    checksum: bytes = b""


@dataclass(frozen=True)
class GenerateJob:
    """Encode samples as records; the results of a worker are `GeneratedChunk`s.

    Parameters
    ----------
    vocabularies : dict of str to FeatureVocabulary
        What each feature is encoded with.
    settings : GenerationSettings
    """

    vocabularies: Mapping[str, FeatureVocabulary]
    settings: GenerationSettings

    def start(self) -> GenerateWorker:
        """Return a new worker."""
        return GenerateWorker(self)


class GenerateWorker:
    """Generates the records of chunks."""

    def __init__(self, job: GenerateJob) -> None:
        self._encoders = {name: vocabulary.start() for name, vocabulary in job.vocabularies.items()}
        self._settings = job.settings
        self._reader = ChunkReader()

    def run(self, chunk: UnitChunk) -> GeneratedChunk:
        """Generate the records of one chunk."""
        settings = self._settings
        block = chunk.chunk.read_samples(self._reader, chunk.layout)
        features = dict(block.ready)
        n_bytes = 0
        read = sample_checksum(block)
        for name, given in block.texts.items():
            texts = given.prefixed(settings.prefixes.get(name, "").encode())
            n_bytes += len(texts.lines)
            features["targets" if name == LABEL else name] = self._encoders[name].encode_texts(texts, block.place)
        n_samples = next(iter(features.values()))[1].size - 1
        n_ids = sum(int(starts[-1]) for _, starts in features.values())
        first, shards = settings.slots[chunk.split]
        draws = (settings.seed, chunk.unit, chunk.index)
        if settings.packed_length is not None:
            if settings.reorders:
                order = np.argsort(random_numbers((*draws, _ORDER), n_samples), kind="stable")
                features = {name: gather_sequences(ids, starts, order) for name, (ids, starts) in features.items()}
            features = pack_features(features, settings.packed_length, settings.packed_spacing)
        n_examples = next(iter(features.values()))[1].size - 1
        offset = int(random_numbers((*draws, _FIRST_SHARD), 1)[0] % np.uint64(shards))
        shard_of = (np.arange(n_examples) + offset) % shards
        order = np.argsort(shard_of, kind="stable")
        data, starts = order_records(*write_examples(features), order)
        bounds = starts[np.searchsorted(shard_of[order], np.arange(shards + 1))]
        counts = np.bincount(shard_of, minlength=shards)
        return GeneratedChunk(first, data, bounds, counts, n_ids, chunk.chunk.n_read, n_bytes, block.skipped, read)

    def finish(self) -> None:
        """Return None: there is no combined result."""


def sample_checksum(block: SampleBlock) -> bytes:
    """Return a checksum of the samples of a block."""
    texts: list[Array] = []
    for given in block.texts.values():
        listed = given.listed or []
        texts += [np.frombuffer(given.lines + b"".join(listed), dtype=np.uint8), np.array(list(map(len, listed)), np.int64)]
    numbers = [array for pair in block.ready.values() for array in pair]
    return checksum(*texts, *numbers, np.array([block.skipped.count]))


class SampleChecksumJob:
    """Computes the checksums of chunks, as `GenerateWorker` does."""

    def __init__(self) -> None:
        self._reader = ChunkReader()

    def __reduce__(self) -> tuple[type[SampleChecksumJob], tuple[()]]:
        return SampleChecksumJob, ()

    def start(self) -> SampleChecksumJob:
        """Return a new worker."""
        return SampleChecksumJob()

    def run(self, chunk: UnitChunk) -> tuple[bytes, int]:
        """Return the checksum of a chunk, and its bytes of input."""
        return sample_checksum(chunk.chunk.read_samples(self._reader, chunk.layout)), chunk.chunk.n_read

    def finish(self) -> None:
        """Return None: there is no combined result."""


def warm_data_sets() -> None:
    """Call each kernel once, so that it is compiled."""
    SubwordTextEncoder.build_from_generator([WARMING_TEXT.decode()], 100).encode("low")
    warm_records()
    pack_example_arrays({"targets": (np.ones(2, dtype=np.uint32), np.arange(3))}, False)
