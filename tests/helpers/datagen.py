"""Inputs of data sets, and the plain-Python generation of a data set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conftest import data_text, small
from twins.subwords import ESCAPE_CHARACTERS, encode_words

from bpejit.subword import SubwordTextEncoder
from helpers.published_records import frame_record, published_data, serialize_example

LINES = small(1500, 60)

LABELS = ["short", "long"]


def sentences(name: str, count: int = LINES) -> list[str]:
    """Return lines of a text without white space at their ends."""
    found = (line.strip() for line in data_text(f"{name}.txt").decode().replace("\r", "").split("\n"))
    return [line for line in found if line and "\t" not in line][:count]


def pairs(count: int = LINES) -> list[tuple[str, str]]:
    """Return pairs of sentences in two languages; they are not translations."""
    return list(zip(sentences("prose", count), sentences("cjk", count), strict=True))


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def write_problem(path: Path, splits: Sequence[dict[str, Any]], **settings: Any) -> Path:
    """Write the description of a problem as TOML."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    for split in splits:
        lines += ["", "[[dataset_splits]]", *(f"{key} = {json.dumps(value)}" for key, value in split.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def mix(numbers: Sequence[int]) -> int:
    """Return a hash of numbers (SplitMix64)."""
    state = 0
    mask = 2**64 - 1
    for number in numbers:
        state = (state + (number + 1) * 0x9E3779B97F4A7C15) & mask
        state = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & mask
        state = ((state ^ state >> 27) * 0x94D049BB133111EB) & mask
        state ^= state >> 31
    return state


class PlainSubwords:
    """Encoding as subwords in plain Python, with the end of a sentence."""

    def __init__(self, path: Path) -> None:
        self._strings = list(SubwordTextEncoder(path).all_subtoken_strings)
        self._alphabet = set("".join(self._strings)) | ESCAPE_CHARACTERS

    def encode(self, text: str) -> list[int]:
        return [*encode_words(text, self._strings, self._alphabet), 1]


def plain_shards(examples: Sequence[dict[str, list[int]]], shards: int, seed: int, unit: int, first_shard: int) -> list[bytes]:
    """Return the shuffled shards of the examples of one chunk.

    Parameters
    ----------
    examples : list of dict
    shards : int
    seed, unit : int
    first_shard : int
        The index of the first shard among those of all splits.
    """
    offset = mix((seed, unit, 0, 1, 0)) % shards
    divided: list[list[bytes]] = [[] for _ in range(shards)]
    for index, example in enumerate(examples):
        divided[(offset + index) % shards].append(frame_record(serialize_example(example)))
    found = []
    for shard, records in enumerate(divided):
        keys = [mix((seed, first_shard + shard, index)) for index in range(len(records))]
        found.append(b"".join(records[index] for index in sorted(range(len(records)), key=keys.__getitem__)))
    return found


def records_of(paths: Sequence[Path]) -> list[bytes]:
    """Return the records of files, sorted."""
    return sorted(record for path in paths for record in published_data(path))
