from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..corpora import LARGE, WRITTEN
from ..timing import stop_sampling, timed
from ..tools import Tool
from .base import Case, Metric, Record, Work, text_label

if TYPE_CHECKING:
    from ..measure import Context


class Train(Work):
    name = "train"
    section = "Training"
    about = """From a file to a vocabulary with GPT-2's split pattern, on all cores. bpejit, tokenizers and gigabpe also save
    the tokenizer; for rustbpe, bpeasy and tokenizers, Python reads the file and splits it into documents; gigabpe reads
    each line as a document. Merges are compared under the tie rule and the documents of each tool; sentencepiece has
    another algorithm, and its result is not compared."""
    metrics = (Metric("seconds", "seconds"),)
    method = "train"
    memory = True

    def cases(self, context: Context) -> Iterable[Case]:
        workers, vocab_size = context.settings.workers, context.settings.vocab_size
        corpora = [context.corpus(name) for name in context.corpus_names()]
        if context.settings.large_bytes:
            corpora += context.corpora.mixed([context.settings.large_bytes])
        corpora += context.large_corpora(*LARGE, *WRITTEN)
        for corpus in corpora:
            params = {"path": str(corpus.path), "vocab_size": vocab_size, "workers": workers}
            yield Case({"corpus": corpus.record(), "vocab_size": vocab_size, "workers": workers}, params, workers)

    def params_for(self, tool: Tool, case: Case) -> Record:
        reports_merges = tool.name not in ("rustbpe", "bpeasy")
        compared = {**case.params, "rule": tool.tie_rule, "compare": "merges" if reports_merges else "tokens"}
        return {**compared, "documents": tool.documents} if tool.documents else compared

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        with tempfile.TemporaryDirectory() as folder:
            options = {"workers": params["workers"], "rule": params["rule"], "folder": Path(folder)}
            if "documents" in params:
                options["documents"] = params["documents"]
            result, seconds = timed(lambda: tool.train(Path(params["path"]), params["vocab_size"], **options))
            stop_sampling()
        learned = tool.trained(result)
        items = learned.merges if params["compare"] == "merges" else [(token,) for token in learned.tokens]
        return {"seconds": seconds}, digests(items or [])

    def label(self, key: Record) -> str:
        return f"{text_label(key['corpus'])}, {key['vocab_size']:,} tokens"


def digests(items: Iterable[tuple[bytes, ...]]) -> np.ndarray:
    """Return a 64-bit digest of each item: equal arrays mean equal merges."""
    lines = (b" ".join(part.hex().encode() for part in item) for item in items)
    return np.array([int.from_bytes(hashlib.sha256(line).digest()[:8], "little") for line in lines], dtype=np.uint64)
