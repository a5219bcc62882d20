"""What commands report, as lines of text or as JSON: messages, log messages, notes, and the options that select among these.

Only this module and `bpejit split` write text of a command, apart from styled text. Names of files, columns and fields may
contain anything, so every line passes through `visible`.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from bpejit.errors import BpejitWarning, visible

BASICS, REPORTS = "Basics", "Reporting"
"""The first and the last section of the help of a command; the others are those of declarations (`bpejit.options.Section`)."""


def write_line(text: str, *, err: bool = False) -> None:
    """Write one line. Characters that control a terminal, and those that the encoding of the stream lacks, are escaped."""
    encoding = (sys.stderr if err else sys.stdout).encoding or "utf-8"
    click.echo(visible(text).encode(encoding, "backslashreplace").decode(encoding), err=err)


def write_message(text: str) -> None:
    """Write one line to standard error."""
    write_line(text, err=True)


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to standard output."""
    for line in lines:
        write_line(line)


def shell_line(words: Iterable[str]) -> str:
    """Return a command for a shell; a word that is not visible as it is becomes `$'...'` with escapes."""
    return " ".join(shlex.quote(word) if visible(word) == word else _escaped_word(word) for word in words)


def _escaped_word(word: str) -> str:
    data = word.encode("utf-8", "surrogateescape")
    return "$'" + "".join(chr(byte) if 32 <= byte < 127 and byte not in b"\\'" else f"\\x{byte:02x}" for byte in data) + "'"


class LogHandler(logging.Handler):
    """Handler that writes log messages of the library to standard error, until a context is closed."""

    def __init__(self, ctx: click.Context) -> None:
        super().__init__(logging.DEBUG)
        logger = logging.getLogger("bpejit")
        ctx.call_on_close(partial(logger.setLevel, logger.level))
        ctx.call_on_close(partial(logger.removeHandler, self))
        logger.addHandler(self)
        logger.setLevel(logging.DEBUG)
        self._state = this_command()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message, above a progress bar if there is one."""
        self._state.write(f"{record.levelname.lower()}: {record.getMessage()}")


@dataclasses.dataclass
class CommandState:
    """What the options of all commands select for the running command, and what it has reported."""

    command: click.Command | None = None  # the innermost one, whose options error messages name
    debug: bool = False
    quiet: bool = False
    json: bool = False
    log_json: bool = False
    verbose: LogHandler | None = None
    notes: list[str] = dataclasses.field(default_factory=list)  # those shown so far
    write: Callable[[str], None] = write_message  # above a progress bar


def this_command() -> CommandState:
    """Return the state of the running command."""
    ctx = click.get_current_context(silent=True)
    found: CommandState = CommandState() if ctx is None else ctx.meta.setdefault("bpejit", CommandState())
    return found


def _remember(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    state = this_command()
    state.command = ctx.command
    if value:
        setattr(state, str(param.name), LogHandler(ctx) if param.name == "verbose" else True)


class SectionOption(click.Option):
    """An option in a section of the help."""

    def __init__(self, *names: Any, section: str = BASICS, **options: Any) -> None:
        super().__init__(*names, **options)
        self.section = section


def _reporting_option(*names: str, text: str, is_eager: bool) -> click.Option:
    settings: dict[str, Any] = {"is_flag": True, "expose_value": False, "callback": _remember, "section": REPORTS}
    return SectionOption(names, is_eager=is_eager, help=text, **settings)


DEBUG_OPTION = _reporting_option("--debug", text="Show a traceback when something fails.", is_eager=True)
"""The option that groups have as well."""

REPORT_OPTIONS = [
    _reporting_option("-q", "--quiet", text="Report nothing but errors.", is_eager=False),
    _reporting_option(
        *("-v", "--verbose"), text="Show log messages, such as the engine chosen and the kernels compiled.", is_eager=True
    ),
    _reporting_option("--json", text="Write the report to standard output as JSON.", is_eager=False),
    _reporting_option(
        "--log-json", text="Write messages and progress to standard error as JSON, one object a line.", is_eager=True
    ),
    DEBUG_OPTION,
]
"""The options that all commands have."""

_ARGUMENT = re.compile(r'`(?P<named>[a-z_]+)=(?P<value>"[^"`]*"|True|[\d.]+)?`|^(?P<first>[a-z_]+)(?= is | has |\[|: )')


def with_option_names(message: str, command: click.Command | None) -> str:
    """Return a message in which arguments are replaced by the options of a command with the same names.

    Arguments appear as `` `dtype=` ``, or without quotes at the start of the message.

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


@contextmanager
def warnings_as_notes(ctx: click.Context) -> Iterator[None]:
    """Show each BpejitWarning of the block as a note, once; they are also among the `notes` of a JSON report."""
    state = this_command()

    def show(message: Warning | str, category: type[Warning], *place: Any, **others: Any) -> None:
        if not issubclass(category, BpejitWarning):
            shown_before(message, category, *place, **others)
            return
        text = with_option_names(str(getattr(message, "args", [message])[0]), ctx.command)
        if text in state.notes:
            return
        state.notes.append(text)
        if state.log_json and not state.quiet:
            write_event("message", text=f"note: {text}")
        elif not (state.quiet or state.json):
            state.write(f"note: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", BpejitWarning)
        shown_before = warnings.showwarning
        warnings.showwarning = show
        yield


def write_event(event: str, **fields: Any) -> None:
    """Write a JSON object to standard error, in one line: the time in UTC, the kind of event, and its fields."""
    import datetime  # not above: few runs need it

    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
    click.echo(json.dumps({"time": now, "event": event, **fields}, default=_as_json), err=True)


def write_json(**fields: Any) -> None:
    """Write a report to standard output as one JSON object, which begins with the name of the command."""
    name = click.get_current_context().command_path.partition(" ")[2]
    if noted := this_command().notes:
        fields["notes"] = [*noted, *fields.get("notes", [])]
    click.echo(json.dumps({"command": name, **fields}, indent=2, default=_as_json))


def _as_json(value: Any) -> Any:
    """Return bytes and paths as text, and records and mappings as dicts."""
    if isinstance(value, bytes):
        return json_text(value)
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return dict(value) if isinstance(value, Mapping) else str(value)


def fields_of(record: object, *names: str) -> dict[str, Any]:
    """Return attributes of a record as fields of a report."""
    return {name: getattr(record, name) for name in names}


def json_text(data: bytes) -> str:
    """Return bytes as text for JSON; each byte that is not valid UTF-8 becomes the surrogate `\\udcNN`."""
    return data.decode("utf-8", "surrogateescape")


def write_report(fields: Mapping[str, Any], rows: Callable[[], Iterable[tuple[str, str]]]) -> None:
    """Write a report to standard output: `fields` as JSON if the user wants that, and otherwise rows of names and values."""
    if this_command().json:
        write_json(**fields)
    else:
        write_table(rows())


def write_table(rows: Iterable[tuple[str, str]], width: int = 16) -> None:
    """Write names and values in two columns to standard output; on a terminal, long values go on in the second one."""
    if sys.stdout.isatty():
        rows = _wrapped(rows, width)
    write_lines(f"{name:<{width}}{value}" for name, value in rows)


def _wrapped(rows: Iterable[tuple[str, str]], width: int) -> Iterator[tuple[str, str]]:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for name, value in rows:
        lines = Text(visible(value)).wrap(console, max(console.width - width, width), overflow="fold")
        yield from ((("" if number else name), line.plain) for number, line in enumerate(lines))


def check_json_output(out: str, option: str = "--out") -> None:
    """Raise a usage error if the data and the JSON report would both go to standard output."""
    from bpejit.storage.outputs import is_standard_output

    if this_command().json and is_standard_output(out):
        raise click.UsageError(
            "`--json` writes to standard output, and so does the data; expected only one of them there: "
            f"name a file with `{option}`, or leave `--json` out"
        )


def named(paths: str | list[str], quote: str = "`") -> str:
    """Return a path, or the first one of several, for a message."""
    first, *others = [paths] if isinstance(paths, str) else paths
    return f"{quote}{first}{quote}{f' and {len(others):,} more' if others else ''}"


def wrote(out: str) -> str:
    """Return the end of a summary: where the output went."""
    from bpejit.storage.outputs import is_standard_output

    return "wrote to standard output" if is_standard_output(out) else f"wrote `{out}`"
