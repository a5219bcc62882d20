"""Inputs for workers on other machines: with absolute paths, and without content that is in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace

from bpejit.corpus.blocks import Skipped
from bpejit.corpus.sources import Source
from bpejit.storage.remote import is_remote


def absolute_path(path: str | os.PathLike[str]) -> str:
    """Return an absolute path, with links as they are; a URL is unchanged."""
    path = os.fspath(path)
    return path if is_remote(path) else os.path.abspath(path)  # noqa: PTH100 - Path.resolve follows links


def absolute_sources(sources: Iterable[Source]) -> tuple[Source, ...]:
    """Return sources with absolute paths, which another machine reads."""
    return tuple(replace(source, path=absolute_path(source.path), kept=None, contents=None) for source in sources)


def given_names(sources: Iterable[Source]) -> dict[str, str]:
    """Return the names of sources as the user gave them, by their absolute paths."""
    return {absolute_path(source.path): source.path for source in sources}


def rename_records(skipped: Skipped, names: Mapping[str, str]) -> Skipped:
    """Return skipped records with the names of `given_names`."""
    return replace(skipped, first=tuple(replace(one, path=names.get(one.path, one.path)) for one in skipped.first))
