"""The parts of a `tokenizer.json` as data: pipeline, flags of added tokens, and post-processor.

A post-processor adds special tokens around the ids of one or two texts, such as `<s>` and `</s>`. `Tokenizer.encode` does not
add them, like `encode(..., add_special_tokens=False)` of Hugging Face tokenizers.

Importing this module imports neither NumPy nor regex.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from bpejit.errors import shorten
from bpejit.normalization.json_fields import Fields, components, read_byte_level, refused, unsupported
from bpejit.splitting.presets import Pattern

SUPPORTED = "TemplateProcessing, ByteLevel, RobertaProcessing, BertProcessing, Sequence"


class TokenFlags(NamedTuple):
    """The flags of an added token; by default a plain special token.

    Parameters
    ----------
    special : bool
        True if decoding can skip it; has no effect on ids.
    single_word : bool
        True if it matches only if no letter or digit is next to it.
    lstrip, rstrip : bool
        True if adjacent white space before or after it belongs to the match.
    normalized : bool
        True if its normalized text is searched for in the normalized text.
    """

    special: bool = True
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False


FLAG_KINDS = dict.fromkeys(TokenFlags._fields, bool)


def added_token(text: str, token_id: int, flags: TokenFlags | None = None) -> dict[str, Any]:
    """Return an added token as `tokenizers` writes it."""
    named = (flags or TokenFlags())._asdict()
    named["special"] = named.pop("special")  # last
    return {"id": token_id, "content": text, **named}


class PipelineConfig(NamedTuple):
    """The normalizer and the pre-tokenizer of a `tokenizer.json`.

    Parameters
    ----------
    normalizer, pre_tokenizer : str
        Canonical JSON of the component; `null` if there is none.
    """

    normalizer: str = "null"
    pre_tokenizer: str = "null"


@dataclass(frozen=True)
class FileSections:
    """The sections of a `tokenizer.json` other than vocabulary and merges, for writing them again unchanged.

    Parameters
    ----------
    text : str
        JSON of an object with these sections; `model` has its settings only.
    pattern : str or tuple of str
        The split pattern of the model read from them. They apply only to a model with this pattern.
    vocab_size : int, optional
        The number of tokens in the vocabulary of that file, which need not have the added tokens. It is not saved, since all
        added tokens are in the vocabulary that bpejit writes.
    """

    text: str
    pattern: Pattern
    vocab_size: int | None = field(default=None, compare=False)

    def with_added_tokens(self, tokens: Mapping[str, int]) -> FileSections:
        """Return the sections with plain special tokens appended to `added_tokens`."""
        sections = json.loads(self.text)
        sections["added_tokens"] += [added_token(text, token_id) for text, token_id in tokens.items()]
        return replace(self, text=json.dumps(sections))


# ---- post-processors


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

    def without_tokens(self) -> Template:
        """Return the template of texts alone, with the same type ids."""
        single, pair = (items and tuple(item for item in items if item.ids is None) for items in (self.single, self.pair))
        return Template(single or (), pair)


def make_template(value: Any) -> Template | None:
    """Return the template of a post-processor, or None if it adds no tokens.

    Raises
    ------
    TokenizerFormatError
        If it is broken or not supported. The message names the component and its path.
    """
    template: Template | None = None
    for fields in components(value, "post_processor", "post-processor", "processors", skip_null=True):
        kind = fields.kind
        if kind == "ByteLevel":
            read_byte_level(fields)  # affects only the offsets of tokens
        elif template is not None:
            raise refused(fields.path, "is a second template", "use one of them")
        elif kind == "TemplateProcessing":
            template = _read_template(fields)
        elif kind in ("RobertaProcessing", "BertProcessing"):
            template = _read_sep_and_cls(fields, roberta=kind == "RobertaProcessing")
        else:
            raise unsupported(fields.path, kind, SUPPORTED)
    return template


def _read_template(fields: Fields) -> Template:
    for ignored in ("add_prefix_space", "trim_offsets", "use_regex"):  # of another post-processor, before it was replaced
        fields.take(ignored, bool, default=False)
    ids: dict[str, tuple[int, ...]] = {}
    for name, value in fields.take("special_tokens", dict).items():
        place = f"special_tokens.{name}"
        _, numbers, names = fields.record(place, value, id=str, ids=list, tokens=list)
        if not all(type(number) is int and number >= 0 for number in numbers) or len(names) != len(numbers):
            found = f"has the ids {shorten(numbers)}; expected a number for each token"
            raise refused(fields.inner(place), found, "correct it")
        ids[name] = tuple(numbers)
    forms = {}
    for form in ("single", "pair"):
        items = fields.take(form, list)
        forms[form] = tuple(_read_item(fields.object_at(f"{form}[{number}]", item), ids) for number, item in enumerate(items))
        wanted = ["A"] if form == "single" else ["A", "B"]
        if form == "single" or items:
            named = sorted(item.text for item in forms[form] if item.text)
            if not set(wanted) <= set(named) or not set(named) <= set(wanted):
                raise refused(fields.inner(form), f"uses the texts {named}; expected {wanted}", "correct the template")
    return Template(forms["single"], forms["pair"] or None)


def _read_item(fields: Fields, ids: dict[str, tuple[int, ...]]) -> TemplateItem:
    special = fields.take("SpecialToken", dict, default=None)
    value = special if special is not None else fields.take("Sequence", dict)
    name, type_id = fields.record("", value, id=str, type_id=int)
    fields.done()
    if special is not None:
        if name not in ids:
            raise refused(fields.path, f"names the token {shorten(name)}, which is not in its special_tokens", "add it there")
        return TemplateItem(ids=ids[name], type_id=type_id)
    if name not in ("A", "B"):
        raise refused(fields.path, f"names the text {shorten(name)}; expected 'A' or 'B'", "correct the template")
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
        raise refused(fields.inner(key), f"is {shorten(value)}; expected a token and its id", "correct it")
    return (value[1],)
