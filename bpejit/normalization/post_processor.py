"""Post-processors of Hugging Face tokenizers: special tokens around the ids of one or two texts, such as `<s>` and `</s>`.

`Tokenizer.encode` does not add them, like `encode(..., add_special_tokens=False)` of Hugging Face tokenizers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from bpejit.errors import shorten
from bpejit.normalization.json_fields import Fields, refused, shown, unsupported
from bpejit.normalization.pretokenizers import read_byte_level

SUPPORTED = "TemplateProcessing, ByteLevel, RobertaProcessing, BertProcessing, Sequence"


@dataclass(frozen=True)
class TemplateItem:
    """An item of a template: constant ids, or the ids of a text.

    Parameters
    ----------
    ids : tuple of int, optional
        Constant ids; None for the ids of a text.
    text : str, optional
        The text, `A` or `B`.
    type_id : int
        The token type (segment) id.
    """

    ids: tuple[int, ...] | None = None
    text: Literal["A", "B"] | None = None
    type_id: int = 0


_PLAIN_SINGLE = (TemplateItem(text="A"),)
_PLAIN_PAIR = (TemplateItem(text="A"), TemplateItem(text="B", type_id=1))


@dataclass(frozen=True)
class Template:
    """The order of special tokens and texts.

    Parameters
    ----------
    single : tuple of TemplateItem
        The items for one text.
    pair : tuple of TemplateItem, optional
        The items for a pair of texts; None if pairs are not supported.
    """

    single: tuple[TemplateItem, ...] = _PLAIN_SINGLE
    pair: tuple[TemplateItem, ...] | None = _PLAIN_PAIR

    def items(self, *, pair: bool = False) -> tuple[TemplateItem, ...]:
        """Return the items for one text, or for a pair of texts.

        Raises
        ------
        ValueError
            If the template does not support pairs.
        """
        if not pair:
            return self.single
        if self.pair is None:
            raise ValueError("the template of this tokenizer has no form for a pair of texts; encode the texts one by one")
        return self.pair


def make_template(value: Any, path: str = "post_processor") -> Template | None:
    """Return the template of a post-processor, or None if it adds no tokens.

    Raises
    ------
    TokenizerFormatError
        If it is broken or not supported. The message names the component and its path.
    """
    found = _templates(value, path)
    if len(found) > 1:
        raise refused(found[1][0], "is a second template", "use one of them")
    return found[0][1] if found else None


def _templates(value: Any, path: str) -> list[tuple[str, Template]]:
    if value is None:
        return []
    fields = Fields(value, path)
    kind = fields.kind("post-processor")
    if kind == "Sequence":
        parts = fields.take("processors", list)
        fields.done()
        inner = fields.inner("processors")
        return [one for number, part in enumerate(parts) for one in _templates(part, f"{inner}[{number}]")]
    if kind == "ByteLevel":
        read_byte_level(fields)  # affects only the offsets of tokens
        fields.done()
        return []
    if kind == "TemplateProcessing":
        template = _read_template(fields)
    elif kind in ("RobertaProcessing", "BertProcessing"):
        template = _read_sep_and_cls(fields, roberta=kind == "RobertaProcessing")
    else:
        raise unsupported(path, kind, SUPPORTED)
    fields.done()
    return [(path, template)]


def _read_template(fields: Fields) -> Template:
    path = fields.inner("special_tokens")
    ids: dict[str, tuple[int, ...]] = {}
    for name, value in fields.take("special_tokens", dict).items():
        token = Fields(value, f"{path}.{name}")
        token.take("id", str)
        numbers = token.take("ids", list)
        names = token.take("tokens", list)
        token.done()
        if not all(type(number) is int and number >= 0 for number in numbers) or len(names) != len(numbers):
            raise refused(f"{path}.{name}", f"has the ids {shown(numbers)}; expected a number for each token", "correct it")
        ids[name] = tuple(numbers)
    forms = {}
    for form in ("single", "pair"):
        items = fields.take(form, list)
        forms[form] = tuple(_read_item(item, f"{fields.inner(form)}[{number}]", ids) for number, item in enumerate(items))
        wanted = ["A"] if form == "single" else ["A", "B"]
        if form == "single" or items:
            named = sorted(item.text for item in forms[form] if item.text)
            if not set(wanted) <= set(named) or not set(named) <= set(wanted):
                raise refused(fields.inner(form), f"uses the texts {named}; expected {wanted}", "correct the template")
    return Template(forms["single"], forms["pair"] or None)


def _read_item(value: Any, path: str, ids: dict[str, tuple[int, ...]]) -> TemplateItem:
    fields = Fields(value, path)
    special = fields.take("SpecialToken", dict, default=None)
    inner = Fields(special if special is not None else fields.take("Sequence", dict), path)
    name = inner.take("id", str)
    type_id = inner.take("type_id", int)
    inner.done()
    fields.done()
    if special is not None:
        if name not in ids:
            raise refused(path, f"names the token {shorten(name)}, which is not in its special_tokens", "add it there")
        return TemplateItem(ids=ids[name], type_id=type_id)
    if name not in ("A", "B"):
        raise refused(path, f"names the text {shorten(name)}; expected 'A' or 'B'", "correct the template")
    return TemplateItem(text="A" if name == "A" else "B", type_id=type_id)


def _read_sep_and_cls(fields: Fields, *, roberta: bool) -> Template:
    sep, cls = (_read_token(fields, key) for key in ("sep", "cls"))
    if roberta:
        fields.take("trim_offsets", bool)
        fields.take("add_prefix_space", bool)
    second = 0 if roberta else 1
    single = (TemplateItem(cls), TemplateItem(text="A"), TemplateItem(sep))
    between = (TemplateItem(sep),) if roberta else ()
    return Template(single, (*single, *between, TemplateItem(text="B", type_id=second), TemplateItem(sep, type_id=second)))


def _read_token(fields: Fields, key: str) -> tuple[int, ...]:
    value = fields.take(key, list)
    if len(value) != 2 or type(value[0]) is not str or type(value[1]) is not int:
        raise refused(fields.inner(key), f"is {shown(value)}; expected a token and its id", "correct it")
    return (value[1],)
