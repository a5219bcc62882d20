"""Options and inputs of the commands that count tokens: `stats`, `compare` and `report`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bpejit.errors import shorten

if TYPE_CHECKING:
    from bpejit.corpus.sources import Source

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
def repeatable_sources(inputs: Sequence[str], input_format: str, *, times: int) -> Iterator[list[Source]]:
    """Return a context manager that yields the sources of inputs, which can be read several times.

    Parameters
    ----------
    inputs : sequence of str
    input_format : str
        `auto` or `text`.
    times : int
        How often they will be read. Standard input and pipes are copied to a temporary file if it is more than once.
    """
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import Source, find_sources

    sources = find_sources(inputs, Contents(input_format, plain_only=True))
    if times < 2 or all(source.size is not None for source in sources):
        yield sources
        return
    with tempfile.TemporaryDirectory(prefix="bpejit-") as folder:
        found = []
        for number, source in enumerate(sources):
            if source.size is None:
                copy = Path(folder) / str(number)
                with source.open_stream() as stream, copy.open("wb") as target:
                    while data := stream.read(1 << 20):
                        target.write(data)
                found.append(Source(str(copy), copy.stat().st_size))
            else:
                found.append(source)
        yield found
