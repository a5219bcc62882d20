"""Run a job on a sample of its input, to estimate its time for a dry run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from bpejit.jit.listening import working_time

SAMPLES = 16
"""Least number of chunks, if there are as many, that are processed to estimate the time of a job."""


class SampledRun(NamedTuple):
    """What a worker did with a sample.

    Parameters
    ----------
    results : list
        Those of the chunks.
    n_read : int
        Bytes of input.
    seconds : float
        Time of one worker, without compiling.
    """

    results: list[Any]
    n_read: int
    seconds: float

    def expect(self, size: int, workers: int) -> tuple[float, float]:
        """Return the size of an input relative to the sample, and the expected seconds for it.

        Parameters
        ----------
        size : int
            Bytes of input.
        workers : int
            Number of chunks that are processed at the same time.
        """
        share = size / self.n_read if self.n_read else 0.0
        return share, self.seconds * share / workers


def run_sample(worker: Any, units: Sequence[Any], chunker: Any) -> SampledRun:
    """Process the first chunks of a few units in this thread.

    Parameters
    ----------
    worker : Worker
        Of a job for an engine. Its results have the attribute `n_read`.
    units : sequence of Unit or SampleUnit
    chunker : Chunker or SampleChunker
        Divides their sources.

    Returns
    -------
    SampledRun
        Without results if the size of a unit is unknown, since a pipe can be read only once.

    Raises
    ------
    CorpusError
    """
    results: list[Any] = []
    if any(unit.size is None for unit in units):
        return SampledRun(results, 0, 0.0)
    seconds = 0.0
    each = -(-SAMPLES // max(len(units), 1))  # one chunk would not fill the caches of an encoder
    for unit in units[:: max(len(units) // SAMPLES, 1)][:SAMPLES]:
        for chunk in islice(chunker.chunks(unit.sources), each):
            before = working_time()
            results.append(worker.run(chunk))
            seconds += working_time() - before
    return SampledRun(results, sum(result.n_read for result in results), seconds)
