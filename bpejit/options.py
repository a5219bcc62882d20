"""Declarations of options: keywords of public functions and options of commands, each written once.

A group of options is a `TypedDict` whose fields are annotated with an `Option`. Type checkers read the names and the types of
the fields; `takes` makes of them the signature, the documentation and the defaults of a function, and `cli/shared_options.py`
the options of a command. Values are checked where they are used. A module with groups does not postpone its annotations, which
are read.

Some options name an implementation, such as a file format: a `Registry` is the table of these, which users can extend.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

from bpejit import arguments
from bpejit.arguments import showing_progress
from bpejit.errors import ArgumentTypeError, BpejitError, shorten

Function = TypeVar("Function", bound=Callable[..., Any])
T = TypeVar("T")

AUTO = "auto"
"""Instead of the name of a format: by the suffix of the path, or by the files themselves."""

Section = Literal["Basics", "Input", "Algorithm", "Large corpora", "For transformers", "Output"]
"""The sections of the help of a command, in order. `--help` describes the options of the first, and names the others."""

_WIDTH = 120


class Option(NamedTuple):
    """An option: its default and what the documentation and the help of a command say.

    Parameters
    ----------
    default : object
    text : str
        The documentation. Empty if the text of the next option is about both.
    help : str or callable
        The help of a command, or a function that returns it; empty for an option that no command has.
    kind : str
        The type, as in the documentation; by default the name of the first type of the annotation.
    value : str
        What the command line accepts: `text`, `count`, `size`, `flag`, `choice` or `path`; by default what follows from the
        type, and `choice` if there are choices.
    metavar : str, optional
        What stands for a value in the help; by default NAME, N or SIZE.
    least : int, optional
        The smallest count.
    choices : callable, optional
        Returns the names of a choice.
    shown : str, optional
        The default in the help, if it is not the value.
    flag : str
        The name on the command line, if it is another one.
    section : str
        Where the help of a command lists it.
    """

    default: Any
    text: str
    help: str | Callable[[], str] = ""
    kind: str = ""
    value: str = ""
    metavar: str | None = None
    least: int | None = 1
    choices: Callable[[], tuple[str, ...]] | None = None
    shown: str | None = None
    flag: str = ""
    section: Section = "Basics"

    @property
    def described_type(self) -> str:
        """The type and the default, as in the documentation."""
        if self.default is None:
            return f"{self.kind}, optional"
        default = self.shown or (f'"{self.default}"' if isinstance(self.default, str) else repr(self.default))
        return f"{self.kind}, default {default}"


@functools.cache
def declared(group: type) -> Mapping[str, tuple[Any, Option]]:
    """Return the type and the complete declaration of each option of a group, by name."""
    return {name: _completed(hint.__origin__, hint.__metadata__[0]) for name, hint in group.__annotations__.items()}


_VALUES = {"bool": "flag", "int": "count", "path": "path"}
"""What the command line accepts for a type; `text` for others."""

_METAVARS = {"count": "N", "size": "SIZE"}


def _completed(kind: Any, option: Option) -> tuple[Any, Option]:
    """Return the type of an option, and its declaration with what follows from the type."""
    types = get_args(kind) or (kind,)
    name = option.kind or ("path" if os.PathLike[str] in types else types[0].__name__)
    value = option.value or ("choice" if option.choices else _VALUES.get(name, "text"))
    metavar = _METAVARS.get(value, "NAME") if option.metavar is None else option.metavar
    return kind, option._replace(kind=name, value=value, metavar=metavar)


def chosen(group: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that belong to a group."""
    return {name: options[name] for name in declared(group) if name in options}


def takes(group: type) -> Callable[[Function], Function]:
    """Return a decorator for a function with `**options`: they are those of a group, and have their defaults if not given.

    The line `{options}` in the docstring is replaced by their documentation. A call that does not match the signature raises
    the error of `arguments.bound`.
    """
    options = declared(group)
    defaults = {name: option.default for name, (_, option) in options.items()}

    def decorate(function: Function) -> Function:
        shown = showing_progress(function) if "progress" in options else function
        signature = inspect.signature(function)
        *own, rest = signature.parameters.values()
        named = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=kind)
            for name, (kind, _) in options.items()
        ]
        full = signature.replace(parameters=[*own, *named])

        @functools.wraps(function)
        def called(*args: Any, **given: Any) -> Any:
            arguments.bound(function.__name__, full, args, given)
            return shown(*args, **(defaults | given))

        called.__signature__ = full  # type: ignore[attr-defined]
        kinds = {name: kind for name, (kind, _) in options.items()}
        called.__annotations__ = function.__annotations__ | kinds
        del called.__annotations__[rest.name]
        called.__doc__ = _documented(function.__doc__ or "", options)
        return called  # type: ignore[return-value]

    return decorate


def _documented(doc: str, options: Mapping[str, tuple[Any, Option]]) -> str:
    """Replace the line `{options}` of a docstring."""
    before, marker, after = doc.partition("{options}")
    indent = before.rpartition("\n")[2]
    entries: list[str] = []
    names: list[str] = []
    for name, (_, option) in options.items():
        names.append(name)
        if not option.text:
            continue
        lines = textwrap.wrap(" ".join(option.text.split()), _WIDTH)
        entries += [f"{', '.join(names)} : {option.described_type}", *(f"    {line}" for line in lines)]
        names = []
    return before + f"\n{indent}".join(entries) + after if marker else doc


class _Entry(NamedTuple):
    factory: Callable[..., Any] | str
    description: str


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
