from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..corpora import LARGE, MissingInputError
from .base import Case, Record, text_label
from .encode import Encode, encode_case

if TYPE_CHECKING:
    from ..measure import Context


class EncodeOwn(Encode):
    name = "encode_own"
    section = "Encoding in memory"
    about = "The last rows are with a vocabulary that was trained on the text itself."

    def cases(self, context: Context) -> Iterable[Case]:
        settings = context.settings
        for name in settings.corpora or (*context.corpora.names()[:1], *LARGE):
            try:
                corpus = context.corpora.prefix(name, settings.own_bytes)
            except MissingInputError as error:
                context.say(f"  skipped: {error}")
                continue
            own = context.vocabularies.get(f"own-{name}", corpus=corpus.path, vocab_size=settings.vocab_size)
            case = encode_case(own, corpus)
            yield Case({**case.key, "vocab_size": settings.vocab_size}, case.params)

    def label(self, key: Record) -> str:
        return f"{text_label(key['corpus'])}, own {key['vocab_size']:,} tokens"
