"""The folder in which bpejit saves a tokenizer.

It *is* a Hugging Face tokenizer, `tokenizer.json` with `tokenizer_config.json`, plus `bpejit.json`:

format, format_version, bpejit_version
    What the folder is, and who wrote it.
tokenizer_file, tokenizer_file_sha256
    Which file holds tokens and merges, and its hash: a file that was changed is not read.
not_for_other_tools
    Why `tokenizer_file` is `model.json`, which no other tool looks for, and not `tokenizer.json`; null if it is.
sha256
    Hash of all that decides ids (`Model.sha256`); token files carry it.
sections_of_source
    Whether the sections of `tokenizer_file` besides vocabulary and merges are those of the `tokenizer.json` that the tokenizer
    was read from; missing where they are bpejit's own.
pattern
    `name` of the preset, or null, and `source`, the regular expression as bpejit reads it, or a list of those that are
    applied one after the other.
shared_ids
    Ids of special tokens that are ordinary tokens too.
preparation, token_flags, post_processor
    As `tokenizer.json` has them (see `Model`), where the tokenizer was read from one.
unicode
    The version of Unicode by which the pattern knows letters from other characters; null, or missing, for that of whichever
    `regex` package is installed.
ranked, ignore_merges
    How tokens merge (see `Model`). For a ranked model the merges of `tokenizer_file` are for other tools.
config
    Settings for `transformers`, as `tokenizer_config.json` has them; missing where there are none.
tie_break, merge_counts
    How the tokenizer was trained: the tie rule, and how often each merge's pair occurred.
vocab_size, token_lengths
    One more than the largest id, and for each id how many bytes of text it stands for: 0 for special tokens and unused ids,
    as bits-per-byte measures need it. Null where ids have large gaps.
training
    Notes for people: settings, and where the text came from.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from bpejit import __version__
from bpejit.errors import BpejitError, OutputError, PatternError, SpecialTokenError, TokenizerFormatError, shorten
from bpejit.formats.huggingface import (
    CONFIG_FILE,
    file_sections,
    pre_tokenizer,
    sections_text,
    special_token_obstacle,
    tokenizer_config_json,
    tokenizer_json,
)
from bpejit.formats.pipelines import split_steps
from bpejit.model import Model, pattern_source, special_bytes
from bpejit.normalization.byte_characters import bytes_to_text, text_to_bytes
from bpejit.normalization.json_fields import canonical
from bpejit.normalization.record import FileSections, Preparation, TokenFlags
from bpejit.splitting.presets import Pattern
from bpejit.storage.exchange import recover_description
from bpejit.storage.files import StrPath, parse_json, read_file, replacing_all
from bpejit.storage.outputs import check_output_folder, check_outputs
from bpejit.storage.temporary import sync_folders
from bpejit.tokenizer_config import TokenizerConfig

FORMAT = "bpejit tokenizer"

FORMAT_VERSION = 3
"""Version 2 has `ranked`, `ignore_merges`, `preparation`, `token_flags` and `post_processor`, version 3 has `unicode`. What
has none of them is written as version 1 or 2."""

_STEPS = ("normalizer", "pre_tokenizer")

OWN_FILE = "bpejit.json"

TOKENIZER_FILE = "tokenizer.json"

PRIVATE_FILE = "model.json"
"""Holds the same as `tokenizer.json` where other tools would read that differently; they do not look for this name."""


_PUBLIC_FILES = (TOKENIZER_FILE, CONFIG_FILE, OWN_FILE)


def save_folder(
    model: Model, path: StrPath, *, legacy_merges: bool = False, must_be_public: bool = False, overwrite: bool = False
) -> str | None:
    """Save a model as a folder, which is made if it does not exist.

    Parameters
    ----------
    model : Model
    path : path
    legacy_merges : bool
        Whether merges are written as `"a b"` (see `tokenizer_json`).
    must_be_public : bool
        Whether a folder that other tools cannot read is an error.
    overwrite : bool
        Whether a tokenizer that is in the folder is replaced. Other files are never touched.

    Returns
    -------
    str, optional
        Why other tools cannot read the folder; None if they can.

    Raises
    ------
    OutputError
        If a file cannot be written, or exists and `overwrite` is false. What was there is unchanged.
    TokenizerFormatError
        If other tools cannot read the folder, and `must_be_public`.
    """
    folder = Path(path)
    check_folder(folder, overwrite=overwrite)
    source = pattern_source(model.pattern)
    try:
        splitting, obstacle = pre_tokenizer(model), special_token_obstacle(model)
    except PatternError as error:
        splitting, obstacle = split_steps(source), str(error)
    if obstacle and must_be_public:
        raise TokenizerFormatError(
            f"the tokenizer cannot be written for Hugging Face: {obstacle}; expected one that it reads with equal ids: "
            "save it in bpejit's own format"
        )
    written = tokenizer_json(model, splitting, legacy_merges=legacy_merges)
    name = PRIVATE_FILE if obstacle else TOKENIZER_FILE
    own = _own_json(model, source, name, written, obstacle)
    with made_folder(folder):
        if obstacle:
            stale = [folder / TOKENIZER_FILE, folder / CONFIG_FILE]
            with replacing_all([folder / PRIVATE_FILE, folder / OWN_FILE], remove=stale) as (tokenizer_file, own_file):
                tokenizer_file.write(written)
                own_file.write(own)
        else:
            targets = [folder / TOKENIZER_FILE, folder / CONFIG_FILE, folder / OWN_FILE]
            stale = [folder / PRIVATE_FILE] if _is_ours(folder, PRIVATE_FILE) else []
            with replacing_all(targets, remove=stale) as (tokenizer_file, config_file, own_file):
                tokenizer_file.write(written)
                config_file.write(tokenizer_config_json(model))
                own_file.write(own)
    return obstacle


def check_folder(path: StrPath, *, inputs: Iterable[StrPath] = (), overwrite: bool = False) -> None:
    """Raise what `save_folder` would, as far as it is known beforehand: worth a call before hours of training.

    Parameters
    ----------
    path : path
    inputs : paths
        The files that will be read before.
    overwrite : bool

    Raises
    ------
    OutputError
        If `path` is a file or cannot be written to, or if one of the files that may be written is there and `overwrite` is
        false, or is one of the inputs.
    """
    check_output_folder(path, _PUBLIC_FILES)
    folder = Path(path)
    targets = [folder / name for name in (*_PUBLIC_FILES, PRIVATE_FILE)]
    check_outputs(targets, inputs=inputs, overwrite=overwrite, folder=folder)


def _is_ours(folder: Path, name: str) -> bool:
    """Return whether bpejit wrote a tokenizer to a folder with this file in it: other files of that name are the user's."""
    try:
        own = json.loads((folder / OWN_FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(own, dict) and own.get("format") == FORMAT and own.get("tokenizer_file") == name


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Make a folder and those above it where they are missing; if the block fails, those that are still empty go away.

    Raises
    ------
    OutputError
        If it cannot be made.
    """
    missing = []
    above = folder
    while not above.exists() and above != above.parent:
        missing.append(above)
        above = above.parent
    try:
        _make_folder(folder)
        sync_folders([new.parent for new in missing])
        yield
    except BaseException:
        for new in missing:
            _remove_empty(new)
        raise


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        raise OutputError(
            f"cannot make the folder `{folder}`: {cause.strerror}; expected a place that may be written to: choose another"
        ) from cause


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # someone else may have put a file there
        folder.rmdir()


def _own_json(model: Model, source: Pattern, name: str, written: bytes, obstacle: str | None) -> bytes:
    fields = {
        "format": FORMAT,
        "format_version": _format_version(model),
        "bpejit_version": __version__,
        "tokenizer_file": name,
        "tokenizer_file_sha256": hashlib.sha256(written).hexdigest(),
        "not_for_other_tools": obstacle,
        "sha256": model.sha256,
        "pattern": {
            "name": model.pattern if isinstance(model.pattern, str) and source != model.pattern else None,
            "source": source,
        },
        "shared_ids": sorted(set(model.special_tokens.values()) & model.tokens.keys()),
        **({"sections_of_source": True} if file_sections(model) is not None else {}),
        "unicode": model.unicode,
        "ranked": model.ranked,
        "ignore_merges": model.ignore_merges,
        "preparation": _preparation_fields(model),
        "token_flags": {text: flags.as_dict for text, flags in model.token_flags.items()},
        "post_processor": json.loads(model.post_processor),
        "tie_break": model.tie_break,
        **({"config": model.config.fields} if model.config.fields else {}),
        "training": model.training,
        "vocab_size": model.vocab_size,
        "merge_counts": model.merge_counts,
        "token_lengths": _token_lengths(model),
    }
    # ASCII: file names in the notes may hold bytes that are no UTF-8.
    lines = (f"  {json.dumps(key)}: {json.dumps(value, default=_plain_value)}" for key, value in fields.items())
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("ascii")


def _format_version(model: Model) -> int:
    """Return the oldest version of the format that can say what the model is."""
    if model.unicode is not None:
        return FORMAT_VERSION
    plain = not (model.ranked or model.ignore_merges or model.preparation or model.token_flags)
    return 1 if plain and model.post_processor == "null" else 2


def _config(own: dict[str, Any], path: Path) -> TokenizerConfig:
    fields = _field({"config": {}, **own}, "config", dict, path)
    known = {name: value for name, value in fields.items() if name in TokenizerConfig.__dataclass_fields__}
    try:
        return TokenizerConfig.checked(**known)
    except BpejitError as error:
        raise TokenizerFormatError(f"`{path}`: {error}") from error


def _preparation_fields(model: Model) -> dict[str, Any] | None:
    if model.preparation is None:
        return None
    return {name: json.loads(getattr(model.preparation, name)) for name in _STEPS}


def _plain_value(value: Any) -> Any:
    """Turn what training notes may hold besides JSON's own types into those."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return value.tolist()
    raise TypeError(f"the training notes hold {shorten(value)}, a {type(value).__name__}; expected what JSON can say")


def _token_lengths(model: Model) -> list[int] | None:
    size = model.vocab_size
    if size > 2 * len(model.vocab) + 65536:
        return None
    lengths = [0] * size
    for token_id, token in model.tokens.items():
        lengths[token_id] = len(token)
    for token_id in model.special_tokens.values():
        lengths[token_id] = 0
    return lengths


def load_folder(path: StrPath, *, unicode: str | None = None) -> Model:
    """Load a model from a folder that `save_folder` has written.

    Parameters
    ----------
    path : path
    unicode : str, optional
        The version of Unicode that the pattern follows, instead of the one that the folder says: another tokenizer.

    Raises
    ------
    TokenizerFormatError
        If the folder is missing, was changed, is of another format, or of a later version of this one, or if the installed
        `regex` package cannot follow its version of Unicode.
    """
    folder = Path(path)
    own_path = folder / OWN_FILE
    if not own_path.exists():
        recover_description(own_path, error=TokenizerFormatError)
    if not own_path.exists():
        raise _not_ours(folder)
    own = _object(parse_json(read_file(own_path, error=TokenizerFormatError), own_path, error=TokenizerFormatError), own_path)
    _check_version(own, own_path)
    name = _field(own, "tokenizer_file", str, own_path)
    if name not in (TOKENIZER_FILE, PRIVATE_FILE):
        raise _bad_field(own_path, "tokenizer_file", name, f"{TOKENIZER_FILE} or {PRIVATE_FILE}")
    tokenizer_path = folder / name
    data = read_file(tokenizer_path, error=TokenizerFormatError, what="tokenizer file")
    expected = _field(own, "tokenizer_file_sha256", str, own_path)
    found = hashlib.sha256(data).hexdigest()
    if found != expected:
        raise TokenizerFormatError(
            f"`{tokenizer_path}` was changed after bpejit wrote it: its SHA-256 is {found}, expected {shorten(expected)}; "
            "restore the file, or save the tokenizer again"
        )
    pattern = _field(own, "pattern", dict, own_path)
    preset = _field(pattern, "name", (str, type(None)), own_path)
    source = _pattern_source(pattern, own_path)
    shared_ids = _numbers(own, "shared_ids", own_path)
    ranked, ignore_merges = (_flag(own, key, own_path) for key in ("ranked", "ignore_merges"))
    content = _object(parse_json(data, tokenizer_path, error=TokenizerFormatError), tokenizer_path)
    tokens, merges, specials = _parse_tokenizer(content, tokenizer_path, set(shared_ids))
    if ranked:
        merges = []
    merge_counts = None if own.get("merge_counts", ...) is None else _numbers(own, "merge_counts", own_path, len(merges))
    # A preset that this bpejit does not know, or knows otherwise: the source is what the tokenizer was trained with.
    split_pattern = preset if preset is not None and pattern_source(preset) == source else source
    try:
        model = Model(
            tokens=tokens,
            merges=merges,
            special_tokens=specials,
            pattern=split_pattern,
            tie_break=_field(own, "tie_break", (str, type(None)), own_path),
            merge_counts=merge_counts,
            training=_field(own, "training", dict, own_path),
            ranked=ranked,
            ignore_merges=ignore_merges,
            preparation=_preparation(own, own_path),
            token_flags=_token_flags(own, own_path),
            post_processor=canonical(own.get("post_processor")),
            unicode=_field({"unicode": None, **own}, "unicode", (str, type(None)), own_path),
            config=_config(own, own_path),
            file_sections=(
                FileSections(sections_text(content), split_pattern) if _flag(own, "sections_of_source", own_path) else None
            ),
        )
    except (TokenizerFormatError, SpecialTokenError) as error:
        raise TokenizerFormatError(f"`{tokenizer_path}`: {error}") from error
    expected = _field(own, "sha256", str, own_path)
    if model.sha256 != expected:
        raise TokenizerFormatError(
            f"`{own_path}` was changed after bpejit wrote it: it says that the tokenizer's SHA-256 is {shorten(expected)}, "
            f"but it is {model.sha256}; restore the file, or save the tokenizer again"
        )
    if unicode is not None:
        return replace(model, unicode=unicode)
    if model.unicode is not None:
        _check_unicode(model.unicode, own_path)
    return model


def _check_unicode(version: str, path: Path) -> None:
    from bpejit.splitting.unicode_versions import check_unicode

    try:
        check_unicode(version)
    except PatternError as error:
        raise TokenizerFormatError(
            f"`{path}`: {error}; or load the tokenizer with another version, as `unicode=`, if other ids will do"
        ) from error


def _not_ours(folder: Path) -> TokenizerFormatError:
    if not folder.exists():
        return TokenizerFormatError(
            f"there is no tokenizer `{folder}`: no such file or folder; expected one that `bpejit train` has written: "
            "check the path, or train one with `bpejit train CORPUS --vocab-size N`"
        )
    if not folder.is_dir():
        beside = f"; its folder is one: give `{folder.parent}`" if (folder.parent / OWN_FILE).exists() else ""
        return TokenizerFormatError(
            f"`{folder}` is a file; expected a folder that `bpejit train` has written{beside or ': give its path'}"
        )
    if (folder / TOKENIZER_FILE).exists():
        return TokenizerFormatError(
            f"`{folder / TOKENIZER_FILE}` has no {OWN_FILE} beside it, so bpejit did not write it; expected a folder that "
            "`bpejit train` has written: read this one with `bpejit.load`, or `read_tokenizer_json`"
        )
    return TokenizerFormatError(
        f"`{folder}` holds no tokenizer: there is no {OWN_FILE}; expected a folder that `bpejit train` has written: "
        "check the path"
    )


def _check_version(own: dict[str, Any], path: Path) -> None:
    if own.get("format") != FORMAT:
        raise _bad_field(path, "format", own.get("format"), repr(FORMAT))
    version = _field(own, "format_version", int, path)
    if version > FORMAT_VERSION:
        writer = shorten(own["bpejit_version"]) if "bpejit_version" in own else "of a later version"
        raise TokenizerFormatError(
            f"`{path}` has format version {shorten(version)}, and bpejit {__version__} reads up to {FORMAT_VERSION}; it was "
            f"written by bpejit {writer}: install that or a later one"
        )
    if version < 1:
        raise _bad_field(path, "format_version", version, "1")


def _parse_tokenizer(
    content: dict[str, Any], path: Path, shared_ids: set[int]
) -> tuple[dict[int, bytes], list[tuple[bytes, bytes]], dict[str, int]]:
    """Return tokens, merges and special tokens of a `tokenizer.json` in the form in which `tokenizer_json` writes it."""
    model = _field(content, "model", dict, path)
    specials: dict[str, int] = {}
    for added in _field(content, "added_tokens", list, path):
        text = _field(_object(added, path), "content", str, path)
        specials[text] = _field(added, "id", int, path)
    tokens: dict[int, bytes] = {}
    by_text: dict[str, bytes] = {}
    for text, token_id in _field(model, "vocab", dict, path).items():
        if type(token_id) is not int:
            raise _bad_field(path, f"id of {shorten(text)}", token_id, "a whole number")
        if specials.get(text) == token_id and not (token_id in shared_ids and bytes_to_text(special_bytes(text)) == text):
            continue
        try:
            token = text_to_bytes(text)
        except UnicodeEncodeError as cause:
            raise _bad_field(path, "token", text, "one character of GPT-2's byte alphabet for each byte") from cause
        if token_id in tokens:
            raise TokenizerFormatError(
                f"`{path}`: the tokens {shorten(tokens[token_id])} and {shorten(token)} both have the id {token_id}; "
                "expected one token for each id: save the tokenizer again"
            )
        tokens[token_id] = by_text[text] = token
    pairs = _field(model, "merges", list, path)
    try:
        # No byte's character is a space, so a pair in one string has one.
        split = (pair.split(" ") if isinstance(pair, str) else pair for pair in pairs)
        return tokens, [(by_text[left], by_text[right]) for left, right in split], specials
    except (TypeError, ValueError, KeyError) as cause:
        rank = next(rank for rank, pair in enumerate(pairs) if not _is_pair(pair, by_text))
        raise _bad_field(path, f"merge {rank + 1}", pairs[rank], "two tokens of the vocabulary") from cause


def _pattern_source(fields: dict[str, Any], path: Path) -> Pattern:
    """Return the regular expression of the split pattern, or those of a sequence."""
    source = _field(fields, "source", (str, list), path)
    if isinstance(source, str):
        return source
    if not source or not all(isinstance(stage, str) for stage in source):
        raise _bad_field(path, "source", source, "a regular expression or a list of them")
    return tuple(source)


def _is_pair(value: Any, known: dict[str, bytes]) -> bool:
    value = value.split(" ") if isinstance(value, str) else value
    return isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) and part in known for part in value)


def _object(value: Any, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TokenizerFormatError(f"`{path}` holds {_shown(value)}; expected a JSON object: save the tokenizer again")
    return value


def _field(fields: dict[str, Any], key: str, kind: type | tuple[type, ...], path: Path) -> Any:
    """Return a required value, checked for its type."""
    if key not in fields:
        raise TokenizerFormatError(
            f"`{path}` has no {shorten(key)}; it was changed or cut: restore it, or save the tokenizer again"
        )
    value = fields[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        names = " or ".join(_JSON_NAMES[one] for one in kinds)
        raise _bad_field(path, key, value, names)
    return value


def _preparation(fields: dict[str, Any], path: Path) -> Preparation | None:
    value = fields.get("preparation")
    if value is None:
        return None
    if not isinstance(value, dict) or set(value) != set(_STEPS):
        raise _bad_field(path, "preparation", value, f"null, or an object of {' and '.join(_STEPS)}")
    return Preparation(**{name: canonical(value[name]) for name in _STEPS})


def _token_flags(fields: dict[str, Any], path: Path) -> dict[str, TokenFlags]:
    found = {}
    for text, flags in _field({"token_flags": {}, **fields}, "token_flags", dict, path).items():
        if not isinstance(flags, dict) or set(flags) != set(TokenFlags().as_dict) or set(map(type, flags.values())) != {bool}:
            raise _bad_field(
                path, f"token_flags of {shorten(text)}", flags, f"true or false for {', '.join(TokenFlags().as_dict)}"
            )
        found[text] = TokenFlags(**flags)
    return found


def _flag(fields: dict[str, Any], key: str, path: Path) -> bool:
    """Return a flag; false where it is missing."""
    value = fields.get(key, False)
    if not isinstance(value, bool):
        raise _bad_field(path, key, value, "true or false")
    return value


def _numbers(fields: dict[str, Any], key: str, path: Path, size: int | None = None) -> list[int]:
    """Return a required list of whole numbers, `size` of them."""
    numbers: list[int] = _field(fields, key, list, path)
    if not set(map(type, numbers)) <= {int} or size not in (None, len(numbers)):
        raise _bad_field(path, key, numbers, f"{'a list of' if size is None else size} whole numbers")
    return numbers


_JSON_NAMES = {str: "a string", int: "a whole number", list: "a list", dict: "an object", type(None): "null"}


def _bad_field(path: Path, key: str, value: Any, expected: str) -> TokenizerFormatError:
    return TokenizerFormatError(
        f"`{path}`: {key} is {_shown(value)}; expected {expected}: restore the file, or save the tokenizer again"
    )


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
