"""Normalizers of Hugging Face tokenizers: text to text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from bpejit.bytemap import bytes_to_text
from bpejit.preparation.checking import Fields, refused, unsupported
from bpejit.preparation.patterns import Finder, read_pattern
from bpejit.preparation.unicode_forms import FORMS, Form, is_normalized, lowered, normalized

Change: TypeAlias = Callable[[str], str]

SUPPORTED = "NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip, ByteLevel, Sequence"

WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""Unicode's White_Space; `str.strip` has four control characters more."""


@dataclass(frozen=True)
class Normalizer:
    """A compiled normalizer.

    Parameters
    ----------
    changes : tuple of functions
        Applied in order.
    forms : tuple of str, optional
        The normal forms, if there is nothing else in it; otherwise None.
    maps_bytes : bool
        Whether the text is written with GPT-2's byte characters afterwards.
    """

    changes: tuple[Change, ...] = ()
    forms: tuple[Form, ...] | None = ()
    maps_bytes: bool = False

    def __call__(self, text: str) -> str:
        """Return the text as it is after all changes."""
        for change in self.changes:
            text = change(text)
        return text

    def leaves(self, text: str) -> bool:
        """Whether the text certainly stays as it is, as a whole and in any parts."""
        return self.forms is not None and all(is_normalized(form, text) for form in self.forms)


def make_normalizer(value: Any, place: str = "normalizer", *, unicode: str | None = None) -> Normalizer:
    """Compile a normalizer.

    Parameters
    ----------
    value : object
        What the file has at `place`: an object, or None for no normalizer.
    place : str
    unicode : str, optional
        The version of Unicode of its patterns (see `bpejit.split.compile_pattern`).

    Raises
    ------
    TokenizerFormatError
        If it is broken or not supported; the message names the component and its place.
    """
    parts = _flatten(value, place, unicode)
    kinds = [kind for kind, _, _ in parts]
    if "ByteLevel" in kinds[:-1]:
        raise refused(parts[kinds.index("ByteLevel")][2], "is ByteLevel, but not the last normalizer", "move it to the end")
    return Normalizer(
        tuple(change for _, change, _ in parts),
        tuple(FORMS[kind] for kind in kinds) if FORMS.keys() >= set(kinds) else None,
        "ByteLevel" in kinds,
    )


def _flatten(value: Any, place: str, unicode: str | None) -> list[tuple[str, Change, str]]:
    """Return kind, function and place of each normalizer."""
    if value is None:
        return []
    fields = Fields(value, place)
    kind = fields.kind("normalizer")
    change: Change
    if kind == "Sequence":
        parts = fields.take("normalizers", list)
        fields.done()
        inner = fields.inner("normalizers")
        return [one for number, part in enumerate(parts) for one in _flatten_part(part, f"{inner}[{number}]", unicode)]
    form = FORMS.get(kind)
    if form is not None:
        change = partial(normalized, form)
    elif kind == "Lowercase":
        change = lowered
    elif kind == "Prepend":
        change = partial(_prepend, fields.take("prepend", str))
    elif kind == "Replace":
        finder = read_pattern(fields.take("pattern", dict), fields.inner("pattern"), unicode=unicode)
        change = partial(_replace, finder, fields.take("content", str))
    elif kind == "Strip":
        change = partial(_strip, fields.take("strip_left", bool), fields.take("strip_right", bool))
    elif kind == "ByteLevel":
        change = map_bytes
    else:
        raise unsupported(place, kind, SUPPORTED)
    fields.done()
    return [(kind, change, place)]


def _flatten_part(value: Any, place: str, unicode: str | None) -> list[tuple[str, Change, str]]:
    if value is None:
        raise refused(place, "is null; expected a normalizer", "remove it")
    return _flatten(value, place, unicode)


def map_bytes(text: str) -> str:
    """Write the bytes of a text with GPT-2's characters."""
    return bytes_to_text(text.encode("utf-8", "surrogateescape"))


def _prepend(prefix: str, text: str) -> str:
    return prefix + text if text else text


def _replace(finder: Finder, content: str, text: str) -> str:
    out: list[str] = []
    done = 0
    for start, end in finder.spans(text):
        out += text[done:start], content
        done = end
    out.append(text[done:])
    return "".join(out)


def _strip(left: bool, right: bool, text: str) -> str:
    text = text.lstrip(WHITE_SPACE) if left else text
    return text.rstrip(WHITE_SPACE) if right else text
