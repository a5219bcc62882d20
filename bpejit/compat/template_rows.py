"""Rows of model inputs: the ids of a text and the special tokens that a template adds."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from bpejit.normalization.post_processor import Template, TemplateItem


class Row(NamedTuple):
    """The inputs of a model for one text or a pair of texts: four lists of one length.

    Parameters
    ----------
    ids : list of int
    types : list of int
        The type ids of the template, which distinguish the two texts of a pair.
    special : list of int
        1 for tokens added by the template or by padding.
    offsets : list of (int, int)
        Start and end of each token in characters; (0, 0) for added tokens.
    """

    ids: list[int]
    types: list[int]
    special: list[int]
    offsets: list[tuple[int, int]]


Ids: TypeAlias = "tuple[list[int], list[tuple[int, int]]]"
"""The ids of a text, and their offsets."""


def bos_eos_template(*, bos: int | None, eos: int | None) -> Template:
    """Return the template that adds `bos` before each text and `eos` after it; None adds nothing."""

    def wrap(text: TemplateItem) -> tuple[TemplateItem, ...]:
        before, after = (
            () if token_id is None else (TemplateItem(ids=(token_id,), type_id=text.type_id),) for token_id in (bos, eos)
        )
        return *before, text, *after

    first = wrap(TemplateItem(text="A"))
    return Template(first, first + wrap(TemplateItem(text="B", type_id=1)))


def added_ids(template: Template, *, pair: bool = False) -> list[int]:
    """Return the ids that a template adds to a text or a pair; none if it does not support pairs."""
    items = template.pair if pair else template.single
    return [token_id for item in items or () for token_id in item.ids or ()]


def apply_template(template: Template, first: Ids, second: Ids | None = None) -> Row:
    """Apply a template to one text or two, each given as ids and offsets."""
    row = Row([], [], [], [])
    texts = {"A": first, "B": second or ([], [])}
    for item in template.items(pair=second is not None):
        added = list(item.ids or ())
        ids, offsets = (added, [(0, 0)] * len(added)) if item.text is None else texts[item.text]
        row.ids.extend(ids)
        row.types.extend([item.type_id] * len(ids))
        row.special.extend([int(item.text is None)] * len(ids))
        row.offsets.extend(offsets)
    return row
