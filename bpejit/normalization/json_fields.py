"""Reading JSON objects key by key; missing, invalid and unknown fields raise errors with their path."""

from __future__ import annotations

import json
from collections.abc import Iterator
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

    Attributes
    ----------
    kind : str
        The type of a component (see `components`).
    """

    kind = ""

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

    def done(self) -> None:
        """Raise if fields were not taken: unknown fields may change ids."""
        for key in self._left:
            raise refused(self.inner(key), "is an unknown key", "remove it if it has no effect on ids")


def components(value: Any, path: str, what: str, key: str, *, skip_null: bool = False) -> Iterator[Fields]:
    """Yield the fields of a component, or of those in a `Sequence` of them.

    `key` is the field of a `Sequence` with its components, which may be null if `skip_null`; `what` is a noun for messages.
    """
    if value is None:
        return
    fields = Fields(value, path)
    fields.kind = fields.take("type", str)
    if fields.kind != "Sequence":
        yield fields
        return
    parts = fields.take(key, list)
    fields.done()
    for number, part in enumerate(parts):
        inner = f"{fields.inner(key)}[{number}]"
        if part is None and not skip_null:
            raise refused(inner, f"is null; expected a {what}", "remove it")
        yield from components(part, inner, what, key, skip_null=skip_null)


def read_byte_level(fields: Fields) -> tuple[bool, bool]:
    """Return `add_prefix_space` and `use_regex` of a `ByteLevel`."""
    prefix = fields.take("add_prefix_space", bool)
    fields.take("trim_offsets", bool)
    return prefix, fields.take("use_regex", bool, default=True)


def typed_field(path: object, fields: Any, key: str, *kinds: type, action: str, parent: str = "") -> Any:
    """Return the value of a key of an object in a file, checked to be of one of the given types.

    For the message, `parent` is the path of the object within the file, and `action` what to do.
    """
    if not isinstance(fields, dict):
        raise bad_field(path, parent or "the content", fields, "an object", action)
    value = fields.get(key)
    if type(value) not in kinds:
        names = " or ".join(_NAMES[kind] for kind in kinds)
        raise bad_field(path, f"{parent}.{key}" if parent else key, value, names, action)
    return value


def bad_field(path: object, key: str, value: object, expected: str, action: str) -> TokenizerFormatError:
    """Return the error for a value in a file."""
    return TokenizerFormatError(f"`{path}`: {key} is {shown(value)}; expected {expected}: {action}")


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
