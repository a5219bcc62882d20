"""Encode texts to the rows of a model: truncation, the special tokens of a template, and offsets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bpejit.arrays import Array
from bpejit.compat.model_inputs import LengthPlan, TokenRows, added_ids, apply_template
from bpejit.encoding.codec import Codec
from bpejit.errors import OptionError, UnsupportedError, shorten
from bpejit.kernels.constants import POSITION_MASK, SPECIAL_FLAG
from bpejit.normalization.alignment import PreTokenizedText
from bpejit.normalization.byte_characters import encode_byte_characters
from bpejit.normalization.normalizers import WHITE_SPACE
from bpejit.normalization.pipeline_config import Template

_BLANK = WHITE_SPACE + encode_byte_characters(b" ")


class RowEncoder(NamedTuple):
    """Encodes texts, and pairs of texts.

    Parameters
    ----------
    codec : Codec
    template : Template
        The special tokens that are added to each row.
    trims : tuple of bool
        The `add_prefix_space` of each post-processor that trims offsets (see `trims`).
    n_threads : int
    """

    codec: Codec
    template: Template
    trims: tuple[bool, ...]
    n_threads: int = 1

    def encode(
        self, firsts: Sequence[str], seconds: Sequence[str] | None, plan: LengthPlan, *, add: bool, offsets: bool, split: bool
    ) -> TokenRows:
        """Encode texts, or pairs of texts, truncate them, and apply the template.

        Parameters
        ----------
        firsts, seconds : sequences of str
            `seconds` is None, or has the second text of each pair.
        plan : LengthPlan
            The rows are not padded.
        add : bool
            Whether the tokens of the template are added.
        offsets : bool
            Whether the rows have offsets.
        split : bool
            Whether special tokens are encoded as ordinary text.

        Raises
        ------
        OptionError
            If the rows cannot be as short as the plan says, or the template has no pairs.
        """
        first = self._tokens(firsts, offsets, split)
        second = None if seconds is None else self._tokens(seconds, offsets, split)
        template = self.template if add else self.template.without_tokens()
        if seconds is not None and template.pair is None:
            raise OptionError("the template does not support pairs of texts; expected a single text: leave text_pair out")
        if plan.truncation and plan.max_length is not None:
            capacity = plan.max_length - len(added_ids(template, pair=seconds is not None))
            if capacity < 0:
                raise OptionError(
                    f"max_length is {plan.max_length}, and {plan.max_length - capacity} special tokens are added to each row; "
                    "expected a max_length of at least that: choose a greater one, or add_special_tokens=False"
                )
            first, second = _truncated(first, second, capacity, plan)
        for prefix in self.trims if offsets else ():
            first, second = first.trimmed(prefix), second and second.trimmed(prefix)
        return apply_template(template, first, second)

    def _tokens(self, texts: Sequence[str], offsets: bool, split: bool) -> TokenRows:
        model = self.codec.model
        special = model.special_tokens
        choice: tuple[Any, ...] = ()
        if split:
            flags = model.token_flags
            special = {text: number for text, number in special.items() if text in flags and not flags[text].special}
            _check_overlaps(texts, model.special_tokens.keys() - special.keys(), special)
            choice = set(special), ()
        if not offsets:
            if len(texts) == 1:
                ids = self.codec.encode(texts[0], *choice)
                return TokenRows({"input_ids": ids}, np.array([0, ids.size]))
            batch = self.codec.encode_batch(texts, self.n_threads, *choice)
            return TokenRows({"input_ids": batch.ids}, batch.starts)
        found, starts, changed = self.codec.locate_batch(texts, *choice)
        columns = {"input_ids": found.ids, "offset_mapping": np.stack([found.char_starts, found.char_ends], axis=1)}
        if self.trims:
            columns["blanks"] = blanks = count_blanks(
                found.ids, model.vocab, {number: text for text, number in special.items()}
            )
            for row, prepared in changed.items():
                tokens = slice(starts[row], starts[row + 1])
                blanks[tokens] = count_blanks_of_changed(found.ids[tokens], model.vocab, prepared)
        return TokenRows(columns, starts)


def _check_overlaps(texts: Sequence[str], special: Collection[str], others: Collection[str]) -> None:
    """Raise UnsupportedError if a special token that is split could overlap another token.

    `tokenizers` finds the special token first, and so misses the other one.
    """
    for token in special if others else ():
        if any(token in text for text in texts):
            for other in others:
                ends = range(1, min(len(token), len(other)))
                if other in token or any(token[-n:] == other[:n] or other[-n:] == token[:n] for n in ends):
                    raise UnsupportedError(
                        f"a text has the special token {shorten(token)}, which is to be split, and which may overlap the "
                        f"added token {shorten(other)}; expected none that overlap: encode without split_special_tokens"
                    )


def _truncated(
    first: TokenRows, second: TokenRows | None, capacity: int, plan: LengthPlan
) -> tuple[TokenRows, TokenRows | None]:
    texts = [first] if second is None else [first, second]
    lengths = np.array([np.diff(rows.starts) for rows in texts])
    kept = np.minimum(lengths, capacity)
    if second is not None:
        pairs = lengths.T.tolist()
        counts = [truncated_lengths(one, other, capacity, plan.truncation or "") for one, other in pairs]
        kept = np.array(counts, np.int64).reshape(-1, 2).T
    elif plan.truncation == "only_second" and capacity and (lengths > capacity).any():
        raise OptionError("truncation is 'only_second' without a text_pair; expected a pair of texts: choose another strategy")
    begins = np.zeros_like(kept) if plan.cut_side == "right" else lengths - kept
    first, *others = (rows.select(*chosen) for rows, *chosen in zip(texts, begins, kept, strict=True))
    return first, others[0] if others else None


def truncated_lengths(first: int, second: int, capacity: int, strategy: str) -> tuple[int, int]:
    """Return the lengths to which two texts are truncated, by the rules of `tokenizers`.

    Parameters
    ----------
    first, second : int
        Numbers of tokens of the texts.
    capacity : int
        The maximum number of tokens of both.
    strategy : str
        `longest_first`, `only_first` or `only_second`.
    """
    surplus = first + second - capacity
    if surplus <= 0:
        return first, second
    if capacity == 0:
        return 0, 0
    if strategy == "longest_first":
        short, long = sorted((first, second))
        long = short if short > capacity else max(short, capacity - short)
        if short + long > capacity:
            short, long = capacity // 2, capacity - capacity // 2
        return (short, long) if first <= second else (long, short)
    length = first if strategy == "only_first" else second
    if length <= surplus:
        raise OptionError(
            f"truncation {shorten(strategy)} must remove {surplus} tokens of a text that has {length}; expected a longer one: "
            "choose a greater max_length, or truncation='longest_first'"
        )
    return (first - surplus, second) if strategy == "only_first" else (first, second - surplus)


def trims(post_processor: Any) -> tuple[bool, ...]:
    """Return the `add_prefix_space` of each component of a post-processor that trims offsets."""
    if not isinstance(post_processor, dict):
        return ()
    if post_processor.get("type") == "Sequence":
        return tuple(prefix for part in post_processor["processors"] for prefix in trims(part))
    return (post_processor["add_prefix_space"],) if post_processor.get("trim_offsets") else ()


def count_blanks(ids: Array, vocab: Mapping[int, bytes], special: Mapping[int, str]) -> Array:
    """Count the white space at both ends of each token, as `tokenizer.json` writes it; `special` has texts of special tokens.

    Returns
    -------
    int64 [tokens, 2]
    """
    distinct, indices = np.unique(ids, return_inverse=True)
    counts = [
        _blanks(special[token_id], _BLANK) if token_id in special else _blanks(vocab[token_id], b" ")
        for token_id in distinct.tolist()
    ]
    return np.array(counts, np.int64).reshape(-1, 2)[indices]


def count_blanks_of_changed(ids: Array, vocab: Mapping[int, bytes], prepared: PreTokenizedText) -> Array:
    """Do the same for a text that a pipeline changed; its special tokens may have absorbed white space."""
    ends = np.cumsum([0, *(len(vocab[token_id]) for token_id in ids.tolist())])
    spans = np.concatenate([np.zeros(1, np.uint32), prepared.ends])
    begins = spans[:-1][(prepared.ends & SPECIAL_FLAG) != 0] & POSITION_MASK
    blanks = count_blanks(ids, vocab, {})
    for index, text in zip(np.searchsorted(ends, begins).tolist(), prepared.found, strict=True):
        blanks[index] = _blanks(text, _BLANK)
    return blanks


def _blanks(token: Any, blank: Any) -> tuple[int, int]:
    return len(token) - len(token.lstrip(blank)), len(token) - len(token.rstrip(blank))
