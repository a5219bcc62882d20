"""Hugging Face's `tokenizer.json`, written.

A model that was read from such a file is written with the sections of that file, word for word. For other models the file
has the canonical byte-level form: text is split by a pre-tokenizer (see `bpejit.formats.pipelines`), each piece is written
with GPT-2's byte characters, and merges follow in order. The merges of a ranked model are a list that gives the same ids (see
`bpejit.formats.ranks`), with `ignore_merges`, which leaves whole tokens whole. `tokenizers` then gives the ids that bpejit
gives, special tokens included: both find these first, the leftmost, and of several that begin at one place the longest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from json.encoder import encode_basestring
from operator import itemgetter
from typing import Any

from bpejit.errors import shorten
from bpejit.formats.pipelines import Component, byte_level, pre_tokenizer_for
from bpejit.model import Model, pattern_source, special_bytes
from bpejit.normalization.byte_characters import bytes_to_text, text_to_bytes
from bpejit.normalization.json_fields import canonical
from bpejit.normalization.record import TokenFlags

END_OF_TEXT = "<|endoftext|>"

CONFIG_FILE = "tokenizer_config.json"

_SURROGATE = re.compile("[\ud800-\udfff]")

_FLAG_ORDER = ("single_word", "lstrip", "rstrip", "normalized", "special")


def special_token_obstacle(model: Model) -> str | None:
    """Return why the special tokens cannot be said in `tokenizer.json`, or None if they can.

    One dict holds the byte characters of ordinary tokens and the plain text of special ones, and a key has one id. Where
    whole pre-tokens are looked up in it, a special token must not be found for other bytes than its own.
    """
    for text, token_id in model.special_tokens.items():
        if not text.isascii() and _SURROGATE.search(text):
            return f"the special token {shorten(text)} is not valid UTF-8"
        meant = None
        with suppress(UnicodeEncodeError):
            meant = text_to_bytes(text)
        ordinary = None if meant is None else model.ids.get(meant)
        if ordinary is not None and ordinary != token_id:
            return f"the special token {shorten(text)} is written like the ordinary token {shorten(meant)}"
        if model.ignore_merges and ordinary is None and model.token_flags.get(text, TokenFlags()).single_word:
            return f"the special token {shorten(text)} would be found beside words too, where it is a pre-token"
        if (model.ranked or model.ignore_merges) and ordinary is None and meant not in (None, special_bytes(text)):
            return f"the special token {shorten(text)} is written like the bytes {shorten(meant)}"
    return None


SECTIONS = ("truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder")
"""The sections of the file besides `version` and `model`, in its order."""


def sections_text(content: dict[str, Any]) -> str:
    """Return the JSON of `FileSections` for the parsed content of a file."""
    settings = {key: value for key, value in content["model"].items() if key not in ("vocab", "merges")}
    sections = {name: content.get(name) for name in SECTIONS}
    sections["added_tokens"] = sections["added_tokens"] or []
    return json.dumps({**sections, "model": settings})


def file_sections(model: Model) -> dict[str, Any] | None:
    """Return the sections of the file from which a model was read; None if there are none, or they are not its own.

    They are not where `dataclasses.replace` gave the model another pattern or other special tokens.
    """
    if model.file_sections is None or model.file_sections.pattern != model.pattern:
        return None
    sections: dict[str, Any] = json.loads(model.file_sections.text)
    steps = [canonical(sections[name]) for name in ("normalizer", "pre_tokenizer")]
    if model.preparation is not None and steps != [model.preparation.normalizer, model.preparation.pre_tokenizer]:
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
    """Return the pre-tokenizer with which a model is written.

    Raises
    ------
    PatternError
        If none is proven to split every text as the model does.
    """
    sections = file_sections(model)
    if sections is not None:
        found: Component | None = sections["pre_tokenizer"]
        return found
    if model.preparation is not None:
        prepared: Component | None = json.loads(model.preparation.pre_tokenizer)
        return prepared
    return pre_tokenizer_for(pattern_source(model.pattern), unicode=model.unicode)


def tokenizer_json(model: Model, splitting: Component | None, *, legacy_merges: bool = False) -> bytes:
    """Write a model as `tokenizer.json`.

    Parameters
    ----------
    model : Model
    splitting : dict, optional
        The pre-tokenizer, as `pre_tokenizer` returns it.
    legacy_merges : bool
        Whether merges are written as `"a b"`, as before 2024, and not as `["a", "b"]`: for readers that know nothing else.
    """
    quoted = {token: encode_basestring(bytes_to_text(token)) for token in model.tokens.values()}  # each is in many merges
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
    fields = [*_fields(options), f'"vocab": {_vocab(model, quoted)}', f'"merges": {_merges(model, quoted, legacy_merges)}']
    del quoted
    return _block("{}", [*_fields(head), f'"model": {_block("{}", fields, 1)}'], 0).encode() + b"\n"


def _canonical_sections(model: Model, splitting: Component | None) -> dict[str, Any]:
    added = []
    for text, token_id in sorted(model.special_tokens.items(), key=lambda item: item[1]):
        flags = model.token_flags.get(text, TokenFlags()).as_dict
        added.append({"id": token_id, "content": text, **{name: flags[name] for name in _FLAG_ORDER}})
    normalizer = None if model.preparation is None else json.loads(model.preparation.normalizer)
    values = (None, None, added, normalizer, splitting, json.loads(model.post_processor), byte_level())
    return dict(zip(SECTIONS, values, strict=True))


# Written by hand, one token and one merge a line: readable, and ten times as fast as json's own indentation.


def _vocab(model: Model, quoted: dict[bytes, str]) -> str:
    vocab = {quoted[token]: token_id for token_id, token in model.tokens.items()}
    for text, token_id in model.special_tokens.items():
        vocab.setdefault(_string(text), token_id)
    return _block("{}", (f"{text}: {token_id}" for text, token_id in sorted(vocab.items(), key=itemgetter(1))), 2)


def _merges(model: Model, quoted: dict[bytes, str], legacy: bool) -> str:
    merges = model.merges
    if model.ranked:
        from bpejit.formats.ranks import as_merge_list  # it loads kernels, which trained models need not

        merges = as_merge_list(model)
    form = "[{}, {}]".format
    if legacy:
        quoted = {token: text[1:-1] for token, text in quoted.items()}
        form = '"{} {}"'.format
    return _block("[]", (form(quoted[left], quoted[right]) for left, right in merges), 2)


def tokenizer_config_json(model: Model) -> bytes:
    """Write `tokenizer_config.json`, by which `transformers.AutoTokenizer` knows what to do with `tokenizer.json`."""
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    if END_OF_TEXT in model.special_tokens:
        config["eos_token"] = END_OF_TEXT
    config |= model.config.fields
    return _block("{}", _fields(config), 0).encode() + b"\n"


def gpt2_config_json(model: Model) -> bytes:
    """Write `tokenizer_config.json` for GPT-2's pair of files, by which `transformers.AutoTokenizer` knows special tokens."""
    end = END_OF_TEXT if END_OF_TEXT in model.special_tokens else None
    added = {}
    for text, token_id in sorted(model.special_tokens.items(), key=itemgetter(1)):
        flags = model.token_flags.get(text, TokenFlags()).as_dict
        added[str(token_id)] = {"content": text, **{name: flags[name] for name in _FLAG_ORDER}}
    config: dict[str, Any] = {
        "tokenizer_class": "GPT2Tokenizer",
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        # The class would add `<|endoftext|>` for each of these that is not given.
        **dict.fromkeys(("bos_token", "eos_token", "unk_token"), end),
        "added_tokens_decoder": added,
        **model.config.fields,
    }
    return _block("{}", _fields(config), 0).encode() + b"\n"


def _string(text: str) -> str:
    # Surrogates occur only in what no other tool is given (see `special_token_obstacle`); UTF-8 cannot say them.
    if text.isascii() or not _SURROGATE.search(text):
        return encode_basestring(text)
    return json.dumps(text)


def _fields(values: dict[str, Any]) -> list[str]:
    return [f'"{key}": {_value(value)}' for key, value in values.items()]


def _value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isascii() or not _SURROGATE.search(text) else json.dumps(value)


def _block(brackets: str, lines: Iterable[str], depth: int) -> str:
    indent = "\n" + "  " * depth
    return brackets[0] + indent + "  " + f",{indent}  ".join(lines) + indent + brackets[1]
