"""Options and inputs of the commands that count tokens: `stats`, `compare` and `report`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bpejit.errors import BpejitError, shorten

if TYPE_CHECKING:
    from bpejit.corpus.sources import Source
    from bpejit.inspection.token_counts import InputCounts

Function = TypeVar("Function", bound=Callable[..., Any])


def label_option(function: Function) -> Function:
    """Add `--label`."""
    return click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="LABEL=GLOB",
        callback=_parse_labels,
        help="Report the files that match a glob together under a label, such as a language; may be repeated.",
    )(function)


def _parse_labels(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for value in values:
        label, _, glob = value.partition("=")
        if not label or not glob:
            raise click.BadParameter(f"{shorten(value)}; expected a label, `=`, and a glob, such as english='en/*.txt'")
        labels[glob] = label
    return labels


@contextmanager
def explaining_order(tokenizers: Sequence[str], inputs: Sequence[str]) -> Iterator[None]:
    """Return a context manager that adds the order of the arguments to an error if an input is where a tokenizer belongs."""
    try:
        yield
    except BpejitError as error:
        wrong = next((path for path in tokenizers if Path(path).exists() and not _is_tokenizer(path)), None)
        found = next((path for path in inputs if Path(path).exists() and _is_tokenizer(path)), None)
        if wrong is None or found is None:
            raise
        raise click.UsageError(
            f"`{wrong}` is where a tokenizer is expected, and `{found}` is a tokenizer; expected tokenizers before the inputs: "
            "exchange them"
        ) from error


def _is_tokenizer(path: str) -> bool:
    from bpejit.formats.recognize import recognize

    try:
        recognize(path)
    except BpejitError:
        return False
    return True


@contextmanager
def repeatable_sources(
    inputs: Sequence[str], reading: Mapping[str, Any], labels: dict[str, str], *, times: int
) -> Iterator[list[Source]]:
    """Return a context manager that yields the sources of inputs, which can be read several times.

    Parameters
    ----------
    inputs : sequence of str
    reading : mapping
        The values of `input_options`.
    labels : dict of str to str
        Labels by path; the label of a copy is added.
    times : int
        How often they will be read. Standard input and pipes are copied to a temporary file if it is more than once.
    """
    if not inputs:
        if labels:
            raise click.UsageError("`--label` groups inputs, and there are none: name them after the tokenizer")
        yield []
        return
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import find_sources

    sources = find_sources(inputs, Contents(**reading))
    if times < 2 or all(source.size is not None for source in sources):
        yield sources
        return
    with tempfile.TemporaryDirectory(prefix="bpejit-") as folder:
        found = []
        for number, source in enumerate(sources):
            if source.size is not None:
                found.append(source)
                continue
            copy = Path(folder) / str(number)
            stream = sys.stdin.buffer if source.path == "-" else Path(source.path).open("rb")  # noqa: SIM115
            with stream as file, copy.open("wb") as target:
                shutil.copyfileobj(file, target, 1 << 20)
            labels[str(copy)] = source.path
            found += find_sources([copy], Contents(**reading))
        yield found


def skipped_notes(counts: InputCounts | None) -> list[str]:
    """Return the note about records without text, if there are any."""
    from bpejit.corpus.blocks import skipped_note

    return [skipped_note(counts.skipped.count, counts.skipped.first)] if counts is not None and counts.skipped else []
