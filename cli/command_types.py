"""Command and group classes: deprecated option names, and subcommands that are imported when they are needed."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import Any

import click

from .output_lines import write_message
from .reporting import warnings_as_notes

DEPRECATED_OPTIONS = {"--special": "--special-token"}
"""Old option names and their replacements. Each works for one release, hidden and with a warning."""


class Command(click.Command):
    """A command that accepts deprecated option names, and shows warnings as notes."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with warnings_as_notes(ctx):
            return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Replace deprecated option names, with a warning for each, and parse the arguments."""
        return super().parse_args(ctx, self._replace_deprecated(args))

    def _replace_deprecated(self, args: list[str]) -> list[str]:
        options = [parameter for parameter in self.params if isinstance(parameter, click.Option)]
        known = {name for option in options for name in option.opts}
        with_value = {name for option in options if not (option.is_flag or option.count) for name in option.opts}
        replaced: list[str] = []
        warned: set[str] = set()
        is_value = False
        for position, argument in enumerate(args):
            if argument == "--" and not is_value:
                return replaced + args[position:]
            name, equals, value = argument.partition("=")
            new = DEPRECATED_OPTIONS.get(name, "")
            if not is_value and new in known and name not in known:
                if name not in warned:
                    warned.add(name)
                    write_message(f"`{name}` is deprecated and will be removed in the next release: use `{new}`")
                name = new
            replaced.append(f"{name}{equals}{value}")
            is_value = not is_value and name in with_value and not equals
        return replaced


class Group(click.Group):
    """A group whose subcommands are imported when they are needed.

    Parameters
    ----------
    locations : mapping of str to str
        `module:name` of each subcommand in this package by its name, in the order in which help lists them.
    """

    def __init__(self, *args: Any, locations: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._locations = dict(locations or {})

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of the subcommands in their order."""
        return [*self._locations, *(name for name in self.commands if name not in self._locations)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a subcommand, which is imported on first use."""
        if cmd_name in self._locations and cmd_name not in self.commands:
            module, _, name = self._locations[cmd_name].partition(":")
            self.commands[cmd_name] = getattr(importlib.import_module(f".{module}", __package__), name)
        return super().get_command(ctx, cmd_name)

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


command = functools.partial(click.command, cls=Command)
"""Decorator for a command; use it in place of `click.command`."""
