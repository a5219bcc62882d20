"""The folder in which bpejit saves a tokenizer: its layout, and reading it.

The folder is a Hugging Face tokenizer, `tokenizer.json` with `tokenizer_config.json`, plus `bpejit.json`:

format, format_version, bpejit_version
    The kind of folder, and the version that wrote it.
tokenizer_file, tokenizer_file_sha256
    The file with tokens and merges, and its hash. A file that was changed is not read.
not_for_other_tools
    The reason why `tokenizer_file` is `model.json`, which no other tool reads, instead of `tokenizer.json`; null otherwise.
sha256
    Hash of everything that determines ids (`Model.sha256`). Token files contain it.
sections_of_source
    True if the sections of `tokenizer_file` except vocabulary and merges are from the `tokenizer.json` that the tokenizer was
    read from. Missing otherwise.
pattern
    `name` of the preset, or null, and `source`, the regular expression in bpejit's dialect, or a list of expressions that are
    applied in sequence.
shared_ids
    Ids of special tokens that are also ordinary tokens.
preparation, token_flags, post_processor, decoder
    As in `tokenizer.json` (see `Model`), if the tokenizer was read from one.
symbols
    What pre-tokens begin as (see `bpejit.normalization.symbols.Symbols`), if not as a token for each byte; missing otherwise.
unicode
    The version of Unicode of the character classes in the pattern; null or missing for the version of the installed `regex`
    package.
ranked, ignore_merges
    How tokens merge (see `Model`). The merges in `tokenizer_file` of a ranked model are for other tools.
config
    Settings for `transformers`, as in `tokenizer_config.json`; missing if there are none.
tie_break, merge_counts
    The tie rule of the training, and the count of the pair of each merge.
vocab_size, token_lengths
    One more than the largest id, and the number of bytes of each id, 0 for special tokens and unused ids, for computing bits
    per byte. Null if the ids have large gaps.
training
    Notes for readers: settings and inputs of the training.

`token_bytes.npy` contains `token_lengths` as a NumPy array, int32 [vocab_size], for training loops that report bits per byte.
It is not read by bpejit, and is absent if the ids have large gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import index
from pathlib import Path

import numpy as np

from bpejit.arrays import ByteStrings
from bpejit.errors import BpejitError, PatternError, TokenizerFormatError, shorten
from bpejit.formats.huggingface_writing import CONFIG_FILE, sections_text
from bpejit.formats.packed_vocabulary import PackedVocabulary, StringIndex, parse_large, token_strings
from bpejit.formats.reading_symbols import checked_merges, checked_vocab, tokens_and_merges
from bpejit.formats.tokenizer_files import check_unchanged, naming
from bpejit.formats.vocabulary_arrays import load_stored, store_parsed
from bpejit.model import Model, pattern_source, special_bytes
from bpejit.normalization.json_fields import Fields, canonical
from bpejit.normalization.pipeline_config import FLAG_KINDS, FileSections, PipelineConfig, TokenFlags
from bpejit.normalization.symbols import Symbols, unused_texts
from bpejit.packed_tokens import PackedTokens, ReadOnlyDict
from bpejit.splitting.presets import Pattern
from bpejit.storage.exchange import recover_description
from bpejit.storage.files import StrPath, parse_json, read_file
from bpejit.tokenizer_config import TokenizerConfig

FORMAT = "bpejit tokenizer"

FORMAT_VERSION = 4
"""Version 2 has `ranked`, `ignore_merges`, `preparation`, `token_flags` and `post_processor`, version 3 has `unicode`, and
version 4 has `symbols` and `decoder`. The oldest version that can represent a model is written."""

PREPARATION_STEPS = ("normalizer", "pre_tokenizer")

OWN_FILE = "bpejit.json"

TOKENIZER_FILE = "tokenizer.json"

PRIVATE_FILE = "model.json"
"""The name of `tokenizer.json` if other tools would give other ids; they do not read files of this name."""

PUBLIC_FILES = (TOKENIZER_FILE, CONFIG_FILE, OWN_FILE)

_AGAIN = "restore the file, or save the tokenizer again"


def load_folder(path: StrPath, *, unicode: str | None = None) -> Model:
    """Return the model in a folder that `save_folder` wrote.

    Parameters
    ----------
    path : path
    unicode : str, optional
        The version of Unicode that the pattern follows, instead of the version in the folder. The result is a different
        tokenizer.

    Raises
    ------
    TokenizerFormatError
        If the folder is missing or was changed, has another format or a later version, or if the installed `regex` package does
        not support its version of Unicode.
    """
    folder = Path(path)
    own_path = folder / OWN_FILE
    recover_description(own_path, error=TokenizerFormatError)
    if not own_path.exists():
        raise TokenizerFormatError(
            f"there is no tokenizer `{folder}`: no such file or folder; expected one that `bpejit train` has written: "
            "check the path, or train one with `bpejit train CORPUS --vocab-size N`"
        )
    own_data = read_file(own_path, error=TokenizerFormatError)
    stored = load_stored(own_data)
    if stored is not None:
        model, notes = stored
        own = Fields(notes, file=own_path, action=_AGAIN)
        _read_tokenizer_file(own, folder)  # it may have been changed since
        pattern = _split_pattern(own)
        if pattern != model.pattern:  # a name is registered in one of the two processes only
            sections = None if model.file_sections is None else replace(model.file_sections, pattern=pattern)
            model = replace(model, pattern=pattern, file_sections=sections)
        return model if unicode is None else replace(model, unicode=unicode)
    content = parse_json(own_data, own_path, error=TokenizerFormatError)
    model = _parse(Fields(content, file=own_path, action=_AGAIN), own_path)
    if unicode is not None:
        return replace(model, unicode=unicode)
    if model.unicode is not None:
        from bpejit.splitting.unicode_versions import check_unicode

        try:
            check_unicode(model.unicode)
        except PatternError as error:
            raise TokenizerFormatError(
                f"`{own_path}`: {error}; or load the tokenizer with another version, as `unicode=`, if other ids are acceptable"
            ) from error
    store_parsed(own_data, model, {key: content[key] for key in ("tokenizer_file", "tokenizer_file_sha256", "pattern")})
    return model


def _parse(own: Fields, own_path: Path) -> Model:
    """Return the model that `bpejit.json` describes."""
    own.take_version(FORMAT, FORMAT_VERSION)
    tokenizer_path, data = _read_tokenizer_file(own, own_path.parent)
    pattern = _split_pattern(own)
    shared_ids = _numbers(own, "shared_ids") or []
    symbols = _symbols(own)
    content = parse_large(data, hook=dict) or parse_json(data, tokenizer_path, error=TokenizerFormatError)
    decoder = own.take("decoder", dict, type(None), default="")
    ranked = own.take("ranked", bool, default=False)
    sections = FileSections(sections_text(content), pattern) if own.take("sections_of_source", bool, default=False) else None
    with naming(tokenizer_path):
        tokens, merges, specials = _parse_tokenizer(Fields(content, action=_AGAIN), set(shared_ids), symbols, ranked=ranked)
        model = Model(
            tokens=tokens,
            merges=merges,
            special_tokens=specials,
            pattern=pattern,
            tie_break=own.take("tie_break", str, type(None)),
            merge_counts=_numbers(own, "merge_counts", len(merges)),
            training=own.take("training", dict),
            ranked=ranked,
            ignore_merges=own.take("ignore_merges", bool, default=False),
            pipeline=_pipeline(own),
            token_flags=_token_flags(own),
            post_processor=canonical(own.take("post_processor", dict, type(None), default=None)),
            unicode=own.take("unicode", str, type(None), default=None),
            symbols=symbols,
            decoder="" if decoder == "" else canonical(decoder),
            config=_config(own, own_path),
            file_sections=sections,
        )
    expected = own.take("sha256", str)
    if model.sha256 != expected:
        raise TokenizerFormatError(
            f"`{own_path}` was changed after bpejit wrote it: the SHA-256 of the tokenizer is {model.sha256}; "
            f"expected {shorten(expected)}; {_AGAIN}"
        )
    return model


def _read_tokenizer_file(own: Fields, folder: Path) -> tuple[Path, bytes]:
    """Return the path and the content of the file with tokens and merges, if it is unchanged."""
    name = own.take("tokenizer_file", str)
    if name not in (TOKENIZER_FILE, PRIVATE_FILE):
        raise own.bad("tokenizer_file", name, f"{TOKENIZER_FILE} or {PRIVATE_FILE}")
    path = folder / name
    data = read_file(path, error=TokenizerFormatError, what="tokenizer file")
    check_unchanged(path, data, own.take("tokenizer_file_sha256", str), action=_AGAIN)
    return path, data


def _parse_tokenizer(
    content: Fields, shared_ids: set[int], symbols: Symbols | None, *, ranked: bool
) -> tuple[Mapping[int, bytes], Sequence[tuple[bytes, bytes]], dict[str, int]]:
    """Return tokens, merges and special tokens of a `tokenizer.json` as `tokenizer_json` writes it."""
    model = content.object_at("model", content.take("model", dict))
    specials: dict[str, int] = {}
    for number, value in enumerate(content.take("added_tokens", list)):
        added = content.object_at(f"added_tokens[{number}]", value)
        specials[added.take("content", str)] = added.take("id", int)
    vocab = checked_vocab(model.take("vocab", dict, PackedVocabulary))
    listed = model.take("merges", list, ByteStrings)
    if ranked:  # they are for other tools
        listed = []
    elif isinstance(listed, list):  # a string that begins with "#version" is a merge here
        listed = [merge.split(" ") if isinstance(merge, str) else merge for merge in listed]
    merges = checked_merges(listed, vocab)
    kind = symbols or Symbols(characters=False)
    strings, exists = token_strings(vocab.texts, level=not kind.characters, suffix=kind.word_end, space=kind.space)
    exists |= (np.diff(vocab.texts.starts) == 0) & (symbols is None)  # the empty token, which no text becomes
    others = np.isin(vocab.numbers, [*unused_texts(symbols)])
    for (text, number), at in zip(specials.items(), vocab.find(*specials).tolist(), strict=True):
        if at >= 0 and vocab.numbers[at] == number:
            is_ordinary = number in shared_ids and exists[at] and (kind.characters or strings[at] == special_bytes(text))
            others[at] |= not is_ordinary
    wrong = np.flatnonzero(~(exists | others))
    if wrong.size:
        found = [*vocab][int(wrong[0])]
        raise content.bad("token", found, "byte characters, or the symbols that bpejit.json describes")
    if others[merges].any():
        raise content.bad("merges", sorted(shared_ids), "the special tokens that they need among the shared ids")
    if kind.shared:
        others |= StringIndex(ByteStrings.from_list([*kind.shared])).find(strings) >= 0
    places = np.flatnonzero(~others)
    places = places[np.argsort(vocab.numbers[places], kind="stable")]
    tokens = PackedTokens(strings.take(places), vocab.numbers[places])
    return *tokens_and_merges(tokens, vocab, strings, merges, symbols), specials


def _symbols(own: Fields) -> Symbols | None:
    value = own.take("symbols", dict, type(None), default=None)
    if value is None:
        return None
    fields = own.object_at("symbols", value)
    plain = vars(Symbols())
    kinds = {"byte_ids": list, "order": list, "unknown": int}
    found = {name: fields.take(name, kinds.get(name, type(value)), default=value) for name, value in plain.items()}
    fields.done()
    try:
        for name in ("byte_ids", "order"):
            found[name] = tuple(map(index, found[name]))
        found["unused"] = ReadOnlyDict({int(number): token.encode("latin-1") for number, token in found["unused"].items()})
        found["shared"] = ReadOnlyDict({text.encode("latin-1"): index(number) for text, number in found["shared"].items()})
    except (TypeError, ValueError, AttributeError) as cause:
        raise own.bad("symbols", value, "whole numbers as ids, and tokens in Latin-1") from cause
    return Symbols(**found)


def _split_pattern(own: Fields) -> Pattern:
    fields = own.object_at("pattern", own.take("pattern", dict))
    preset = fields.take("name", str, type(None))
    source: Pattern | list[str] = fields.take("source", str, list)
    if isinstance(source, list):
        if not source or not all(isinstance(stage, str) for stage in source):
            raise fields.bad("source", source, "a regular expression or a list of them")
        source = tuple(source)
    # If this version does not know the preset, or its pattern differs, the source is the pattern of the training.
    return preset if preset is not None and pattern_source(preset) == source else source


def _pipeline(own: Fields) -> PipelineConfig | None:
    value = own.take("preparation", dict, type(None), default=None)
    if value is None:
        return None
    if set(value) != set(PREPARATION_STEPS):
        raise own.bad("preparation", value, f"null, or an object of {' and '.join(PREPARATION_STEPS)}")
    return PipelineConfig(*(canonical(value[name]) for name in PREPARATION_STEPS))


def _token_flags(own: Fields) -> dict[str, TokenFlags]:
    found = {}
    for text, value in own.take("token_flags", dict, default={}).items():
        found[text] = TokenFlags(*own.record(f"token_flags.{shorten(text)}", value, **FLAG_KINDS))
    return found


def _numbers(own: Fields, key: str, size: int | None = None) -> list[int] | None:
    """Return a required list of integers; with a size, one of this length, or None."""
    numbers: list[int] | None = own.take(key, list, *(() if size is None else (type(None),)))
    if numbers is not None and (not set(map(type, numbers)) <= {int} or size not in (None, len(numbers))):
        raise own.bad(key, numbers, f"{'a list of' if size is None else size} whole numbers")
    return numbers


def _config(own: Fields, path: Path) -> TokenizerConfig:
    fields = own.take("config", dict, default={})
    known = {name: value for name, value in fields.items() if name in TokenizerConfig.__dataclass_fields__}
    try:
        return TokenizerConfig.checked(**known)
    except BpejitError as error:
        raise TokenizerFormatError(f"`{path}`: {error}") from error
