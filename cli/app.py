"""The `bpejit` command: the group, and what happens when something goes wrong."""

from __future__ import annotations

import errno
import os
from typing import Any

import click

from bpejit import __version__
from bpejit.errors import BpejitError, shorten

from . import INTERRUPTED
from .cmd_cache import cache_command
from .cmd_decode import decode
from .cmd_encode import encode
from .cmd_export import export
from .cmd_info import info
from .cmd_split import split
from .cmd_subword import subword
from .cmd_train import train
from .cmd_verify import verify
from .cmd_warmup import warmup_command
from .option_names import COMMAND, with_option_names
from .options import DEBUG, debug_option

_LONGEST, _QUOTED = 1000, 200
"""Above how many characters a message of click is cut, and how many of it stay at each end."""


class Program(click.Group):
    """A group that turns exceptions into one line on standard error and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the commands in the order in which they are used."""
        return list(self.commands)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the arguments; `--help` and `--version` write here."""
        try:
            return super().make_context(*args, **kwargs)
        except BrokenPipeError:
            raise
        except (BpejitError, OSError) as error:
            click.echo(f"bpejit: error: {_one_line(error, None)}", err=True)
            raise click.exceptions.Exit(1) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            raise _cut(error) from error
        except click.exceptions.Exit:
            raise
        except (KeyboardInterrupt, click.Abort) as error:
            click.echo("bpejit: interrupted", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from error
        except Exception as error:
            pipe = _broken_pipe(error)
            if pipe is not None:
                raise pipe from None  # click leaves quietly
            if ctx.meta.get(DEBUG):
                raise
            click.echo(f"bpejit: error: {_one_line(error, ctx.meta.get(COMMAND))}", err=True)
            raise click.exceptions.Exit(1) from error


def _broken_pipe(error: BaseException | None) -> BrokenPipeError | None:
    """Find the broken pipe behind an error: the reader of our output has gone, as in `bpejit decode ... | head`."""
    while error is not None:
        if isinstance(error, BrokenPipeError):
            return error
        error = error.__cause__ or error.__context__
    return None


def _one_line(error: Exception, command: click.Command | None) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, BpejitError):
        return with_option_names(text, command)
    if isinstance(error, MemoryError):
        return f"not enough memory{': ' + text if text else ''}; use fewer workers, or a machine with more"
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return f"the path {shorten(error.filename)} is too long for this system; expected a shorter one: choose another name"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) and error.filename is None:
        reason = os.strerror(error.errno)
        return f"cannot write to standard output: {reason}; expected room for the whole output: redirect it to another place"
    return f"{type(error).__name__}: {text}; bpejit did not expect this: run again with `--debug` and report the traceback"


def _cut(error: click.ClickException) -> click.ClickException:
    """Return the error with the ends of its message, which quotes a long value."""
    text = error.format_message()
    if len(text) <= _LONGEST:
        return error
    text = f"{text[:_QUOTED]} ... {text[-_QUOTED:]}"
    return click.UsageError(text, error.ctx) if isinstance(error, click.UsageError) else click.ClickException(text)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="bpejit", message="%(prog)s %(version)s")
@debug_option
def program() -> None:
    """Train byte-pair encodings, and turn text into tokens and back.

    \b
    Example:
        bpejit train corpus.txt --vocab-size 32000
        bpejit encode corpus.txt --out tokens.bin
        bpejit decode tokens.bin --out back.txt
    """


for command in (train, encode, decode, info, split, export, verify, subword, warmup_command, cache_command):
    program.add_command(command)
