from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from .base import Case
from .encode_file import EncodeFile

if TYPE_CHECKING:
    from ..measure import Context


class LargeFile(EncodeFile):
    name = "large_file"
    about = "A file of more than 2 GB, the same text again and again, exceeds what a position of 32 bits can name."
    max_rounds = 2
    only: ClassVar[tuple[str, ...]] = ("bpejit", "bpejit-avx2", "gigatoken")

    def cases(self, context: Context) -> Iterable[Case]:
        workers = context.settings.workers
        corpus = context.corpora.repeated(context.corpus_names()[0], context.settings.large_file_bytes)
        key = {"vocabulary": context.vocabulary().name, "corpus": corpus.record(), "workers": workers}
        params = {"vocabulary": context.vocabulary().params(), "path": str(corpus.path), "workers": workers}
        yield Case(key, params, workers)
