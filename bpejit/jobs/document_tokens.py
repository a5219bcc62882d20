"""Add a token at the start or the end of each document of a stream of ids."""

from __future__ import annotations

import numpy as np

from bpejit.arrays import Array


class DocumentTokens:
    """Adds tokens to the documents of a stream of ids that arrives in blocks.

    A document that already begins or ends with the token stays as it is, so a separator in the text is never doubled.

    Parameters
    ----------
    prepend, append : int, optional
        Ids to add at the start and at the end of each document.

    Attributes
    ----------
    last : int, optional
        The last id of the document that continues in the next block. None if no document does, so that the next one begins
        with the next block.
    """

    def __init__(self, prepend: int | None = None, append: int | None = None) -> None:
        self.prepend = prepend
        self.append = append
        self.last: int | None = None

    def add(self, ids: Array, ends: Array) -> tuple[Array, Array]:
        """Return a block with the tokens added.

        Parameters
        ----------
        ids : uint16 or uint32 [tokens]
        ends : int64 [documents]
            Positions in `ids` where documents end.

        Returns
        -------
        ids : uint16 or uint32 [tokens]
        ends : int64 [documents]
        """
        begins = np.concatenate(([0], ends))
        stops = np.append(ends, ids.size)  # the last document continues in the next block, or has no ids in this one
        continued = self.last is not None
        before = self.last
        if ids.size > begins[-1]:
            self.last = int(ids[-1])
        elif ends.size:
            self.last = None
        first = np.arange(begins.size) >= int(continued)
        first[-1] &= stops[-1] > begins[-1]
        if self.prepend is None and self.append is None:
            return ids, ends
        positions = [np.empty(0, dtype=np.int64)]
        added = [np.empty(0, dtype=np.int64)]
        order = [np.empty(0, dtype=np.int64)]
        documents = np.arange(begins.size)
        if self.prepend is not None:
            wanted = first & ~_has_id(ids, begins, begins < stops, self.prepend)
            positions.append(begins[wanted])
            added.append(np.full(int(wanted.sum()), self.prepend))
            order.append(2 * documents[wanted])
        if self.append is not None:
            present = _has_id(ids, ends - 1, begins[:-1] < ends, self.append)
            if continued and ends.size and ends[0] == 0:
                present[0] = before == self.append
            positions.append(ends[~present])
            added.append(np.full(int((~present).sum()), self.append))
            order.append(2 * documents[:-1][~present] + 1)
        sequence = np.argsort(np.concatenate(order))
        at = np.concatenate(positions)[sequence]
        numbers = np.concatenate(order)[sequence]
        if not at.size:
            return ids, ends
        longer = np.insert(ids, at, np.concatenate(added)[sequence].astype(ids.dtype))
        return longer, ends + np.searchsorted(numbers, 2 * documents[:-1] + 1, side="right")


def _has_id(ids: Array, positions: Array, inside: Array, wanted: int) -> Array:
    """Return where `ids[positions]` equals `wanted`; False where `inside` is, whose positions may lie outside of `ids`."""
    if not ids.size:
        return np.zeros(positions.size, dtype=bool)
    found: Array = inside & (ids[np.where(inside, positions, 0)] == wanted)
    return found
