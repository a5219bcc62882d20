"""Count the tokens of documents, without keeping ids: `bpejit count-tokens`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.blocks import AnyChunk, Skipped, no_texts
from bpejit.corpus.chunks import Chunker
from bpejit.corpus.sources import Source, total_bytes
from bpejit.encoding.codec import Codec
from bpejit.engines import make_engine
from bpejit.engines.base import FunctionJob
from bpejit.jobs.encode_job import EncodeWorker
from bpejit.jobs.job_totals import Totals


class CountedTokens(NamedTuple):
    """The number of ids of a chunk; the other fields are those of `EncodedChunk`."""

    n_ids: int
    ends: Array
    n_bytes: int
    n_read: int
    skipped: Skipped


class TokenCountWorker(EncodeWorker):
    """Count the ids of chunks with a single workspace."""

    def count(self, chunk: AnyChunk) -> CountedTokens:
        """Count the ids of one chunk."""
        found = self.run(chunk)
        return CountedTokens(found.n_tokens, found.ends, found.n_bytes, found.n_read, found.skipped)


def count_documents(codec: Codec, sources: Sequence[Source], totals: Totals, work: Mapping[str, Any]) -> Iterator[Array]:
    """Yield the number of tokens of each document, as int64 [documents of a chunk], and add the amounts to `totals`.

    Documents are those of `Tokenizer.encode_files`. The options of `work` are those of `bpejit.engines.work_options`, checked.

    Raises
    ------
    CorpusError
        If all records are skipped.
    """
    report = work["report"]
    total = total_bytes(list(sources))
    splitter = codec.encoder.splitter
    spread = make_engine(work["engine"], work["workers"], input_bytes=total, releases_gil=splitter.automaton is not None)
    job = FunctionJob(TokenCountWorker.count, partial(TokenCountWorker, codec.encoder, "uint32"))
    report("count", 0, total, "bytes")
    begun = 0  # tokens of the document that continues in the next chunk
    for chunk in spread.map_chunks(job, Chunker(splitter, chunk_bytes=work["chunk_bytes"]).chunks(sources)):
        counts = np.diff(chunk.ends, prepend=0)
        counts[:1] += begun
        begun = chunk.n_ids - int(chunk.ends[-1]) if chunk.ends.size else begun + chunk.n_ids
        totals.tokens += chunk.n_ids
        totals.documents += counts.size
        totals.bytes += chunk.n_bytes
        totals.read += chunk.n_read
        totals.skipped += chunk.skipped
        report("count", totals.read, total, "bytes")
        yield counts
    if totals.skipped and not totals.documents:
        raise no_texts(totals.skipped)
