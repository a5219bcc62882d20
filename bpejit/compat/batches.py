"""Truncation and padding of rows of ids, and their conversion to arrays."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from bpejit.errors import OptionError, UnsupportedError, shorten

Padding: TypeAlias = "bool | str"
"""True or `longest`, `max_length`, False or `do_not_pad`."""

Truncation: TypeAlias = "bool | str | None"
"""True or `longest_first`, `only_first`, `only_second`, False or None or `do_not_truncate`."""

UNLIMITED = int(1e30)
"""The `model_max_length` of a tokenizer without a limit."""

_UNLIMITED_FROM = int(1e20)


class BatchEncoding(UserDict[str, Any]):
    """The result of calling a tokenizer: a dict whose values are also attributes."""

    def __getattr__(self, name: str) -> Any:
        if name == "data" or name not in self.data:
            raise AttributeError(f"this batch has no {shorten(name)}; it has {', '.join(self.__dict__.get('data', {}))}")
        return self.data[name]


class LengthPlan(NamedTuple):
    """How rows are truncated and padded.

    Parameters
    ----------
    padding : "longest", "max_length" or None
    truncation : "longest_first", "only_first", "only_second" or None
    max_length : int, optional
    multiple : int, optional
        The length of padded rows is rounded up to a multiple of this.
    side : str
        `left` or `right`: the side that is padded.
    """

    padding: str | None
    truncation: str | None
    max_length: int | None
    multiple: int | None
    side: str


def make_plan(
    padding: Padding,
    truncation: Truncation,
    max_length: int | None,
    multiple: int | None,
    side: str,
    model_max_length: int,
    pad_token: str | None,
) -> LengthPlan:
    """Combine the options of a call by the rules of `transformers`."""
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
            "padding needs a padding token, and the tokenizer has none; expected a pad_token: "
            "set `tokenizer.pad_token = tokenizer.eos_token`, or pass pad_token to as_hf"
        )
    if pad and cut and multiple and max_length is not None and max_length % multiple:
        raise OptionError(
            f"max_length is {max_length} and pad_to_multiple_of {multiple}; expected a max_length that is a multiple "
            "of it, since rows are truncated and padded: choose another"
        )
    return LengthPlan(pad, cut, max_length, multiple, side)


def _choice(option: str, value: Any, meanings: dict[Any, str | None], known: tuple[str, ...]) -> str | None:
    value = getattr(value, "value", value)  # an enum of transformers
    if value in known:
        return str(value)
    if value in meanings:
        return meanings[value]
    names = ", ".join(map(repr, [*known, *meanings]))
    raise OptionError(f"{option} is {shorten(value)}; expected one of {names}: choose one of these")


def truncated_lengths(first: int, second: int | None, capacity: int, strategy: str) -> tuple[int, int]:
    """Return the lengths to which one text or two are truncated, by the rules of `tokenizers`.

    Parameters
    ----------
    first, second : int
        Numbers of tokens of the texts; `second` is None for a single text.
    capacity : int
        The maximum number of tokens of both.
    strategy : str
        `longest_first`, `only_first` or `only_second`.
    """
    surplus = first + (second or 0) - capacity
    if surplus <= 0:
        return first, second or 0
    if capacity == 0:
        return 0, 0
    if strategy == "longest_first":
        if second is None:
            return capacity, 0
        short, long = sorted((first, second))
        long = short if short > capacity else max(short, capacity - short)
        if short + long > capacity:
            short, long = capacity // 2, capacity - capacity // 2
        return (short, long) if first <= second else (long, short)
    if strategy == "only_second" and second is None:
        raise OptionError("truncation is 'only_second' without a text_pair; expected a pair of texts: choose another strategy")
    length = first if strategy == "only_first" else second or 0
    if length <= surplus:
        raise OptionError(
            f"truncation {shorten(strategy)} must remove {surplus} tokens of a text that has {length}; expected a longer one: "
            "choose a greater max_length, or truncation='longest_first'"
        )
    return (first - surplus, second or 0) if strategy == "only_first" else (first, (second or 0) - surplus)


def padded_length(longest: int, plan: LengthPlan) -> int:
    """Return the length to which rows are padded, the longest of which has `longest` tokens."""
    target = longest if plan.padding == "longest" else plan.max_length or 0
    return -(-target // plan.multiple) * plan.multiple if plan.multiple else target


def pad_columns(
    columns: dict[str, list[list[Any]]],
    lengths: list[int],
    plan: LengthPlan,
    fills: Mapping[str, Any],
) -> None:
    """Pad the rows of columns, which have these lengths, to one length, in place; `fills` has the padding of each column."""
    if plan.padding is None or not lengths:
        return
    target = padded_length(max(lengths), plan)
    for name in columns.keys() & fills.keys():
        fill = fills[name]
        columns[name] = [
            row + [fill] * (target - len(row)) if plan.side == "right" else [fill] * (target - len(row)) + row
            for row in columns[name]
        ]


def as_tensors(columns: dict[str, Any], kind: str | None) -> BatchEncoding:
    """Return columns, lists or int64 arrays, as a batch: as they are, or int64 arrays of NumPy or tensors of PyTorch.

    Rows of several lengths become an array of arrays, as in transformers.

    Raises
    ------
    OptionError
        If rows of several lengths are to become a tensor of PyTorch.
    UnsupportedError
        If `kind` is another package's, or torch is not installed.
    """
    kind = getattr(kind, "value", kind)
    if kind is None:
        return BatchEncoding(columns)
    if kind not in ("np", "pt"):
        raise UnsupportedError(f"return_tensors is {shorten(kind)}; expected 'np' or 'pt': choose one, or convert the lists")
    arrays = {name: _as_array(name, values, ragged=kind == "np") for name, values in columns.items()}
    if kind == "np":
        return BatchEncoding(arrays)
    try:
        import torch  # type: ignore[import-not-found, unused-ignore]
    except ImportError as cause:
        raise UnsupportedError("return_tensors is 'pt', and torch is not installed: install it, or choose 'np'") from cause
    return BatchEncoding({name: torch.from_numpy(array) for name, array in arrays.items()})


def _as_array(name: str, values: Any, *, ragged: bool) -> Any:
    """Return a column as an array; rows of several lengths as an array of arrays if `ragged` is set."""
    if isinstance(values, np.ndarray):
        return values
    lengths = {len(row) for row in values if isinstance(row, (list, tuple))}
    if len(lengths) > 1:
        if not ragged:
            raise OptionError(
                f"the rows of {shorten(name)} have from {min(lengths)} to {max(lengths)} tokens, and a tensor has one length; "
                "expected rows of one length: pass padding=True, and truncation=True with a max_length"
            )
        values = [np.asarray(row) for row in values]
        rows = np.empty(len(values), dtype=object)
        rows[:] = values
        return rows
    array = np.asarray(values)
    return array.astype(np.int64) if not array.size else array
