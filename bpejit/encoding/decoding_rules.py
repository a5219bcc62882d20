"""Decode ids of models whose text is not the bytes of their tokens alone (see `bpejit.normalization.decoders`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np

from bpejit.arrays import Array
from bpejit.encoding.encoder_tables import decoded_specials
from bpejit.model import Model
from bpejit.normalization.decoders import Joining, Steps, read_decoder
from bpejit.normalization.symbols import file_text, unused_texts
from bpejit.utf8 import is_utf8


class DecodingRule:
    """Decodes ids as the `decoder` section of a `tokenizer.json` does.

    Parameters
    ----------
    model : Model
        With a `decoder`.
    join : callable
        Returns the bytes of the tokens of ids; raises TokenIdError if an id is not in the vocabulary.
    lengths : callable
        Returns the number of bytes of each id, as int64.
    """

    def __init__(self, model: Model, join: Callable[[Iterable[int] | Array], bytes], lengths: Callable[[Array], Array]) -> None:
        self._join, self._lengths, self._has_scores = join, lengths, model.has_scores
        symbols = model.symbols
        self._space = space = symbols.space if symbols is not None else ""
        self.byte_ids = set(symbols.byte_ids if symbols is not None else ())
        characters = symbols is not None and symbols.characters
        fallback = bool(self.byte_ids)
        self._rule = read_decoder(json.loads(model.decoder), characters=characters, space=space, fallback=fallback)
        self._model = model

    @cached_property
    def _texts(self) -> dict[int, str]:
        return file_texts(self._model)

    @property
    def is_plain(self) -> bool:
        """True if the text is that of the bytes of the tokens, although some of these are not those of the file."""
        return self._rule == Joining()

    @property
    def adds_up(self) -> bool:
        """True if, after the first id, each id adds the text of its bytes, unless it is one of `byte_ids`."""
        return isinstance(self._rule, Joining)

    def bytes_of(self, ids: Iterable[int] | Array) -> bytes:
        """Return the bytes of ids."""
        data = self._join(ids)  # raises if an id is not in the vocabulary
        if isinstance(self._rule, Steps):
            return self._stepwise(self._rule, ids).encode("utf-8", "surrogateescape")
        match self._rule.strips:
            case "space":
                return data.removeprefix(b" ")
            case "token":
                return self._without_spaces(ids, data)
        return data

    def text_of(self, ids: Iterable[int] | Array, errors: str) -> str:
        """Return the text of ids; `errors` is the one of `bytes.decode`."""
        data = self.bytes_of(ids)
        if errors == "replace" and isinstance(self._rule, Joining) and self._rule.byte_runs and not is_utf8(data):
            return self._stepwise(self._rule.byte_runs, ids)
        return data.decode("utf-8", errors)

    def holds(self, ids: list[int]) -> bool:
        """Return True if the last id is one of a run of bytes, whose text depends on what follows."""
        return bool(ids) and ids[-1] in self.byte_ids

    def context(self, ids: list[int]) -> list[int]:
        """Return the ids at the end that the text of later ones depends on: spaces may not be in a text at its start."""
        first = len(ids) - 1
        while self._has_scores and first > 0 and not self.bytes_of(ids[first : first + 1]).strip(b" "):
            first -= 1
        return ids[first:]

    def _stepwise(self, steps: Steps, ids: Iterable[int] | Array) -> str:
        return steps([self._texts[int(number)] for number in ids])

    def _without_spaces(self, ids: Iterable[int] | Array, data: bytes) -> bytes:
        """Return the bytes without the spaces of the first token, unless they are spaces in the file."""
        first = np.asarray(ids, np.int64)[:1]
        if not first.size or first[0] in self.byte_ids:
            return data
        text = self._texts[int(first[0])].replace(self._space, "")
        return text.encode("utf-8", "surrogateescape") + data[int(self._lengths(first)[0]) :]


def file_texts(model: Model) -> dict[int, str]:
    """Return the text of each id in a `tokenizer.json`."""
    symbols = model.symbols
    texts = {number: file_text(token, symbols) for number, token in model.tokens.items()}
    specials = dict(zip(model.special_tokens.values(), decoded_specials(model), strict=True))
    if model.has_scores and symbols is not None and symbols.space:
        found = {number: text for text, number in model.special_tokens.items() if text in model.token_flags}
        specials |= {number: text.replace(" ", symbols.space) for number, text in found.items()}
    return {**texts, **unused_texts(symbols), **specials}
