"""A dictionary that cannot be changed."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class ReadOnlyDict(dict[Key, Value]):
    """A `dict` whose methods for changes raise TypeError.

    In contrast to `types.MappingProxyType` it can be copied, pickled and written as JSON, and `dict()` of it takes a fifth of
    the time.
    """

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this dict is read-only; change a copy instead, as returned by dict() or copy()")

    __setitem__ = __delitem__ = __ior__ = _refuse  # type: ignore[assignment]
    clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)
