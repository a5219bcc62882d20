"""Read Hugging Face's `tokenizer.json`, such that the model gives the same ids as `tokenizers`.

BPE of bytes and of characters is supported, with the components in `bpejit.normalization`.
Anything else in the file is an error that names its key. Only `truncation` and `padding` are ignored, since they do not belong
to the tokenizer here. The ids are the result of `encode(text, add_special_tokens=False)`; the tokens that the post-processor
adds are in `Model.template`.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bpejit.arrays import Array, ByteStrings, distinct
from bpejit.errors import TokenizerFormatError, shorten
from bpejit.formats.folder import TOKENIZER_FILE
from bpejit.formats.huggingface_writing import sections_text
from bpejit.formats.missing_parts import TOOLS_UNICODE
from bpejit.formats.packed_vocabulary import (
    PackedVocabulary,
    are_texts,
    parse_large,
    token_strings,
)
from bpejit.formats.reading_symbols import (
    BpeSettings,
    checked_merges,
    checked_vocab,
    read_symbols,
    share_merges,
    tokens_and_merges,
)
from bpejit.formats.settings_beside import (
    SETTINGS_FILES,
    apply_settings,
    class_of,
    has_settings,
    settings_bytes,
    warn_of_rebuilt,
)
from bpejit.formats.tokenizer_files import distinct_fields, read_tokenizer_file
from bpejit.formats.vocabulary_arrays import load_stored, store_parsed
from bpejit.model import Model
from bpejit.normalization.json_fields import Fields, canonical, refused, unsupported
from bpejit.normalization.pipeline_config import FLAG_KINDS, FileSections, PipelineConfig, TokenFlags, make_template
from bpejit.splitting.presets import Pattern
from bpejit.storage.files import StrPath, parse_json
from bpejit.tokenizer_config import TokenizerConfig
from bpejit.utf8 import has_surrogates

_LONGEST_TOKEN = 1 << 16
"""Maximum length of an added token: text that arrives in pieces is kept until no token can begin in it."""


def read_tokenizer_json(path: StrPath, *, unicode: str = TOOLS_UNICODE, with_settings: bool = False) -> Model:
    """Read a `tokenizer.json`.

    Parameters
    ----------
    path : path
        The file, or a folder that contains it.
    unicode : str
        The version of Unicode that its patterns follow. The default is the version of `tokenizers`.
    with_settings : bool
        Whether to read the tokens and settings beside it as well (see `bpejit.formats.settings_beside`).

    Raises
    ------
    TokenizerFormatError
        If the file is missing or broken, or bpejit cannot reproduce it exactly. The message names the key.
    """
    file = Path(path)
    if file.is_dir():
        file = file / TOKENIZER_FILE
    beside = file.parent if with_settings and has_settings(file.parent) else None
    data = read_tokenizer_file(file)
    if data.startswith(b"\xef\xbb\xbf"):
        raise TokenizerFormatError(f"`{file}` begins with a byte order mark; expected JSON in UTF-8 without one: remove it")
    try:
        model = parse_tokenizer_json(data, file, beside, unicode)
        if beside is not None:
            warn_of_rebuilt(model, file, class_of(beside))
        return model
    except TokenizerFormatError as error:
        if error.args[0].startswith(tuple(f"`{file.parent / name}`" for name in (file.name, *SETTINGS_FILES))):
            raise
        raise TokenizerFormatError(f"`{file}`: {error}") from error


def parse_tokenizer_json(
    data: bytes, file: Path = Path(TOKENIZER_FILE), beside: Path | None = None, unicode: str = TOOLS_UNICODE
) -> Model:
    """Return the model in the bytes of a file, with the settings in a folder, or what was stored of them.

    The errors name the file only where JSON is broken.
    """
    settings = () if beside is None else settings_bytes(beside)
    described = repr((hashlib.sha256(data).hexdigest(), unicode, settings)).encode()
    stored = load_stored(described)
    model = _parse(data, file, beside, unicode) if stored is None else stored[0]
    if stored is None:
        store_parsed(described, model, {})
    return model


def _parse(data: bytes, file: Path, beside: Path | None, unicode: str) -> Model:
    content = parse_large(data, hook=distinct_fields)
    if content is not None:
        with suppress(TokenizerFormatError):  # the error of the whole file is raised below
            return _with_settings(content, beside, unicode)
    content = parse_json(data, file, error=TokenizerFormatError, hook=distinct_fields)
    return _with_settings(content, beside, unicode)


def _with_settings(content: Any, beside: Path | None, unicode: str) -> Model:
    if beside is None:
        return model_from_json(content, unicode=unicode)
    try:
        changed, config = apply_settings(content, beside, class_of(beside))
        return model_from_json(changed, unicode=unicode, config=config)
    except TokenizerFormatError:
        model_from_json(content, unicode=unicode)  # raises an error of the file alone
        raise


def model_from_json(content: Any, *, unicode: str = TOOLS_UNICODE, config: TokenizerConfig | None = None) -> Model:
    """Return the model in the content of a `tokenizer.json`, with the settings beside it; lists may be as from `parse_large`.

    Raises
    ------
    TokenizerFormatError
        As for `read_tokenizer_json`.
    """
    # Not at the top: they take 30 ms, also for other formats.
    from bpejit.normalization.decoders import Joining, read_decoder
    from bpejit.normalization.normalizers import make_normalizer
    from bpejit.normalization.pipeline import TextPipeline
    from bpejit.normalization.pretokenizers import WHOLE, make_pretokenizer
    from bpejit.splitting.joining import joining_pattern

    sections, added, options, vocab, listed = _take_sections(content)
    for name in ("normalizer", "decoder"):
        if isinstance(sections[name], dict) and sections[name].get("type") == "SentencePiece":
            raise refused(name, "is SentencePiece, which only bpejit's folders have", "load the folder, or the `.model`")
    numbers, flags = _read_added(added, vocab)
    make_template(sections["post_processor"])
    steps = PipelineConfig(canonical(sections["normalizer"]), canonical(sections["pre_tokenizer"]))
    normalizer = make_normalizer(sections["normalizer"], unicode=unicode)
    pretokenizer = make_pretokenizer(
        sections["pre_tokenizer"], mapped=normalizer.maps_bytes, space=normalizer.space, unicode=unicode
    )
    space = "" if pretokenizer.level else normalizer.space or pretokenizer.space
    space = space if space in vocab else ""  # otherwise it is unknown, and a space is not
    vocab_size = len(vocab)
    vocab, merges = share_merges(vocab, _distinct(checked_merges(listed, vocab)))
    strings, exists = token_strings(vocab.texts, level=pretokenizer.level, suffix=options.word_end, space=space)
    merges = merges[:, exists[merges].all(axis=0)]  # not those of tokens that no text becomes
    tokens, symbols = read_symbols(vocab, strings, exists, merges, numbers, options, level=pretokenizer.level, space=space)
    every, pairs = tokens_and_merges(tokens, vocab, strings, merges, symbols)
    characters = symbols is not None and symbols.characters
    fallback = symbols is not None and len(symbols.byte_ids) > 0
    decoder = read_decoder(sections["decoder"], characters=characters, space=space, fallback=fallback)
    pattern: Pattern | None = None
    divides = symbols is not None and pretokenizer.patterns == (WHOLE,) and options.divides
    made = strings.take(distinct(merges[2])) if divides else tokens.strings
    if divides and (characters or are_texts(made)):  # parts of characters join characters of any kind
        pattern = joining_pattern(made)
    added_flags = {text: flags.get(text, TokenFlags()) for text in numbers}
    pipeline = TextPipeline(steps, added_flags, symbols=symbols, pattern=pattern, unicode=unicode)
    pattern = pipeline.pattern or WHOLE
    model = Model(
        tokens=every,
        merges=pairs,
        special_tokens=numbers,
        pattern=pattern,
        ignore_merges=options.ignore_merges,
        pipeline=None if pipeline.is_plain_split and symbols is None else steps,
        token_flags=flags,
        post_processor=canonical(sections["post_processor"]),
        unicode=unicode,
        symbols=symbols,
        decoder="" if decoder == Joining() and not pipeline.changes_added else canonical(sections["decoder"]),
        config=TokenizerConfig() if config is None else config,
        file_sections=FileSections(sections_text(content), pattern, vocab_size),
    )
    is_plain = symbols is not None and pipeline.is_plain_split and model.symbols_obstacle is None
    return replace(model, pipeline=None) if is_plain else model


def _take_sections(content: Any) -> tuple[dict[str, Any], list[Any], BpeSettings, PackedVocabulary, list[Any] | ByteStrings]:
    """Return the sections of the pipeline, added tokens, and the settings, vocabulary and merges of the model."""
    top = Fields(content, "")
    version = top.take("version", str, default="1.0")
    if version != "1.0":
        raise refused("version", f"is {shorten(version)}; expected '1.0'", "get a tokenizer of that version")
    for ignored in ("truncation", "padding"):
        top.take(ignored, dict, type(None), default=None)
    sections = {
        name: top.take(name, dict, type(None), default=None)
        for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    }
    added: list[Any] = top.take("added_tokens", list, default=[])
    value = top.take("model", dict)
    fields = Fields(value, "model")
    top.done()
    options = _read_options(fields, _kind_of(value))
    vocab = checked_vocab(fields.take("vocab", dict, PackedVocabulary))
    listed: list[Any] | ByteStrings = fields.take("merges", list, ByteStrings)
    fields.done()
    return sections, added, options, vocab, listed


def _kind_of(model: dict[str, Any]) -> str:
    """Return the type of a model that does not name it, as in old files."""
    if isinstance(model.get("vocab"), list):
        return "Unigram"
    return "BPE" if "merges" in model else "WordPiece" if "max_input_chars_per_word" in model else "WordLevel"


def _read_options(fields: Fields, inferred: str) -> BpeSettings:
    """Return the settings of the model."""
    kind = fields.take("type", str, default=inferred)
    if kind in _OTHER_MODELS:
        raise refused("model", f"is a tokenizer of the kind {kind}, not BPE", f"use {_OTHER_MODELS[kind]}")
    if kind != "BPE":
        raise unsupported("model", kind, "BPE")
    dropout = fields.take("dropout", float, type(None), default=None)
    if dropout:
        raise refused("model.dropout", f"is {dropout}, which makes ids random; expected null or 0", "set it to null")
    prefix = fields.take("continuing_subword_prefix", str, type(None), default=None)
    if prefix:
        raise refused("model.continuing_subword_prefix", f"is {shorten(prefix)}; expected null", "encode with `tokenizers`")
    return BpeSettings(
        word_end=fields.take("end_of_word_suffix", str, type(None), default=None) or "",
        unknown=fields.take("unk_token", str, type(None), default=None),
        fuses_unknown=fields.take("fuse_unk", bool, default=False),
        byte_fallback=fields.take("byte_fallback", bool, default=False),
        ignore_merges=fields.take("ignore_merges", bool, default=False),
    )


_OTHER_MODELS = {
    "Unigram": "`sentencepiece` or `tokenizers`",
    "WordPiece": "`tokenizers`",
    "WordLevel": "`tokenizers`",
}
"""The kinds of models that are not BPE, and what reads them."""


def _distinct(merges: Array) -> Array:
    """Return merges without repeated pairs, of which the last position counts, as in `tokenizers`."""
    pairs = merges[0].astype(np.int64) << 32 | merges[1]
    if distinct(pairs).size == pairs.size:
        return merges
    _, last = np.unique(pairs[::-1], return_index=True)
    return merges[:, np.sort(pairs.size - 1 - last)]


def _read_added(added: list[Any], vocab: PackedVocabulary) -> tuple[dict[str, int], dict[str, TokenFlags]]:
    """Return the ids of added tokens, and the flags of added tokens that are not plain."""
    numbers: dict[str, int] = {}
    flags: dict[str, TokenFlags] = {}
    following = len(vocab)
    plain = TokenFlags()
    top = Fields({})
    kinds = {"id": int, "content": str, **FLAG_KINDS}
    tokens = [top.record(f"added_tokens[{number}]", value, **kinds) for number, value in enumerate(added)]
    indexes = vocab.find(*(text for _, text, *_ in tokens)).tolist()
    for number, ((token_id, text, *values), index) in enumerate(zip(tokens, indexes, strict=True)):
        found, path = TokenFlags(*values), f"added_tokens[{number}]"
        if len(text) > _LONGEST_TOKEN:
            raise refused(
                f"{path}.content", f"has {len(text)} characters; expected at most {_LONGEST_TOKEN}", "remove the token"
            )
        if not text or has_surrogates(text):
            raise refused(f"{path}.content", f"is {shorten(text)}; expected text that can be found", "remove the token")
        if text in numbers:
            if (token_id, found) == (numbers[text], flags.get(text, plain)):
                continue
            raise refused(f"{path}.content", f"is {shorten(text)}, as in an earlier token, which differs", "remove one")
        # `tokenizers` assigns ids by the vocabulary and the order of the list, and ignores the ids in the file.
        expected = following if index < 0 else int(vocab.numbers[index])
        if token_id != expected:
            raise refused(
                f"{path}.id",
                f"is {shorten(token_id)} for {shorten(text)}, but `tokenizers` gives it the id {expected}",
                "correct the file",
            )
        numbers[text] = token_id
        following = max(following, token_id + 1)
        if found != plain:
            flags[text] = found
    return numbers, flags
