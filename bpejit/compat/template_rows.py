"""Rows for a model: the ids of a text with what its template puts around them."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from bpejit.normalization.post_processor import Piece, Template


class Row(NamedTuple):
    """One encoded text, or a pair of texts, ready for a model: four lists of one length.

    Parameters
    ----------
    ids : list of int
    types : list of int
        Which of the two texts of a pair a token belongs to, as the template has it.
    special : list of int
        1 for what the template or padding added.
    offsets : list of (int, int)
        Characters of the text that each token covers; (0, 0) for what was added.
    """

    ids: list[int]
    types: list[int]
    special: list[int]
    offsets: list[tuple[int, int]]


Ids: TypeAlias = "tuple[list[int], list[tuple[int, int]]]"
"""The ids of a text with their offsets."""


def surround(*, bos: int | None, eos: int | None) -> Template:
    """Return the template that puts an id before each text, and one behind, where there are such."""

    def around(text: Piece) -> tuple[Piece, ...]:
        before, behind = (() if number is None else (Piece(ids=(number,), type_id=text.type_id),) for number in (bos, eos))
        return *before, text, *behind

    first = around(Piece(text="A"))
    return Template(first, first + around(Piece(text="B", type_id=1)))


def added_ids(template: Template, *, pair: bool = False) -> list[int]:
    """Return the ids that a template adds to a text, or to two; none to two if it has no form for them."""
    pieces = template.pair if pair else template.single
    return [number for piece in pieces or () for number in piece.ids or ()]


def apply_template(template: Template, first: Ids, second: Ids | None = None) -> Row:
    """Return the row that a template makes of one text or two, each given as ids and offsets."""
    row = Row([], [], [], [])
    texts = {"A": first, "B": second or ([], [])}
    for piece in template.pieces(pair=second is not None):
        added = list(piece.ids or ())
        ids, offsets = (added, [(0, 0)] * len(added)) if piece.text is None else texts[piece.text]
        row.ids.extend(ids)
        row.types.extend([piece.type_id] * len(ids))
        row.special.extend([int(piece.text is None)] * len(ids))
        row.offsets.extend(offsets)
    return row
