"""Notice text with carriage returns that is encoded by a tokenizer which was trained without any."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bpejit.arrays import Array
from bpejit.errors import warn_user
from bpejit.model import Model


class CarriageReturns:
    r"""Give one warning when ids have a carriage return.

    Training with `normalize_newlines` replaces `\r\n` and `\r` by `\n`, so no token but the byte itself has a carriage return.
    The ids of other texts are right, but there are more of them than the vocabulary would need.

    Parameters
    ----------
    model : Model
    """

    def __init__(self, model: Model) -> None:
        self._id: int | None = model.ids[b"\r"]

    @classmethod
    def of(cls, model: Model) -> CarriageReturns | None:
        """Return an object for a model that was trained so, and None for others."""
        return cls(model) if model.training.get("normalize_newlines") is True else None

    def check(self, ids: Array | Sequence[int]) -> None:
        """Warn if the byte is among ids, the first time that it is."""
        if self._id is not None and self._id in ids:
            self._id = None
            warn_user(
                "the text has carriage returns, and the tokenizer was trained with `normalize_newlines`, so each of them is a "
                "token of its own; convert the line ends to newlines first, or train without this option"
            )

    def checked(self, blocks: Iterable[Array]) -> Iterator[Array]:
        """Yield arrays of ids after checking them."""
        for ids in blocks:
            self.check(ids)
            yield ids
