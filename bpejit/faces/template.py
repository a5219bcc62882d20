"""What is put around a text before a model sees it: a beginning-of-text token, say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

Part: TypeAlias = "tuple[str, int]"
"""`A` for the text, `B` for the second of a pair, or a special token; and the type id of what stands there."""


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


@dataclass(frozen=True)
class Template:
    """Where the texts and the special tokens stand.

    Parameters
    ----------
    single, pair : tuple of (str, int)
        For one text and for two: `A`, `B` or the text of a special token, each with a type id.

    Examples
    --------
    >>> Template(single=(("<s>", 0), ("A", 0)), pair=(("<s>", 0), ("A", 0), ("B", 1)))  # doctest: +SKIP
    """

    single: tuple[Part, ...] = (("A", 0),)
    pair: tuple[Part, ...] = (("A", 0), ("B", 1))

    def added(self, *, pair: bool) -> int:
        """Return how many special tokens are added."""
        return sum(name not in ("A", "B") for name, _ in (self.pair if pair else self.single))

    def special_tokens(self) -> set[str]:
        """Return the texts of the special tokens that are added."""
        return {name for name, _ in self.single + self.pair} - {"A", "B"}


def surround(*, bos: str | None, eos: str | None) -> Template:
    """Return the template that puts a token before each text, and one behind, where there are such."""

    def around(name: str, type_id: int) -> tuple[Part, ...]:
        parts = ((bos, type_id), (name, type_id), (eos, type_id))
        return tuple((part, number) for part, number in parts if part is not None)

    return Template(around("A", 0), around("A", 0) + around("B", 1))


Ids: TypeAlias = "tuple[list[int], list[tuple[int, int]]]"
"""The ids of a text with their offsets."""


def apply_template(template: Template, special_ids: dict[str, int], first: Ids, second: Ids | None = None) -> Row:
    """Return the row that a template makes of one text or two.

    Parameters
    ----------
    template : Template
    special_ids : dict of str to int
        Ids of the special tokens of the template.
    first, second : (ids, offsets)
    """
    row = Row([], [], [], [])
    for name, type_id in template.single if second is None else template.pair:
        text = {"A": first, "B": second}.get(name)
        ids, offsets = text or ([special_ids[name]], [(0, 0)])
        row.ids.extend(ids)
        row.types.extend([type_id] * len(ids))
        row.special.extend([int(text is None)] * len(ids))
        row.offsets.extend(offsets)
    return row
