"""Write Hugging Face's `tokenizer.json`.

A model that was read from such a file is written with the sections of that file, unchanged. For other models the file has the
canonical byte-level form: a pre-tokenizer that splits text (see `bpejit.formats.pipelines`) and converts it to GPT-2's byte
characters, and merges in order. The merges of a ranked model are written as a list that gives the same ids (see
`bpejit.formats.ranked_merges`), with `ignore_merges`, which keeps pre-tokens that are tokens whole. `tokenizers` then gives
the same ids as bpejit. Both also find special tokens in the same way: the leftmost first, and the longest at each position.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from operator import itemgetter
from typing import Any

from bpejit.errors import shorten
from bpejit.formats.pipelines import Component, byte_level, pre_tokenizer_for
from bpejit.formats.vocabulary_lines import vocabulary_and_merges
from bpejit.model import Model, pattern_source, special_bytes
from bpejit.normalization.byte_characters import decode_byte_characters
from bpejit.normalization.json_fields import canonical
from bpejit.normalization.pipeline_config import TokenFlags

END_OF_TEXT = "<|endoftext|>"

CONFIG_FILE = "tokenizer_config.json"

_MARK = "\0"

_INDENT = b" " * 6

_SURROGATE = re.compile("[\ud800-\udfff]")

_FLAG_ORDER = ("single_word", "lstrip", "rstrip", "normalized", "special")


def special_token_obstacle(model: Model) -> str | None:
    """Return why the special tokens cannot be written to `tokenizer.json`, or None if they can.

    The vocabulary is one dict, with ordinary tokens in byte characters and special tokens in plain text, and each key has one
    id. If whole pre-tokens are looked up in it, the text of a special token must not represent other bytes than its own.
    """
    for text, token_id in model.special_tokens.items():
        if not text.isascii() and _SURROGATE.search(text):
            return f"the special token {shorten(text)} is not valid UTF-8"
        decoded = None
        with suppress(UnicodeEncodeError):
            decoded = decode_byte_characters(text)
        ordinary = None if decoded is None else model.find(decoded)
        if ordinary is not None and ordinary != token_id:
            return f"the special token {shorten(text)} is written like the ordinary token {shorten(decoded)}"
        if model.ignore_merges and ordinary is None and model.token_flags.get(text, TokenFlags()).single_word:
            return f"the special token {shorten(text)} would be found beside words too, where it is a pre-token"
        if (model.ranked or model.ignore_merges) and ordinary is None and decoded not in (None, special_bytes(text)):
            return f"the special token {shorten(text)} is written like the bytes {shorten(decoded)}"
    return None


SECTIONS = ("truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder")
"""The sections of the file other than `version` and `model`, in order."""


def sections_text(content: dict[str, Any]) -> str:
    """Return the JSON of `FileSections` for the parsed content of a file."""
    settings = {key: value for key, value in content["model"].items() if key not in ("vocab", "merges")}
    sections = {name: content.get(name) for name in SECTIONS}
    sections["added_tokens"] = sections["added_tokens"] or []
    return json.dumps({**sections, "model": settings})


def file_sections(model: Model) -> dict[str, Any] | None:
    """Return the sections of the file that a model was read from, or None if there are none or they do not match the model.

    They do not match if `dataclasses.replace` changed the pattern or the special tokens of the model.
    """
    if model.file_sections is None or model.file_sections.pattern != model.pattern:
        return None
    sections: dict[str, Any] = json.loads(model.file_sections.text)
    steps = [canonical(sections[name]) for name in ("normalizer", "pre_tokenizer")]
    if model.pipeline is not None and steps != [model.pipeline.normalizer, model.pipeline.pre_tokenizer]:
        return None
    added = sections["added_tokens"]
    flags = {token["content"]: TokenFlags(**{name: token.get(name, False) for name in _FLAG_ORDER}) for token in added}
    same = (
        {token["content"]: token["id"] for token in added} == model.special_tokens
        and {text: found for text, found in flags.items() if found != TokenFlags()} == model.token_flags
        and canonical(sections["post_processor"]) == model.post_processor
        and sections["model"].get("ignore_merges", False) == model.ignore_merges
    )
    return sections if same else None


def pre_tokenizer(model: Model) -> Component | None:
    """Return the pre-tokenizer for a model.

    Raises
    ------
    PatternError
        If no pre-tokenizer is proven to split every text in the same way.
    """
    sections = file_sections(model)
    if sections is not None:
        found: Component | None = sections["pre_tokenizer"]
        return found
    if model.pipeline is not None:
        stored: Component | None = json.loads(model.pipeline.pre_tokenizer)
        return stored
    return pre_tokenizer_for(pattern_source(model.pattern), unicode=model.unicode)


def tokenizer_json(model: Model, splitting: Component | None, *, legacy_merges: bool = False) -> bytes:
    """Return the content of `tokenizer.json`.

    Parameters
    ----------
    model : Model
    splitting : dict, optional
        The result of `pre_tokenizer`.
    legacy_merges : bool
        Write merges as `"a b"`, as was usual before 2024, instead of `["a", "b"]`, for readers that do not support lists.
    """
    sections = file_sections(model)
    head = {"version": "1.0", **(_canonical_sections(model, splitting) if sections is None else sections)}
    options = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": model.ranked or model.ignore_merges,
        **head.pop("model", {}),
    }
    # JSON escapes control characters, so there are no other zero bytes.
    fields = [*_fields(options), f'"vocab": {_block("{}", [_MARK], 2)}', f'"merges": {_block("[]", [_MARK], 2)}']
    text = _block("{}", [*_fields(head), f'"model": {_block("{}", fields, 1)}'], 0).encode() + b"\n"
    before, between, after = text.split(_INDENT + _MARK.encode())
    vocab, merges = vocabulary_and_merges(model, legacy_merges=legacy_merges)
    return b"".join([before, vocab or _INDENT, between, merges or _INDENT, after])


def _canonical_sections(model: Model, splitting: Component | None) -> dict[str, Any]:
    added = []
    for text, token_id in sorted(model.special_tokens.items(), key=lambda item: item[1]):
        flags = model.token_flags.get(text, TokenFlags()).as_dict
        added.append({"id": token_id, "content": text, **{name: flags[name] for name in _FLAG_ORDER}})
    normalizer = None if model.pipeline is None else json.loads(model.pipeline.normalizer)
    values = (None, None, added, normalizer, splitting, json.loads(model.post_processor), byte_level())
    return dict(zip(SECTIONS, values, strict=True))


def tokenizer_config_json(model: Model) -> bytes:
    """Return the content of `tokenizer_config.json`, which `transformers.AutoTokenizer` requires beside `tokenizer.json`."""
    config = model.config.written(END_OF_TEXT if END_OF_TEXT in model.special_tokens else None)
    return _block("{}", _fields(config), 0).encode() + b"\n"


def gpt2_config_json(model: Model) -> bytes:
    """Return the content of `tokenizer_config.json` for GPT-2's pair of files, which lists the special tokens."""
    end = END_OF_TEXT if END_OF_TEXT in model.special_tokens else None
    added = {}
    for text, token_id in sorted(model.special_tokens.items(), key=itemgetter(1)):
        flags = model.token_flags.get(text, TokenFlags()).as_dict
        added[str(token_id)] = {"content": text, **{name: flags[name] for name in _FLAG_ORDER}}
    config: dict[str, Any] = {
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        # The class uses `<|endoftext|>` for each of these that is missing.
        **dict.fromkeys(("bos_token", "eos_token", "unk_token"), end if model.config.others is None else None),
        **model.config.written(None),
        "tokenizer_class": "GPT2Tokenizer",
        "added_tokens_decoder": added,
    }
    return _block("{}", _fields(config), 0).encode() + b"\n"


def _fields(values: dict[str, Any]) -> list[str]:
    return [f'"{key}": {_value(value)}' for key, value in values.items()]


def _value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isascii() or not _SURROGATE.search(text) else json.dumps(value)


def _block(brackets: str, lines: Iterable[str], depth: int) -> str:
    indent = "\n" + "  " * depth
    return brackets[0] + indent + "  " + f",{indent}  ".join(lines) + indent + brackets[1]
