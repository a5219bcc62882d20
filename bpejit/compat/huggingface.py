"""A tokenizer with what training loops use of `transformers.PreTrainedTokenizerFast`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpejit.compat.batches import (
    UNLIMITED,
    BatchEncoding,
    Padding,
    Plan,
    Truncation,
    as_tensors,
    cut_lengths,
    kept,
    make_plan,
    pad_columns,
)
from bpejit.compat.named_tokens import NamedTokens
from bpejit.compat.template_rows import Row, added_ids, apply_template, surround
from bpejit.compat.trimming import Located, count_blanks, trims
from bpejit.errors import OptionError, OutputError, UnsupportedError, shorten
from bpejit.normalization.post_processor import Template
from bpejit.storage.files import replacing

if TYPE_CHECKING:
    from bpejit.tokenizer import Tokenizer

CONFIG_FILE = "tokenizer_config.json"

_FILLS = {"token_type_ids": 0, "attention_mask": 0, "special_tokens_mask": 1}


class HuggingFaceTokenizer(NamedTokens):
    """A tokenizer with the methods of `PreTrainedTokenizerFast`; made by `Tokenizer.as_hf`.

    Options and results are those of transformers 5 for the folder that `save` writes. What is not supported raises
    UnsupportedError, or is no attribute: adding tokens, pre-tokenized input, overflowing tokens, chat templates, training.
    Otherwise than there, an id without a token is an error in `decode`, and padding never warns.

    Parameters
    ----------
    tokenizer : bpejit.Tokenizer
    bos_token, eos_token, unk_token, sep_token, pad_token, cls_token, mask_token : str, optional
        Tokens of the vocabulary that play these parts; by default those of `Model.config`. `eos_token` is otherwise
        `<|endoftext|>`, where there is such a token.
    extra_special_tokens : list of str
        Further ones that `all_special_tokens` names.
    add_bos_token, add_eos_token : bool
        Whether `bos_token` and `eos_token` are put around each text, unless a call says `add_special_tokens=False`.
    template : Template, optional
        What is put around texts, where it is not these two; by default `Model.template`.
    model_max_length : int
        The length that `truncation=True` and `padding="max_length"` mean.
    padding_side, truncation_side : str
        `right` or `left`.
    split_special_tokens : bool
        Whether the text of special tokens is ordinary.
    name_or_path : str
    """

    is_fast = True
    pad_token_type_id = 0
    clean_up_tokenization_spaces = False

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        bos_token: str | None = None,
        eos_token: str | None = None,
        unk_token: str | None = None,
        sep_token: str | None = None,
        pad_token: str | None = None,
        cls_token: str | None = None,
        mask_token: str | None = None,
        extra_special_tokens: Sequence[str] = (),
        add_bos_token: bool = False,
        add_eos_token: bool = False,
        template: Template | None = None,
        model_max_length: int | None = None,
        padding_side: str = "right",
        truncation_side: str = "right",
        split_special_tokens: bool = False,
        name_or_path: str = "",
    ) -> None:
        super().__init__(tokenizer.model)
        self._tokenizer = tokenizer
        config = tokenizer.model.config
        bos_token = config.bos_token if bos_token is None else bos_token
        eos_token = config.eos_token if eos_token is None else eos_token
        pad_token = config.pad_token if pad_token is None else pad_token
        model_max_length = config.model_max_length if model_max_length is None else model_max_length
        if eos_token is None and "<|endoftext|>" in tokenizer.special_tokens:
            eos_token = "<|endoftext|>"
        self.bos_token, self.eos_token, self.unk_token, self.sep_token = bos_token, eos_token, unk_token, sep_token
        self.pad_token, self.cls_token, self.mask_token = pad_token, cls_token, mask_token
        self.extra_special_tokens = [self._known(token, "an extra special token") for token in extra_special_tokens]
        self._template = template
        self.add_bos_token, self.add_eos_token = add_bos_token, add_eos_token
        if template and (add_bos_token or add_eos_token):
            raise OptionError("both a template and add_bos_token or add_eos_token are given; expected one: leave out the other")
        self.model_max_length = UNLIMITED if model_max_length is None else model_max_length
        self.padding_side = padding_side
        self.truncation_side = truncation_side
        self.split_special_tokens = split_special_tokens
        self.name_or_path = name_or_path
        self.model_input_names = ["input_ids", "attention_mask"]

    def __repr__(self) -> str:
        return (
            f"<bpejit.HuggingFaceTokenizer: {len(self)} tokens, model_max_length={self.model_max_length}, "
            f"padding_side={self.padding_side!r}, special_tokens={self.special_tokens_map}>"
        )

    # ---- encoding ----------------------------------------------------------------------------------------------------

    @property
    def template(self) -> Template:
        """What is put around texts."""
        if self.add_bos_token or self.add_eos_token:
            bos = self.bos_token_id if self.add_bos_token else None
            return surround(bos=bos, eos=self.eos_token_id if self.add_eos_token else None)
        return self._template or self._model.template or Template()

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """Return how many tokens the template adds to a text, or to a pair."""
        return len(added_ids(self.template, pair=pair))

    def __call__(
        self,
        text: str | Sequence[str] | None = None,
        text_pair: str | Sequence[str] | None = None,
        text_target: str | Sequence[str] | None = None,
        text_pair_target: str | Sequence[str] | None = None,
        add_special_tokens: bool = True,
        padding: Padding = False,
        truncation: Truncation = None,
        max_length: int | None = None,
        stride: int = 0,
        is_split_into_words: bool = False,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_tensors: str | None = None,
        return_token_type_ids: bool | None = None,
        return_attention_mask: bool | None = None,
        return_overflowing_tokens: bool = False,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
        return_length: bool = False,
        verbose: bool = True,  # noqa: ARG002 - a part of the signature; there is nothing to be said
        split_special_tokens: bool | None = None,
    ) -> BatchEncoding:
        """Return the ids of a text or of several, with what a model needs besides.

        The options are those of `PreTrainedTokenizerFast.__call__`; see the documentation of `transformers`.

        Raises
        ------
        OptionError
            If options contradict each other, or padding is asked for without a padding token.
        UnsupportedError
            For `is_split_into_words`, `stride` and `return_overflowing_tokens`, and tensors of other packages.
        """
        _refuse(is_split_into_words=is_split_into_words, stride=stride, return_overflowing_tokens=return_overflowing_tokens)
        plan = self._plan(padding, truncation, max_length, pad_to_multiple_of, padding_side)
        chosen = {
            "token_type_ids": _or("token_type_ids" in self.model_input_names, return_token_type_ids),
            "attention_mask": _or("attention_mask" in self.model_input_names, return_attention_mask),
            "special_tokens_mask": return_special_tokens_mask,
            "offset_mapping": return_offsets_mapping,
            "length": return_length,
        }
        split = _or(self.split_special_tokens, split_special_tokens)
        results = []
        for texts, pairs in ((text, text_pair), (text_target, text_pair_target)):
            if texts is not None:
                rows = self._rows(texts, pairs, plan, add_special_tokens, return_offsets_mapping, split)
                columns = self._columns(rows, plan, chosen)
                if isinstance(texts, str) and return_tensors is None:
                    columns = {name: value[0] if name != "length" else value for name, value in columns.items()}
                results.append(as_tensors(columns, return_tensors))
        if not results:
            raise OptionError("there is no text; expected `text` or `text_target`: pass one")
        if len(results) == 2:
            results[0]["labels"] = results[1]["input_ids"]
        return results[0]

    def _plan(
        self, padding: Padding, truncation: Truncation, max_length: int | None, multiple: int | None, side: str | None
    ) -> Plan:
        return make_plan(
            padding,
            truncation,
            max_length,
            multiple,
            self.padding_side if side is None else side,
            model_max_length=self.model_max_length,
            pad_token=self.pad_token,
        )

    def _rows(
        self, texts: str | Sequence[str], pairs: str | Sequence[str] | None, plan: Plan, add: bool, offsets: bool, split: bool
    ) -> list[Row]:
        """Encode texts, or pairs of texts, cut them, and put the template around them."""
        firsts, seconds = _pair_up(texts, pairs)
        encoded = self._encode(firsts, offsets, split)
        others: Sequence[Located | None] = [None] * len(firsts) if seconds is None else self._encode(seconds, offsets, split)
        template = self.template if add else Template()
        if seconds is not None and template.pair is None:
            raise OptionError("the template has no form for a pair of texts; expected one text: leave text_pair out")
        room = None
        if plan.cut and plan.max_length is not None:
            room = plan.max_length - len(added_ids(template, pair=seconds is not None))
            if room < 0:
                raise OptionError(
                    f"max_length is {plan.max_length}, and {plan.max_length - room} special tokens are added to each row; "
                    "expected room for them: choose a greater one, or add_special_tokens=False"
                )
        rows = []
        for first, second in zip(encoded, others, strict=True):
            if room is not None and plan.cut:
                first, second = self._cut(first, second, room, plan.cut)
            for prefix in self._trims if offsets else ():
                first, second = first.trimmed(prefix), second and second.trimmed(prefix)
            rows.append(apply_template(template, first[:2], second and second[:2]))
        return rows

    @property
    def _trims(self) -> tuple[bool, ...]:
        """How the model's post-processor trims offsets; another one stands in its place where bos or eos are added."""
        if self.add_bos_token or self.add_eos_token:
            return ()
        return trims(json.loads(self._model.post_processor))

    def _encode(self, texts: Sequence[str], offsets: bool, split: bool) -> list[Located]:
        special = {number: text for text, number in self._model.special_tokens.items()}
        choice: dict[str, Any] = {}
        if split:
            flags = self._model.token_flags
            special = {number: text for number, text in special.items() if text in flags and not flags[text].special}
            choice = {"allowed_special": set(special.values()), "disallowed_special": ()}
        if not offsets:
            return [Located(ids.tolist(), [], []) for ids in self._tokenizer.encode_batch(texts, **choice)]
        rows = []
        for text in texts:
            found, prepared = self._tokenizer._locate(text, *choice.values()) if split else self._tokenizer._locate(text)
            ids = found.ids.tolist()
            blanks = count_blanks(ids, self._model.vocab, special, prepared) if self._trims else []
            rows.append(Located(ids, list(zip(found.char_starts.tolist(), found.char_ends.tolist(), strict=True)), blanks))
        return rows

    def _cut(self, first: Located, second: Located | None, room: int, strategy: str) -> tuple[Located, Located | None]:
        counts = cut_lengths(len(first.ids), None if second is None else len(second.ids), room, strategy)
        parts = [
            None if one is None else one.kept(kept(len(one.ids), count, self.truncation_side))
            for one, count in zip((first, second), counts, strict=True)
        ]
        assert parts[0] is not None
        return parts[0], parts[1]

    def _columns(self, rows: list[Row], plan: Plan, chosen: dict[str, bool]) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {
            "input_ids": [row.ids for row in rows],
            "token_type_ids": [row.types for row in rows],
            "attention_mask": [[1] * len(row.ids) for row in rows],
            "special_tokens_mask": [row.special for row in rows],
            "offset_mapping": [row.offsets for row in rows],
        }
        columns = {name: column for name, column in columns.items() if chosen.get(name, True)}
        pad_columns(columns, [len(row.ids) for row in rows], plan, self._fills | {"offset_mapping": (0, 0)})
        if chosen["length"]:
            columns["length"] = [len(ids) for ids in columns["input_ids"]]
        return columns

    @property
    def _fills(self) -> dict[str, Any]:
        return {"input_ids": self.pad_token_id, **_FILLS}

    def encode(self, text: str, text_pair: str | None = None, add_special_tokens: bool = True, **options: Any) -> Any:
        """Return the `input_ids` of a call with these options."""
        return self(text, text_pair, add_special_tokens=add_special_tokens, **options)["input_ids"]

    def tokenize(self, text: str, pair: str | None = None, add_special_tokens: bool = False, **options: Any) -> list[str]:
        """Return the tokens of a text, as `tokenizer.json` writes them."""
        tokens: list[str] = self.convert_ids_to_tokens(self.encode(text, pair, add_special_tokens, **options))
        return tokens

    def pad(
        self,
        encoded_inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        padding: Padding = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_attention_mask: bool | None = None,
        return_tensors: str | None = None,
        verbose: bool = True,  # noqa: ARG002 - a part of the signature; there is nothing to be said
    ) -> BatchEncoding:
        """Make encoded rows equally long: what data collators call.

        Parameters
        ----------
        encoded_inputs : dict of lists, or list of dicts
            One row or several, with `input_ids`. `attention_mask`, `token_type_ids` and `special_tokens_mask` are padded with
            it, and the rest is left as it is; so is a mask with `return_attention_mask=False`.
        padding, max_length, pad_to_multiple_of, padding_side, return_attention_mask, return_tensors
            As in a call.
        """
        columns, tensors = _as_columns(encoded_inputs)
        if "input_ids" not in columns:
            raise OptionError(
                f"there is no 'input_ids' among {', '.join(columns)}; expected encoded rows: pass what a call returns"
            )
        rows = columns["input_ids"]
        single = not rows or not isinstance(rows[0], (list, tuple))
        if single:
            columns = {name: [value] for name, value in columns.items()}
        uneven = [name for name, column in columns.items() if len(column) != len(columns["input_ids"])]
        if uneven:
            raise OptionError(
                f"{shorten(uneven[0])} has another number of rows than 'input_ids'; expected one for each: check the rows"
            )
        fills = self._fills
        if not _or("attention_mask" in self.model_input_names, return_attention_mask):
            del fills["attention_mask"]
        elif "attention_mask" not in columns:
            columns["attention_mask"] = [[1] * len(row) for row in columns["input_ids"]]
        plan = self._plan(padding, None, max_length, pad_to_multiple_of, padding_side)
        pad_columns(columns, [len(row) for row in columns["input_ids"]], plan, fills)
        if single:
            columns = {name: column[0] for name, column in columns.items()}
        return as_tensors(columns, return_tensors or tensors)

    # ---- decoding ----------------------------------------------------------------------------------------------------

    def decode(
        self,
        token_ids: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,  # noqa: ARG002 - transformers ignores it for BPE as well
    ) -> Any:
        """Return the text of ids (a number, a list, an array or a tensor), or a list of texts for a list of such.

        Raises
        ------
        TokenIdError
            If an id is not in the vocabulary; `transformers` leaves such out.
        """
        numbers = _as_lists(token_ids["input_ids"] if isinstance(token_ids, Mapping) else token_ids)
        if isinstance(numbers, int):
            numbers = [numbers]
        if numbers and isinstance(numbers[0], (list, tuple)):
            return [self.decode(row, skip_special_tokens) for row in numbers]
        return self._tokenizer.decode(numbers, skip_special_tokens=skip_special_tokens)

    def batch_decode(
        self, sequences: Any, skip_special_tokens: bool = False, clean_up_tokenization_spaces: bool | None = None
    ) -> list[str]:
        """Return the texts of several lists of ids."""
        texts = self.decode(_as_lists(sequences), skip_special_tokens, clean_up_tokenization_spaces)
        return [texts] if isinstance(texts, str) else texts

    # ---- saving ------------------------------------------------------------------------------------------------------

    def save_pretrained(self, save_directory: str | os.PathLike[str]) -> tuple[str, ...]:
        """Save as a folder that `transformers.AutoTokenizer` reads, with the named tokens; return its files.

        As with transformers, the files of a tokenizer that is there already are replaced; other files are not touched.

        Raises
        ------
        OutputError
            If other tools cannot read the folder, since the split pattern cannot be said in their dialect.
        """
        added = added_ids(self.template)
        if added and self.template != self._model.template:
            shown = ", ".join(self.convert_ids_to_tokens(added))
            raise UnsupportedError(
                f"the template adds {shown} to each text, which the saved folder does not say; "
                "expected none: save without it, and give transformers add_bos_token=True or add_eos_token=True"
            )
        obstacle = self._tokenizer.save(save_directory, overwrite=True)
        path = Path(save_directory) / CONFIG_FILE
        if obstacle:
            raise OutputError(
                f"transformers cannot read `{save_directory}`: {obstacle}; expected a pattern that it has: "
                "load the folder with bpejit.load, or train with another pattern"
            )
        config = json.loads(path.read_bytes()) | self.special_tokens_map
        config |= {"padding_side": self.padding_side, "truncation_side": self.truncation_side}
        optional = {
            "model_max_length": self.model_max_length if self.model_max_length != UNLIMITED else None,
            "extra_special_tokens": self.extra_special_tokens,
            "split_special_tokens": self.split_special_tokens,
        }
        config |= {name: value for name, value in optional.items() if value}
        with replacing(path) as file:
            file.write(json.dumps(config, indent=2, ensure_ascii=False).encode() + b"\n")
        return tuple(str(file) for file in sorted(Path(save_directory).iterdir()))


def _or(default: bool, value: bool | None) -> bool:
    return default if value is None else value


def _refuse(**options: Any) -> None:
    for name, value in options.items():
        if value:
            raise UnsupportedError(f"{name}={shorten(value)} is not supported by this face; leave it out, or use transformers")


def _pair_up(texts: str | Sequence[str], pairs: str | Sequence[str] | None) -> tuple[list[str], list[str] | None]:
    """Return the texts of a call as a list, and the second ones of pairs, checked."""
    firsts = [texts] if isinstance(texts, str) else list(texts)
    if isinstance(texts, str) and not pairs:
        pairs = None  # an empty second text is none, as in transformers
    seconds = None if pairs is None else [pairs] if isinstance(pairs, str) else list(pairs)
    _check_texts("text", firsts)
    _check_texts("text_pair", seconds or [])
    if seconds is not None and (isinstance(texts, str) != isinstance(pairs, str) or len(seconds) != len(firsts)):
        raise OptionError(
            f"there are {len(firsts)} texts, and {len(seconds)} in text_pair; expected a second text for each: "
            "pass two strings, or two lists of one length"
        )
    return firsts, seconds


def _check_texts(name: str, texts: Sequence[Any]) -> None:
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise OptionError(
                f"{name} {position} is {shorten(text)}, a {type(text).__name__}; expected a str, or a list of them: "
                "pass text, not tokens or ids"
            )


def _as_lists(values: Any) -> Any:
    """Return arrays and tensors, and lists of such, as lists of numbers."""
    if hasattr(values, "tolist"):
        return values.tolist()
    if isinstance(values, (list, tuple)):
        return [_as_lists(value) for value in values]
    return values


def _as_columns(rows: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], str | None]:
    """Return rows as columns of lists, and of what kind their arrays are, if they are arrays: `np` or `pt`."""
    if not isinstance(rows, Mapping):
        rows = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
    values = rows.get("input_ids", [])
    first = values if hasattr(values, "tolist") else next(iter(values), None)
    kind = None if not hasattr(first, "tolist") else "pt" if type(first).__module__.startswith("torch") else "np"
    return {name: _as_lists(value) for name, value in rows.items()}, kind
