"""Tokens and settings beside `tokenizer.json`, or beside GPT-2's pair, as `AutoTokenizer` of transformers 4.57 reads them.

They are in `tokenizer_config.json`, in `special_tokens_map.json` and `added_tokens.json` of older folders, in
chat_template.jinja, and in the defaults of the class that `tokenizer_config.json` or `config.json` names
(`DEFAULTS`). A token that the tokenizer lacks gets the next id after the last one, whatever id the
files give it; flags in the files replace those of the tokenizer. Model, normalizer and pre-tokenizer remain those of
`tokenizer.json`, except for `add_prefix_space`. A warning says where transformers 5 may give other ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bpejit.errors import BpejitError, TokenizerFormatError, shorten, warn_user
from bpejit.formats.huggingface_writing import CONFIG_FILE
from bpejit.formats.missing_parts import END_OF_TEXT
from bpejit.formats.tokenizer_files import read_json
from bpejit.model import Model, pattern_source
from bpejit.normalization.pipeline_config import TokenFlags, added_token
from bpejit.splitting.presets import PRESETS
from bpejit.storage.files import read_file
from bpejit.tokenizer_config import NAMED, SIDES, TokenizerConfig

MAP_FILE, ADDED_FILE, MODEL_FILE = "special_tokens_map.json", "added_tokens.json", "config.json"
TEMPLATE_FILE, MORE_TEMPLATES = "chat_template.jinja", "additional_chat_templates"

SETTINGS_FILES = (CONFIG_FILE, MAP_FILE, ADDED_FILE, MODEL_FILE, TEMPLATE_FILE, f"{MORE_TEMPLATES}/*.jinja")

_USED = (
    *(*NAMED, *SIDES, "additional_special_tokens", "chat_template", "model_max_length", "max_len", "split_special_tokens"),
    *("added_tokens_decoder", "special_tokens_map_file", "tokenizer_file", "name_or_path"),
)
"""Fields that are stored in other attributes of `TokenizerConfig` than `others`, or are about the files only."""

_Token = dict[str, Any]
"""A token with its flags."""

_Numbered = tuple[int, _Token]
"""The id and a token."""

# ---- the classes of tokenizers in transformers, by the name without `Fast`

GPT2_CLASSES = ("GPT2Tokenizer", "CodeGenTokenizer")
ROBERTA_CLASSES = ("RobertaTokenizer", "BartTokenizer", "LongformerTokenizer", "LEDTokenizer", "MvpTokenizer")

PATTERNS = {**dict.fromkeys((*GPT2_CLASSES, *ROBERTA_CLASSES), "gpt2"), "Qwen2Tokenizer": "qwen2"}
"""The split patterns of classes that are read without a `tokenizer.json`."""

_GPT2 = {"bos_token": END_OF_TEXT, "eos_token": END_OF_TEXT, "unk_token": END_OF_TEXT}
_BLOOM = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
}
_ROBERTA = {
    **_BLOOM,
    "sep_token": "</s>",
    "cls_token": "<s>",
    "mask_token": {"content": "<mask>", "lstrip": True},
}
_DEBERTA = {
    "bos_token": "[CLS]",
    "eos_token": "[SEP]",
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
}
_COHERE = {
    "bos_token": "<BOS_TOKEN>",
    "eos_token": "<|END_OF_TURN_TOKEN|>",
    "unk_token": "<UNK>",
}
_LEFT = {"padding_side": "left"}
DEFAULTS: dict[str, dict[str, Any]] = {
    **dict.fromkeys((*GPT2_CLASSES, "GPTNeoXTokenizer", "WhisperTokenizer"), _GPT2),
    **dict.fromkeys((*ROBERTA_CLASSES, "BlenderbotTokenizer"), _ROBERTA),
    "BloomTokenizer": _BLOOM,
    "LlamaTokenizer": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", **_LEFT},
    "CohereTokenizer": {**_COHERE, **_LEFT},
    "DebertaTokenizer": {**_DEBERTA, "cls_token": "[CLS]", "mask_token": {"content": "[MASK]", "lstrip": True}},
    "Qwen2Tokenizer": {"eos_token": END_OF_TEXT, "unk_token": END_OF_TEXT, "pad_token": END_OF_TEXT},
    "CLIPTokenizer": {**_GPT2, "bos_token": "<|startoftext|>", "pad_token": END_OF_TEXT},
    "OpenAIGPTTokenizer": {"unk_token": "<unk>"},
    "PreTrainedTokenizer": {},
    "TokenizersBackend": {},
}
"""The settings of classes of transformers 4.57, by the name without `Fast`. They apply where the files lack a setting."""

ADDING_BOS = {"LlamaTokenizer": True, "CohereTokenizer": True, "GPTNeoXTokenizer": False}
"""Classes that replace the post-processor by `bos_token` and `eos_token` as the settings say, and the default for the first."""

REBUILT = {
    **dict.fromkeys((*GPT2_CLASSES, *ROBERTA_CLASSES, "DebertaTokenizer", "WhisperTokenizer"), (None, "gpt2")),
    "GPTNeoXTokenizer": ("NFC", "gpt2"),
    "CohereTokenizer": ("NFC", "starcoder"),
    "Qwen2Tokenizer": ("NFC", "qwen2"),
}
"""Classes for which transformers 5 replaces normalizer and pre-tokenizer of `tokenizer.json`, and what it makes instead."""

CLASS_OF_MODEL = {
    model: name
    for name, models in {
        "GPT2Tokenizer": "gpt2 gpt_bigcode gpt_neo gptj granite granitemoe granitemoehybrid granitemoeshared opt starcoder2 "
        "olmo3 flex_olmo dbrx exaone4",
        "CodeGenTokenizer": "codegen phi",
        "RobertaTokenizer": "roberta roberta-prelayernorm ibert mega mra data2vec-text",
        "BartTokenizer": "bart",
        "LongformerTokenizer": "longformer",
        "LEDTokenizer": "led",
        "MvpTokenizer": "mvp",
        "BlenderbotTokenizer": "blenderbot",
        "DebertaTokenizer": "deberta",
        "WhisperTokenizer": "whisper",
        "GPTNeoXTokenizer": "gpt_neox mpt olmo olmo2 olmoe rwkv stablelm mamba mamba2",
        "BloomTokenizer": "bloom",
        "CLIPTokenizer": "clip clipseg",
        "OpenAIGPTTokenizer": "openai-gpt",
        "LlamaTokenizer": "llama llama4 mistral mistral3 mixtral mllama phi3 phimoe deepseek_v2 deepseek_v3",
        "CohereTokenizer": "cohere cohere2",
        "Qwen2Tokenizer": "qwen2 qwen2_moe qwen2_vl qwen2_5_vl qwen3 qwen3_moe qwen3_next qwen3_vl qwen3_vl_moe",
    }.items()
    for model in models.split()
}
"""The class of a `model_type`, where no file names the class."""

# ---- the files


def has_settings(folder: Path) -> bool:
    """Return True if a folder has one of the files. A `config.json` counts only if it names a class."""
    names = (CONFIG_FILE, MAP_FILE, ADDED_FILE, TEMPLATE_FILE, MORE_TEMPLATES)
    return any((folder / name).exists() for name in names) or class_of(folder) is not None


def settings_bytes(folder: Path) -> tuple[tuple[str, bytes], ...]:
    """Return the names and contents of the files with tokens and settings in a folder."""
    files = (file for name in SETTINGS_FILES for file in sorted(folder.glob(name)))
    return tuple((file.name, file.read_bytes()) for file in files if file.is_file())


def class_of(folder: Path) -> str | None:
    """Return the tokenizer class that a folder names, without `Fast`; None if it names none.

    Raises
    ------
    TokenizerFormatError
        If a file is broken.
    """
    model = _read(folder / MODEL_FILE)
    for fields in (_read(folder / CONFIG_FILE), model):
        if isinstance(fields.get("tokenizer_class"), str):
            return str(fields["tokenizer_class"]).removesuffix("Fast")
    return CLASS_OF_MODEL.get(str(model.get("model_type")))


def apply_settings(content: Any, folder: Path, class_name: str | None) -> tuple[dict[str, Any], TokenizerConfig]:
    """Return the content of a `tokenizer.json` with the tokens beside it, and the settings beside it.

    Parameters
    ----------
    content : dict
        As parsed. It is not changed. The result has other `added_tokens`, and another `pre_tokenizer` and `post_processor`
        where the settings change them.
    folder : path
    class_name : str, optional
        The result of `class_of`.

    Raises
    ------
    TokenizerFormatError
        If a file is broken, or its tokens contradict each other.
    """
    try:
        changed = {**content}
        return changed, _apply(changed, folder, class_name)
    except (BpejitError, AttributeError, KeyError, OverflowError, TypeError, ValueError) as cause:
        if isinstance(cause, TokenizerFormatError):
            raise
        found = (
            str(cause) if isinstance(cause, BpejitError) else f"it has an unexpected value ({type(cause).__name__}: {cause})"
        )
        raise TokenizerFormatError(
            f"`{folder / CONFIG_FILE}`, or a file beside it: {found}; expected the settings of a tokenizer: correct it, or "
            "load the file of the tokenizer instead of its folder"
        ) from cause


def warn_of_rebuilt(model: Model, path: Path, class_name: str | None) -> None:
    """Warn if transformers 5 replaces normalizer and pre-tokenizer of a file, because a file beside it names a class."""
    if class_name not in REBUILT:
        return
    kind, preset = REBUILT[class_name]
    normalizer = None if model.pipeline is None else json.loads(model.pipeline.normalizer)
    if (normalizer and normalizer["type"], pattern_source(model.pattern)) != (kind, PRESETS[preset]):
        warn_user(
            f"a file beside `{path}` names the class {class_name}, for which transformers 5 makes another normalizer and "
            "pre-tokenizer than the file has, and so may give other ids; here they are those of the file, as in transformers 4"
        )


def _apply(content: dict[str, Any], folder: Path, class_name: str | None) -> TokenizerConfig:
    """Change the content of a `tokenizer.json` as the files beside it say, and return the other settings."""
    settings = _read(folder / CONFIG_FILE)
    own = {entry["content"]: (entry["id"], _token(entry)) for entry in content.get("added_tokens", [])}
    declared = _declared_tokens(settings, folder, own)
    known = {token["content"]: token for _, token in declared}
    for name, section in (("padding_side", "padding"), ("truncation_side", "truncation")):
        if content.get(section):
            settings.setdefault(name, str(content[section]["direction"]).lower())
    if content.get("padding"):
        settings.setdefault("pad_token", content["padding"]["pad_token"])
    defaults = DEFAULTS.get(class_name or "PreTrainedTokenizer")
    if defaults is None:
        defaults = {}
        warn_user(
            f"`{folder}` has the class {class_name}, which bpejit does not know; it is read as PreTrainedTokenizerFast, "
            "and transformers may add other tokens to a text"
        )
    named = {name: _token_or_text(settings.get(name, defaults.get(name)) or "") for name in NAMED}
    named = {name: known.get(_text(token), token) if name in settings else token for name, token in named.items() if token}
    extra = [_token_or_text(value) for value in _extra_tokens(settings)]
    doubtful = (token for name, token in named.items() if name not in settings)
    if class_name in REBUILT:  # there transformers 5 adds them too, but without their flags
        doubtful = (token for token in doubtful if isinstance(token, dict))
    unnamed = {*map(_text, doubtful)} - {*known, *own, *map(_text, extra)}
    unnamed = {text for text in unnamed if text not in content["model"]["vocab"]}
    if unnamed:
        warn_user(
            f"`{folder}` does not name {', '.join(map(shorten, sorted(unnamed)))}, which the class {class_name} adds to the "
            "vocabulary in transformers 4, as here; transformers 5 may not: name the special tokens in tokenizer_config.json"
        )
    first: dict[str, Any] = {}
    for token in (*named.values(), *extra):
        first.setdefault(_text(token), token)
    _add(content, own, declared, list(first.values()))
    _set_prefix(content, bool(settings.get("add_prefix_space", False)), folder, warns=class_name not in REBUILT)
    roles = {name: _text(token) for name, token in named.items()}
    if class_name in ADDING_BOS:
        ids = {entry["content"]: entry["id"] for entry in content["added_tokens"]}
        content["post_processor"] = _adding(settings, ADDING_BOS[class_name], roles, ids)
    length = settings.get("model_max_length", settings.get("max_len"))
    others = {name: value for name, value in settings.items() if name not in _USED}
    if not isinstance(others.get("extra_special_tokens"), dict):
        others.pop("extra_special_tokens", None)
    return TokenizerConfig.checked(
        **roles,
        model_max_length=int(length) if isinstance(length, float) else length,
        chat_template=_chat_template(settings, folder),
        extra_special_tokens=tuple(map(_text, extra)) or None,
        **{side: settings.get(side, defaults.get(side)) for side in SIDES},
        split_special_tokens=settings.get("split_special_tokens"),
        others=others,
    )


def _set_prefix(content: dict[str, Any], prefix: bool, folder: Path, *, warns: bool) -> None:
    """Set `add_prefix_space` of a pre-tokenizer that is `ByteLevel` alone; transformers changes no others."""
    before = content.get("pre_tokenizer") or {}
    if before.get("type") != "ByteLevel" or before.get("add_prefix_space", prefix) == prefix:
        return
    content["pre_tokenizer"] = {**before, "add_prefix_space": prefix}
    if warns:
        warn_user(
            f"`{folder}` has add_prefix_space {prefix} in its settings (False if they lack it), and {not prefix} in the file "
            "of the tokenizer; here the settings count, as in transformers 4, and transformers 5 follows the file"
        )


def _declared_tokens(settings: dict[str, Any], folder: Path, own: dict[str, _Numbered]) -> list[_Numbered]:
    """Return the tokens that the files add, with the ids that these give, in order of these ids."""
    if "added_tokens_decoder" in settings:
        found = {int(number): _token(value) for number, value in settings["added_tokens_decoder"].items()}
    else:
        for name, value in _read(folder / MAP_FILE).items():
            if name == "additional_special_tokens" and isinstance(value, list):
                listed = list(settings.pop(name, None) or [])
                settings[name] = listed + [one for one in map(_as_special, value) if one not in listed]
            else:
                settings[name] = _as_special(value)
        special = {_text(settings[name]) for name in NAMED if settings.get(name) is not None}
        special |= {_text(value) for value in settings.get("additional_special_tokens") or []}
        found = {
            number: _token({"content": text, "special": text in special}) for text, number in _read(folder / ADDED_FILE).items()
        }
        found |= dict(own.values())
    return sorted(found.items(), key=lambda item: item[0])


def _add(content: dict[str, Any], own: dict[str, _Numbered], declared: list[_Numbered], special: list[Any]) -> None:
    """Add tokens as `PreTrainedTokenizerFast` and `tokenizers` do."""
    present = [token for _, token in own.values()]
    new: list[_Token] = [token for _, token in declared if token not in present]
    texts = {*own, *(token["content"] for token in new)}
    new += [token for token in special if (token not in texts if isinstance(token, str) else token not in new)]
    special_texts = set(map(_text, special))
    vocab = content["model"]["vocab"]
    following = max(max((number for number, _ in own.values()), default=-1) + 1, len(vocab))
    for token in new:
        text = _text(token)
        made = _token({"content": token, "special": True}) if isinstance(token, str) else dict(token)
        made["special"] |= text in special_texts or (text in own and own[text][1]["special"])
        number = own[text][0] if text in own else vocab.get(text, following)
        following += number == following
        if text:
            own[text] = number, made
    content["added_tokens"] = sorted(({"id": number, **token} for number, token in own.values()), key=lambda one: one["id"])
    moved = [(token["content"], number) for number, token in declared if own[token["content"]][0] != number]
    if moved:
        text, number = moved[0]
        warn_user(
            f"the settings beside the tokenizer give {shorten(text)} the id {number}, and transformers gives it "
            f"{own[text][0]}, as here ({len(moved)} such token{'s' if len(moved) > 1 else ''}); correct added_tokens_decoder "
            f"or {ADDED_FILE} if that is not meant"
        )


def _extra_tokens(settings: dict[str, Any]) -> list[Any]:
    extra = settings.get("extra_special_tokens") or []
    return [*(settings.get("additional_special_tokens") or []), *(extra.values() if isinstance(extra, dict) else extra)]


def _adding(settings: dict[str, Any], adds_bos: bool, texts: dict[str, str], ids: dict[str, int]) -> dict[str, Any]:
    """Return a post-processor that adds `bos_token` and `eos_token`."""
    around: list[list[str]] = []
    for name, default in (("bos_token", adds_bos), ("eos_token", False)):
        adds = settings.get(f"add_{name}", default)
        if adds and name not in texts:
            raise ValueError(f"add_{name} is true, but there is no {name}")
        around.append([texts[name]] if adds else [])
    bos, eos = around
    return adding_template(bos, eos, ids, second=True)


def adding_template(bos: Iterable[str], eos: Iterable[str], ids: dict[str, int], *, second: bool) -> dict[str, Any]:
    """Return a `TemplateProcessing` that adds tokens to a text, and to the second text of a pair if `second`."""

    def added(texts: Iterable[str], kind: int) -> list[dict[str, Any]]:
        return [{"SpecialToken": {"id": text, "type_id": kind}} for text in texts]

    first, other = ({"Sequence": {"id": name, "type_id": kind}} for kind, name in enumerate("AB"))
    single = [*added(bos, 0), first, *added(eos, 0)]
    pair = [*single, *added(bos, 1), other, *added(eos, 1)] if second else [*single, other]
    tokens = {text: {"id": text, "ids": [ids[text]], "tokens": [text]} for text in (*bos, *eos)}
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens}


def pair_post_processor(
    content: dict[str, Any], config: TokenizerConfig, class_name: str | None, folder: Path
) -> dict[str, Any] | None:
    """Return the post-processor with the tokens that a class adds to each text of a model that is read from GPT-2's pair."""
    ids = {token["content"]: token["id"] for token in content["added_tokens"]}
    if class_name in ROBERTA_CLASSES:
        if config.sep_token is None or config.cls_token is None:
            raise TokenizerFormatError(
                f"`{folder}` has the class {class_name}, but no sep_token or no cls_token, which it adds to each text; "
                "expected both in tokenizer_config.json: add them"
            )
        sep, cls = ([token, ids[token]] for token in (config.sep_token, config.cls_token))
        prefix = content["pre_tokenizer"]["add_prefix_space"]
        return {
            "type": "RobertaProcessing",
            "sep": sep,
            "cls": cls,
            "trim_offsets": True,
            "add_prefix_space": prefix,
        }
    if (config.others or {}).get("add_bos_token") and config.bos_token is not None:
        return adding_template([config.bos_token], [], ids, second=False)
    return None


def _chat_template(settings: dict[str, Any], folder: Path) -> Any:
    files = {path.name.removesuffix(".jinja"): path for path in sorted((folder / MORE_TEMPLATES).glob("*.jinja"))}
    main = {"default": folder / TEMPLATE_FILE}
    if main["default"].exists():
        files = main | files | main  # the first, also if there is another of this name
    found = settings.get("chat_template")
    if files:
        read = {name: read_file(path, error=TokenizerFormatError).decode() for name, path in files.items()}
        found = read["default"] if list(read) == ["default"] else read
    return {entry["name"]: entry["template"] for entry in found} if isinstance(found, list) else found


def _read(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; an empty one if there is no such file."""
    if not path.exists():
        return {}
    found = read_json(path)
    if not isinstance(found, dict):
        raise TokenizerFormatError(f"`{path}` is {shorten(found)}; expected a JSON object: correct the file, or remove it")
    return found


def _token(value: dict[str, Any]) -> _Token:
    """Return an added token with all its flags."""
    if not isinstance(value, dict) or not isinstance(value.get("content"), str):
        raise TypeError(f"{shorten(value)} is not an added token")
    flags = TokenFlags(*(bool(value.get(name, False)) for name in TokenFlags._fields))
    flags = flags._replace(normalized=bool(value.get("normalized", not flags.special)))
    token = added_token(value["content"], 0, flags)
    del token["id"]
    return token


def _token_or_text(value: Any) -> str | _Token:
    return value if isinstance(value, str) else _token(value)


def _as_special(value: Any) -> Any:
    return {**value, "special": True} if isinstance(value, dict) else value


def _text(token: Any) -> str:
    text: str = token if isinstance(token, str) else _token(token)["content"]
    return text
