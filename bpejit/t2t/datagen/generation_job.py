"""Turn samples into records in workers, packed if asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.blocks import NOTHING_SKIPPED, Skipped
from bpejit.corpus.chunk_reader import ChunkReader
from bpejit.corpus.fingerprints import checksum
from bpejit.kernels.constants import WARMING_TEXT
from bpejit.t2t.array_packing import pack_example_arrays
from bpejit.t2t.datagen.feature_encoders import LABEL, FeatureVocabulary
from bpejit.t2t.datagen.sample_reading import SampleBlock, SampleChunk, gather_sequences
from bpejit.t2t.example_arrays import order_records, warm_records, write_examples
from bpejit.t2t.shuffling import random_numbers
from bpejit.t2t.subword_text_encoder import SubwordTextEncoder

Features = Mapping[str, tuple[Array, Array]]
"""The ids of each feature, and their starts, int64 [examples + 1]."""


def pack_features(features: Features, packed_length: int, spacing: int) -> dict[str, tuple[Array, Array]]:
    """Return packed examples (see `pack_examples`); targets without inputs are divided if they are longer."""
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
class SampleJob:
    """Calls a function with each chunk and its samples in workers.

    Parameters
    ----------
    function : callable
        Is sent to other processes.
    """

    function: Callable[[SampleChunk, SampleBlock], Any]

    def start(self) -> SampleWorker:
        """Return a new worker."""
        return SampleWorker(self.function)


class SampleWorker:
    """A worker of a `SampleJob`."""

    def __init__(self, function: Callable[[SampleChunk, SampleBlock], Any]) -> None:
        self._function = function
        self._reader = ChunkReader()

    def run(self, chunk: SampleChunk) -> Any:
        """Return the result for one chunk."""
        return self._function(chunk, chunk.read(self._reader))

    def finish(self) -> None:
        """Return None: there is no combined result."""


def generate_records(
    vocabularies: Mapping[str, FeatureVocabulary], settings: GenerationSettings, chunk: SampleChunk, block: SampleBlock
) -> GeneratedChunk:
    """Encode samples as records, with the vocabulary of each feature."""
    features = dict(block.ready)
    n_bytes = 0
    for name, given in block.texts.items():
        texts = given.prefixed(settings.prefixes.get(name, "").encode())
        n_bytes += len(texts.lines)
        features["targets" if name == LABEL else name] = vocabularies[name].encode(texts, block.place)
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
    read, n_read = sample_checksum(chunk, block)
    return GeneratedChunk(first, data, bounds, counts, n_ids, n_read, n_bytes, block.skipped, read)


def sample_checksum(chunk: SampleChunk, block: SampleBlock) -> tuple[bytes, int]:
    """Return a checksum of the samples of a chunk, and its bytes of input."""
    arrays: list[Array] = []
    for given in block.texts.values():
        lines = np.frombuffer(given.lines, dtype=np.uint8)
        arrays += [lines, np.empty(0, np.int64) if given.known_ends is None else given.known_ends]
    arrays += [array for pair in block.ready.values() for array in pair]
    return checksum(*arrays, np.array([block.skipped.count])), chunk.n_read


def warm_data_sets() -> None:
    """Call each kernel once, so that it is compiled."""
    SubwordTextEncoder.build_from_generator([WARMING_TEXT.decode()], 100).encode("low")
    warm_records()
    pack_example_arrays({"targets": (np.ones(2, dtype=np.uint32), np.arange(3))}, False)
