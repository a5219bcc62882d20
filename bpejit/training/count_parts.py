"""Divide counting among machines: the part of the inputs that one of them counts, and what its counts say about it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bpejit.corpus.chunks import SMALL_FILE, Chunker
from bpejit.corpus.sizes import UNIT_BYTES
from bpejit.corpus.sources import Source
from bpejit.corpus.units import plan_units
from bpejit.counts.header import CountSettings
from bpejit.errors import OptionError
from bpejit.jobs.encode_to_files import slice_units
from bpejit.training.count_job import CountJob

_UNITS_OF_PART = 16
"""Units of each part, at least, if the inputs are large enough, so that parts have about the same size."""

_LEAST_UNIT = SMALL_FILE + 1
"""Small files are not divided."""


def part_of_sources(
    sources: Sequence[Source], described: Sequence[Mapping[str, Any]], settings: CountSettings, part: tuple[int, int]
) -> tuple[list[Source], dict[str, Any]]:
    """Return the sources that a part consists of, and the record of the part for the header of its counts.

    Files are divided where any text may be cut, so the counts of all parts together are those of the whole.

    Parameters
    ----------
    sources : list of Source
    described : list of dict
        What identifies each of them (see `describe_inputs`).
    settings : CountSettings
    part : (int, int)
        The number of the part, from 0, and the number of parts.

    Raises
    ------
    OptionError
        If an input can be read only once.
    """
    for source in sources:
        if source.size is None:
            raise OptionError(
                f"shard is {part[0]}/{part[1]}, and the input `{source.path}` can be read only once; expected files, which "
                "every part divides in the same way: write it to a file first"
            )
    total = sum(source.length or 0 for source in sources)
    unit_bytes = min(UNIT_BYTES, max(_LEAST_UNIT, total // (part[1] * _UNITS_OF_PART)))
    job = CountJob.of_settings(settings)
    chunker = Chunker(job.splitter(), normalize_newlines=job.normalize_newlines)
    # A document may continue in another part: pre-tokens do not cross the positions where a file is divided.
    units = [unit._replace(starts_document=True) for unit in plan_units(sources, unit_bytes, chunker, None)]
    found: list[Source] = []
    for unit in slice_units(units, *part):
        for source in unit.sources:
            last = found[-1] if found else None
            if last is not None and (last.path, last.weight) == (source.path, source.weight) and last.stop == source.start:
                size = None if last.range_bytes is None else last.range_bytes + (source.range_bytes or 0)
                found[-1] = replace(last, stop=source.stop, range_bytes=size)
            else:
                found.append(source)
    plan = {"inputs": list(described), "unit_bytes": unit_bytes, "settings": settings.difference_key()}
    digest = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
    return found, {"plan": digest[:32], "part": part[0], "parts": part[1]}
