"""The generation of a data set as a kind of job, and the data set as its outputs.

Samples are encoded in workers, and become records, packed if asked for: the ids of a feature are one array for all samples, and
the id of the end of a sentence follows those of each. A part writes the records into shards that are not shuffled yet; at the
end, each shard is shuffled by itself, from the unshuffled shards of all parts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bpejit.arrays import Array, random_numbers, ranges_of, starts_of
from bpejit.corpus.blocks import NOTHING_SKIPPED, ChunkReader, Skipped
from bpejit.corpus.fingerprints import checksum
from bpejit.encoding.codec import warm_encoding
from bpejit.engines import AUTO, Engine, FunctionJob, Job, make_engine
from bpejit.errors import CorpusError, OptionError
from bpejit.jobs.job_folder import FINAL, Fields, GrowingFile, Totals, damaged, part_folder
from bpejit.jobs.job_options import Finished
from bpejit.jobs.job_plan import JobPlan, PartSink
from bpejit.jobs.job_records import CompleteParts, FilePairs, JobOutputs, finished_manifest, listed_outputs
from bpejit.kernels.constants import WARMING_TEXT
from bpejit.progress_bar import Progress
from bpejit.storage.files import file_sha256, replacing
from bpejit.t2t.datagen.problem_declaration import shard_name
from bpejit.t2t.datagen.sample_reading import LABEL, SampleBlock, SampleChunk, all_skipped
from bpejit.t2t.datagen.sample_sources import SampleChunker
from bpejit.t2t.datagen.vocabularies import FeatureVocabulary, pack_numbers
from bpejit.t2t.example_arrays import Examples, Lists, pack_example_arrays, warm_records, write_examples
from bpejit.t2t.record_formats.registry import load_record_format
from bpejit.t2t.shuffling import shuffle_records
from bpejit.t2t.subword_text_encoder import SubwordTextEncoder
from bpejit.t2t.tfrecords import order_records, read_record_blocks

SHUFFLE_MEMORY = 1 << 30
"""Memory for shuffling, of all workers together."""


def gather_sequences(ids: Array, starts: Array, order: Array) -> Lists:
    """Return some of several sequences, in the given order.

    Parameters
    ----------
    ids : [n]
        The sequences, adjacent.
    starts : int64 [sequences + 1]
    order : int64 [m]

    Returns
    -------
    ids : [total]
    starts : int64 [m + 1]
    """
    lengths = np.diff(starts)[order]
    return ids[ranges_of(starts[:-1][order], lengths)], starts_of(lengths)


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
    features = {name: pack_numbers(rows) for name, rows in block.numbers.items()}
    n_bytes = 0
    for name, given in block.texts.items():
        prefix = job["prefixes"].get(name, "").encode()
        texts = [prefix + text for text in given] if prefix else given
        n_bytes += sum(map(len, texts)) + len(texts)
        features["targets" if name == LABEL else name] = vocabularies[name].encode(texts, block.place)
    n_samples = next(iter(features.values()))[1].size - 1
    n_ids = sum(int(starts[-1]) for _, starts in features.values())
    sizes = [shards for _, shards in job["splits"]]
    if job["divides_samples"]:
        first, shards = 0, sum(sizes)
    else:
        first, shards = sum(sizes[: chunk.split]), sizes[chunk.split]
    draws = (job["seed"], chunk.unit, chunk.index)
    if job["packed_length"] is not None:
        if job["shuffled"]:
            order = np.argsort(random_numbers((*draws, _ORDER), n_samples), kind="stable")
            features = {name: gather_sequences(ids, starts, order) for name, (ids, starts) in features.items()}
        features = pack_features(features, job["packed_length"], job["packed_spacing"])
    n_examples = next(iter(features.values()))[1].size - 1
    offset = int(random_numbers((*draws, _FIRST_SHARD), 1)[0] % np.uint64(shards))
    shard_of = (np.arange(n_examples) + offset) % shards + first
    order = np.argsort(shard_of, kind="stable")
    data, starts = order_records(*write_examples(features), order)
    bounds = starts[np.searchsorted(shard_of[order], np.arange(sum(sizes) + 1))]
    counts = np.bincount(shard_of, minlength=sum(sizes))
    names = tuple(features) if n_examples else ()
    return GeneratedChunk(data, bounds, counts, n_ids, chunk.n_read, n_bytes, block.skipped, _checksum(block), names)


def sample_checksum(reader: ChunkReader, chunk: SampleChunk) -> tuple[bytes, int]:
    """Return a checksum of the samples of a chunk, and its bytes of input."""
    return _checksum(chunk.read(reader)), chunk.n_read


def _checksum(block: SampleBlock) -> bytes:
    joined = map(b"\n".join, block.texts.values())
    arrays: list[Array] = [np.frombuffer(data, np.uint8) for data in joined]
    for rows in block.numbers.values():
        arrays += pack_numbers(rows)
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
    max_memory: int = SHUFFLE_MEMORY

    kernels = (warm_encoding, warm_data_sets)
    command = "bpejit datagen"

    def with_vocabularies(self, found: Mapping[str, FeatureVocabulary]) -> DatasetPlan:
        """Return the plan with the vocabulary of each feature."""
        known = {name: {"sha256": one.sha256, "vocab_size": one.vocab_size} for name, one in found.items()}
        return replace(self, vocabularies=found, job={**self.job, "vocabularies": known})

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
        nothing = [0] * len(names)
        known = checkpoint or {"sizes": nothing, "hashes": [None] * len(names), "records": nothing}
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
        for shard in np.flatnonzero(result.counts).tolist():
            with closing(self._files[shard]) as file:
                file.write(result.data[bounds[shard] : bounds[shard + 1]].data)
            self._records[shard] += int(result.counts[shard])
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


ShardTask = tuple[int, Sequence[tuple[Path, str]], Path]
"""A shard to shuffle: its index among those of all splits; the TFRecord files that together contain its records, with their
hashes, which are empty if this run has written them; and the file to write, which is complete if it exists.
"""


def shuffle_shard(job: Fields, features: Sequence[str], max_memory: int, task: ShardTask) -> int:
    """Write a shard, unless an earlier run has written it. Return its size in bytes.

    Parameters
    ----------
    job : dict
        What was asked for, as in a manifest.
    features : sequence of str
        The names of the features of the examples.
    max_memory : int
        Bytes.
    task : ShardTask
    """
    shard, sources, target = task
    if target.exists():
        return target.stat().st_size
    for path, sha256 in sources:
        if sha256 and not (path.exists() and file_sha256(path) == sha256):
            raise damaged(path, folder=path.parent)
    paths = [path for path, _ in sources]
    with replacing(target) as file:
        writer = load_record_format(job["format"]).writer(file, features)
        try:
            if job["shuffled"]:
                shuffle_records(paths, writer.write, seed=job["seed"], shard=shard, max_memory=max_memory)
            else:
                for path in paths:
                    for data, starts in read_record_blocks(path):
                        writer.write(data, starts)
            writer.finish()
        except BaseException:
            writer.abandon()
            raise
    return target.stat().st_size


@dataclass(frozen=True)
class DatasetOutputs(JobOutputs):
    """The shards of a data set.

    Parameters
    ----------
    out : Path
        The folder, and the name with which the names of files begin.
    splits : tuple of (str, int)
        The name and the number of shards of each split.
    suffix : str
        End of the names of the shuffled shards.
    """

    splits: tuple[tuple[str, int], ...]
    suffix: str = ""

    @classmethod
    def of_job(cls, out: Path, job: Fields) -> DatasetOutputs:
        """Return the shards of what was asked for, as in a manifest."""
        splits = tuple((str(split), int(shards)) for split, shards in job["splits"])
        return cls(out, splits, load_record_format(job["format"]).suffix)

    @property
    def slots(self) -> list[tuple[str, int, int]]:
        """The split, the index and the number of shards of each shard, in order."""
        return [(split, shard, shards) for split, shards in self.splits for shard in range(shards)]

    def first_files(self) -> list[Path]:
        """Return the paths of the shuffled shards."""
        return [self.out.with_name(shard_name(self.out.name, *slot, suffix=self.suffix)) for slot in self.slots]

    def unshuffled(self) -> list[str]:
        """Return the names of the shards while they are generated."""
        return [shard_name(self.out.name, *slot, shuffled=False) for slot in self.slots]

    def existing(self) -> list[Path]:
        """Return the files of an earlier data set with this name, without its manifest."""
        listed = [self.manifest.parent / name for name in listed_outputs(self.manifest)]
        return [path for path in dict.fromkeys((*self.first_files(), *listed)) if os.path.lexists(path)]

    def read_complete(self, fields: Fields) -> Finished | None:
        """Return the shards that a manifest describes; None if one is missing, or the manifest is broken."""
        paths = self.first_files()
        totals = Totals.of_manifest(fields, tokens="ids", documents="examples")
        if totals is None or not all(path.exists() for path in paths):
            return None
        return Finished(tuple(paths), self.manifest, totals)

    def check_totals(self, job: Fields, totals: Totals) -> None:
        """Raise CorpusError if there are no examples."""
        if totals.documents:
            return
        if totals.skipped:
            raise all_skipped(totals.skipped)
        inputs = [entry["path"] for entry in job["inputs"]]
        shown = ", ".join(f"`{path}`" for path in inputs[:3]) + (", ..." if len(inputs) > 3 else "") or "the problem"
        raise CorpusError(f"there are no samples in {shown}; expected one or more: check the inputs")

    def write_final(self, parts: CompleteParts, report: Progress, engine: Engine | None) -> tuple[FilePairs, Finished]:
        """Shuffle the shards of the parts (see `JobOutputs`)."""
        job, checkpoints = parts.job, parts.checkpoints
        final = self.folder / FINAL
        final.mkdir(exist_ok=True)
        paths = self.first_files()
        folders = [part_folder(self.folder, index, len(checkpoints)) for index in range(len(checkpoints))]
        tasks: list[Any] = []
        sizes = list(map(sum, zip(*(one["sizes"] for one in checkpoints), strict=True)))
        for shard, name in enumerate(self.unshuffled()):
            hashes = ["" if parts.fresh else one["hashes"][shard] for one in checkpoints]
            sources = tuple((folder / name, sha256) for folder, sha256 in zip(folders, hashes, strict=True))
            tasks.append((shard, sources, final / paths[shard].name))
        done, total = 0, sum(sizes)
        engine = engine or make_engine(AUTO, None, input_bytes=total, returns_arrays=True)
        features = next((one["features"] for one in checkpoints if one["features"]), ())
        max_memory = max(int(parts.begun.get("max_memory", SHUFFLE_MEMORY)) // engine.workers, 1)
        shuffling = FunctionJob(partial(shuffle_shard, job, features, max_memory))
        written_sizes = []
        report("shuffle", 0, total, "bytes")
        results: Any = engine.map_chunks(shuffling, iter(tasks))
        with closing(results):
            for size, n_bytes in zip(sizes, results, strict=True):
                written_sizes.append(n_bytes)
                done += size
                report("shuffle", done, total, "bytes")
        written = final / self.manifest.name
        with replacing(written) as file:
            file.write(self.describe(parts, written_sizes))
        pairs = [(final / path.name, path) for path in (*paths, self.manifest)]
        return pairs, Finished(tuple(paths), self.manifest, parts.totals)

    def describe(self, parts: CompleteParts, sizes: Sequence[int]) -> bytes:
        """Return the content of the manifest, from all parts and the size of each shard."""
        totals = parts.totals
        sums = {"examples": totals.documents, "ids": totals.tokens, "bytes_read": totals.bytes, "skipped": totals.skipped.count}
        outputs = [
            {
                "path": path.name,
                "split": slot[0],
                "examples": sum(one["records"][shard] for one in parts.checkpoints),
                "bytes": sizes[shard],
            }
            for shard, (path, slot) in enumerate(zip(self.first_files(), self.slots, strict=True))
        ]
        return finished_manifest(parts.job, sums, outputs)
