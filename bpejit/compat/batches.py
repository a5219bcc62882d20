"""Rows of ids for a model: cut to a length, padded to one, and made into arrays."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from bpejit.errors import OptionError, UnsupportedError, shorten

Padding: TypeAlias = "bool | str"
"""True or `longest`, `max_length`, False or `do_not_pad`."""

Truncation: TypeAlias = "bool | str | None"
"""True or `longest_first`, `only_first`, `only_second`, False or None or `do_not_truncate`."""

UNLIMITED = int(1e30)
"""The `model_max_length` of a tokenizer that knows of none."""

_UNLIMITED_FROM = int(1e20)


class BatchEncoding(UserDict[str, Any]):
    """What calling a tokenizer returns: a dict whose values are attributes too."""

    def __getattr__(self, name: str) -> Any:
        if name == "data" or name not in self.data:
            raise AttributeError(f"this batch has no {shorten(name)}; it has {', '.join(self.__dict__.get('data', {}))}")
        return self.data[name]


class Plan(NamedTuple):
    """How long rows become.

    Parameters
    ----------
    pad : "longest", "max_length" or None
    cut : "longest_first", "only_first", "only_second" or None
    max_length : int, optional
    multiple : int, optional
        What the length of padded rows is rounded up to.
    side : str
        `left` or `right`: where padding stands.
    """

    pad: str | None
    cut: str | None
    max_length: int | None
    multiple: int | None
    side: str


def make_plan(
    padding: Padding,
    truncation: Truncation,
    max_length: int | None,
    multiple: int | None,
    side: str,
    *,
    model_max_length: int,
    pad_token: str | None,
) -> Plan:
    """Return what the options of a call mean together, by the rules of `transformers`."""
    if max_length is not None and padding is False and truncation is None:
        truncation = "longest_first"
    pad = _choice("padding", padding, {True: "longest", False: None, "do_not_pad": None}, ("longest", "max_length"))
    known = ("longest_first", "only_first", "only_second")
    cut = _choice("truncation", truncation, {True: "longest_first", False: None, None: None, "do_not_truncate": None}, known)
    _choice("padding_side", side, {}, ("left", "right"))
    if max_length is None and (pad == "max_length" or cut):
        if model_max_length > _UNLIMITED_FROM:
            pad, cut = None if pad == "max_length" else pad, None
        else:
            max_length = model_max_length
    if pad and pad_token is None:
        raise OptionError(
            "padding needs a padding token, and this tokenizer has none; expected a pad_token: "
            "set `tokenizer.pad_token = tokenizer.eos_token`, or pass pad_token to as_hf"
        )
    if pad and cut and multiple and max_length is not None and max_length % multiple:
        raise OptionError(
            f"max_length is {max_length} and pad_to_multiple_of {multiple}; rows that are cut and padded need a max_length "
            "that is a multiple of it: choose another"
        )
    return Plan(pad, cut, max_length, multiple, side)


def _choice(option: str, value: Any, meanings: dict[Any, str | None], known: tuple[str, ...]) -> str | None:
    value = getattr(value, "value", value)  # an enum of transformers
    if value in known:
        return str(value)
    if value in meanings:
        return meanings[value]
    names = ", ".join(map(repr, [*known, *meanings]))
    raise OptionError(f"{option} is {shorten(value)}; expected one of {names}: choose one of these")


def cut_lengths(first: int, second: int | None, room: int, strategy: str) -> tuple[int, int]:
    """Return how many tokens of one text or two are kept so that they fit, by the rules of `tokenizers`.

    Parameters
    ----------
    first, second : int
        Tokens of the texts; `second` is None for one text.
    room : int
        Tokens that fit.
    strategy : str
        `longest_first`, `only_first` or `only_second`.
    """
    surplus = first + (second or 0) - room
    if surplus <= 0:
        return first, second or 0
    if room == 0:
        return 0, 0
    if strategy == "longest_first":
        if second is None:
            return room, 0
        short, long = sorted((first, second))
        long = short if short > room else max(short, room - short)
        if short + long > room:
            short, long = room // 2, room - room // 2
        return (short, long) if first <= second else (long, short)
    if strategy == "only_second" and second is None:
        raise OptionError("truncation is 'only_second', and there is one text; expected a text_pair: choose another strategy")
    length = first if strategy == "only_first" else second or 0
    if length <= surplus:
        raise OptionError(
            f"truncation {shorten(strategy)} must remove {surplus} tokens of a text that has {length}; expected a longer one: "
            "choose a greater max_length, or truncation='longest_first'"
        )
    return (first - surplus, second or 0) if strategy == "only_first" else (first, (second or 0) - surplus)


def kept(length: int, count: int, side: str) -> slice:
    """Return which tokens stay where `count` of `length` do: the first, or the last if the left side is cut."""
    return slice(0, count) if side == "right" else slice(length - count, length)


def pad_columns(columns: dict[str, list[list[Any]]], lengths: list[int], plan: Plan, fills: Mapping[str, Any]) -> None:
    """Make the rows of some columns equally long, or each a multiple long, in place.

    Parameters
    ----------
    columns : dict of str to list of lists
        A column for each name, with a list for each row; `fills` says which columns are padded and with what.
    lengths : list of int
        Tokens in each row.
    plan : Plan
    fills : dict
    """
    if plan.pad is None or not lengths:
        return
    target = max(lengths) if plan.pad == "longest" else plan.max_length or 0
    if plan.multiple and target % plan.multiple:
        target += plan.multiple - target % plan.multiple
    for name in columns.keys() & fills.keys():
        fill = fills[name]
        columns[name] = [
            row + [fill] * (target - len(row)) if plan.side == "right" else [fill] * (target - len(row)) + row
            for row in columns[name]
        ]


def as_tensors(columns: dict[str, Any], kind: str | None) -> BatchEncoding:
    """Return columns as a batch: lists as they are, or int64 arrays of NumPy or tensors of PyTorch.

    Raises
    ------
    OptionError
        If rows differ in length.
    UnsupportedError
        If `kind` is another package's, or torch is not installed.
    """
    kind = getattr(kind, "value", kind)
    if kind is None:
        return BatchEncoding(columns)
    if kind not in ("np", "pt"):
        raise UnsupportedError(
            f"return_tensors is {shorten(kind)}; this face makes 'np' and 'pt': choose one, or convert the lists"
        )
    arrays = {name: _as_array(name, values) for name, values in columns.items()}
    if kind == "np":
        return BatchEncoding(arrays)
    try:
        import torch  # type: ignore[import-not-found, unused-ignore]
    except ImportError as cause:
        raise UnsupportedError("return_tensors is 'pt', and torch is not installed: install it, or choose 'np'") from cause
    return BatchEncoding({name: torch.from_numpy(array) for name, array in arrays.items()})


def _as_array(name: str, values: Iterable[Any]) -> Any:
    try:
        array = np.asarray(values)
    except ValueError as cause:
        lengths = sorted({len(row) for row in values})
        raise OptionError(
            f"the rows of {shorten(name)} have from {lengths[0]} to {lengths[-1]} tokens and make no array; "
            "expected rows of one length: pass padding=True, and truncation=True with a max_length"
        ) from cause
    return array.astype(np.int64) if not array.size else array
