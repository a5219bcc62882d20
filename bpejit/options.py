"""Declarations of options: keywords of public functions and options of commands, each written once.

A group of options is a `TypedDict` whose fields are annotated with an `Option`. Type checkers read the names and the types of
the fields; `takes` makes of them the signature, the documentation and the defaults of a function, and `cli/shared_options.py`
the options of a command. Values are checked where they are used. A module with groups does not postpone its annotations, which
are read.
"""

from __future__ import annotations

import functools
import inspect
import os
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from bpejit import arguments
from bpejit.arguments import showing_progress

Function = TypeVar("Function", bound=Callable[..., Any])

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
