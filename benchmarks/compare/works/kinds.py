from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from ..vocabularies import KINDS
from .base import Case, Record, text_label, threads_label
from .documents import Documents

if TYPE_CHECKING:
    from ..measure import Context


class Kinds(Documents):
    name = "kinds"
    section = "Other kinds of vocabularies"
    about = """As above, with vocabularies that bpejit trained on this text: pre-tokens that begin as characters, with a token
    for each byte of the others, as in Llama; and superwords, the last eighth of the merges, which join words. The other tools
    read the same `tokenizer.json`."""
    only: ClassVar[tuple[str, ...]] = ("bpejit", "bpejit-avx2", "fastokens", "snaptokens", "tokenizers", "tokenizers-1.0")

    def cases(self, context: Context) -> Iterable[Case]:
        corpus = context.corpus()
        for name in KINDS:
            vocabulary = context.vocabularies.get(name, corpus=corpus.path, vocab_size=context.settings.vocab_size)
            for threads in sorted({1, context.settings.workers}):
                key = {"vocabulary": name, "corpus": corpus.record(), "threads": threads}
                yield Case(key, {"vocabulary": vocabulary.params(), "path": str(corpus.path), "threads": threads}, threads)

    def label(self, key: Record) -> str:
        return f"{key['vocabulary']}, documents, {threads_label(key['threads'])}, {text_label(key['corpus'])}"
