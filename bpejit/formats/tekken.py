"""Mistral's `tekken.json`: ranks, split pattern and special tokens in one file.

config
    `pattern`; `default_num_special_tokens`, the number of ids of special tokens; `default_vocab_size`, the number of all
    ids (further entries of `vocab` are ignored); `version`, such as "v3".
vocab
    For each token `rank` (0, 1, 2, ...) and `token_bytes` (base64). The id is the rank plus the number of special tokens.
    The first 256 tokens are the bytes.
special_tokens
    For each special token `rank`, which is the id, and `token_str`. Files up to version 7 may lack the list; they have the
    twenty special tokens of mistral-common. The remaining ids are named `<SPECIAL_n>`.

mistral-common does not recognize special tokens in text; bpejit does by default.
"""

from __future__ import annotations

import binascii
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpejit.errors import TokenizerFormatError, shorten
from bpejit.formats.base import Given, TokenizerFormat
from bpejit.formats.missing_parts import TOOLS_UNICODE
from bpejit.formats.tiktoken_ranks import MAX_RANK, MAX_TOKEN_BYTES
from bpejit.formats.tokenizer_files import naming, read_tokenizer_file
from bpejit.model import Model
from bpejit.normalization.json_fields import Fields
from bpejit.storage.files import StrPath, parse_json

if TYPE_CHECKING:
    from typing_extensions import Unpack

TEKKEN_FILE = "tekken.json"

EARLY_SPECIAL_TOKENS = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]"),
    *("[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"),
)
"""The special tokens of files without a list, in order of their ids."""

LAST_EARLY_VERSION = 7

_AGAIN = "get the file again"

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


class TekkenFormat(TokenizerFormat):
    """Mistral's `tekken.json`."""

    name = "tekken"
    expected = f"Mistral's `{TEKKEN_FILE}`"
    file_names = (TEKKEN_FILE,)

    def recognizes(self, head: bytes, content: Any) -> bool:  # noqa: ARG002
        """Return True for an object with settings and a list of tokens."""
        return isinstance(content, dict) and isinstance(content.get("config"), dict) and isinstance(content.get("vocab"), list)

    def read(self, path: Path, **given: Unpack[Given]) -> Model:
        """Return the model in a file. The default version of Unicode is that of tiktoken, which mistral-common uses."""
        content = parse_json(read_tokenizer_file(path), path, error=TokenizerFormatError)
        top = Fields(content, file=path, action=_AGAIN)
        config = top.object_at("config", top.take("config", dict))
        pattern = config.take("pattern", str)
        n_specials = _count(config, "default_num_special_tokens")
        n_ids = _count(config, "default_vocab_size")
        specials = _read_specials(path, top, config, n_specials)
        vocab = top.take("vocab", list)
        most = n_specials + len(vocab)
        if not n_specials <= n_ids <= most:
            raise config.bad("default_vocab_size", n_ids, f"{n_specials} to {most}, with {len(vocab)} in `vocab`")
        tokens = {n_specials + rank: _token(top, rank, vocab[rank]) for rank in range(n_ids - n_specials)}
        with naming(path):
            return Model(
                tokens=tokens,
                merges=[],
                special_tokens=specials,
                pattern=pattern,
                ranked=True,
                unicode=given.get("unicode") or TOOLS_UNICODE,
            )


def _token(top: Fields, rank: int, entry: Any) -> bytes:
    text = None
    if isinstance(entry, dict) and type(entry.get("rank")) is int and entry["rank"] == rank:
        text = entry.get("token_bytes")
    try:
        token = binascii.a2b_base64(text) if isinstance(text, str) and _BASE64.fullmatch(text) else b""
    except binascii.Error:
        token = b""
    if 0 < len(token) <= MAX_TOKEN_BYTES and (rank >= 256 or token == bytes([rank])):
        return token
    fields = top.object_at(f"vocab[{rank}]", entry)  # for the message
    number = fields.take("rank", int)
    if number != rank:
        raise fields.bad("rank", number, f"{rank}, since ranks are consecutive")
    text = fields.take("token_bytes", str)
    if not token:
        raise fields.bad("token_bytes", text, "a token in base64")
    if len(token) > MAX_TOKEN_BYTES:
        raise fields.bad("token_bytes", text, f"at most {MAX_TOKEN_BYTES} bytes, not {len(token)}")
    raise fields.bad("token_bytes", text, f"the byte {rank}, since the first 256 tokens are the bytes")


def _read_specials(path: StrPath, top: Fields, config: Fields, n_specials: int) -> dict[str, int]:
    listed = top.take("special_tokens", list, type(None), default=None)
    if listed is None:
        version = config.take("version", str, default=None)
        found = re.fullmatch(r"v([0-9]{1,4})", version or "")
        if found is None or int(found[1]) > LAST_EARLY_VERSION:
            raise TokenizerFormatError(
                f"`{path}` has no `special_tokens`, and its version is {shorten(version)}; expected the list, or a "
                f"version up to v{LAST_EARLY_VERSION}, for which it is known: get a file with the list"
            )
        specials = {text: number for number, text in enumerate(EARLY_SPECIAL_TOKENS)}
    else:
        specials = {}
        for index, value in enumerate(listed):
            entry = top.object_at(f"special_tokens[{index}]", value)
            text = entry.take("token_str", str)
            if text in specials:
                raise entry.bad("token_str", text, "each special token only once")
            specials[text] = entry.take("rank", int)
    if sorted(specials.values()) != list(range(len(specials))):
        raise top.bad("special_tokens", sorted(specials.values()), "consecutive ranks from 0")
    if len(specials) > n_specials:
        raise config.bad("default_num_special_tokens", n_specials, f"at least {len(specials)}, the length of the list")
    for number in range(len(specials), n_specials):
        text = f"<SPECIAL_{number}>"
        if text in specials:
            raise top.bad("special_tokens", text, "another name, since unused ids have such names")
        specials[text] = number
    return specials


def _count(config: Fields, key: str) -> int:
    value: int = config.take(key, int)
    if not 0 <= value <= MAX_RANK:
        raise config.bad(key, value, f"a number from 0 to {MAX_RANK}")
    return value
