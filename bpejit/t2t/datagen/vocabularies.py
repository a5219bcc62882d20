"""The vocabularies of a problem: those that exist are loaded, and missing ones are built from a sample of the training set."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, cycle
from pathlib import Path
from typing import Any

import numpy as np

from bpejit.arrays import Array, lengths_of, starts_of
from bpejit.corpus.blocks import NOTHING_SKIPPED, ChunkReader
from bpejit.corpus.sources import Source
from bpejit.encoding.codec import Codec
from bpejit.errors import CorpusError, OutputError, TokenizerFormatError, shorten
from bpejit.formats.any_format import load_model
from bpejit.jobs.job_folder import held, remove_folder
from bpejit.jobs.url_store import UrlStore
from bpejit.progress_bar import Progress
from bpejit.storage.files import file_sha256
from bpejit.t2t.datagen.problem_declaration import DatasetSplit, Problem, VocabType, calling
from bpejit.t2t.datagen.sample_reading import LABEL, LINES, Layout, all_skipped, lines_of
from bpejit.t2t.datagen.sample_sources import SampleChunker, find_inputs, plan_inputs, stream_chunks
from bpejit.t2t.example_arrays import Lists
from bpejit.t2t.subword_files import Sampler, build_vocabulary, sample_lines
from bpejit.t2t.subword_text_encoder import SubwordTextEncoder, TokenCounter
from bpejit.t2t.text_encoders import EOS_ID, NUM_RESERVED_TOKENS, PAD_ID, RESERVED_TOKENS, TokenTextEncoder, unknown_label
from bpejit.training.train import train_from_iterator

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
    encode: Callable[[list[bytes], Place], Lists]


def encode_subwords(encoder: SubwordTextEncoder, texts: list[bytes], place: Place) -> Lists:
    """Return the ids of texts as subwords."""
    blocks = encoder.encode_lines(b"\n".join([*texts, b""]), append_eos=True)
    ids = np.concatenate([np.zeros(0, np.uint32), *blocks])
    ends = np.flatnonzero(ids == EOS_ID)
    if ends.size != len(texts):  # the kernels take a line break in a text for its end
        return encode_one_by_one(encoder, texts, place)
    return ids, np.append(0, ends + 1)


def encode_by_codec(codec: Codec, texts: list[bytes], _: Place) -> Lists:
    """Return the ids of texts, by a tokenizer with the special tokens `<pad>` and `<EOS>`, whose ids are 0 and 1."""
    with codec.workspace() as workspace:
        batch = codec.encoder.encode_batch(texts, workspace, codec.encoder.splitter_for(frozenset()))
    return _with_ends(batch.ids, batch.starts[1:])


def encode_bytes(texts: list[bytes], _: Place) -> Lists:
    """Return the bytes of texts, as `ByteTextEncoder` encodes them."""
    numbers = np.frombuffer(b"".join(texts), np.uint8).astype(np.uint32)
    return _with_ends(numbers + np.uint32(NUM_RESERVED_TOKENS), np.cumsum(lengths_of(texts)))


def _with_ends(ids: Array, ends: Array) -> Lists:
    """Return the ids of texts, which end at `ends`, with the end of a sentence after each."""
    starts = np.append(0, ends + np.arange(1, ends.size + 1))
    return np.insert(ids, ends, EOS_ID), starts


def encode_one_by_one(encoder: Any, texts: list[bytes], place: Place) -> Lists:
    """Return the ids of texts, by any encoder with a method `encode` that returns the ids of a text."""
    rows: list[list[int]] = []
    try:
        rows.extend([*encoder.encode(text.decode("utf-8", "surrogateescape")), EOS_ID] for text in texts)
    except CorpusError as cause:
        message = str(cause).replace("`replace_oov=`", "`oov_token`")  # the key of a problem
        raise CorpusError(f"{place(len(rows))}: {message}") from cause
    return pack_numbers(rows)


def encode_labels(labels: tuple[str, ...], texts: list[bytes], place: Place) -> Lists:
    """Return class labels as their index, without an end."""
    index_of = {label.encode("utf-8", "surrogateescape"): index for index, label in enumerate(labels)}
    try:
        found = [index_of[text] for text in texts]
    except KeyError:
        at = next(index for index, text in enumerate(texts) if text not in index_of)
        raise unknown_label(texts[at].decode("utf-8", "replace"), labels, f"{place(at)}: ") from None
    return np.array(found, np.int64), np.arange(len(found) + 1)


def pack_numbers(rows: Sequence[Sequence[Any]]) -> Lists:
    """Return sequences of whole numbers as one int64 array, and their starts."""
    starts = starts_of(lengths_of(rows))
    return np.fromiter(chain.from_iterable(rows), np.int64, int(starts[-1])), starts


def find_vocabularies(problem: Problem, data_dir: Path, tmp_dir: Path, report: Progress) -> dict[str, FeatureVocabulary]:
    """Return what each feature of a problem is encoded with.

    The vocabularies are in the folder `data_dir`, and missing ones are built and stored there. The problem may use the folder
    `tmp_dir`.
    """
    each = [_find_vocabulary(problem, feature, data_dir, tmp_dir, report) for feature in problem.vocab_features]
    found = dict(zip(problem.text_features, cycle(each), strict=False))
    labels = problem.class_labels(data_dir)
    if labels is not None:
        found[LABEL] = FeatureVocabulary("labels", len(labels), partial(encode_labels, tuple(labels)))
    return found


def _find_vocabulary(problem: Problem, feature: str, data_dir: Path, tmp_dir: Path, report: Progress) -> FeatureVocabulary:
    if problem.vocab_type == VocabType.CHARACTER:
        return FeatureVocabulary("bytes", 256 + NUM_RESERVED_TOKENS, encode_bytes)
    other = problem.use_vocab_from_other_problem
    if other is not None:
        return _find_vocabulary(other, feature, data_dir, tmp_dir, report)
    path = data_dir / (problem.vocab_filename_of(feature) if feature else problem.vocab_filename)
    if not path.exists() or _building_folder(path).exists():  # a process builds it, or was killed
        _build(problem, feature, path, data_dir, tmp_dir, report)
    return _load_vocabulary(problem, path)


def _load_vocabulary(problem: Problem, path: Path) -> FeatureVocabulary:
    """Load a vocabulary, and check its reserved tokens."""
    wanted = [*RESERVED_TOKENS, *problem.additional_reserved_tokens]
    if problem.vocab_type == VocabType.SUBWORD:
        subwords = SubwordTextEncoder(path)
        _check_reserved(path, list(subwords.all_subtoken_strings[: len(wanted)]), wanted)
        return FeatureVocabulary(subwords.sha256, subwords.vocab_size, partial(encode_subwords, subwords))
    if problem.vocab_type == VocabType.BPE:
        model = load_model(path)
        ids = {token_id: token for token, token_id in model.special_tokens.items()}
        _check_reserved(path, [ids.get(token_id) for token_id in range(len(wanted))], wanted)
        return FeatureVocabulary(model.sha256, model.vocab_size, partial(encode_by_codec, Codec(model, lazy=True)))
    tokens = TokenTextEncoder(path, replace_oov=problem.oov_token)
    _check_reserved(path, tokens.decode_list([PAD_ID, EOS_ID]), RESERVED_TOKENS)
    return FeatureVocabulary(file_sha256(path), tokens.vocab_size, partial(encode_one_by_one, tokens))


def _check_reserved(path: Path, found: list[Any], wanted: list[str]) -> None:
    for token_id, token in enumerate(wanted):
        escaped = token.replace("\\", "\\\\").replace("_", "\\u") + "_"
        if token_id >= len(found) or found[token_id] not in (token, escaped):
            shown = shorten(found[token_id]) if token_id < len(found) else "missing"
            raise TokenizerFormatError(
                f"the vocabulary `{path}` lacks the reserved token {shorten(token)}: id {token_id} is {shown}; expected "
                f"{', '.join(map(repr, wanted))} as its first {len(wanted)} tokens: use another vocabulary, or remove the file "
                "to have one built"
            )


def _build(problem: Problem, feature: str, path: Path, data_dir: Path, tmp_dir: Path, report: Progress) -> None:
    """Build and store a vocabulary; other processes that need it wait."""
    if problem.vocab_type == VocabType.TOKEN:
        # A problem may create it when it is asked for samples, as published problems do.
        if _training_inputs(problem) is None:
            with suppress(StopIteration):
                next(iter(problem.generate_samples(str(data_dir), str(tmp_dir), DatasetSplit.TRAIN)))
        if not path.exists():
            raise TokenizerFormatError(
                f"there is no vocabulary `{path}`; expected a file with a token in each line, `<pad>` and `<EOS>` first, since "
                f"vocabularies of vocab_type {VocabType.TOKEN!r} are not built: write it (`TokenTextEncoder.store_to_file`)"
            )
        return
    with _building(path):
        if path.exists():  # another process has built it
            return
        texts = _texts_for_vocabulary(problem, feature, data_dir, tmp_dir, report)
        special = [*RESERVED_TOKENS, *problem.additional_reserved_tokens]
        if problem.vocab_type == VocabType.BPE:
            tokenizer = train_from_iterator(
                texts, vocab_size=problem.approx_vocab_size, special_tokens=special, special_tokens_first=True
            )
            tokenizer.save(path)
            return
        counter = TokenCounter()
        counter.add_texts(text.decode("utf-8", "surrogateescape") for text in texts)
        counts = counter.counts()
        if not counts:
            raise CorpusError(
                f"the sample for the vocabulary `{path.name}` is empty; expected text in the training set: check its inputs, "
                "and `file_byte_budget` if it is small"
            )
        built = build_vocabulary(counts, problem.approx_vocab_size, report, problem.max_subtoken_length, special)
        built.store_to_file(path, overwrite=False)


def _building_folder(path: Path) -> Path:
    """Return the folder with the lock of a vocabulary that is built."""
    return path.with_name(f".{path.name}.building")


@contextmanager
def _building(path: Path) -> Iterator[None]:
    """Hold the lock of a vocabulary that is built, after waiting for other processes."""
    folder = _building_folder(path)
    with held(folder, f"builds the vocabulary `{path}`", patience=math.inf):
        try:
            yield
        finally:
            with suppress(OutputError):
                remove_folder(folder)  # before the lock is released: a process that waits creates another one


def _texts_for_vocabulary(problem: Problem, feature: str, data_dir: Path, tmp_dir: Path, report: Progress) -> Iterator[bytes]:
    """Yield the texts of the sample from which a vocabulary is built."""
    inputs = _training_inputs(problem)
    if inputs is not None:
        done = 0
        report("sample", 0, None, "bytes")
        features = [feature] if feature else list(problem.text_features)
        for texts, n_read in _sample_inputs(inputs, features, int(problem.file_byte_budget)):
            done += n_read
            report("sample", done, None, "bytes")
            yield from texts
    else:
        folders = str(data_dir), str(tmp_dir)
        found = problem.sampled_texts([feature], *folders) if feature else problem.generate_text_for_vocab(*folders)
        for text in calling(problem, found):
            if not isinstance(text, str):
                raise CorpusError(
                    f"problem {problem.name}: a text for the vocabulary is {shorten(text)}; expected a text: correct "
                    "`generate_text_for_vocab`"
                )
            yield text.encode("utf-8", "surrogateescape")


def _training_inputs(problem: Problem) -> Layout | None:
    """Return the inputs of the training set, or of the first split, if the samples are in files."""
    splits = sorted((one["split"] for one in problem.dataset_splits), key=lambda split: split != DatasetSplit.TRAIN)
    return next(filter(None, map(problem.inputs_of, splits)), None)


def _sample_inputs(layout: Layout, features: list[str], budget: int) -> Iterator[tuple[list[bytes], int]]:
    """Yield an even sample of the texts of each input, in lists, each with the number of bytes read for it.

    The lines of text files are those that the published code takes (see `sample_lines`). Of other inputs, every n-th text of a
    feature is taken, with n from the size of all of them.
    """
    for sources in find_inputs(layout):
        if layout.form == LINES:
            if len(sources) > 1 and any(source.is_stream for source in sources):
                deque(stream_chunks(layout, sources), 0)  # raises if one has fewer lines, as plans do for other files
            for name, source in zip(layout.names, sources, strict=True):
                if name in features:
                    for lines, n_read in sample_lines(source, budget):
                        yield lines_of(lines), n_read
        else:
            yield from _sample_chunks(sources, layout, features, budget)


def _sample_chunks(
    sources: tuple[Source, ...], layout: Layout, features: list[str], budget: int
) -> Iterator[tuple[list[bytes], int]]:
    units = plan_inputs([sources], layout, 0, 0, 1 << 62)
    reader = ChunkReader()
    sizes = dict.fromkeys(features, 0)
    skipped = NOTHING_SKIPPED
    for chunk in SampleChunker().chunks(units):  # the sizes of the files may include compression, and other fields
        block = chunk.read(reader)
        skipped += block.skipped
        for name in features:
            texts = block.texts[name]
            sizes[name] += sum(map(len, texts)) + len(texts)
    if skipped and not any(sizes.values()):
        raise all_skipped(skipped)
    samplers = {name: Sampler(size, budget) for name, size in sizes.items()}
    for chunk in SampleChunker().chunks(units):
        block = chunk.read(reader)
        taken: list[bytes] = []
        for name, sampler in samplers.items():
            taken += sampler.take(block.texts[name])
        yield taken, chunk.n_read
        if all(sampler.left <= 0 for sampler in samplers.values()):
            return


def vocabulary_names(problem: Problem) -> list[str]:
    """Return the names of the vocabularies of a problem in the folder of the data."""
    if problem.vocab_type == VocabType.CHARACTER:
        return []
    return [problem.vocab_filename_of(feature) if feature else problem.vocab_filename for feature in problem.vocab_features]


def fetch_vocabularies(data: UrlStore, names: Sequence[str], folder: Path) -> None:
    """Copy vocabularies, files or folders of tokenizers, if they exist beside a data set at a URL, to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        url = f"{data.base}/{name}"
        for file in data.list_files(url) or ([""] if data.has_file(url) else []):
            target = folder / name / file
            target.parent.mkdir(parents=True, exist_ok=True)
            with data.access(f"{url}/{file}".rstrip("/"), "read") as (file_system, found):
                file_system.get_file(found, str(target))


def store_vocabularies(data: UrlStore, names: Sequence[str], folder: Path) -> None:
    """Store the vocabularies in a folder that do not exist at a URL.

    Raises
    ------
    OutputError
        If another process has stored a different one meanwhile.
    """
    for name in names:
        path = folder / name
        files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
        for file in files:
            url = f"{data.base}/{os.fspath(file.relative_to(folder))}"
            if not data.has_file(url):
                data.put_file(file, url)
                continue
            with data.access(url, "read") as (file_system, found):
                if file_system.cat_file(found) != file.read_bytes():
                    raise OutputError(
                        f"another process has stored a different vocabulary `{data.base}/{name}`; expected that of the same "
                        "problem: run this again to use it, or choose another `data_dir`"
                    )
