"""Samples that Python code yields, in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from bpejit.errors import BpejitError, CorpusError, shorten
from bpejit.storage.files import StrPath
from bpejit.t2t.datagen.feature_encoders import LABEL, unknown_label
from bpejit.t2t.datagen.problem_declaration import Problem, text_of
from bpejit.t2t.datagen.sample_reading import Layout, SampleChunk, pack_numbers, read_texts
from bpejit.t2t.datagen.texts_of_features import texts_from_list

UNIT = "sample"


def generated_chunks(layout: Layout, problem: Problem, split: str, data_dir: str, tmp_dir: str) -> Iterator[SampleChunk]:
    """Yield the samples of a problem.

    Raises
    ------
    CorpusError
        If a sample lacks a feature, or one has a wrong type.
    """
    labels = labels_of(problem, data_dir)
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
    texts = {name: texts_from_list([row[name] for row in rows]) for name in layout.names}
    ready = {name: pack_numbers([row[name] for row in rows]) for name in rows[0] if name not in texts}
    read = partial(read_texts, layout, texts, ready, f"problem {problem.name}", UNIT, first)
    return SampleChunk(read, 0, texts)


def _checked(
    sample: Mapping[str, Any],
    problem: Problem,
    labels: tuple[str, ...] | None,
    number: int,
) -> dict[str, Any]:
    """Return a sample with its texts as bytes, and its numbers as lists."""
    place = f"problem {problem.name}, {UNIT} {number}"
    row: dict[str, Any] = {}
    for name in problem.text_features:
        row[name] = text_of(sample, name, problem, number).encode("utf-8", "surrogateescape")
    for name, value in sample.items():
        if name in row:
            continue
        if name == LABEL and labels is not None:
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < len(labels):
                raise unknown_label(value, tuple(f"{i} ({label})" for i, label in enumerate(labels)), place)
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
    """Yield what a method of a problem yields. Its own errors are raised as CorpusError, with the name of the problem.

    Raises
    ------
    CorpusError
    """
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


def labels_of(problem: Problem, data_dir: StrPath = "") -> tuple[str, ...] | None:
    """Return the class labels of a problem that has some."""
    class_labels = getattr(problem, "class_labels", None)
    return None if class_labels is None else tuple(class_labels(data_dir))
