"""Options that control what a command reports, as lines of text or one JSON object, and the names of options in messages."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .output_lines import write_line, write_message

if TYPE_CHECKING:
    from .log_messages import LogHandler

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


Function = TypeVar("Function", bound=Callable[..., Any])

DEBUG, QUIET, JSON, LOG, LOG_JSON = "bpejit.debug", "bpejit.quiet", "bpejit.json", "bpejit.log", "bpejit.log-json"
"""Keys of the context's `meta`: which of these options are given, and the handler of log messages."""

NOTES, WRITE = "bpejit.notes", "bpejit.write"
"""Keys of the context's `meta`: the notes shown so far, and what writes a line above a progress bar."""


@contextmanager
def warnings_as_notes(ctx: click.Context) -> Iterator[None]:
    """Show each BpejitWarning of the block as a note, once; they are also among the `notes` of a JSON report."""
    import warnings

    from bpejit.errors import BpejitWarning

    notes = ctx.meta.setdefault(NOTES, [])

    def show(message: Warning | str, category: type[Warning], *place: Any, **others: Any) -> None:
        if not issubclass(category, BpejitWarning):
            shown_before(message, category, *place, **others)
            return
        text = with_option_names(str(getattr(message, "args", [message])[0]), ctx.command)
        if text in notes:
            return
        notes.append(text)
        if wants_log_json() and not is_quiet():
            write_event("message", text=f"note: {text}")
        elif not (is_quiet() or wants_json()):
            (ctx.meta.get(WRITE) or write_message)(f"note: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", BpejitWarning)
        shown_before = warnings.showwarning
        warnings.showwarning = show
        yield


def _remember_command(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    ctx.meta[COMMAND] = ctx.command  # the innermost command, whose options error messages name
    if value:
        ctx.meta[DEBUG] = True


def _set(key: str) -> Callable[[click.Context, click.Parameter, bool], None]:
    def remember(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        if value:
            ctx.meta[key] = True

    return remember


def _start_logging(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        from .log_messages import show_log_messages

        ctx.meta[LOG] = show_log_messages(ctx)


debug_option = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_remember_command,
    help="Show a traceback when something fails.",
)


def report_options(function: Function) -> Function:
    """Add `--quiet`, `--verbose`, `--json`, `--log-json` and `--debug`, which all commands have."""
    for option in (
        debug_option,
        click.option(
            "--log-json",
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_set(LOG_JSON),
            help="Write messages and progress to standard error as JSON, one object a line.",
        ),
        click.option(
            "--json", is_flag=True, expose_value=False, callback=_set(JSON), help="Write the report to standard output as JSON."
        ),
        click.option(
            *("-v", "--verbose"),
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_start_logging,
            help="Show log messages, such as the engine chosen and the kernels compiled.",
        ),
        click.option(
            *("-q", "--quiet"), is_flag=True, expose_value=False, callback=_set(QUIET), help="Report nothing but errors."
        ),
    ):
        function = option(function)
    return function


def is_quiet() -> bool:
    """Return True if the user gave `--quiet`."""
    return bool(_meta().get(QUIET))


def wants_json() -> bool:
    """Return True if the user gave `--json`."""
    return bool(_meta().get(JSON))


def wants_log_json() -> bool:
    """Return True if the user gave `--log-json`."""
    return bool(_meta().get(LOG_JSON))


def write_event(event: str, **fields: Any) -> None:
    """Write a JSON object to standard error, in one line: the time in UTC, the kind of event, and its fields."""
    import datetime  # not above: few runs need it

    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
    click.echo(json.dumps({"time": now, "event": event, **fields}), err=True)


def log_handler() -> LogHandler | None:
    """Return the handler of log messages if the user gave `--verbose`."""
    return _meta().get(LOG)


def set_writer(write: Callable[[str], None] | None) -> None:
    """Set what writes notes while a progress bar is shown."""
    _meta()[WRITE] = write


def _meta() -> dict[str, Any]:
    ctx = click.get_current_context(silent=True)
    return {} if ctx is None else ctx.meta


def write_json(**fields: Any) -> None:
    """Write a report to standard output as one JSON object, which begins with the name of the command."""
    name = click.get_current_context().command_path.partition(" ")[2]
    if noted := _meta().get(NOTES):
        fields["notes"] = [*noted, *fields.get("notes", [])]
    click.echo(json.dumps({"command": name, **fields}, indent=2))


def write_table(lines: Iterable[tuple[str, str]], width: int = 16) -> None:
    """Write names and values in two columns to standard output."""
    for name, value in lines:
        write_line(f"{name:<{width}}{value}")


def check_json_output(out: str, option: str = "--out") -> None:
    """Raise a usage error if the data and the JSON report would both go to standard output."""
    from bpejit.storage.outputs import is_standard_output

    if wants_json() and is_standard_output(out):
        raise click.UsageError(
            "`--json` writes to standard output, and so does the data; expected only one of them there: "
            f"name a file with `{option}`, or leave `--json` out"
        )


def wrote(out: str) -> str:
    """Return the end of a summary: where the output went."""
    from bpejit.storage.outputs import is_standard_output

    return "wrote to standard output" if is_standard_output(out) else f"wrote `{out}`"


def json_text(data: bytes) -> str:
    """Return bytes as text for JSON; each byte that is not valid UTF-8 becomes the surrogate `\\udcNN`."""
    return data.decode("utf-8", "surrogateescape")
