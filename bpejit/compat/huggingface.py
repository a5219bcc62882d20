"""A tokenizer with the interface of `transformers.PreTrainedTokenizerFast`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import add
from pathlib import Path
from typing import Any, NoReturn

from bpejit import arguments
from bpejit.compat.chat_templates import render_chats
from bpejit.compat.model_inputs import (
    UNLIMITED,
    BatchEncoding,
    Padding,
    Truncation,
    added_ids,
    as_tensors,
    make_plan,
    padded_length,
    padded_rows,
)
from bpejit.compat.named_tokens import NamedTokens, add_tokens, as_added_token
from bpejit.compat.row_encoding import RowEncoder, trims
from bpejit.encoding.codec import Codec
from bpejit.encoding.decoder import decode_batch
from bpejit.errors import OptionError, OutputError, UnsupportedError, shorten
from bpejit.formats.any_format import save_model
from bpejit.formats.settings_beside import adding_template
from bpejit.normalization.pipeline_config import Template, make_template
from bpejit.storage.files import replacing
from bpejit.tokenizer_config import NAMED

CONFIG_FILE = "tokenizer_config.json"

_FILLS = {"token_type_ids": 0, "attention_mask": 0, "special_tokens_mask": 1}


class HuggingFaceTokenizer(NamedTokens):
    """A tokenizer with the interface of `PreTrainedTokenizerFast`; created by `Tokenizer.as_hf`.

    Options and results are the same as in transformers 5 for the folder that `save` writes. Pre-tokenized input, overflowing
    tokens and `backend_tokenizer` raise UnsupportedError; methods for training do not exist. Unlike in transformers, an id
    without a token is an error in `decode`, and padding never warns.

    Parameters
    ----------
    codec : Codec
        Encodes and decodes; shared with the tokenizer.
    bos_token, eos_token, unk_token, sep_token, pad_token, cls_token, mask_token : str, optional
        Tokens of the vocabulary with these roles; by default those of `Model.config`, as all options below. `eos_token` falls
        back to `<|endoftext|>`, if there is such a token and the settings were not read from a `tokenizer_config.json`.
    extra_special_tokens : list of str
        Further tokens in `all_special_tokens`.
    add_bos_token, add_eos_token : bool
        Whether `bos_token` and `eos_token` are added to each text, unless a call has `add_special_tokens=False`.
    template : Template, optional
        The special tokens added to each text, if not these two; by default `Model.template`.
    model_max_length : int
        The length for `truncation=True` and `padding="max_length"`.
    padding_side, truncation_side : str
        `right` or `left`.
    split_special_tokens : bool
        Whether special tokens are encoded as ordinary text.
    name_or_path : str
    chat_template : str or dict of str to str, optional
        A Jinja template, or several by name.
    """

    is_fast = True
    pad_token_type_id = 0
    clean_up_tokenization_spaces = False

    def __init__(
        self,
        codec: Codec,
        *,
        add_bos_token: bool = False,
        add_eos_token: bool = False,
        template: Template | None = None,
        name_or_path: str = "",
        **settings: Any,
    ) -> None:
        super().__init__(codec.model)
        self._codec = codec
        config = codec.model.config
        if config.eos_token is None and config.others is None and "<|endoftext|>" in codec.model.special_tokens:
            config = replace(config, eos_token="<|endoftext|>")
        config = replace(config, **{name: value for name, value in settings.items() if value is not None})
        for name in NAMED:
            setattr(self, name, getattr(config, name))
        self.extra_special_tokens = config.extra_special_tokens or []
        self._template = template
        self.add_bos_token, self.add_eos_token = add_bos_token, add_eos_token
        if template and (add_bos_token or add_eos_token):
            raise OptionError("both a template and add_bos_token or add_eos_token are given; expected one: leave out the other")
        self.model_max_length = config.model_max_length or UNLIMITED
        self.padding_side = config.padding_side or "right"
        self.truncation_side = config.truncation_side or "right"
        self.split_special_tokens = bool(config.split_special_tokens)
        self.name_or_path = name_or_path
        self.chat_template = config.chat_template
        names = (config.others or {}).get("model_input_names")
        self.model_input_names = list(names) if isinstance(names, list) else ["input_ids", "attention_mask"]

    def __repr__(self) -> str:
        return (
            f"<bpejit.HuggingFaceTokenizer: {len(self)} tokens, model_max_length={self.model_max_length}, "
            f"padding_side={self.padding_side!r}, special_tokens={self.special_tokens_map}>"
        )

    @property
    def backend_tokenizer(self) -> NoReturn:
        """Raise UnsupportedError: there is no `tokenizers.Tokenizer`."""
        raise UnsupportedError(
            "there is no backend_tokenizer, since bpejit encodes; expected the methods of this object, or those of "
            "bpejit.Tokenizer: for a tokenizers.Tokenizer, save the tokenizer and load its `tokenizer.json`"
        )

    # ---- added tokens ------------------------------------------------------------------------------------------------

    def add_tokens(self, new_tokens: Any, special_tokens: bool = False) -> int:
        """Add tokens to this object, with the ids after the last one; return how many were added or changed.

        The `bpejit.Tokenizer` from which the object was created is unchanged.

        Parameters
        ----------
        new_tokens : str, AddedToken, or list of these
        special_tokens : bool
            Whether the tokens are special: left out by `decode(..., skip_special_tokens=True)`.
        """
        if not new_tokens:
            return 0
        given = new_tokens if isinstance(new_tokens, (list, tuple)) else [new_tokens]
        model, count = add_tokens(self._codec.model, [as_added_token(token, special=special_tokens) for token in given])
        if count:
            self._codec = Codec(model)
            self.update_model(model)
        return count

    def add_special_tokens(self, special_tokens_dict: Mapping[str, Any], replace_extra_special_tokens: bool = True) -> int:
        """Name special tokens, as in `{"pad_token": "<|pad|>"}`; return how many of them were added to the vocabulary."""
        named = dict(special_tokens_dict)
        if "additional_special_tokens" in named and not named.get("extra_special_tokens"):
            named["extra_special_tokens"] = named.pop("additional_special_tokens")
        for name in named:
            if name not in (*NAMED, "extra_special_tokens"):
                raise OptionError(
                    f"there is no special token named {shorten(name)}; expected one of {', '.join(NAMED)}, "
                    "extra_special_tokens: choose one"
                )
        extra = list(named.get("extra_special_tokens", ()))
        if not replace_extra_special_tokens:
            extra = [token for token in extra if str(token) not in self.extra_special_tokens]
        named_tokens = [token for name, token in named.items() if name in NAMED]
        count = self.add_tokens([*named_tokens, *extra], special_tokens=True)
        for name, value in named.items():
            if name in NAMED:
                setattr(self, name, value)
        if extra:
            self.extra_special_tokens = extra if replace_extra_special_tokens else [*self.extra_special_tokens, *extra]
        return count

    # ---- encoding ----------------------------------------------------------------------------------------------------

    @property
    def template(self) -> Template:
        """The special tokens added to each text."""
        if self.add_bos_token or self.add_eos_token:
            bos = [self.bos_token] if self.add_bos_token and self.bos_token is not None else []
            eos = [self.eos_token] if self.add_eos_token and self.eos_token is not None else []
            return make_template(adding_template(bos, eos, self.get_vocab(), second=True)) or Template()
        return self._template or self._codec.model.template or Template()

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """Return the number of tokens that the template adds to a text, or to a pair."""
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
        verbose: bool = True,  # noqa: ARG002 - part of the signature
        split_special_tokens: bool | None = None,
    ) -> BatchEncoding:
        """Return the ids of a text, or of several texts, and the other inputs of a model.

        The options are the same as for `PreTrainedTokenizerFast.__call__`; see the documentation of `transformers`.

        Raises
        ------
        OptionError
            If options contradict each other, or padding is requested without a padding token.
        UnsupportedError
            For `is_split_into_words`, `stride`, `return_overflowing_tokens`, and tensors of other packages.
        """
        _refuse(is_split_into_words=is_split_into_words, stride=stride, return_overflowing_tokens=return_overflowing_tokens)
        plan = make_plan(self, padding, truncation, max_length, pad_to_multiple_of, padding_side)
        chosen = {
            "token_type_ids": _or("token_type_ids" in self.model_input_names, return_token_type_ids),
            "attention_mask": _or("attention_mask" in self.model_input_names, return_attention_mask),
            "special_tokens_mask": return_special_tokens_mask,
            "offset_mapping": return_offsets_mapping,
        }
        split = _or(self.split_special_tokens, split_special_tokens)
        results = []
        for texts, pairs in ((text, text_pair), (text_target, text_pair_target)):
            if texts is not None:
                encoder = RowEncoder(self._codec, self.template, self._trims)
                rows = encoder.encode(
                    *_pair_up(texts, pairs), plan, add=add_special_tokens, offsets=return_offsets_mapping, split=split
                )
                inputs = padded_rows(rows.chosen(chosen), plan, self._fills).inputs(return_tensors is not None, return_length)
                if isinstance(texts, str) and return_tensors is None:
                    inputs = {name: column if name == "length" else column[0] for name, column in inputs.items()}
                results.append(as_tensors(inputs, return_tensors))
        if not results:
            raise OptionError("neither text nor text_target is given; expected at least one: pass it")
        if len(results) == 2:
            results[0]["labels"] = results[1]["input_ids"]
        return results[0]

    @property
    def _trims(self) -> tuple[bool, ...]:
        """The `add_prefix_space` of each post-processor that trims offsets; none if bos or eos are added."""
        if self.add_bos_token or self.add_eos_token:
            return ()
        return trims(json.loads(self._codec.model.post_processor))

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
        verbose: bool = True,  # noqa: ARG002 - part of the signature
    ) -> BatchEncoding:
        """Pad encoded rows to one length; data collators call this.

        Parameters
        ----------
        encoded_inputs : dict of lists, or list of dicts
            One row or several, with `input_ids`. `attention_mask`, `token_type_ids` and `special_tokens_mask` are padded too;
            other columns, and a mask with `return_attention_mask=False`, are not.
        padding, max_length, pad_to_multiple_of, padding_side, return_attention_mask, return_tensors
            As in a call.
        """
        columns, tensors = _as_columns(encoded_inputs)
        if "input_ids" not in columns:
            raise OptionError(
                f"the columns {', '.join(columns)} lack 'input_ids'; expected encoded rows: pass the result of a call"
            )
        rows = columns["input_ids"]
        single = not rows or not isinstance(rows[0], (list, tuple))
        if single:
            columns = {name: [value] for name, value in columns.items()}
            rows = [rows]
        uneven = [name for name, column in columns.items() if len(column) != len(rows)]
        if uneven:
            raise OptionError(
                f"{shorten(uneven[0])} and 'input_ids' differ in the number of rows; expected equal numbers: check the rows"
            )
        fills = self._fills
        if not _or("attention_mask" in self.model_input_names, return_attention_mask):
            del fills["attention_mask"]
        elif "attention_mask" not in columns:
            columns["attention_mask"] = [[1] * len(row) for row in rows]
        plan = make_plan(self, padding, None, max_length, pad_to_multiple_of, padding_side)
        if plan.padding is not None and rows:
            target = padded_length(max(map(len, rows)), plan)
            for name in columns.keys() & fills.keys():
                added = [[fills[name]] * (target - len(row)) for row in columns[name]]
                sides = (columns[name], added) if plan.side == "right" else (added, columns[name])
                columns[name] = list(map(add, *sides))
        if single:
            columns = {name: column[0] for name, column in columns.items()}
        return as_tensors(columns, return_tensors or tensors)

    # ---- chat templates ----------------------------------------------------------------------------------------------

    def get_chat_template(self, chat_template: str | None = None, tools: Sequence[Any] | None = None) -> str:
        """Return the template that `apply_chat_template` uses for these arguments."""
        templates = self.chat_template
        if not isinstance(templates, dict):
            found = templates if chat_template is None else chat_template
            if found is None:
                raise OptionError(
                    "there is no chat template; expected one: set `tokenizer.chat_template`, or pass chat_template"
                )
            return found
        if chat_template is not None:
            return templates.get(chat_template, chat_template)
        name = "tool_use" if tools is not None and "tool_use" in templates else "default"
        if name not in templates:
            raise OptionError(
                f"there are chat templates {', '.join(sorted(templates))}, and none is named 'default'; "
                "expected the name of one: pass it as chat_template"
            )
        return templates[name]

    def apply_chat_template(
        self,
        conversation: Any,
        tools: Sequence[dict[str, Any]] | None = None,
        documents: Sequence[dict[str, str]] | None = None,
        chat_template: str | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool | str = False,
        tokenize: bool = True,
        sanitize_control_tokens: bool = False,
        padding: Padding = False,
        truncation: Truncation = False,
        max_length: int | None = None,
        return_tensors: str | None = None,
        return_dict: bool = True,
        return_assistant_tokens_mask: bool = False,
        tokenizer_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return the ids, or the text, of a conversation, or of several.

        The options and the result are the same as in transformers 5: special tokens are found in the whole text, also in the
        contents of messages. For contents that are not trusted, encode with `bpejit.Tokenizer.encode_segments`.

        Parameters
        ----------
        conversation : list of dict, or list of such lists
            Messages with `role` and `content`.
        tools, documents, add_generation_prompt, **kwargs
            Passed to the template, with the tokens of `special_tokens_map`.
        chat_template : str, optional
            The template, or its name if there are several; by default the attribute `chat_template`.
        continue_final_message : bool or str
            Whether the text ends with the content of the last message; a string is the key of the message to continue with.
        tokenize : bool
            If False, the result is text.
        padding, truncation, max_length, return_tensors, tokenizer_kwargs
            As in a call.
        return_dict : bool
            If False, the result is `input_ids` only.

        Raises
        ------
        OptionError
            If there is no template, or it does not accept the conversation.
        UnsupportedError
            If Jinja2 is not installed; for `sanitize_control_tokens`, `return_assistant_tokens_mask`, and functions as tools.
        """
        _refuse(sanitize_control_tokens=sanitize_control_tokens, return_assistant_tokens_mask=return_assistant_tokens_mask)
        if isinstance(conversation, (list, tuple)) and not conversation:
            raise OptionError("the conversation is empty; expected at least one message: pass one")
        if continue_final_message and add_generation_prompt:
            raise OptionError(
                "both continue_final_message and add_generation_prompt are given; expected one of them: "
                "continue the last message, or begin a new one"
            )
        batched = isinstance(conversation, (list, tuple)) and (
            isinstance(conversation[0], (list, tuple)) or hasattr(conversation[0], "messages")
        )
        rendered = render_chats(
            self.get_chat_template(chat_template, tools),
            conversation if batched else [conversation],
            tools=tools,
            documents=documents,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            variables={**self.special_tokens_map, **kwargs},
        )
        texts = rendered if batched else rendered[0]
        if not tokenize:
            return texts
        batch = self(
            texts,
            padding=padding,
            truncation=truncation,
            max_length=max_length,
            add_special_tokens=False,
            return_tensors=return_tensors,
            **(tokenizer_kwargs or {}),
        )
        return batch if return_dict else batch["input_ids"]

    # ---- decoding ----------------------------------------------------------------------------------------------------

    def decode(
        self,
        token_ids: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,  # noqa: ARG002 - transformers ignores it for BPE as well
    ) -> Any:
        """Return the text of ids (an int, a list, an array or a tensor), or the texts of a list of these.

        Raises
        ------
        TokenIdError
            If an id is not in the vocabulary; `transformers` skips such ids.
        """
        numbers = _as_lists(token_ids["input_ids"] if isinstance(token_ids, Mapping) else token_ids)
        if isinstance(numbers, int):
            numbers = [numbers]
        if numbers and isinstance(numbers[0], (list, tuple)):
            if any(not isinstance(row, (list, tuple)) or (row and isinstance(row[0], (list, tuple))) for row in numbers):
                return [self.decode(row, skip_special_tokens) for row in numbers]
            return decode_batch(self._codec.encoder, numbers, errors="replace", skip_special_tokens=skip_special_tokens)
        return self._codec.decode(numbers, skip_special_tokens=skip_special_tokens)

    def batch_decode(
        self, sequences: Any, skip_special_tokens: bool = False, clean_up_tokenization_spaces: bool | None = None
    ) -> list[str]:
        """Return the texts of several lists of ids."""
        texts = self.decode(_as_lists(sequences), skip_special_tokens, clean_up_tokenization_spaces)
        return [texts] if isinstance(texts, str) else texts

    # ---- saving ------------------------------------------------------------------------------------------------------

    def save_pretrained(self, save_directory: str | os.PathLike[str]) -> tuple[str, ...]:
        """Save as a folder that `transformers.AutoTokenizer` reads; return the paths of its files.

        As in transformers, the files of an existing tokenizer are replaced; other files are not touched.

        Raises
        ------
        OutputError
            If other tools cannot read the folder, because the split pattern has no equivalent in their dialect.
        """
        added = added_ids(self.template)
        if added and self.template != self._codec.model.template:
            shown = ", ".join(self.convert_ids_to_tokens(added))
            raise UnsupportedError(
                f"the template adds {shown} to each text, which cannot be saved; "
                "expected no such template: save without it, and pass add_bos_token=True or add_eos_token=True to transformers"
            )
        folder = arguments.path("save_directory", save_directory, error=OutputError)
        model = self._codec.model
        if self.chat_template is not None:
            model = replace(model, config=replace(model.config, chat_template=self.chat_template))
        obstacle = save_model(model, folder, overwrite=True)
        path = Path(save_directory) / CONFIG_FILE
        if obstacle:
            raise OutputError(
                f"transformers cannot read `{save_directory}`: {obstacle}; expected a pattern that it supports: "
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
            raise UnsupportedError(
                f"{name}={shorten(value)} is not supported; expected no {name}: leave it out, or use transformers"
            )


def _pair_up(texts: str | Sequence[str], pairs: str | Sequence[str] | None) -> tuple[list[str], list[str] | None]:
    """Return the texts, and the second texts of pairs, as lists; raise if they do not match."""
    firsts = [texts] if isinstance(texts, str) else list(arguments.texts("text", texts))
    if isinstance(texts, str) and not pairs:
        pairs = None  # as in transformers, an empty second text is ignored
    seconds = None if pairs is None else [pairs] if isinstance(pairs, str) else list(arguments.texts("text_pair", pairs))
    for name, given in (("text", firsts), ("text_pair", seconds or [])):
        for position, text in enumerate(given):
            if not isinstance(text, str):
                raise OptionError(
                    f"{name} {position} is {shorten(text)}, a {type(text).__name__}; expected a str, or a list of them: "
                    "pass text, not tokens or ids"
                )
    if seconds is not None and (isinstance(texts, str) != isinstance(pairs, str) or len(seconds) != len(firsts)):
        raise OptionError(
            f"text has {len(firsts)} texts, and text_pair {len(seconds)}; expected a second text for each: "
            "pass two strings, or two lists of one length"
        )
    return firsts, seconds


def _as_lists(values: Any) -> Any:
    """Convert arrays and tensors, and lists of these, to lists of numbers."""
    if hasattr(values, "tolist"):
        return values.tolist()
    if isinstance(values, (list, tuple)):
        if set(map(type, values)) <= {int}:
            return list(values)  # a tenth of the time
        return [_as_lists(value) for value in values]
    return values


def _as_columns(rows: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], str | None]:
    """Return rows as columns of lists, and the type of their arrays: `np`, `pt`, or None for lists."""
    if not isinstance(rows, Mapping):
        rows = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
    values = rows.get("input_ids", [])
    first = values if hasattr(values, "tolist") else next(iter(values), None)
    kind = None if not hasattr(first, "tolist") else "pt" if type(first).__module__.startswith("torch") else "np"
    return {name: _as_lists(value) for name, value in rows.items()}, kind
