from __future__ import annotations

import hashlib
import random
import shutil
import sys
import tempfile
import time
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..corpora import END_OF_TEXT, ROOT, Corpus, data_folder
from ..tools import Tool
from .base import Case, Metric, Record, Work, size_label

if TYPE_CHECKING:
    from ..measure import Context

NAME = "pairs"
N_SHARDS = 10
EOS_ID = 1


class Datagen(Work):
    name = "datagen"
    section = "Generating data sets of examples"
    unit = "examples/s / MB/s"
    about = """Read pairs of lines from two files, encode them as subwords, and write shuffled TFRecord files, with
    an existing vocabulary of Tensor2Tensor. The pairs are neighboring lines of a text.
    `t2t-python` is the published pipeline in plain Python, with a cache of tokens and with protocol buffers and checksums from
    their packages; it generates an even sample of the pairs, in one process."""
    metrics = (Metric("examples_s", "examples/s", True), Metric("mb_s", "MB/s", True))
    memory = True
    only: ClassVar[tuple[str, ...]] = ("bpejit", "bpejit-avx2", "t2t-python")

    def cases(self, context: Context) -> Iterable[Case]:
        settings = context.settings
        chosen = settings.corpora or context.corpora.given or not data_folder()
        corpus = context.corpora.get(context.corpus_names()[0] if chosen else "multilingual")
        size = settings.subword_vocab_size
        whole = context.folder / f"{NAME}-{corpus.name}"
        few = context.folder / f"{NAME}-{corpus.name}-few"
        n_bytes = write_pairs(corpus, whole, size)
        few_bytes = write_pairs(corpus, few, size, most=settings.datagen_plain_bytes)
        for workers in sorted({1, settings.workers}):
            key = {"corpus": corpus.record(), "bytes": n_bytes, "vocab_size": size, "workers": workers}
            params = {"folder": str(whole), "bytes": n_bytes, "workers": workers, "few": [str(few), few_bytes], "size": size}
            yield Case(key, params, workers)

    def params_for(self, tool: Tool, case: Case) -> Record:
        params = {name: value for name, value in case.params.items() if name != "few"}
        if tool.name == "t2t-python":
            params["folder"], params["bytes"] = case.params["few"]
        return params

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        source = Path(params["folder"])
        with tempfile.TemporaryDirectory(dir=source.parent) as name:
            folder = Path(name)
            if tool.name != "t2t-python":
                generate(source, folder / "first", params, lines=10)  # loads the kernels
                seconds = generate(source, folder / "data", params)
            else:
                alphanumeric_characters()
                begun = time.perf_counter()
                generate_plainly(source, folder / "data", source / vocabulary_name(params["size"]))
                seconds = time.perf_counter() - begun
            records = sorted(read_shards(folder / "data"))
        digest = hashlib.sha256(b"".join(records)).digest()
        metrics = {"examples_s": len(records) / seconds, "mb_s": params["bytes"] / seconds / 1e6}
        return metrics, np.concatenate([[np.uint64(len(records))], np.frombuffer(digest, dtype=np.uint64)])

    def label(self, key: Record) -> str:
        workers = "one worker" if key["workers"] == 1 else f"{key['workers']} workers"
        return f"{key['corpus']['name']}, {size_label(key['bytes'])}, {key['vocab_size']:,} subtokens, {workers}"

    def in_summary(self, key: Record) -> bool:
        return False


def vocabulary_name(size: int) -> str:
    return f"vocab.{NAME}.{size}.subwords"


def write_pairs(corpus: Corpus, folder: Path, vocab_size: int, *, most: int | None = None) -> int:
    """Write neighboring lines of a text as pairs, and a vocabulary of the text. Return the size of the pairs in bytes."""
    from bpejit.t2t.subword_text_encoder import SubwordTextEncoder, TokenCounter

    folder.mkdir()
    lines = [line.strip() for line in corpus.read().decode("utf-8", "ignore").split("\n")]
    lines = [line for line in lines if line and line != END_OF_TEXT]
    counter = TokenCounter()
    counter.add_lines("\n".join(lines).encode())
    encoder = SubwordTextEncoder.build_to_target_size(vocab_size, counter.counts(), 1, 1000)
    encoder.store_to_file(folder / vocabulary_name(vocab_size))
    pairs = [lines[start : start + 2] for start in range(0, len(lines) - 1, 2)]
    if most is not None:  # an even sample, since the languages follow each other
        pairs = pairs[:: -(-sum(len(line.encode()) + 1 for line in lines) // most)]
    for number, feature in enumerate(("inputs", "targets")):
        (folder / feature).write_bytes("".join(pair[number] + "\n" for pair in pairs).encode())
    return sum((folder / feature).stat().st_size for feature in ("inputs", "targets"))


def generate(source: Path, folder: Path, params: Record, *, lines: int | None = None) -> float:
    """Generate the data set with bpejit, from the first lines only if their number is given. Return the seconds."""
    import bpejit

    folder.mkdir()
    shutil.copy(source / vocabulary_name(params["size"]), folder)
    inputs = {}
    for feature in ("inputs", "targets"):
        path = source / feature
        if lines is not None:
            path = folder / f"{feature}.txt"
            path.write_bytes(b"".join((source / feature).read_bytes().splitlines(keepends=True)[:lines]))
        inputs[feature] = str(path)
    described = [
        f'name = "{NAME}"',
        f"approx_vocab_size = {params['size']}",
        "[[dataset_splits]]",
        'split = "train"',
        f"shards = {N_SHARDS}",
        *(f'{feature} = "{path}"' for feature, path in inputs.items()),
    ]
    problem = folder / "problem.toml"
    problem.write_text("\n".join(described), encoding="utf-8")
    begun = time.perf_counter()
    bpejit.generate_data(problem, folder, workers=params["workers"])
    return time.perf_counter() - begun


def read_shards(folder: Path) -> Iterator[bytes]:
    """Yield the records of all shards."""
    from bpejit.t2t.tfrecords import read_record_blocks

    for path in sorted(folder.glob(f"{NAME}-train-*")):
        for data, starts in read_record_blocks(path):
            found = data.tobytes()
            yield from (found[start:end] for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True))


# ---- the pipeline in plain Python


@lru_cache(maxsize=1)
def alphanumeric_characters() -> frozenset[str]:
    return frozenset(chr(code) for code in range(sys.maxunicode) if unicodedata.category(chr(code))[0] in "LN")


def split_plainly(text: str) -> list[str]:
    """Return the tokens of a text, as the published tokenizer."""
    letters = alphanumeric_characters()
    tokens = []
    start = 0
    classes = [character in letters for character in text]
    for position in range(1, len(text)):
        if classes[position] != classes[position - 1]:
            token = text[start:position]
            if token != " " or start == 0:
                tokens.append(token)
            start = position
    tokens.append(text[start:])
    return tokens


def plain_encoder(path: Path) -> Any:
    """Return a function that encodes a line with a vocabulary file."""
    import twins

    strings = [line[1:-1] for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    numbers = twins.subwords.build_edges(strings)
    longest = max(map(len, numbers))
    alphabet = {character for string in strings for character in string} | twins.subwords.ESCAPE_CHARACTERS
    cache: dict[str, list[int]] = {}

    def encode(line: str) -> list[int]:
        return twins.subwords.encode_split(split_plainly(line), numbers, longest, alphabet, cache)  # type: ignore[no-any-return]

    return encode


def generate_plainly(source: Path, folder: Path, vocabulary: Path) -> None:
    """Generate the data set: encode pairs, write them to unshuffled shards, and shuffle these one by one."""
    sys.path.insert(0, str(ROOT / "tests"))
    from helpers.published_records import frame_record, published_data, serialize_example

    folder.mkdir()
    encode = plain_encoder(vocabulary)
    paths = [folder / f"{NAME}-unshuffled-train-{number:05d}-of-{N_SHARDS:05d}" for number in range(N_SHARDS)]
    files = [path.open("wb") for path in paths]
    with (source / "inputs").open(encoding="utf-8") as sources, (source / "targets").open(encoding="utf-8") as targets:
        for number, pair in enumerate(zip(sources, targets, strict=True)):
            inputs, target = ([*encode(line.strip()), EOS_ID] for line in pair)
            files[number % N_SHARDS].write(frame_record(serialize_example({"inputs": inputs, "targets": target})))
    for file in files:
        file.close()
    for number, path in enumerate(paths):
        records = list(published_data(path))
        random.Random(number).shuffle(records)
        with (folder / f"{NAME}-train-{number:05d}-of-{N_SHARDS:05d}").open("wb") as shuffled:
            for record in records:
                shuffled.write(frame_record(record))
        path.unlink()
