"""Tables of named implementations that users can extend, such as file formats."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from bpejit.errors import ArgumentTypeError, BpejitError, shorten

T = TypeVar("T")


class _Entry(NamedTuple):
    factory: Callable[..., Any] | str
    description: str


AUTO = "auto"
"""Instead of the name of a format: by the suffix of the path, or by the files themselves."""


class Registry(Generic[T]):
    """A table from names to implementations, which are imported on first use.

    Parameters
    ----------
    kind : str
        Noun phrase for messages, such as "token file format".
    built_in : mapping of str to (str, str)
        Location, as `"package.module:name"`, and description of each implementation of this package.
    reserved : str
        A name with another meaning, which cannot be registered.
    error : type
        The exception for names.
    """

    def __init__(
        self, kind: str, built_in: Mapping[str, tuple[str, str]], *, reserved: str = "auto", error: type[BpejitError]
    ) -> None:
        self._kind = kind
        self._reserved = reserved
        self._error = error
        self._entries: dict[str, _Entry] = {name: _Entry(*entry) for name, entry in built_in.items()}

    def register(self, name: str, factory: Callable[..., T] | str, *, description: str = "") -> None:
        """Add an implementation.

        Parameters
        ----------
        name : str
        factory : callable or str
            Class or function that returns the implementation, or the location of one as `"package.module:name"`. `load` calls
            it without arguments.
        description : str
            Text for help pages.

        Raises
        ------
        ArgumentTypeError
            If `factory` has the wrong type.
        BpejitError
            If the name is taken, or is not a valid name.
        """
        if not isinstance(name, str) or not name.replace("-", "_").isidentifier():
            raise self._error(
                f"the name of the {self._kind} is {shorten(name)}; expected letters, digits, `-` and `_`: choose another name"
            )
        if name == self._reserved or name in self._entries:
            raise self._error(f"the {self._kind} {shorten(name)} already exists; expected a new name: choose another one")
        if not (callable(factory) or (isinstance(factory, str) and factory.count(":") == 1)):
            raise ArgumentTypeError(
                f"the {self._kind} is {shorten(factory)}; expected a class or function, or 'module:name': give one"
            )
        self._entries[name] = _Entry(factory, description)

    def unregister(self, name: str) -> None:
        """Remove an implementation.

        Raises
        ------
        BpejitError
            If there is none with this name.
        """
        self._find(name)
        del self._entries[name]

    def names(self) -> tuple[str, ...]:
        """Return all names, in the order of registration."""
        return tuple(self._entries)

    def descriptions(self) -> dict[str, str]:
        """Return the description of each implementation by name."""
        return {name: entry.description for name, entry in self._entries.items()}

    def factory(self, name: str) -> Callable[..., T]:
        """Return the class or function with a name, imported if necessary.

        Raises
        ------
        BpejitError
            If there is none with this name.
        """
        factory = self._find(name).factory
        if isinstance(factory, str):
            module, _, attribute = factory.partition(":")
            found: Callable[..., T] = getattr(importlib.import_module(module), attribute)
            return found
        return factory

    def load(self, name: str) -> T:
        """Return the implementation with a name.

        Raises
        ------
        BpejitError
            If there is none with this name.
        """
        return self.factory(name)()

    def _find(self, name: str) -> _Entry:
        try:
            return self._entries[name]
        except (KeyError, TypeError):
            known = ", ".join(self._entries)
            raise self._error(
                f"the {self._kind} {shorten(name)} is not known; expected one of {known}: choose one of these"
            ) from None
