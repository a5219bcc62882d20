"""Translation of error messages: arguments of Python functions become options of commands."""

from __future__ import annotations

import re
import shlex

import click

COMMAND = "bpejit.command"
"""Key of the running command in the `meta` of the context."""

_ARGUMENT = re.compile(r'`(?P<named>[a-z_]+)=(?P<value>"[^"`]*"|True|[\d.]+)?`|^(?P<first>[a-z_]+)(?= is | has |\[|: )')


def with_option_names(message: str, command: click.Command | None) -> str:
    """Return a message in which arguments are replaced by the options of a command with the same names.

    Parameters
    ----------
    message : str
        Arguments appear as `` `dtype=` ``, or without quotes at the start of the message.
    command : click.Command, optional

    Examples
    --------
    >>> with_option_names("give `vocab_size=`", click.Command("train", params=[click.Option(["--vocab-size"])]))
    'give `--vocab-size`'
    """
    names = {parameter.name: _shown(parameter) for parameter in command.params} if command is not None else {}

    def translated(found: re.Match[str]) -> str:
        option = names.get(found["named"] or found["first"])
        if option is None:
            return found[0]
        if found["first"]:
            return option
        value = (found["value"] or "").strip('"')
        return f"`{option} {shlex.quote(value)}`" if value and value != "True" else f"`{option}`"

    return _ARGUMENT.sub(translated, message)


def _shown(parameter: click.Parameter) -> str:
    """Return the name of a parameter in help: its longest option, or the metavar of an argument."""
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return parameter.human_readable_name.removesuffix("...")
