"""Recognize JSON by the name of an input and its first bytes: JSON lines, lists of records, and text that begins like these."""

from __future__ import annotations

import re

from bpejit.corpus.json_parsing import load_record, load_value

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

SUFFIXES = (".jsonl", ".ndjson", ".jsonlines", ".ldjson")
"""Ends of the names of JSON lines. `.jl` is not one of them: such files may be Julia."""

LIKELY_SUFFIXES = (".json", ".jl")
"""Ends of names for which the content decides, also if the first line is no record."""

_JSON_NAME = re.compile(r"\.(?:json|jsonl|ndjson|jsonlines|ldjson|jl)(?![a-z0-9])")
"""A part of a name, such as that of data.jsonl.tmp or data.json-00001."""

_CUT = 4000
"""Size from which a head without a newline may end within the first key."""

_STRING = rb'"(?:[^"\\]|\\.)*'
_OBJECT = re.compile(rb"\{\s*%b\"\s*:" % _STRING, re.DOTALL)
_LIST = re.compile(rb"\[\s*\{\s*(?:%b\"\s*:|\})" % _STRING, re.DOTALL)
_FIRST_VALUE = re.compile(rb"\{\s*%b\"\s*:\s*[\"\[{0-9tfnNI-]" % _STRING, re.DOTALL)
_CUT_OBJECT = re.compile(rb"\{\s*%b(?:\"\s*:?\s*)?\Z" % _STRING, re.DOTALL)


def strip_head(head: bytes) -> bytes:
    """Return the first bytes of an input without a byte-order mark and white space."""
    return head.removeprefix(BYTE_ORDER_MARK).lstrip()


def may_have_records(name: str) -> bool:
    """Return True for the name of an input that may be JSON: standard input, a name without a suffix, or with one of JSON.

    Parameters
    ----------
    name : str
        In lower case, without the end that says that it is compressed.
    """
    base = re.split(r"[/\\]", name)[-1]
    return name == "-" or "." not in base or _JSON_NAME.search(base) is not None


def is_json_lines(name: str, head: bytes) -> bool:
    """Return True if an input whose name does not tell contains JSON lines.

    The first line is an object, or most of the others are, since the first one may be damaged or a comment.
    """
    body = strip_head(head)
    if not may_have_records(name) or not (body.startswith(b"{") or name == "-" or name.endswith(LIKELY_SUFFIXES)):
        return False
    line, found, rest = body.partition(b"\n")
    if not found:
        return _FIRST_VALUE.match(body) is not None or (len(body) > _CUT and _CUT_OBJECT.match(body) is not None)
    if load_record(line) is not None:
        return True
    if body.startswith(b"["):
        return False
    others = [other for other in rest.split(b"\n") if other.strip()]
    if len(head) > _CUT:
        others = others[:-1]  # the last one is incomplete
    n_records = sum(other.lstrip().startswith(b"{") and bool(load_record(other)) for other in others)
    return 2 * n_records > len(others)


def is_list_of_records(head: bytes) -> bool:
    """Return True if an input is one JSON list of objects; lines that are lists themselves are not."""
    body = strip_head(head)
    if _LIST.match(body) is None:
        return False
    line, _, rest = body.partition(b"\n")
    if not rest.strip():
        return True
    try:
        load_value(line)
    except ValueError:
        return True
    return False


def begins_like_json(name: str, head: bytes) -> bool:
    """Return True if text begins like an object or a list of objects; for a name that ends in `.json`, like any of these."""
    body = strip_head(head)
    if name.endswith(".json") and body[:1] in (b"{", b"["):
        return True
    return (_OBJECT.match(body) or _LIST.match(body)) is not None
