"""Hugging Face's `tokenizer.json`: written in its canonical byte-level form.

In that form text is split by one regular expression or by several in turn, each piece is written with GPT-2's byte
characters, and merges follow in order; those of a ranked model as a list that gives the same ids (see
`bpejit.formats.ranks`), with `ignore_merges`, which leaves whole tokens whole. `tokenizers` then gives the ids that bpejit
gives, special tokens included: both find these first, the leftmost, and of several that begin at one place the longest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from json.encoder import encode_basestring
from operator import itemgetter
from typing import Any

from bpejit.bytemap import bytes_to_text, text_to_bytes
from bpejit.model import Model, special_bytes
from bpejit.preparation.record import TokenFlags
from bpejit.split.presets import Pattern

END_OF_TEXT = "<|endoftext|>"

_FLAG_ORDER = ("single_word", "lstrip", "rstrip", "normalized", "special")


def special_token_obstacle(model: Model) -> str | None:
    """Return why the special tokens cannot be said in `tokenizer.json`, or None if they can.

    One dict holds the byte characters of ordinary tokens and the plain text of special ones, and a key has one id. Where
    whole pre-tokens are looked up in it, a special token must not be found for other bytes than its own.
    """
    for text, token_id in model.special_tokens.items():
        if any("\ud800" <= character <= "\udfff" for character in text):
            return f"the special token {text!r} is not valid UTF-8"
        meant = None
        with suppress(UnicodeEncodeError):
            meant = text_to_bytes(text)
        ordinary = None if meant is None else model.ids.get(meant)
        if ordinary is not None and ordinary != token_id:
            return f"the special token {text!r} is written like the ordinary token {meant!r}"
        if model.ignore_merges and ordinary is None and model.token_flags.get(text, TokenFlags()).single_word:
            return f"the special token {text!r} would be found beside words too, where it is a pre-token"
        if (model.ranked or model.ignore_merges) and ordinary is None and meant not in (None, special_bytes(text)):
            return f"the special token {text!r} is written like the bytes {meant!r}"
    return None


def tokenizer_json(model: Model, split_pattern: Pattern, *, legacy_merges: bool = False) -> bytes:
    """Write a model as `tokenizer.json`.

    Parameters
    ----------
    model : Model
    split_pattern : str or tuple of str
        The model's pattern in the dialect of Hugging Face's `Split` (see `bpejit.split.translate`); of a sequence, each
        expression is a step of its own. A model with a preparation has its own steps instead.
    legacy_merges : bool
        Whether merges are written as `"a b"`, as before 2024, and not as `["a", "b"]`: for readers that know nothing else.
    """
    quoted = {token: encode_basestring(bytes_to_text(token)) for token in model.tokens.values()}  # each is in many merges
    added = []
    for text, token_id in sorted(model.special_tokens.items(), key=lambda item: item[1]):
        flags = model.token_flags.get(text, TokenFlags()).as_dict
        added.append({"id": token_id, "content": text, **{name: flags[name] for name in _FLAG_ORDER}})
    stages = (split_pattern,) if isinstance(split_pattern, str) else split_pattern
    splits = [{"type": "Split", "pattern": {"Regex": stage}, "behavior": "Isolated", "invert": False} for stage in stages]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    normalizer, pre_tokenizer = None, {"type": "Sequence", "pretokenizers": [*splits, byte_level]}
    if model.preparation is not None:
        normalizer = json.loads(model.preparation.normalizer)
        pre_tokenizer = json.loads(model.preparation.pre_tokenizer)
    head = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": json.loads(model.post_processor),
        "decoder": byte_level,
    }
    options = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": model.ranked or model.ignore_merges,
    }
    fields = [*_fields(options), f'"vocab": {_vocab(model, quoted)}', f'"merges": {_merges(model, quoted, legacy_merges)}']
    del quoted
    return _block("{}", [*_fields(head), f'"model": {_block("{}", fields, 1)}'], 0).encode() + b"\n"


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
    return _block("{}", _fields(config), 0).encode() + b"\n"


def _string(text: str) -> str:
    # Surrogates occur only in what no other tool is given (see `special_token_obstacle`); UTF-8 cannot say them.
    if text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text):
        return encode_basestring(text)
    return json.dumps(text)


def _fields(values: dict[str, Any]) -> list[str]:
    return [f'"{key}": {_value(value)}' for key, value in values.items()]


def _value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if any("\ud800" <= character <= "\udfff" for character in text) else text


def _block(brackets: str, lines: Iterable[str], depth: int) -> str:
    indent = "\n" + "  " * depth
    return brackets[0] + indent + "  " + f",{indent}  ".join(lines) + indent + brackets[1]
