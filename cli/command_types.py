"""Classes of commands, groups and values: help in sections, subcommands that are imported when needed, counts such as `2Gi`."""

from __future__ import annotations

import functools
import importlib
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

import click

from bpejit.errors import shorten
from bpejit.options import Section

from .reporting import BASICS, DEBUG_OPTION, REPORT_OPTIONS, REPORTS, warnings_as_notes

UNITS = {"": 1}
UNITS |= {letter: 1000**power for power, letter in enumerate("kMGT", start=1)}
UNITS |= {f"{letter}i": 1024**power for power, letter in enumerate("KMGT", start=1)}
UNITS["K"] = UNITS["k"]

_LONGEST = 40
"""Longest accepted text. Python itself refuses integers of several thousand digits with a message of its own."""

_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_COUNT = re.compile(rf"(?P<number>-?{_DIGITS}(?:\.{_DIGITS})?)(?P<unit>[kKMGT]?|[KMGT]i)")


class Count(click.ParamType):  # type: ignore[type-arg]
    """A whole number, optionally with underscores and a decimal (`k`, `M`, `G`, `T`) or binary (`Ki`, `Mi`, ...) unit.

    A size may end with `B` for bytes, as in `500MB`.
    """

    name = "count"

    def __init__(self, least: int | None = None, *, is_size: bool = False) -> None:
        self.least = least
        self.is_size = is_size
        self._noun = "size in bytes" if is_size else "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, or fail with a message that shows the accepted forms."""
        if isinstance(value, int):
            return value
        text = value[:-1] if self.is_size and value.endswith("B") else value
        match = _COUNT.fullmatch(text) if len(text) <= _LONGEST else None
        if match is None:
            examples = "500000, 500_000, 500k or 2Gi" if self.is_size else "32000, 32_000 or 32k"
            self.fail(f"{shorten(value)} is not a {self._noun}; expected one such as {examples}", param, ctx)
        whole, _, decimals = match["number"].replace("_", "").partition(".")
        numerator, denominator = int(whole + decimals) * UNITS[match["unit"]], 10 ** len(decimals)
        number: int = numerator // denominator
        if numerator % denominator:
            exact = numerator / denominator
            self.fail(f"{shorten(value)} is {exact:,}, which is not a whole number; expected a whole one", param, ctx)
        if self.least is not None and number < self.least:
            self.fail(f"{shorten(value)} is too small; expected a {self._noun} of at least {self.least}", param, ctx)
        return number


_FEW = 15
"""Commands with at most so many options describe all of them in `--help`."""


def _show_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Write the help with all options, and exit."""
    ctx.meta[__name__] = value
    option = ctx.command.get_help_option(ctx)
    if option is not None and option.callback is not None:
        option.callback(ctx, param, value)


HELP_ALL = click.Option(
    ["--help-all"], is_flag=True, expose_value=False, is_eager=True, callback=_show_all, help="Describe all options and exit."
)


def with_help_all(params: Sequence[click.Parameter]) -> list[click.Parameter]:
    """Return the parameters of a command, with `--help-all` if the options are too many for one list."""
    n_options = sum(isinstance(param, click.Option) for param in params)
    return [*params, HELP_ALL] if n_options > _FEW else list(params)


def write_sections(ctx: click.Context, params: Sequence[click.Parameter], formatter: click.HelpFormatter) -> None:
    """Write the options in their sections: the basic ones, and all others with `--help-all` or their names without."""
    options = [param for param in params if isinstance(param, click.Option)]
    others = []
    for name in (*get_args(Section), REPORTS):
        members = [option for option in options if getattr(option, "section", BASICS) == name]
        if members and (name == BASICS or ctx.meta.get(__name__)):
            with formatter.section(name):
                formatter.write_dl([record for option in members if (record := option.get_help_record(ctx))])
        elif members:
            others.append((name, ", ".join(max(option.opts, key=len) for option in members)))
    if others:
        column = max(len(name) for name, _ in others) + 4
        with formatter.section("More options, described by --help-all"):
            for name, names in others:
                # click would divide the names of options at their hyphens.
                lines = textwrap.wrap(names, formatter.width - column, break_on_hyphens=False)
                text = ("\n" + " " * column).join(lines)
                formatter.write(f"  {name:{column - 2}}{text}\n")


class Command(click.Command):
    """A command with the options of reporting, which shows warnings as notes."""

    def __init__(self, name: str | None, *, params: Iterable[click.Parameter] = (), **options: Any) -> None:
        super().__init__(name, params=with_help_all([*params, *REPORT_OPTIONS]), **options)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, in sections if there are many."""
        if HELP_ALL in self.params:
            write_sections(ctx, self.get_params(ctx), formatter)
        else:
            super().format_options(ctx, formatter)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with warnings_as_notes(ctx):
            return super().invoke(ctx)


class Group(click.Group):
    """A group with `--debug`, whose subcommands are imported when they are needed.

    `locations` has, for each heading of the help, the names of subcommands by their modules in this package, in order.
    """

    command_class = Command

    def __init__(
        self,
        name: str | None,
        *,
        params: Iterable[click.Parameter] = (),
        locations: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(name, params=[*params, DEBUG_OPTION], **options)
        self._headings: dict[str, list[str]] = {}
        self._locations: dict[str, str] = {}  # the module of each subcommand
        for heading, modules in (locations or {}).items():
            self._headings[heading] = [name for names in modules.values() for name in names]
            self._locations |= {name: module for module, names in modules.items() for name in names}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of the subcommands in their order."""
        return [*self._locations, *(name for name in self.commands if name not in self._locations)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a subcommand, which is imported on first use."""
        if cmd_name in self._locations and cmd_name not in self.commands:
            module = importlib.import_module(f".{self._locations[cmd_name]}", __package__)
            commands = (found for found in vars(module).values() if isinstance(found, click.Command))
            self.commands[cmd_name] = next(found for found in commands if found.name == cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the subcommands under their headings, each with its whole description."""
        names = self.list_commands(ctx)
        headings: Mapping[str, Iterable[str]] = self._headings or {"Commands": names}
        for heading, members in headings.items():
            found = [(name, self.get_command(ctx, name)) for name in members]
            # The same column in all sections; click wraps the descriptions, but would cut longer ones than the limit.
            rows = [
                (name.ljust(max(map(len, names))), command.get_short_help_str(limit=1000)) for name, command in found if command
            ]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, or fail with the place of an option that belongs to a subcommand."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            option, names = error.option_name, self.list_commands(ctx)
            for name in [*(name for name in given if name in names), *names]:
                if _has_option(ctx, self.get_command(ctx, name), option):
                    example = f"`{ctx.command_path} {name} ... {option}`"
                    text = f"`{option}` is an option of commands: write it after the command, as in {example}"
                    raise click.UsageError(text, ctx) from error
            raise

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return the subcommand that the arguments name, or fail with those of similar names."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), cutoff=0.5)
            action = (
                f"did you mean {' or '.join(f'`{name}`' for name in near)}?"
                if near
                else f"`{ctx.command_path} --help` lists them"
            )
            raise click.UsageError(f"there is no command {args[0]!r}: {action}", ctx)
        return super().resolve_command(ctx, args)


def _has_option(ctx: click.Context, command: click.Command | None, option: str) -> bool:
    """Return True if a command, or one in a group, has an option."""
    if isinstance(command, click.Group):
        return any(_has_option(ctx, command.get_command(ctx, name), option) for name in command.list_commands(ctx))
    return command is not None and any(option in parameter.opts for parameter in command.params)


command = functools.partial(click.command, cls=Command)
"""Decorator for a command; use it in place of `click.command`."""
