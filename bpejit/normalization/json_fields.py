"""Reading JSON objects key by key; missing, invalid and unknown fields raise errors with their path."""

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
        The value at `path`.
    path : str
        The path of the value, such as `pre_tokenizer.pretokenizers[1]`.
    """

    def __init__(self, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise refused(path, f"is {shown(value)}; expected an object", "correct the file, or get it again")
        self.path = path
        self._left = dict(value)

    def inner(self, key: str) -> str:
        """Return the path of a field."""
        return f"{self.path}.{key}" if self.path else key

    def take(self, key: str, *kinds: type, default: Any = _REQUIRED) -> Any:
        """Return a field, checked to be of one of the given types; `default` if the object lacks it."""
        if key not in self._left:
            if default is _REQUIRED:
                raise refused(self.path, f"has no {shorten(key)}", "correct the file, or get it again")
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
        """Raise if fields were not taken: unknown fields may change ids."""
        for key in self._left:
            raise refused(self.inner(key), "is an unknown key", "remove it if it has no effect on ids")


def unsupported(path: str, kind: str, known: str) -> TokenizerFormatError:
    """Return the error for a component that is not supported."""
    kind = kind if len(kind) <= 80 else shorten(kind)
    return TokenizerFormatError(
        f"`{path}`: {kind} is not supported; expected one of {known}: use a byte-level tokenizer with these only"
    )


def refused(path: str, found: str, action: str) -> TokenizerFormatError:
    """Return an error about the value at a path."""
    return TokenizerFormatError(f"`{path}` {found}: {action}" if path else f"the file {found}: {action}")


def shown(value: Any) -> str:
    """Return a value for a message, shortened."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def canonical(value: Any) -> str:
    """Return the canonical JSON of a value: equal values have equal texts."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
