from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..corpora import LARGE
from .base import Case, Record, text_label
from .encode import Encode, encode_case

if TYPE_CHECKING:
    from ..measure import Context


class EncodeOwn(Encode):
    name = "encode_own"
    section = "Encoding in memory"
    about = "The last rows are with a vocabulary that was trained on the text itself."

    def cases(self, context: Context) -> Iterable[Case]:
        names = context.settings.corpora or [context.corpus().name, *(one.name for one in context.large_corpora(*LARGE))]
        for name in names:
            corpus, own = context.own_vocabulary(name)
            case = encode_case(own, corpus)
            yield Case({**case.key, "vocab_size": context.settings.vocab_size}, case.params)

    def label(self, key: Record) -> str:
        return f"{text_label(key['corpus'])}, own {key['vocab_size']:,} tokens"
