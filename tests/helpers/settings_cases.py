"""Folders with tokens and settings beside `tokenizer.json`, or beside GPT-2's pair.

`tests/formats/settings.json` has what `AutoTokenizer` of transformers 4 and 5 gives for each: `tests/readers/store_settings.py`
stores it, and `tests/readers/test_acceptance.py` tests that it is current.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from helpers import settings_observer
from helpers.huggingface import BYTE_LEVEL, GPT2_LEVEL, vocabulary

STORED = Path(__file__).parent.parent / "formats" / "settings.json"

END = "<|endoftext|>"


def added(content: str, **flags: bool) -> dict[str, Any]:
    """Return an entry of `added_tokens_decoder`."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"content": content, **plain, **flags}


def config(class_name: str | None = "PreTrainedTokenizerFast", **fields: Any) -> dict[str, Any]:
    named = {} if class_name is None else {"tokenizer_class": class_name}
    return {"tokenizer_config.json": {**named, **fields}}


VOCAB, MERGES = vocabulary()
LAST = len(VOCAB)
"""The id of `END`, which is the last one."""

DECODER = {str(LAST): added(END), str(LAST + 1): added("<x>")}

CASES: dict[str, dict[str, Any]] = {
    "nothing": config(),
    "token": config(added_tokens_decoder=DECODER),
    "token that is not special": config(added_tokens_decoder={str(LAST + 1): added("<x>", special=False, normalized=True)}),
    "order of ids": config(added_tokens_decoder={str(LAST + 2): added("<x>"), str(LAST + 1): added("<y>")}),
    "gap": config(added_tokens_decoder={str(LAST + 9): added("<x>"), str(LAST + 5): added("<y>")}),
    "other flags": config(added_tokens_decoder={str(LAST): added(END, lstrip=True, rstrip=True)}),
    "flag special removed": config(added_tokens_decoder={str(LAST): added(END, special=False)}),
    "token of the vocabulary": config(added_tokens_decoder={str(LAST + 1): added("as", special=False)}),
    "pad": config(pad_token="<pad>", eos_token=END),
    "pad as an object": config(pad_token={"__type": "AddedToken", **added("<pad>", lstrip=True)}),
    "roles": config(bos_token="<s>", eos_token="</s>", unk_token="<x>", sep_token="<y>", pad_token="<pad>", cls_token="<s>"),
    "null": config(eos_token=None, bos_token=None),
    "additional": config(additional_special_tokens=["<x>", "<y>"]),
    "extra": config(extra_special_tokens={"image_token": "<x>"}),
    "prefix": config(add_prefix_space=True),
    "split special": config(split_special_tokens=True, eos_token=END),
    "sides": config(padding_side="left", truncation_side="left", pad_token=END, model_max_length=77),
    "template": config(chat_template="{{ messages[0].content }}"),
    "template in a file": {**config(chat_template="old"), "chat_template.jinja": "new"},
    "templates": config(chat_template=[{"name": "default", "template": "A"}, {"name": "tool", "template": "B"}]),
    "older file of tokens": {**config(), "added_tokens.json": {"<y>": LAST + 1, "<x>": LAST + 2}},
    "map": {**config(), "special_tokens_map.json": {"pad_token": added("<pad>"), "additional_special_tokens": ["<x>"]}},
    "GPT-2": config("GPT2Tokenizer"),
    "Llama": config("LlamaTokenizerFast", bos_token="<s>", eos_token="</s>", unk_token="<x>", add_eos_token=True),
    "GPT-NeoX": config("GPTNeoXTokenizerFast", bos_token=END, add_bos_token=True, pad_token="<pad>"),
    "Qwen": config("Qwen2Tokenizer"),
    "model type": {"config.json": {"model_type": "gpt2"}},
    "pair": config("GPT2Tokenizer", added_tokens_decoder=DECODER),
    "pair with older files": {
        **config("GPT2Tokenizer"),
        "added_tokens.json": {"<x>": LAST + 1},
        "special_tokens_map.json": {"pad_token": "<pad>"},
    },
    "pair with prefix and bos": config("GPT2Tokenizer", add_prefix_space=True, add_bos_token=True),
    "pair of RoBERTa": config("RobertaTokenizer", mask_token={"__type": "AddedToken", **added("<mask>", lstrip=True)}),
    "pair of Qwen": config("Qwen2Tokenizer", pad_token="<pad>"),
    "pair by model type": {"config.json": {"model_type": "opt"}},
}


def write_case(name: str, folder: Path) -> None:
    """Write the files of a case to a new folder."""
    folder.mkdir()
    vocab = {**VOCAB, END: LAST}
    files: dict[str, Any] = dict(CASES[name])
    if name.startswith("pair"):
        files |= {"vocab.json": vocab, "merges.txt": "#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in MERGES)}
    else:
        files["tokenizer.json"] = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [{"id": LAST, **added(END)}],
            "normalizer": None,
            "pre_tokenizer": GPT2_LEVEL,
            "post_processor": None,
            "decoder": BYTE_LEVEL,
            "model": {"type": "BPE", "vocab": vocab, "merges": MERGES},
        }
    for file, content in files.items():
        (folder / file).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def published_settings(folder: Path, python: Path) -> dict[str, Any]:
    """Return what transformers gives for each case, in the environment of a `python`."""
    for number, name in enumerate(CASES):
        write_case(name, folder / str(number))
    command = [python, settings_observer.__file__, folder]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return {name: found[str(number)] for number, name in enumerate(CASES)}
