"""The header of counts: the settings with which pre-tokens were counted, and the inputs that they come from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from typing import Any

from bpejit.errors import CountsError, shorten
from bpejit.splitting.presets import PRESETS, Pattern, pattern_source

MOST_COUNTED = 2**62
"""Limit of the sum of all counts, so that no sum of counts overflows."""


@dataclass(frozen=True)
class CountSettings:
    """What determines the pre-tokens of a text. Only counts with equal settings can be merged.

    Parameters
    ----------
    pattern : str or tuple of str
        The split pattern: the name of a preset, a regular expression, or several of these.
    unicode : str
        The version of Unicode that the pattern follows.
    special_tokens : tuple of str
        Texts that separate pre-tokens and are not counted, in the order of their ids.
    normalize_newlines : bool
        True if CR LF and CR were converted to LF.
    """

    pattern: Pattern
    unicode: str
    special_tokens: tuple[str, ...]
    normalize_newlines: bool

    def difference(self, other: CountSettings) -> tuple[str, str, str] | None:
        """Return the first setting that differs, and its two values, as text; None if all are equal.

        A preset is equal to its regular expression.
        """
        for name in ("pattern", "unicode", "special_tokens", "normalize_newlines"):
            ours, theirs = getattr(self, name), getattr(other, name)
            if name == "pattern" and pattern_source(ours) == pattern_source(theirs):
                continue
            if ours != theirs:
                return name.replace("_", " "), shorten(ours), shorten(theirs)
        return None


@dataclass(frozen=True)
class CountsHeader:
    """Settings, inputs and totals of a table of counts.

    Parameters
    ----------
    settings : CountSettings
    inputs : sequence of dict
        For each input, `path`, `bytes` (null for a pipe), `sha256` of its head and tail, or `checksum` (see `identify_input`),
        and others, stored in the order of their paths, so that the order of merging does not matter.
    n_bytes : int
        Bytes of text that were read.
    n_pretokens : int
        Sum of all counts.
    """

    settings: CountSettings
    inputs: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    n_bytes: int = 0
    n_pretokens: int = 0

    def __post_init__(self) -> None:
        inputs = sorted(map(dict, self.inputs), key=itemgetter("path"))
        if any(one["path"] == other["path"] for one, other in pairwise(inputs)):
            inputs.sort(key=_input_order)  # which takes a tenth of a second for 10,000 inputs
        object.__setattr__(self, "inputs", tuple(inputs))

    def to_json(self) -> bytes:
        """Return the header as one line of JSON."""
        settings = self.settings
        source = pattern_source(settings.pattern)
        fields = {
            "pattern": {"name": None if source == settings.pattern else settings.pattern, "source": source},
            "unicode": settings.unicode,
            "special_tokens": settings.special_tokens,
            "normalize_newlines": settings.normalize_newlines,
            "bytes": self.n_bytes,
            "pretokens": self.n_pretokens,
            "inputs": self.inputs,
        }
        return json.dumps(fields).encode("ascii")

    @classmethod
    def from_json(cls, data: bytes) -> CountsHeader:
        """Return the header of a line of JSON.

        Raises
        ------
        ValueError, TypeError, KeyError
            If it is not a header.
        """
        fields = json.loads(data)
        name, source = fields["pattern"]["name"], fields["pattern"]["source"]
        source = source if isinstance(source, str) else tuple(map(str, source))
        settings = CountSettings(
            # A preset that was registered elsewhere may be missing here, or have another pattern.
            pattern=name if isinstance(name, str) and pattern_source(name) == source else source,
            unicode=str(fields["unicode"]),
            special_tokens=tuple(map(str, fields["special_tokens"])),
            normalize_newlines=bool(fields["normalize_newlines"]),
        )
        n_bytes, n_pretokens = int(fields["bytes"]), int(fields["pretokens"])
        return cls(settings, [{**entry, "path": str(entry["path"])} for entry in fields["inputs"]], n_bytes, n_pretokens)


def _input_order(entry: Mapping[str, Any]) -> tuple[str, str]:
    return entry["path"], json.dumps(entry, sort_keys=True)


def _refuse_repeated_inputs(headers: Sequence[CountsHeader], names: Sequence[str]) -> None:
    """Raise if an input with text is in two headers. Pipes and tables of counts are not known to be equal."""
    seen: dict[tuple[str, str, str, str], int] = {}
    for index, header in enumerate(headers):
        for entry in header.inputs:
            content = entry.get("sha256") or entry.get("checksum")
            if not content or not entry.get("bytes"):
                continue
            key = (entry["path"], str(entry["bytes"]), str(content), json.dumps(entry.get("read_as"), sort_keys=True))
            before = seen.setdefault(key, index)
            if before != index:
                raise CountsError(
                    f"cannot merge {names[index]} with {names[before]}: both have counts of the input "
                    f"{shorten(entry['path'])}, with {entry['bytes']:,} bytes and an equal hash; expected each input once: "
                    "leave one of them out, count without overlap, or allow repeated inputs (--allow-repeated-inputs)"
                )


def merge_headers(
    headers: Sequence[CountsHeader], names: Sequence[str], *, allow_repeated_inputs: bool = False
) -> CountsHeader:
    """Return the header of merged counts.

    Parameters
    ----------
    headers : sequence of CountsHeader
        At least one.
    names : sequence of str
        How messages name each of them.
    allow_repeated_inputs : bool
        Whether the same input may be in several of them.

    Raises
    ------
    CountsError
        If their settings differ, the same input is in two of them, or the sum of all counts is too large.
    """
    first = headers[0].settings
    for header, name in zip(headers, names, strict=True):
        found = first.difference(header.settings)
        if found is not None:
            what, ours, theirs = found
            raise CountsError(
                f"cannot merge {name} with {names[0]}: its {what} is {theirs}; expected {ours}: count both with the "
                "same settings"
            )
    if not allow_repeated_inputs:
        _refuse_repeated_inputs(headers, names)
    n_pretokens = sum(header.n_pretokens for header in headers)
    if n_pretokens >= MOST_COUNTED:
        raise CountsError(
            f"the merged counts would be too large: found {n_pretokens:.3g} pre-tokens in total, expected less than "
            "2^62: merge fewer"
        )
    patterns = {header.settings.pattern for header in headers}
    # A preset, possibly under several names, is preferred to its expression, whatever the order.
    named = sorted(pattern for pattern in patterns if isinstance(pattern, str) and pattern in PRESETS)
    settings = CountSettings(
        pattern=named[0] if named else first.pattern,
        unicode=first.unicode,
        special_tokens=first.special_tokens,
        normalize_newlines=first.normalize_newlines,
    )
    inputs = [entry for header in headers for entry in header.inputs]
    return CountsHeader(settings, inputs, sum(header.n_bytes for header in headers), n_pretokens)
