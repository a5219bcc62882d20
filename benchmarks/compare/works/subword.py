from __future__ import annotations

import hashlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..corpora import ROOT, cut
from ..tools import Tool
from .base import Case, Metric, Record, Work, text_label

if TYPE_CHECKING:
    from ..measure import Context


class Subword(Work):
    name = "subword"
    section = "Tensor2Tensor's subword vocabularies"
    unit = "seconds: count / build / encode / with a cache"
    about = """Processor time: count the tokens of a text's lines, build a vocabulary from the counts, encode the lines.
    `t2t-python` is the published algorithm in plain Python, as in the tests, without and with its cache of
    tokens."""
    metrics = (
        Metric("count_seconds", "count"),
        Metric("build_seconds", "build"),
        Metric("encode_seconds", "encode"),
        Metric("cached_seconds", "encode with a cache, seconds"),
    )
    only: ClassVar[tuple[str, ...]] = ("bpejit", "bpejit-avx2", "t2t-python")

    def cases(self, context: Context) -> Iterable[Case]:
        corpus = context.corpora.prefix(context.corpus_names()[0], context.settings.subword_bytes)
        size = context.settings.subword_vocab_size
        yield Case({"corpus": corpus.record(), "vocab_size": size}, {"path": str(corpus.path), "vocab_size": size})

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        data = Path(params["path"]).read_bytes()
        work = plain if tool.name == "t2t-python" else compiled
        metrics, counts, vocabulary, ids = work(cut(data, len(data)), params["vocab_size"])
        # The order of the counts depends on the implementation; that of the vocabulary is part of the result.
        text = repr((sorted(counts.items()), list(vocabulary)))
        digest = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype=np.uint64)
        return metrics, np.concatenate([digest, np.asarray(ids, dtype=np.uint64)])

    def label(self, key: Record) -> str:
        return f"{text_label(key['corpus'])}, {key['vocab_size']:,} subtokens"


def cpu_timed(job: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a call, and its processor time in seconds."""
    begun = time.process_time()
    result = job()
    return result, time.process_time() - begun


def compiled(text: bytes, vocab_size: int) -> tuple[Record, dict[str, int], list[str], np.ndarray]:
    """Count, build and encode with bpejit."""
    from bpejit.t2t.subword_text_encoder import SubwordTextEncoder, TokenCounter

    def count() -> dict[str, int]:
        counter = TokenCounter()
        counter.add_lines(text)
        return counter.counts()

    SubwordTextEncoder.build_from_generator(["load every kernel"], 40).encode("first")
    counts, counting = cpu_timed(count)
    encoder, building = cpu_timed(lambda: SubwordTextEncoder.build_to_target_size(vocab_size, counts, 1, 1000))
    ids, encoding = cpu_timed(lambda: np.concatenate(list(encoder.encode_lines(text))))
    metrics = {"count_seconds": counting, "build_seconds": building, "encode_seconds": encoding, "cached_seconds": encoding}
    return metrics, counts, encoder.all_subtoken_strings, ids


def plain(text: bytes, vocab_size: int) -> tuple[Record, dict[str, int], list[str], list[int]]:
    """Count, build and encode with the functions of tests/twins/subwords.py."""
    sys.path.insert(0, str(ROOT / "tests"))
    import twins

    from bpejit.t2t.text_encoders import RESERVED_TOKENS

    lines = text.decode().split("\n")

    def count() -> Counter[str]:
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(twins.subwords.drop_spaces(twins.subwords.split_words(line)))
        return counts

    def encode(cache: dict[str, list[int]] | None) -> list[int]:
        numbers = twins.subwords.build_edges(vocabulary)
        longest = max(map(len, numbers))
        ids: list[int] = []
        for line in lines:
            ids += twins.subwords.encode_split(
                twins.subwords.drop_spaces(twins.subwords.split_words(line)), numbers, longest, alphabet, cache
            )
        return ids

    counts, counting = cpu_timed(count)
    vocabulary, building = cpu_timed(lambda: twins.subwords.bisect_subtokens(counts, vocab_size, 1, 1000, RESERVED_TOKENS))
    alphabet = {character for token in [*counts, *RESERVED_TOKENS] for character in token} | twins.subwords.ESCAPE_CHARACTERS
    ids, encoding = cpu_timed(lambda: encode(None))
    _, cached = cpu_timed(lambda: encode({}))
    metrics = {"count_seconds": counting, "build_seconds": building, "encode_seconds": encoding, "cached_seconds": cached}
    return metrics, counts, vocabulary, ids
