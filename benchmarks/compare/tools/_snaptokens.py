from __future__ import annotations

from typing import Any

from ..vocabularies import Vocabulary
from ._fastokens import Fastokens
from .base import CannotError


class Snaptokens(Fastokens):
    """A fork of fastokens."""

    name = "snaptokens"
    package = "snaptokens"

    def prepare(self) -> None:
        import snaptokens  # noqa: F401

    def load(self, vocabulary: Vocabulary) -> Any:
        import snaptokens

        try:
            return snaptokens.Tokenizer.from_file(str(vocabulary.plain))
        except ValueError as error:
            raise CannotError(f"it refuses {vocabulary.name}: {str(error).split(': ')[1][:100]}") from error
