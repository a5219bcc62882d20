"""The messages of the library, which name the arguments of Python functions, in the words of the command line."""

from __future__ import annotations

import re

import click

COMMAND = "bpejit.command"
"""Key of the context's `meta` that holds the command that runs."""

_ARGUMENT = re.compile(r'`(?P<named>[a-z_]+)=(?P<value>"[^"`]*"|True)?`|^(?P<first>[a-z_]+)(?= is | has |\[|: )')


def with_option_names(message: str, command: click.Command | None) -> str:
    """Return a message with the options of a command in place of the arguments of the same names.

    Parameters
    ----------
    message : str
        It names an argument as `` `dtype=` `` anywhere, or at its beginning without quotes.
    command : click.Command, optional

    Examples
    --------
    >>> with_option_names("say `vocab_size=`", click.Command("train", params=[click.Option(["--vocab-size"])]))
    'say `--vocab-size`'
    """
    names = {parameter.name: _shown(parameter) for parameter in command.params} if command is not None else {}

    def translated(found: re.Match[str]) -> str:
        option = names.get(found["named"] or found["first"])
        if option is None:
            return found[0]
        if found["first"]:
            return option
        value = (found["value"] or "").strip('"')
        return f"`{option} {value}`" if value and value != "True" else f"`{option}`"

    return _ARGUMENT.sub(translated, message)


def _shown(parameter: click.Parameter) -> str:
    """Return the name under which a user knows a parameter: its longest option, or what the help calls it."""
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return parameter.human_readable_name.removesuffix("...")
