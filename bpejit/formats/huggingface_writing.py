r"""Write Hugging Face's `tokenizer.json`.

A model that was read from such a file is written with the sections of that file, unchanged. For other models the file has the
canonical byte-level form: a pre-tokenizer that splits text and converts it to GPT-2's byte characters, and merges in order. The
merges of a ranked model are written as a list that gives the same ids (see `bpejit.formats.ranked_merges`), with
`ignore_merges`, which keeps pre-tokens that are tokens whole. `tokenizers` then gives the same ids as bpejit. Both also find
special tokens in the same way: the leftmost first, and the longest at each position.

**Pre-tokenizers.** Some readers have no engine for regular expressions: they recognize the pre-tokenizers of published files by
their text and refuse all others (`READ_PRESETS`). So a preset is written as in its published file, if that splits every text
in the same way (`tests/helpers/split_equivalence.py` proves it on the automata of both spellings). Other patterns are
translated to the dialect of Hugging Face's `Split` (see `bpejit.splitting.dialect_writer`). One pattern has no spelling that
all readers accept: `cl100k` keeps white space at the end of a text together, whereas the similar pattern in published files
(`llama3`) divides it after the last line break.
"""

from __future__ import annotations

import json
from operator import itemgetter
from typing import Any

from bpejit.errors import PatternError, shorten
from bpejit.formats.missing_parts import END_OF_TEXT
from bpejit.formats.vocabulary_arrays import vocabulary_and_merges
from bpejit.model import Model, pattern_source, special_bytes
from bpejit.normalization.byte_characters import decoded_or_none
from bpejit.normalization.json_fields import canonical
from bpejit.normalization.pipeline_config import PipelineConfig, TokenFlags, added_token
from bpejit.normalization.symbols import Symbols, file_text
from bpejit.splitting.presets import PRESETS, Pattern, stages_of
from bpejit.utf8 import has_surrogates

CONFIG_FILE = "tokenizer_config.json"

_INDENT = b" " * 6


def special_token_obstacle(model: Model) -> str | None:
    """Return why the special tokens cannot be written to `tokenizer.json`, or None if they can.

    The vocabulary is one dict, with ordinary tokens in byte characters and special tokens in plain text, and each key has one
    id. If whole pre-tokens are looked up in it, the text of a special token must not represent other bytes than its own.
    """
    for text, token_id in model.special_tokens.items():
        if has_surrogates(text):
            return f"the special token {shorten(text)} is not valid UTF-8"
        decoded = decoded_or_none(text)
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
    steps = PipelineConfig(canonical(sections["normalizer"]), canonical(sections["pre_tokenizer"]))
    if model.pipeline not in (None, steps):
        return None
    added = sections["added_tokens"]
    flags = {token["content"]: TokenFlags(*(token.get(name, False) for name in TokenFlags._fields)) for token in added}
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
    found: Component | None
    if (sections := file_sections(model)) is not None:
        found = sections["pre_tokenizer"]
        return found
    if model.pipeline is not None:
        found = json.loads(model.pipeline.pre_tokenizer)
        return found
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
        **_symbol_settings(model),
        "ignore_merges": model.ranked or model.ignore_merges,
        **head.pop("model", {}),
    }
    text = "{\n" + _lines(head, "  ") + '  "model": {\n' + _lines(options, "    ") + '    "vocab": {\n'
    vocab, merges = vocabulary_and_merges(model, legacy_merges=legacy_merges)
    between, after = b'\n    },\n    "merges": [\n', b"\n    ]\n  }\n}\n"
    return b"".join([text.encode(), vocab or _INDENT, between, merges or _INDENT, after])


def _canonical_sections(model: Model, splitting: Component | None) -> dict[str, Any]:
    normalizer = None if model.pipeline is None else json.loads(model.pipeline.normalizer)
    values = (None, None, _added_tokens(model), normalizer, splitting, json.loads(model.post_processor), written_decoder(model))
    return dict(zip(SECTIONS, values, strict=True))


def _symbol_settings(model: Model) -> dict[str, Any]:
    """Return the settings of the section `model` that describe symbols."""
    symbols = model.symbols or Symbols(characters=False)
    unknown = symbols.unknown_token or None
    if symbols.unknown in model.tokens:
        unknown = file_text(model.tokens[symbols.unknown], symbols)  # type: ignore[index]
    elif symbols.unknown is not None:
        unknown = next(text for text, number in model.special_tokens.items() if number == symbols.unknown)
    return {
        "unk_token": unknown,
        "end_of_word_suffix": symbols.word_end or None,
        "fuse_unk": symbols.fuses_unknown,
        "byte_fallback": bool(symbols.byte_ids),
    }


def written_decoder(model: Model) -> Component | None:
    """Return the decoder for a model."""
    if model.decoder:
        found: Component | None = json.loads(model.decoder)
        return found
    if model.symbols is None or not model.symbols.characters:
        return byte_level()
    space = model.symbols.space
    return {"type": "Replace", "pattern": {"String": space}, "content": " "} if space else {"type": "Fuse"}


def tokenizer_config_json(model: Model) -> bytes:
    """Return the content of `tokenizer_config.json`, which `transformers.AutoTokenizer` requires beside `tokenizer.json`."""
    config = model.config.written(END_OF_TEXT if END_OF_TEXT in model.special_tokens else None)
    before = None if model.pipeline is None else json.loads(model.pipeline.pre_tokenizer)
    if before is not None and before.get("add_prefix_space"):  # version 4 sets it to False otherwise
        config["add_prefix_space"] = True
    return _object(config)


def _added_tokens(model: Model) -> list[dict[str, Any]]:
    """Return the special tokens with their flags, in order of id."""
    tokens = sorted(model.special_tokens.items(), key=itemgetter(1))
    return [added_token(text, token_id, model.token_flags.get(text, TokenFlags())) for text, token_id in tokens]


def gpt2_config_json(model: Model) -> bytes:
    """Return the content of `tokenizer_config.json` for GPT-2's pair of files, which lists the special tokens."""
    end = END_OF_TEXT if END_OF_TEXT in model.special_tokens else None
    config: dict[str, Any] = {
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        # The class uses `<|endoftext|>` for each of these that is missing.
        **dict.fromkeys(("bos_token", "eos_token", "unk_token"), end if model.config.others is None else None),
        **model.config.written(None),
        "tokenizer_class": "GPT2Tokenizer",
        "added_tokens_decoder": {str(token.pop("id")): token for token in _added_tokens(model)},
    }
    return _object(config)


def _lines(values: dict[str, Any], indent: str) -> str:
    """Return the fields of a JSON object, one in a line."""
    return "".join(f'{indent}"{key}": {_value(value)},\n' for key, value in values.items())


def _object(values: dict[str, Any]) -> bytes:
    return f"{{\n{_lines(values, '  ')[:-2]}\n}}\n".encode()


def _value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if has_surrogates(text) else text


# ---- pre-tokenizers

Component = dict[str, Any]
"""A component of `tokenizer.json`, as parsed JSON."""


def byte_level(*, use_regex: bool = False) -> Component:
    """Return Hugging Face's `ByteLevel`; with `use_regex` it splits by GPT-2's pattern first."""
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def split_step(pattern: str) -> Component:
    """Return the pre-tokenizer that splits by a regular expression."""
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def sequence(*steps: Component) -> Component:
    """Return a sequence of pre-tokenizers."""
    return {"type": "Sequence", "pretokenizers": list(steps)}


def split_steps(pattern: Pattern) -> Component:
    """Return the pre-tokenizer that splits by regular expressions in sequence, without translation."""
    return sequence(*map(split_step, stages_of(pattern)), byte_level())


def pre_tokenizer_for(pattern: Pattern, *, unicode: str | None = None) -> Component:
    """Return the pre-tokenizer that splits text as a pattern does.

    Raises
    ------
    PatternError
        If no pre-tokenizer is proven to split every text in the same way.
    """
    published = _published(pattern, unicode)
    if published is not None:
        return published
    from bpejit.splitting.dialect_writer import to_oniguruma

    translated = tuple(to_oniguruma(stage, unicode=unicode) for stage in stages_of(pattern))
    if has_surrogates("".join(translated)):
        raise PatternError("the split pattern is not valid UTF-8; expected text: remove the surrogates")
    return split_steps(translated)


def _published(pattern: Pattern, unicode: str | None) -> Component | None:
    """Return the pre-tokenizer of published files, or None if the pattern has only its translation."""
    if pattern in (PRESETS["gpt2"], PRESETS["r50k"]):
        return byte_level(use_regex=True)
    if pattern == PRESETS["cl100k-legacy"]:
        return split_steps(PRESETS["llama3"])
    # Not `nanochat` in the same way, with `{1,2}`: tokenizers 1.0.0rc3 accepts that, and takes digits by threes.
    if pattern == PRESETS["deepseek-v3"]:
        # The published file contains line ends literally, not as escapes.
        return split_steps(tuple(stage.replace(r"\r", "\r").replace(r"\n", "\n") for stage in pattern))
    if pattern == PRESETS["starcoder"]:
        return sequence(_digits(unicode), byte_level(use_regex=True))
    return None


def _digits(unicode: str | None) -> Component:
    r"""Return the step of StarCoder that isolates each digit.

    `Digits` uses Unicode 17 in tokenizers 0.23, whereas its regular expressions use Unicode 16. A pattern of an older
    version is therefore written as `\p{N}`, which some readers refuse, but which has equal ids for the 13 digits that
    Unicode 17 added.
    """
    if unicode is not None and int(unicode.split(".")[0]) < 17:
        return split_step(r"\p{N}")
    return {"type": "Digits", "individual_digits": True}


# ---- readers that support only the split patterns of some published files

READ_PRESETS: dict[str, tuple[str, ...]] = {
    "tokenizers 1.0.0rc3": (
        *("gpt2", "r50k", "p50k", "cl100k-legacy", "o200k", "llama3", "olmo2", "qwen2", "deepseek-v3", "starcoder", "tekken"),
        "kimi-k2",
    ),
    "gigatoken 0.10": (
        *("gpt2", "r50k", "p50k", "cl100k-legacy", "o200k", "llama3", "olmo2", "qwen2", "qwen3.5", "deepseek-v3", "tekken"),
    ),
}
"""The presets that each reader reads with equal ids, as bpejit writes them. tokenizers 0.23, and transformers 4.57 and 5.23,
which use it, read all patterns; so does kitoken 0.11, except for `BYTE_LEVEL_MISREAD`."""

BYTE_LEVEL_MISREAD = "kitoken 0.11"
"""If `ByteLevel` itself splits, as in GPT-2's published file, this reader divides `'d` after a line end."""

WORD_END_MISREAD = "tokenizers 1.0.0rc3"
"""This reader leaves out the suffix of words of one character."""

_RESPELLED = frozenset({"gpt2", "r50k", "p50k", "cl100k-legacy", "deepseek-v3", "starcoder"})
"""The presets that are not written as one step with their pattern."""


def not_read_by(model: Model) -> list[str]:
    """Return the readers that refuse the `tokenizer.json` of a model, or give other ids.

    Raises
    ------
    PatternError
        If the split pattern cannot be written for other tools.
    """
    if model.symbols is not None:  # not recognized by the split pattern
        return [WORD_END_MISREAD] if model.symbols.word_end else []
    steps = _signature(pre_tokenizer(model))
    found = [reader for reader, names in READ_PRESETS.items() if steps not in _known(reader, names)]
    return [*found, BYTE_LEVEL_MISREAD] if str(("ByteLevel", True))[:-1] in str(steps) else found


def note(model: Model) -> str:
    """Return a sentence about the readers in `not_read_by`, or an empty string if there are none."""
    readers = not_read_by(model)
    if not readers:
        return ""
    first, verb = (readers[0], "does") if len(readers) == 1 else (f"{', '.join(readers[:-1])} and {readers[-1]}", "do")
    cause = "this split pattern" if model.symbols is None else "a suffix of words"
    return f"{first} {verb} not read {cause}, or not with equal ids; `--check` tries the readers that are installed"


def _known(reader: str, names: tuple[str, ...]) -> set[Any]:
    known = {
        _signature(pre_tokenizer_for(PRESETS[name]) if name in _RESPELLED else split_steps(PRESETS[name])) for name in names
    }
    if reader.startswith("tokenizers"):
        # It also reads a sequence of one step, and recognizes GPT-2's pattern by its text.
        gpt2 = byte_level(use_regex=True)
        known |= {_signature(sequence(gpt2)), _signature(split_steps(PRESETS["gpt2"]))}
    return known


def _signature(component: Component | None) -> Any:
    """Return the properties of a pre-tokenizer by which readers recognize it."""
    if component is None:
        return None
    match component["type"]:
        case "Sequence":
            return tuple(_signature(step) for step in component["pretokenizers"])
        case "ByteLevel":
            return ("ByteLevel", component.get("use_regex", True), component.get("add_prefix_space", True))
        case "Split":
            # A pattern that matches everywhere isolates the same pieces when it is inverted and removed.
            kept = (component["behavior"], component.get("invert", False)) in (("Isolated", False), ("Removed", True))
            return ("Split", str(component["pattern"]), kept)
        case _:
            return str(component)
