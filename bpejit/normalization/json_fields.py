"""Reading JSON objects key by key: what is missing, wrong or not known is refused with its place in the file."""

from __future__ import annotations

import json
from typing import Any

from bpejit.errors import TokenizerFormatError, shorten

_NAMES = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}

_REQUIRED = object()


class Fields:
    """The fields of a JSON object, each taken once.

    Parameters
    ----------
    value : object
        What the file holds at `place`.
    place : str
        The keys that lead there, such as `pre_tokenizer.pretokenizers[1]`.
    """

    def __init__(self, value: Any, place: str) -> None:
        if not isinstance(value, dict):
            raise refused(place, f"is {shown(value)}; expected an object", "correct the file, or get it again")
        self.place = place
        self._left = dict(value)

    def inner(self, key: str) -> str:
        """Return the place of a field."""
        return f"{self.place}.{key}" if self.place else key

    def take(self, key: str, *kinds: type, default: Any = _REQUIRED) -> Any:
        """Return a field and check that it is of one of some types; `default` where the object has no such field."""
        if key not in self._left:
            if default is _REQUIRED:
                raise refused(self.place, f"has no {shorten(key)}", "correct the file, or get it again")
            return default
        value = self._left.pop(key)
        if type(value) not in kinds and not (float in kinds and type(value) is int):
            names = " or ".join(_NAMES[kind] for kind in kinds)
            raise refused(self.inner(key), f"is {shown(value)}; expected {names}", "correct the file, or get it again")
        return value

    def kind(self, what: str) -> str:
        """Return the field `type` of a component."""
        kind: str = self.take("type", str)
        self.what = f"{kind} ({what})"
        return kind

    def done(self) -> None:
        """Refuse the fields that were not taken: what they mean is not known, and they may change ids."""
        for key in self._left:
            raise refused(self.inner(key), "is a key that bpejit does not know", "remove it if it has no effect on ids")


def unsupported(place: str, kind: str, known: str) -> TokenizerFormatError:
    """Return the error for a component that is not supported."""
    kind = kind if len(kind) <= 80 else shorten(kind)
    return TokenizerFormatError(
        f"`{place}`: {kind} is not supported; expected one of {known}: use a byte-level tokenizer that is made of these"
    )


def refused(place: str, found: str, action: str) -> TokenizerFormatError:
    """Return an error about a place of the file."""
    return TokenizerFormatError(f"`{place}` {found}: {action}" if place else f"the file {found}: {action}")


def shown(value: Any) -> str:
    """Return a value for a message, cut short."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def canonical(value: Any) -> str:
    """Write a JSON value such that equal values have equal texts."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
