"""Samples that Python code yields, in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bpejit.errors import CorpusError, shorten
from bpejit.t2t.datagen.feature_encoders import unknown_label
from bpejit.t2t.datagen.generation_job import LABEL
from bpejit.t2t.datagen.problems import Text2ClassProblem, Text2TextProblem, calling, text_of
from bpejit.t2t.datagen.sample_reading import Layout, TextsChunk, pack_numbers
from bpejit.t2t.datagen.texts_of_features import texts_from_list

UNIT = "sample"


@dataclass(frozen=True)
class GeneratedSource:
    """The samples of a problem.

    Parameters
    ----------
    problem : Text2TextProblem
    split : str
    data_dir, tmp_dir : str
    """

    problem: Text2TextProblem
    split: str
    data_dir: str
    tmp_dir: str

    def chunks(self, layout: Layout) -> Iterator[TextsChunk]:
        """Yield the chunks, with the texts.

        Raises
        ------
        CorpusError
            If a sample lacks a feature, or one has a wrong type.
        """
        problem = self.problem
        labels = tuple(problem.class_labels(self.data_dir)) if isinstance(problem, Text2ClassProblem) else None
        samples = problem.generate_samples(self.data_dir, self.tmp_dir, self.split)
        waiting: list[dict[str, Any]] = []
        first, size = 1, 0
        for number, sample in enumerate(calling(problem, samples), start=1):
            if sample is None:
                continue
            row = _checked(sample, problem, labels, number)
            if waiting and (size >= layout.chunk_bytes or row.keys() != waiting[0].keys()):
                yield self._chunk(waiting, first, layout)
                waiting, size = [], 0
            if not waiting:
                first = number
            waiting.append(row)
            size += sum(len(row[name]) for name in problem.text_features)
        if waiting:
            yield self._chunk(waiting, first, layout)

    @property
    def _name(self) -> str:
        return f"problem {self.problem.name}"

    def _chunk(self, rows: list[dict[str, Any]], first: int, layout: Layout) -> TextsChunk:
        texts = {name: texts_from_list([row[name] for row in rows]) for name in layout.names}
        ready = {name: pack_numbers([row[name] for row in rows]) for name in rows[0] if name not in texts}
        return TextsChunk(texts, self._name, first, UNIT, ready)


def _checked(
    sample: Mapping[str, Any], problem: Text2TextProblem, labels: tuple[str, ...] | None, number: int
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
