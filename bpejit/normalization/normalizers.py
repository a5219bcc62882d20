"""Normalizers of Hugging Face tokenizers: text to text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bpejit.arrays import starts_of
from bpejit.normalization.alignment import Change, Sources, code_points, one_to_one, repeated, widths
from bpejit.normalization.byte_characters import encode_byte_characters
from bpejit.normalization.form_sources import form_sources
from bpejit.normalization.json_fields import Fields, refused, unsupported
from bpejit.normalization.patterns import Finder, read_pattern
from bpejit.normalization.unicode_forms import FORMS, LONGER_WHEN_LOWERED, Form, is_normalized, lowered, normalized
from bpejit.splitting.text_limits import MORE_CHARACTERS, limits_of

SUPPORTED = "NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip, ByteLevel, Sequence"

WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""Unicode's White_Space; `str.strip` also strips four control characters."""


@dataclass(frozen=True)
class Normalizer:
    """A compiled normalizer.

    Parameters
    ----------
    changes : tuple of Change
        Applied in order.
    forms : tuple of str, optional
        The normal forms, if all changes are normal forms; otherwise None.
    maps_bytes : bool
        True if the output consists of GPT-2's byte characters.
    """

    changes: tuple[Change, ...] = ()
    forms: tuple[Form, ...] | None = ()
    maps_bytes: bool = False

    def __call__(self, text: str) -> str:
        """Apply all changes."""
        for change in self.changes:
            text = change.apply(text)
        return text

    def is_noop(self, text: str) -> bool:
        """Return True if the text, and any part of it, is certainly unchanged."""
        return self.forms is not None and all(is_normalized(form, text) for form in self.forms)


def make_normalizer(value: Any, path: str = "normalizer", *, unicode: str | None = None) -> Normalizer:
    """Compile a normalizer.

    Parameters
    ----------
    value : object
        The JSON value at `path`; None for no normalizer.
    path : str
    unicode : str, optional
        The version of Unicode of its patterns (see `bpejit.splitting.compile_pattern`).

    Raises
    ------
    TokenizerFormatError
        If it is broken or not supported; the message names the component and its path.
    """
    parts = _flatten(value, path, unicode)
    kinds = [kind for kind, _, _ in parts]
    if "ByteLevel" in kinds[:-1]:
        raise refused(parts[kinds.index("ByteLevel")][2], "is ByteLevel, but not the last normalizer", "move it to the end")
    return Normalizer(
        tuple(change for _, change, _ in parts),
        tuple(FORMS[kind] for kind in kinds) if FORMS.keys() >= set(kinds) else None,
        "ByteLevel" in kinds,
    )


def _flatten(value: Any, path: str, unicode: str | None) -> list[tuple[str, Change, str]]:
    """Return type, change and path of each normalizer."""
    if value is None:
        return []
    fields = Fields(value, path)
    kind = fields.kind("normalizer")
    if kind == "Sequence":
        parts = fields.take("normalizers", list)
        fields.done()
        inner = fields.inner("normalizers")
        return [one for number, part in enumerate(parts) for one in _flatten_part(part, f"{inner}[{number}]", unicode)]
    form = FORMS.get(kind)
    if form is not None:
        change = Change(partial(normalized, form), partial(form_sources, form))
    elif kind == "Lowercase":
        change = Change(lowered, _lowered_sources)
    elif kind == "Prepend":
        prefix = _inserted(fields, "prepend")
        change = Change(partial(_prepend, prefix), partial(_prepend_sources, prefix))
    elif kind == "Replace":
        finder = read_pattern(fields.take("pattern", dict), fields.inner("pattern"), unicode=unicode)
        content = _inserted(fields, "content")
        change = Change(partial(_replace, finder, content), partial(_replace_sources, finder, content))
    elif kind == "Strip":
        sides = fields.take("strip_left", bool), fields.take("strip_right", bool)
        change = Change(partial(_strip, *sides), partial(_strip_sources, *sides))
    elif kind == "ByteLevel":
        change = MAP_BYTES
    else:
        raise unsupported(path, kind, SUPPORTED)
    fields.done()
    return [(kind, change, path)]


def _flatten_part(value: Any, path: str, unicode: str | None) -> list[tuple[str, Change, str]]:
    if value is None:
        raise refused(path, "is null; expected a normalizer", "remove it")
    return _flatten(value, path, unicode)


def _inserted(fields: Fields, key: str) -> str:
    """Return the text that a normalizer inserts."""
    text: str = fields.take(key, str)
    if len(text) > MORE_CHARACTERS:
        raise refused(fields.inner(key), f"has {len(text)} characters; expected at most {MORE_CHARACTERS}", "shorten it")
    return text


def _map_bytes(text: str) -> str:
    return encode_byte_characters(text.encode("utf-8", "surrogateescape"))


def _map_bytes_sources(text: str) -> Sources:
    return repeated(widths(text))


MAP_BYTES = Change(_map_bytes, _map_bytes_sources)
"""Replaces the bytes of a text by GPT-2's byte characters."""


def _lowered_sources(text: str) -> Sources:
    return repeated(1 + (code_points(text) == ord(LONGER_WHEN_LOWERED)))


def _prepend(prefix: str, text: str) -> str:
    if text:
        limits_of(text).grow(len(prefix))
    return prefix + text if text else text


def _prepend_sources(prefix: str, text: str) -> Sources:
    limits_of(text).check_growth(len(prefix))
    return prefixed(len(prefix), len(text)) if text else one_to_one(0)


def prefixed(added: int, count: int) -> Sources:
    """Return the sources of a text with inserted prefix characters, which map to its first character."""
    sources = np.maximum(np.arange(-added, count, dtype=np.int64), 0)
    return Sources(sources, sources, sources)


def _replace(finder: Finder, content: str, text: str) -> str:
    spans = list(finder.spans(text))
    limits_of(text).grow(_growth(spans, content))
    out: list[str] = []
    done = 0
    for start, end in spans:
        out += text[done:start], content
        done = end
    out.append(text[done:])
    return "".join(out)


def _growth(found: list[tuple[int, int]], content: str) -> int:
    """Return the number of characters that replacements add."""
    return len(content) * len(found) - sum(end - start for start, end in found)


def _replace_sources(finder: Finder, content: str, text: str) -> Sources:
    found = list(finder.spans(text))
    limits_of(text).check_growth(_growth(found, content))
    spans = np.array(found, dtype=np.int64).reshape(-1, 2)
    starts, ends = spans[:, 0], spans[:, 1]
    # Alternating ranges: unchanged text, replacement, unchanged text, and so on.
    size = 2 * len(spans) + 1
    lengths = np.full(size, len(content), dtype=np.int64)
    first = np.zeros(size, dtype=np.int64)
    first[2::2] = ends
    lengths[::2] = np.append(starts, len(text)) - first[::2]
    first[1::2] = np.maximum(ends - 1, 0)
    low = first.copy()
    low[1::2] = np.minimum(starts, first[1::2])
    steps = repeated(lengths).of
    stays = steps % 2 == 0
    offset = np.where(stays, np.arange(steps.size) - starts_of(lengths)[steps], 0)
    of = first[steps] + offset
    return Sources(of, low[steps] + offset, of)


def _strip(left: bool, right: bool, text: str) -> str:
    text = text.lstrip(WHITE_SPACE) if left else text
    return text.rstrip(WHITE_SPACE) if right else text


def _strip_sources(left: bool, right: bool, text: str) -> Sources:
    begin = len(text) - len(text.lstrip(WHITE_SPACE)) if left else 0
    end = begin + len(_strip(left, right, text))
    kept = np.arange(begin, end, dtype=np.int64)
    return Sources(kept, kept, kept)
