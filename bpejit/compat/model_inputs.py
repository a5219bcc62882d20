"""The inputs of a model as flat arrays: templates, padding, trimmed offsets, and conversion to arrays."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from bpejit.arrays import Array, EncodedBatch, ranges_of, starts_of
from bpejit.errors import OptionError, UnsupportedError, shorten
from bpejit.extras import import_extra
from bpejit.normalization.pipeline_config import Template
from bpejit.process_memory import retain_freed

_ITEM_BYTES = 8
"""Size of an item of a list."""


class TokenRows(NamedTuple):
    """The tokens of several texts, or the inputs of a model. Row `i` of each column is `starts[i]:starts[i + 1]`.

    Parameters
    ----------
    columns : dict of str to arrays
        For each name uint32 [tokens], or int64 [tokens, 2] for `offset_mapping`, the start and the end of each token in
        characters of its text, and `blanks`, its characters of white space at both ends (see `trimmed`). There are always
        `input_ids`.
    starts : int64 [rows + 1]
    """

    columns: dict[str, Array]
    starts: Array

    @property
    def length(self) -> int:
        """The length of the rows, or 0 if they differ or there are none."""
        lengths = np.unique(np.diff(self.starts))
        return int(lengths[0]) if lengths.size == 1 else 0

    def select(self, firsts: Array, lengths: Array) -> TokenRows:
        """Return some of the tokens of each row.

        Parameters
        ----------
        firsts, lengths : int64 [rows]
            Index of the first token in its row, and number of tokens.
        """
        chosen = ranges_of(self.starts[:-1] + firsts, lengths)
        return TokenRows({name: column[chosen] for name, column in self.columns.items()}, starts_of(lengths))

    def trimmed(self, prefix: bool) -> TokenRows:
        """Return the tokens with white space excluded from the offsets: `trim_offsets` of Hugging Face's post-processors.

        The white space at both ends of a token's text is counted, and as many characters are removed from its offsets. An
        inserted prefix space, which the original text does not have, is counted too, except before the first token of a text
        if `prefix` is True.
        """
        begins, ends = self.columns["offset_mapping"].T
        before, after = self.columns["blanks"].T
        inner = np.ones(begins.size, bool)
        inner[self.starts[:-1][np.diff(self.starts) > 0]] = False
        excluded = (before != 1) | (inner & (begins != 0)) if prefix else np.ones_like(inner)
        begins = np.where(excluded, np.minimum(begins + before, ends), begins)
        ends = np.where(ends >= after, np.maximum(ends - after, begins), ends)
        return TokenRows({**self.columns, "offset_mapping": np.stack([begins, ends], axis=1)}, self.starts)

    def chosen(self, names: Mapping[str, bool]) -> TokenRows:
        """Return the columns without those whose value in `names` is false."""
        return TokenRows({name: column for name, column in self.columns.items() if names.get(name, True)}, self.starts)

    def padded(self, target: int, side: str, fills: Mapping[str, Any]) -> TokenRows:
        """Pad rows that are shorter than `target` on the given side; `fills` has the value of each column."""
        lengths = np.diff(self.starts)
        missing = np.maximum(target - lengths, 0)
        real = _parts_of([lengths, missing] if side == "right" else [missing, lengths]) == (side != "right")
        columns = {}
        for name, column in self.columns.items():
            columns[name] = np.empty((real.size, *column.shape[1:]), column.dtype)
            columns[name][:] = fills[name]
            columns[name][real] = column
        return TokenRows(columns, starts_of(lengths + missing))

    def lists(self) -> dict[str, list[Any]]:
        """Return each column as a list of lists, of integers or of pairs of them."""
        retain_freed(_ITEM_BYTES * len(self.columns) * int(self.starts[-1]))
        return {name: self._list(column) for name, column in self.columns.items()}

    def _list(self, column: Array) -> list[Any]:
        if column.strides[0] == 0:
            return [column[:1].tolist() * length for length in np.diff(self.starts).tolist()]
        if column.ndim == 1:
            if self.starts.size == 2:
                return [column.tolist()]
            return EncodedBatch(column, self.starts).tolist()
        pairs = list(zip(column[:, 0].tolist(), column[:, 1].tolist(), strict=True))
        starts = self.starts.tolist()
        return [pairs[start:stop] for start, stop in pairwise(starts)]

    def matrices(self) -> dict[str, Array]:
        """Return each column as int64 [rows, length], or [rows, length, 2]; all rows have `length` tokens."""
        shape = self.starts.size - 1, self.length
        return {name: column.reshape(*shape, *column.shape[1:]).astype(np.int64) for name, column in self.columns.items()}

    def inputs(self, as_arrays: bool, with_lengths: bool) -> dict[str, Any]:
        """Return the columns as matrices, if that is wanted and possible, or lists; and the lengths of the rows if wanted."""
        found: dict[str, Any] = dict(self.matrices()) if as_arrays and self.length else self.lists()
        return found | ({"length": np.diff(self.starts).tolist()} if with_lengths else {})


def added_ids(template: Template, *, pair: bool = False) -> list[int]:
    """Return the ids that a template adds to a text or a pair; none if it does not support pairs."""
    items = template.pair if pair else template.single
    return [token_id for item in items or () for token_id in item.ids or ()]


def apply_template(template: Template, first: TokenRows, second: TokenRows | None = None) -> TokenRows:
    """Apply a template to texts or pairs of texts.

    Returns
    -------
    TokenRows
        With `input_ids`; `token_type_ids`, which distinguish the texts of a pair; `attention_mask`; `special_tokens_mask`,
        which is 1 for tokens that the template adds; and `offset_mapping` if there are offsets, (0, 0) for added tokens.
    """
    items = template.single if second is None else template.pair or ()
    none = np.zeros(first.starts.size - 1, np.int64)
    texts = {"A": first, "B": second or first.select(none, none)}
    lengths = [none + len(item.ids or ()) if item.text is None else np.diff(texts[item.text].starts) for item in items]
    which = _parts_of(lengths) if items else np.zeros(0, np.uint8)
    columns = {}
    for name, column in first.columns.items():
        columns[name] = np.zeros((which.size, *column.shape[1:]), column.dtype)
    for index, item in enumerate(items):
        if item.text is None:
            columns["input_ids"][which == index] = np.tile(np.array(item.ids, np.uint32), none.size)
        elif len(items) == 1:
            columns = dict(texts[item.text].columns)
        else:
            for name, column in columns.items():
                column[which == index] = texts[item.text].columns[name]
    constants = {
        "token_type_ids": [item.type_id for item in items],
        "attention_mask": [1 for _ in items],
        "special_tokens_mask": [int(item.text is None) for item in items],
    }
    inputs = {"input_ids": columns["input_ids"]}
    for name, values in constants.items():
        table = np.array(values or [0], np.uint32)
        # An array without strides takes no memory, and a list of its numbers little time.
        inputs[name] = np.broadcast_to(table[0], which.size) if (table == table[0]).all() else table[which]
    if "offset_mapping" in columns:
        inputs["offset_mapping"] = columns["offset_mapping"]
    return TokenRows(inputs, starts_of(sum(lengths, none)))


def _parts_of(lengths: Sequence[Array]) -> Array:
    """Return to which of its parts each token of each row belongs, as uint8 [tokens].

    Parameters
    ----------
    lengths : sequence of int64 [rows]
        The length of each part of a row.
    """
    parts = np.tile(np.arange(len(lengths), dtype=np.uint8), lengths[0].size)
    return np.repeat(parts, np.stack(lengths, axis=1).ravel())


# ---- lengths

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
    side, cut_side : str
        `left` or `right`: the side that is padded, and the one that is truncated.
    """

    padding: str | None
    truncation: str | None
    max_length: int | None
    multiple: int | None
    side: str
    cut_side: str


def make_plan(
    tokenizer: Any,
    padding: Padding,
    truncation: Truncation,
    max_length: int | None,
    multiple: int | None,
    side: str | None,
) -> LengthPlan:
    """Combine the options of a call with the attributes of a tokenizer by the rules of `transformers`."""
    side = tokenizer.padding_side if side is None else side
    if max_length is not None and padding is False and truncation is None:
        truncation = "longest_first"
    pad = _choice("padding", padding, {True: "longest", False: None, "do_not_pad": None}, ("longest", "max_length"))
    known = ("longest_first", "only_first", "only_second")
    cut = _choice("truncation", truncation, {True: "longest_first", False: None, None: None, "do_not_truncate": None}, known)
    _choice("padding_side", side, {}, ("left", "right"))
    if max_length is None and (pad == "max_length" or cut):
        if tokenizer.model_max_length > _UNLIMITED_FROM:
            pad, cut = None if pad == "max_length" else pad, None
        else:
            max_length = tokenizer.model_max_length
    if pad and tokenizer.pad_token is None:
        raise OptionError(
            "padding needs a padding token, and the tokenizer has none; expected a pad_token: "
            "set `tokenizer.pad_token = tokenizer.eos_token`, or pass pad_token to as_hf"
        )
    if pad and cut and multiple and max_length is not None and max_length % multiple:
        raise OptionError(
            f"max_length is {max_length} and pad_to_multiple_of {multiple}; expected a max_length that is a multiple "
            "of it, since rows are truncated and padded: choose another"
        )
    return LengthPlan(pad, cut, max_length, multiple, side, tokenizer.truncation_side)


def _choice(option: str, value: Any, meanings: dict[Any, str | None], known: tuple[str, ...]) -> str | None:
    value = getattr(value, "value", value)  # an enum of transformers
    if value in known:
        return str(value)
    if value in meanings:
        return meanings[value]
    names = ", ".join(map(repr, [*known, *meanings]))
    raise OptionError(f"{option} is {shorten(value)}; expected one of {names}: choose one of these")


def padded_length(longest: int, plan: LengthPlan) -> int:
    """Return the length to which rows are padded, the longest of which has `longest` tokens."""
    target = longest if plan.padding == "longest" else plan.max_length or 0
    return -(-target // plan.multiple) * plan.multiple if plan.multiple else target


def padded_rows(rows: TokenRows, plan: LengthPlan, fills: Mapping[str, Any]) -> TokenRows:
    """Pad rows as a plan says; `fills` has the padding of each column but `offset_mapping`."""
    if plan.padding is None or rows.starts.size == 1:
        return rows
    target = padded_length(int(np.diff(rows.starts).max()), plan)
    return rows.padded(target, plan.side, {**fills, "offset_mapping": (0, 0)})


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
    torch = import_extra("torch", "return_tensors='pt'", extra="", error=UnsupportedError)
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
        rows = np.empty(len(values), object)
        rows[:] = values
        return rows
    array = np.asarray(values)
    return array.astype(np.int64) if not array.size else array
