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
