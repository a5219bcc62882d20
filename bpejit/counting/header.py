"""The header of counts: the settings with which pre-tokens were counted, and the inputs that they come from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import itemgetter
from typing import Any

from bpejit import arguments
from bpejit.counting.count_options import SUPERWORDS
from bpejit.errors import CountsError, OptionError, shorten
from bpejit.splitting.presets import PRESETS, Pattern, pattern_source
from bpejit.splitting.unicode_versions import installed_unicode

Record = Mapping[str, Any]
"""What a header says of an input, or of a part of divided inputs."""

MOST_SHOWN = 5
"""Number of skipped records of an input that are described."""

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
    words : str or tuple of str, optional
        If pre-tokens are sequences of words, for superwords: the expressions that divide a pre-token into words.
    """

    pattern: Pattern
    unicode: str
    special_tokens: tuple[str, ...]
    normalize_newlines: bool
    words: Pattern | None = None

    @classmethod
    def checked(
        cls,
        *,
        pattern: Any,
        unicode: Any,
        special_tokens: Any,
        normalize_newlines: Any,
        superwords: Any = None,
        superword_pattern: Any = None,
    ) -> CountSettings:
        """Return settings after checking them: those of `bpejit.counting.count_options.RunSettings`.

        Raises
        ------
        ArgumentTypeError, OptionError, PatternError
        """
        pattern = arguments.pattern("pattern", pattern)
        unicode = arguments.optional_string("unicode", unicode) or installed_unicode()
        words = None
        if superwords is not None:
            arguments.choice("superwords", superwords, SUPERWORDS)
            from bpejit.splitting.pattern_compiler import joined_words  # not at the top: it imports the compiler

            words, runs = pattern_source(pattern), superword_pattern
            pattern = joined_words(words, unicode) if runs is None else arguments.pattern("superword_pattern", runs)
        elif superword_pattern is not None:
            raise OptionError('superword_pattern is given, and superwords is None; expected both: give `superwords="super"`')
        return cls(
            pattern=pattern,
            unicode=unicode,
            special_tokens=tuple(arguments.special_tokens("special_tokens", special_tokens)),
            normalize_newlines=arguments.flag("normalize_newlines", normalize_newlines),
            words=words,
        )

    def difference(self, other: CountSettings) -> tuple[str, str, str] | None:
        """Return the first setting that differs, and its two values, as text; None if all are equal.

        A preset is equal to its regular expression.
        """
        for name in ("words", "pattern", "unicode", "special_tokens", "normalize_newlines"):
            ours = getattr(self, name)
            theirs = getattr(other, name)
            if name == "pattern" and pattern_source(ours) == pattern_source(theirs):
                continue
            if ours != theirs:
                what = "pattern of words" if name == "words" else name.replace("_", " ")
                return what, shorten(ours), shorten(theirs)
        return None

    def difference_key(self) -> list[Any]:
        """Return what is compared of the settings, for JSON."""
        key = [pattern_source(self.pattern), self.unicode, self.special_tokens, self.normalize_newlines]
        return key if self.words is None else [*key, self.words]


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
    parts : sequence of dict
        The parts of divided inputs that are counted, if others are missing: a hash of all inputs (`plan`), `part` and `parts`.
    """

    settings: CountSettings
    inputs: Sequence[Record] = field(default_factory=tuple)
    n_bytes: int = 0
    n_pretokens: int = 0
    parts: Sequence[Record] = ()

    def __post_init__(self) -> None:
        inputs = sorted(map(dict, self.inputs), key=itemgetter("path"))
        if any(one["path"] == other["path"] for one, other in pairwise(inputs)):
            # Not always, since it takes a tenth of a second for 10,000 inputs.
            inputs.sort(key=lambda entry: (entry["path"], json.dumps(entry, sort_keys=True)))
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
            **({} if settings.words is None else {"words": settings.words}),
            "bytes": self.n_bytes,
            "pretokens": self.n_pretokens,
            "inputs": self.inputs,
            **({"parts": list(self.parts)} if self.parts else {}),
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
        name = fields["pattern"]["name"]
        source, words = fields["pattern"]["source"], fields.get("words")
        source = source if isinstance(source, str) else tuple(map(str, source))
        settings = CountSettings(
            # A preset that was registered elsewhere may be missing here, or have another pattern.
            pattern=name if isinstance(name, str) and pattern_source(name) == source else source,
            unicode=str(fields["unicode"]),
            special_tokens=tuple(map(str, fields["special_tokens"])),
            normalize_newlines=bool(fields["normalize_newlines"]),
            words=words if words is None or isinstance(words, str) else tuple(map(str, words)),
        )
        n_bytes = int(fields["bytes"])
        n_pretokens = int(fields["pretokens"])
        inputs = [{**entry, "path": str(entry["path"])} for entry in fields["inputs"]]
        parts = [
            {"plan": str(one["plan"]), "part": int(one["part"]), "parts": int(one["parts"])} for one in fields.get("parts", ())
        ]
        return cls(settings, inputs, n_bytes, n_pretokens, tuple(parts))


def _content(entry: Record) -> tuple[str, ...] | None:
    """Return what identifies an input, whole or in part; None if it may be equal to another one without being the same."""
    content = entry.get("sha256") or entry.get("checksum")
    if not content or not entry.get("bytes"):
        return None
    return entry["path"], str(entry["bytes"]), str(content), json.dumps(entry.get("read_as"), sort_keys=True)


def _refuse_repeated_inputs(headers: Sequence[CountsHeader], names: Sequence[str]) -> None:
    """Raise if an input with text, or a range of it, is in two headers. Pipes and tables of counts may differ."""
    parts: dict[tuple[Any, ...], int] = {}
    seen: dict[tuple[str, ...], list[tuple[float, float, int]]] = {}
    for index, header in enumerate(headers):
        for part in header.parts:
            before = parts.setdefault(tuple(part.values()), index)
            if before != index:
                raise CountsError(
                    f"cannot merge {names[index]} with {names[before]}: both are part {part['part']} of {part['parts']}; "
                    "expected each part once: leave one of them out"
                )
        for entry in header.inputs:
            key = _content(entry)
            if key is None:
                continue
            start, stop = entry.get("range", (0, float("inf")))
            for other_start, other_stop, before in seen.setdefault(key, []):
                if before != index and start < other_stop and other_start < stop:
                    raise CountsError(
                        f"cannot merge {names[index]} with {names[before]}: both have counts of the input "
                        f"{shorten(entry['path'])}, with {entry['bytes']:,} bytes and an equal hash; expected each input once: "
                        "leave one of them out, count without overlap, or allow repeated inputs (--allow-repeated-inputs)"
                    )
            seen[key].append((start, stop, index))


def _parts_of_plans(parts: Sequence[Record]) -> dict[tuple[str, int], set[int]]:
    """Return the numbers of the parts of each plan, which has a number of parts."""
    numbers: dict[tuple[str, int], set[int]] = {}
    for part in parts:
        numbers.setdefault((part["plan"], part["parts"]), set()).add(part["part"])
    return numbers


def _join_parts(inputs: Sequence[Record], parts: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """Return inputs whose ranges are joined where all parts of their plan are there, and the parts of the other plans."""
    complete = {plan for (plan, n_parts), found in _parts_of_plans(parts).items() if len(found) == n_parts}
    joined: dict[tuple[Any, ...], dict[str, Any]] = {}
    found_inputs: list[Record] = []
    for entry in sorted(inputs, key=lambda entry: tuple(entry.get("range", (0,)))):
        if entry.get("plan") not in complete:
            found_inputs.append(entry)
            continue
        whole = {name: value for name, value in entry.items() if name not in ("plan", "range")}
        key = (entry["plan"], *(_content(entry) or (entry["path"],)), entry.get("weight"))
        before = joined.setdefault(key, whole)
        if before is whole:
            found_inputs.append(before)
        elif "skipped" in whole:
            before["skipped"] = before.get("skipped", 0) + whole["skipped"]
            before["first_skipped"] = [*before.get("first_skipped", ()), *whole["first_skipped"]][:MOST_SHOWN]
    return found_inputs, [part for part in parts if part["plan"] not in complete]


def missing_counts(header: CountsHeader) -> str:
    """Return a note about parts of divided inputs that are missing; an empty string if there are none."""
    notes = []
    for (_, n_parts), found in _parts_of_plans(header.parts).items():
        missing = [str(number) for number in range(n_parts) if number not in found]
        shown = ", ".join(missing[:10]) + (", ..." if len(missing) > 10 else "")
        notes.append(f"{len(found)} of {n_parts} parts of the inputs are counted; missing: {shown}")
    return "; ".join(notes)


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
    settings = replace(first, pattern=named[0]) if named else first
    inputs, parts = _join_parts(
        [entry for header in headers for entry in header.inputs], [part for header in headers for part in header.parts]
    )
    return CountsHeader(settings, inputs, sum(header.n_bytes for header in headers), n_pretokens, tuple(parts))
