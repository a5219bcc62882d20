"""Reading JSON objects key by key; missing, invalid and unknown fields raise errors with their path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from bpejit import __version__
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


AGAIN = "correct the file, or get it again"


class Fields:
    """The fields of a JSON object, each taken once.

    Parameters
    ----------
    value : object
        The value at `path`.
    path : str
        The path of the value, such as `pre_tokenizer.pretokenizers[1]`.
    file : path, optional
        The file with the object, for messages.
    action : str
        What to do if a field is missing or invalid.

    Attributes
    ----------
    kind : str
        The type of a component (see `components`).
    """

    kind = ""

    def __init__(self, value: Any, path: str = "", *, file: object = None, action: str = AGAIN) -> None:
        self.path = path
        self._file = file
        self._action = action
        if not isinstance(value, dict):
            raise self.bad("", value, "an object")
        self._left = dict(value)

    def inner(self, key: str) -> str:
        """Return the path of a field, or of the object if the key is empty."""
        return f"{self.path}.{key}" if self.path and key else self.path or key

    def bad(self, key: str, value: object, expected: str) -> TokenizerFormatError:
        """Return the error for the value of a field."""
        return self._error(self.inner(key), f"is {shorten(value)}; expected {expected}")

    def _error(self, place: str, found: str) -> TokenizerFormatError:
        if self._file is None:
            return refused(place, found, self._action)
        return TokenizerFormatError(f"`{self._file}`: {place or 'the content'} {found}: {self._action}")

    def take(self, key: str, *kinds: type, default: Any = _REQUIRED) -> Any:
        """Return a field, checked to be of one of the given types; `default` if the object lacks it."""
        if key not in self._left:
            if default is _REQUIRED:
                raise self._error(self.path, f"has no {shorten(key)}")
            return default
        value = self._left.pop(key)
        if type(value) not in kinds and not (float in kinds and type(value) is int):
            raise self.bad(key, value, " or ".join(_NAMES[kind] for kind in kinds if kind in _NAMES))
        return value

    def peek(self, key: str) -> Any:
        """Return a field without a check, or None; it can still be taken."""
        return self._left.get(key)

    def object_at(self, key: str, value: Any) -> Fields:
        """Return the fields of an object within this one."""
        return Fields(value, self.inner(key), file=self._file, action=self._action)

    def record(self, key: str, value: Any, **kinds: type) -> list[Any]:
        """Return the values of an object within this one that has these fields and no others."""
        fields = self.object_at(key, value)
        found = [fields.take(name, kind) for name, kind in kinds.items()]
        fields.done()
        return found

    def take_version(self, kind: str, newest: int) -> int:
        """Return the format version of a file that bpejit wrote; raise unless its format is `kind`, and its version known."""
        found = self.take("format", str, default=None)
        if found != kind:
            raise self.bad("format", found, repr(kind))
        version: int = self.take("format_version", int)
        if version > newest:
            writer = self.take("bpejit_version", str, default=None)
            by = shorten(writer) if writer else "of a later version"
            raise TokenizerFormatError(
                f"`{self._file}` has format version {shorten(version)}, and bpejit {__version__} reads versions up to "
                f"{newest}; it was written by bpejit {by}: install that or a later one"
            )
        if version < 1:
            raise self.bad("format_version", version, "1")
        return version

    def done(self) -> None:
        """Raise if fields were not taken: unknown fields may change ids."""
        for key in self._left:
            raise refused(self.inner(key), "is an unknown key", "remove it if it has no effect on ids")


def components(value: Any, path: str, what: str, key: str, *, skip_null: bool = False) -> Iterator[Fields]:
    """Yield the fields of a component, or of those in a `Sequence` of them; all must be taken before the next.

    `key` is the field of a `Sequence` with its components, which may be null if `skip_null`; `what` is a noun for messages.
    """
    if value is None:
        return
    fields = Fields(value, path)
    fields.kind = fields.take("type", str)
    if fields.kind != "Sequence":
        yield fields
        fields.done()
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


def read_metaspace(fields: Fields) -> tuple[str, str, bool]:
    """Return the mark for a space of a `Metaspace`, its `prepend_scheme`, and `split`; older files have other fields."""
    mark: str = fields.take("replacement", str)
    if len(mark) != 1:
        raise refused(fields.inner("replacement"), f"is {mark!r}; expected one character", "correct it")
    fields.take("str_rep", str, default=mark)
    adds: bool = fields.take("add_prefix_space", bool, default=True)
    scheme: str = fields.take("prepend_scheme", str, default="always" if adds else "never")
    if scheme not in ("always", "first", "never"):
        raise unsupported(fields.inner("prepend_scheme"), scheme, "always, first, never")
    splits: bool = fields.take("split", bool, default=True)
    return mark, scheme, splits


def unsupported(path: str, kind: str, known: str) -> TokenizerFormatError:
    """Return the error for a component that is not supported."""
    kind = kind if len(kind) <= 80 else shorten(kind)
    return TokenizerFormatError(f"`{path}`: {kind} is not supported; expected one of {known}: encode with `tokenizers`")


def refused(path: str, found: str, action: str) -> TokenizerFormatError:
    """Return an error about the value at a path."""
    return TokenizerFormatError(f"`{path}` {found}: {action}" if path else f"the file {found}: {action}")


def canonical(value: Any) -> str:
    """Return the canonical JSON of a value: equal values have equal texts."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
