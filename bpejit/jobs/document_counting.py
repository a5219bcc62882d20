"""Count the tokens of documents: `bpejit count-tokens`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bpejit.arrays import Array
from bpejit.corpus.blocks import no_texts
from bpejit.corpus.chunks import Chunker
from bpejit.corpus.sources import Source, total_bytes
from bpejit.encoding.codec import Codec
from bpejit.engines import make_engine
from bpejit.jobs.encode_job import encode_job
from bpejit.jobs.job_totals import Totals


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
    chunks = Chunker(splitter, chunk_bytes=work["chunk_bytes"]).chunks(sources)
    report("count", 0, total, "bytes")
    begun = 0  # tokens of the document that continues in the next chunk
    for chunk in spread.map_chunks(encode_job(codec.encoder, "uint32"), chunks):
        counts = np.diff(chunk.ends, prepend=-begun)
        begun += chunk.n_tokens - int(counts.sum())
        totals.tokens += chunk.n_tokens
        totals.documents += chunk.n_documents
        totals.bytes += chunk.n_bytes
        totals.read += chunk.n_read
        totals.skipped += chunk.skipped
        report("count", totals.read, total, "bytes")
        yield counts
    if totals.skipped and not totals.documents:
        raise no_texts(totals.skipped)
