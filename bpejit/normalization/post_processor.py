"""What stands around the ids of a text, or of two, for a model of a certain kind: `<s>` before, `</s>` behind.

`Tokenizer.encode` leaves it out, as `encode(..., add_special_tokens=False)` of Hugging Face tokenizers does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from bpejit.errors import shorten
from bpejit.normalization.json_fields import Fields, refused, shown, unsupported
from bpejit.normalization.pretokenizers import read_byte_level

SUPPORTED = "TemplateProcessing, ByteLevel, RobertaProcessing, BertProcessing, Sequence"


@dataclass(frozen=True)
class Piece:
    """One piece of a template.

    Parameters
    ----------
    ids : tuple of int, optional
        Ids that are always the same; None where a text's ids go.
    text : str, optional
        Which text's: `A` or `B`.
    type_id : int
        The number of the segment, for models that tell them apart.
    """

    ids: tuple[int, ...] | None = None
    text: Literal["A", "B"] | None = None
    type_id: int = 0


_PLAIN_SINGLE = (Piece(text="A"),)
_PLAIN_PAIR = (Piece(text="A"), Piece(text="B", type_id=1))


@dataclass(frozen=True)
class Template:
    """What stands around ids.

    Parameters
    ----------
    single : tuple of Piece
        For one text.
    pair : tuple of Piece, optional
        For two; None if the template has no such form.
    """

    single: tuple[Piece, ...] = _PLAIN_SINGLE
    pair: tuple[Piece, ...] | None = _PLAIN_PAIR

    def pieces(self, *, pair: bool = False) -> tuple[Piece, ...]:
        """Return the form for one text, or for two.

        Raises
        ------
        ValueError
            If the template has no form for two.
        """
        if not pair:
            return self.single
        if self.pair is None:
            raise ValueError("this tokenizer's template has no form for a pair of texts; encode them one by one")
        return self.pair


def make_template(value: Any, place: str = "post_processor") -> Template | None:
    """Compile a post-processor; None if it adds nothing.

    Raises
    ------
    TokenizerFormatError
        If it is broken or not supported; the message names the component and its place.
    """
    found = _templates(value, place)
    if len(found) > 1:
        raise refused(found[1][0], "is a second template", "use one of them")
    return found[0][1] if found else None


def _templates(value: Any, place: str) -> list[tuple[str, Template]]:
    if value is None:
        return []
    fields = Fields(value, place)
    kind = fields.kind("post-processor")
    if kind == "Sequence":
        parts = fields.take("processors", list)
        fields.done()
        inner = fields.inner("processors")
        return [one for number, part in enumerate(parts) for one in _templates(part, f"{inner}[{number}]")]
    if kind == "ByteLevel":
        read_byte_level(fields)  # it changes the offsets of tokens only
        fields.done()
        return []
    if kind == "TemplateProcessing":
        template = _read_template(fields)
    elif kind in ("RobertaProcessing", "BertProcessing"):
        template = _read_sep_and_cls(fields, roberta=kind == "RobertaProcessing")
    else:
        raise unsupported(place, kind, SUPPORTED)
    fields.done()
    return [(place, template)]


def _read_template(fields: Fields) -> Template:
    place = fields.inner("special_tokens")
    ids: dict[str, tuple[int, ...]] = {}
    for name, value in fields.take("special_tokens", dict).items():
        token = Fields(value, f"{place}.{name}")
        token.take("id", str)
        numbers = token.take("ids", list)
        names = token.take("tokens", list)
        token.done()
        if not all(type(number) is int and number >= 0 for number in numbers) or len(names) != len(numbers):
            raise refused(f"{place}.{name}", f"has the ids {shown(numbers)}; expected a number for each token", "correct it")
        ids[name] = tuple(numbers)
    forms = {}
    for form in ("single", "pair"):
        pieces = fields.take(form, list)
        forms[form] = tuple(_read_piece(piece, f"{fields.inner(form)}[{number}]", ids) for number, piece in enumerate(pieces))
        wanted = ["A"] if form == "single" else ["A", "B"]
        if form == "single" or pieces:
            named = sorted(piece.text for piece in forms[form] if piece.text)
            if not set(wanted) <= set(named) or not set(named) <= set(wanted):
                raise refused(fields.inner(form), f"uses the texts {named}; expected {wanted}", "correct the template")
    return Template(forms["single"], forms["pair"] or None)


def _read_piece(value: Any, place: str, ids: dict[str, tuple[int, ...]]) -> Piece:
    fields = Fields(value, place)
    special = fields.take("SpecialToken", dict, default=None)
    inner = Fields(special if special is not None else fields.take("Sequence", dict), place)
    name = inner.take("id", str)
    type_id = inner.take("type_id", int)
    inner.done()
    fields.done()
    if special is not None:
        if name not in ids:
            raise refused(place, f"names the token {shorten(name)}, which its special_tokens lack", "add it there")
        return Piece(ids=ids[name], type_id=type_id)
    if name not in ("A", "B"):
        raise refused(place, f"names the text {shorten(name)}; expected 'A' or 'B'", "correct the template")
    return Piece(text="A" if name == "A" else "B", type_id=type_id)


def _read_sep_and_cls(fields: Fields, *, roberta: bool) -> Template:
    sep, cls = (_read_token(fields, key) for key in ("sep", "cls"))
    if roberta:
        fields.take("trim_offsets", bool)
        fields.take("add_prefix_space", bool)
    second = 0 if roberta else 1
    single = (Piece(cls), Piece(text="A"), Piece(sep))
    between = (Piece(sep),) if roberta else ()
    return Template(single, (*single, *between, Piece(text="B", type_id=second), Piece(sep, type_id=second)))


def _read_token(fields: Fields, key: str) -> tuple[int, ...]:
    value = fields.take(key, list)
    if len(value) != 2 or type(value[0]) is not str or type(value[1]) is not int:
        raise refused(fields.inner(key), f"is {shown(value)}; expected a token and its id", "correct it")
    return (value[1],)
