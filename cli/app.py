"""The `bpejit` command: its subcommands and its error handling."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from bpejit import __version__
from bpejit.errors import BpejitError, shorten, visible

from . import INTERRUPTED
from .command_types import Group
from .reporting import this_command, with_option_names, write_event, write_message

COMMANDS = {
    "Train": {"cmd_train": ["train", "extend", "shrink"], "cmd_count": ["count", "merge-counts", "counts"]},
    "Encode": {"cmd_encode": ["encode", "combine", "decode"]},
    "Inspect": {
        "cmd_info": ["info"],
        "cmd_show": ["show", "split", "explain"],
        "cmd_stats": ["stats", "count-tokens"],
        "cmd_compare": ["compare", "report"],
    },
    "Convert": {"cmd_export": ["export", "verify"], "cmd_tokens": ["tokens"]},
    "More": {"cmd_t2t": ["subword", "datagen"], "cmd_cache": ["warmup", "cache"]},
}
"""The modules of commands by headings, and their commands in the order in which help lists them."""

_LONGEST, _QUOTED = 1000, 200
"""Longest message of click that is printed whole, and the number of characters that remain at each end of longer ones."""

_HELP: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""What click 8.2 and later raise for a group without a command; its message is the help."""


class Program(Group):
    """A group that turns exceptions into one line on standard error and an exit code."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the arguments. `--help` and `--version` write their text here."""
        with _one_line_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand."""
        with _one_line_errors():
            return super().invoke(ctx)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        raise _shown(error) from error
    except click.exceptions.Exit:
        raise
    except (KeyboardInterrupt, click.Abort) as error:
        _report("interrupted", "bpejit: interrupted")
        raise click.exceptions.Exit(INTERRUPTED) from error
    except Exception as error:
        pipe = _broken_pipe(error)
        if pipe is not None:
            raise pipe from None  # click exits without a message
        if this_command().debug:
            raise
        text = _one_line(error, this_command().command)
        _report("error", text if this_command().log_json else f"bpejit: error: {text}")
        raise click.exceptions.Exit(1) from error


def _report(event: str, text: str) -> None:
    """Write a line to standard error, as JSON if the user gave `--log-json`."""
    if this_command().log_json:
        write_event(event, text=text)
    else:
        write_message(text)


def _broken_pipe(error: BaseException | None) -> BrokenPipeError | None:
    """Return the broken pipe that caused an error, as in `bpejit decode ... | head`, or None."""
    while error is not None:
        if isinstance(error, BrokenPipeError):
            return error
        error = error.__cause__ or error.__context__
    return None


def _one_line(error: Exception, command: click.Command | None) -> str:
    text = re.sub(r"\s*[\r\n]+\s*", " ", str(error)).strip()
    if isinstance(error, BpejitError):
        return with_option_names(text, command)
    if isinstance(error, MemoryError):
        return f"not enough memory{': ' + text if text else ''}; use fewer workers, or a machine with more"
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{text}: raise the limit on open files (`ulimit -n`)"
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return f"the path {shorten(error.filename)} is too long for this system; expected a shorter one: choose another name"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) and error.filename is None:
        reason = os.strerror(error.errno)
        return f"cannot write to standard output: {reason}; expected space for the whole output: redirect it to another disk"
    return f"{type(error).__name__}: {text}; this is an internal error: run again with `--debug` and report the traceback"


def _shown(error: click.ClickException) -> click.ClickException:
    """Return the error with visible names, and with a long message cut in the middle."""
    text = error.format_message()
    if isinstance(error, click.NoSuchOption):  # click 8.1 shows its name as it is, also a line break
        text = text.replace(error.option_name, visible(error.option_name))
    shown = "\n".join(map(visible, text.split("\n")))
    if (len(shown) <= _LONGEST and shown == error.format_message()) or isinstance(error, _HELP):
        return error
    text = shown if len(shown) <= _LONGEST else f"{shown[:_QUOTED]} ... {shown[-_QUOTED:]}"
    return click.UsageError(text, error.ctx) if isinstance(error, click.UsageError) else click.ClickException(text)


@click.group(
    cls=Program,
    locations=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Each command has --help, -q (report only errors), -v (show log messages) and --json (write the report as JSON): "
    "give them after the command, as in `bpejit train --help`.",
)
@click.version_option(__version__, prog_name="bpejit", message="%(prog)s %(version)s")
def program() -> None:
    """Train byte-pair encodings, encode text as token ids, and decode ids.

    \b
    Example:
        bpejit train corpus.txt --vocab-size 32000
        bpejit encode corpus.txt --out tokens.bin
        bpejit decode tokens.bin --out back.txt
    """
