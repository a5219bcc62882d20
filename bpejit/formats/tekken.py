"""Mistral's `tekken.json`: ranks, split pattern and special tokens in one file.

config
    `pattern`; `default_num_special_tokens`, the ids that special tokens have; `default_vocab_size`, how many ids there are:
    only so many entries of `vocab` count; `version`, such as "v3".
vocab
    `rank`, 0, 1, 2, ..., and `token_bytes` in base64 of each token; its id is its rank and the number of special tokens.
    The first 256 are the bytes.
special_tokens
    `rank`, which is the id, and `token_str`. Files up to version 7 may lack the list: these have twenty tokens that
    mistral-common knows. Ids that are left are named `<SPECIAL_n>`.

mistral-common does not look for special tokens in text; bpejit does, where it is not told otherwise.
"""

from __future__ import annotations

import binascii
import re
from typing import Any

from bpejit.errors import TokenizerFormatError, shorten
from bpejit.formats.compressed import read_tokenizer_file
from bpejit.formats.published import TOOLS_UNICODE
from bpejit.formats.tiktoken import MAX_RANK, MAX_TOKEN_BYTES
from bpejit.model import Model
from bpejit.storage.files import StrPath, parse_json

EARLY_SPECIAL_TOKENS = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]"),
    *("[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"),
)
"""The special tokens, in order of their ids, of files that have no list of them."""

LAST_EARLY_VERSION = 7

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def read_tekken(path: StrPath, *, unicode: str = TOOLS_UNICODE) -> Model:
    """Read a `tekken.json`.

    Parameters
    ----------
    path : path
    unicode : str
        The version of Unicode that the pattern follows; that of tiktoken, which mistral-common splits with.

    Raises
    ------
    TokenizerFormatError
        If the file is missing or broken; the message names the key.
    """
    content = parse_json(read_tokenizer_file(path), path, error=TokenizerFormatError)
    config = _field(path, content, "config", dict)
    pattern = _field(path, config, "pattern", str, "config")
    n_specials = _count(path, config, "default_num_special_tokens")
    n_ids = _count(path, config, "default_vocab_size")
    specials = _read_specials(path, content, config, n_specials)
    vocab = _field(path, content, "vocab", list)
    if not n_specials <= n_ids <= n_specials + len(vocab):
        raise _bad(
            path, "config.default_vocab_size", n_ids, f"{n_specials} to {n_specials + len(vocab)}, with {len(vocab)} in `vocab`"
        )
    tokens = {n_specials + rank: _token(path, rank, vocab[rank]) for rank in range(n_ids - n_specials)}
    try:
        return Model(tokens=tokens, merges=[], special_tokens=specials, pattern=pattern, ranked=True, unicode=unicode)
    except TokenizerFormatError as error:
        raise TokenizerFormatError(f"`{path}`: {error}") from error


def _token(path: StrPath, rank: int, entry: Any) -> bytes:
    place = f"vocab[{rank}]"
    if _field(path, entry, "rank", int, place) != rank:
        raise _bad(path, f"{place}.rank", entry["rank"], f"{rank}: ranks go up by one")
    text = _field(path, entry, "token_bytes", str, place)
    try:
        token = binascii.a2b_base64(text) if _BASE64.fullmatch(text) else b""
    except binascii.Error:
        token = b""
    if not token:
        raise _bad(path, f"{place}.token_bytes", text, "a token in base64")
    if len(token) > MAX_TOKEN_BYTES:
        raise _bad(path, f"{place}.token_bytes", text, f"at most {MAX_TOKEN_BYTES} bytes, not {len(token)}")
    if rank < 256 and token != bytes([rank]):
        raise _bad(path, f"{place}.token_bytes", text, f"the byte {rank}: the first 256 tokens are the bytes")
    return token


def _read_specials(path: StrPath, content: dict[str, Any], config: dict[str, Any], n_specials: int) -> dict[str, int]:
    listed = content.get("special_tokens")
    if listed is None:
        version = config.get("version")
        found = re.fullmatch(r"v([0-9]{1,4})", version) if isinstance(version, str) else None
        if found is None or int(found[1]) > LAST_EARLY_VERSION:
            raise TokenizerFormatError(
                f"`{path}` has no `special_tokens`, and its version is {shorten(version)}; expected the list, or a "
                f"version up to v{LAST_EARLY_VERSION}, for which it is known: get a file that has it"
            )
        specials = {text: number for number, text in enumerate(EARLY_SPECIAL_TOKENS)}
    else:
        specials = {}
        for place, entry in enumerate(_field(path, content, "special_tokens", list)):
            name = f"special_tokens[{place}]"
            text = _field(path, entry, "token_str", str, name)
            if text in specials:
                raise _bad(path, f"{name}.token_str", text, "each special token only once")
            specials[text] = _field(path, entry, "rank", int, name)
    if sorted(specials.values()) != list(range(len(specials))):
        raise _bad(path, "special_tokens", sorted(specials.values()), "the ranks from 0 on, each once")
    if len(specials) > n_specials:
        raise _bad(path, "config.default_num_special_tokens", n_specials, f"at least {len(specials)}, as many as there are")
    for number in range(len(specials), n_specials):
        text = f"<SPECIAL_{number}>"
        if text in specials:
            raise _bad(path, "special_tokens", text, "other names, since the ids that are left are named so")
        specials[text] = number
    return specials


def _count(path: StrPath, config: dict[str, Any], key: str) -> int:
    value: int = _field(path, config, key, int, "config")
    if not 0 <= value <= MAX_RANK:
        raise _bad(path, f"config.{key}", value, f"a number from 0 to {MAX_RANK}")
    return value


_JSON_NAMES = {str: "a string", int: "a whole number", list: "a list", dict: "an object"}


def _field(path: StrPath, fields: Any, key: str, kind: type, place: str = "") -> Any:
    if not isinstance(fields, dict):
        raise _bad(path, place or "the content", fields, "an object")
    value = fields.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _bad(path, f"{place}.{key}" if place else key, value, _JSON_NAMES[kind])
    return value


def _bad(path: StrPath, key: str, value: Any, expected: str) -> TokenizerFormatError:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return TokenizerFormatError(f"`{path}`: {key} is {shown}; expected {expected}: get the file again")
