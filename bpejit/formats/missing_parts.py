"""What rank files and GPT-2's pair do not contain: split pattern, special tokens, and version of Unicode.

For published files it is known, by name and content. Beside a file `NAME` that bpejit writes it is in a sidecar file,
`NAME.bpejit.json`:

format, format_version, bpejit_version
    The kind of file, and the version that wrote it.
sha256
    Hash of the file `NAME`. A file that was changed is not read.
pattern
    The split pattern: a regular expression in bpejit's dialect, or the name of a preset.
special_tokens
    Text and id of each special token.
unicode
    The version of Unicode of the pattern, in format version 2.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from pathlib import Path
from typing import NamedTuple

from bpejit import __version__
from bpejit.errors import TokenizerFormatError, shorten, warn_user
from bpejit.formats.base import without_gz
from bpejit.formats.tokenizer_files import check_unchanged, read_json
from bpejit.model import Model
from bpejit.normalization.json_fields import Fields
from bpejit.splitting.presets import PRESETS
from bpejit.storage.files import StrPath

FORMAT = "bpejit sidecar"

FORMAT_VERSION = 2
"""Version 2 has `unicode`. A model without it is written as version 1."""

SUFFIX = ".bpejit.json"

END_OF_TEXT = "<|endoftext|>"

TOOLS_UNICODE = "16.0"
"""The version of Unicode of tiktoken 0.14 and tokenizers 0.23, and therefore of files for them."""

_FIM = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")

_END_OF_PROMPT = "<|endofprompt|>"

_CL100K = {END_OF_TEXT: 100257, **dict(zip(_FIM, range(100258, 100261), strict=True)), _END_OF_PROMPT: 100276}
_O200K = {END_OF_TEXT: 199999, _END_OF_PROMPT: 200018}
# tiktoken also has `<|reserved_200018|>`, a second name of an id. Here each id has one name.
_NAMED = {
    200002: "return",
    200003: "constrain",
    200005: "channel",
    200006: "start",
    200007: "end",
    200008: "message",
    200012: "call",
    200018: "endofprompt",
}
_HARMONY = {"<|startoftext|>": 199998, END_OF_TEXT: 199999}
_HARMONY |= {f"<|{_NAMED.get(number, f'reserved_{number}')}|>": number for number in range(200000, 201088)}


class Known(NamedTuple):
    """What a file does not contain.

    Parameters
    ----------
    pattern : str
        A regular expression, or the name of a preset.
    special_tokens : dict of str to int
    unicode : str, optional
        The version of Unicode of the pattern; for a published file, that of the tool that the file is for.
    sha256 : str
        Hash of the published file.
    """

    pattern: str
    special_tokens: dict[str, int]
    unicode: str | None = TOOLS_UNICODE
    sha256: str = ""


_R50K_SHA256 = "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"
_P50K_SHA256 = "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069"
_CL100K_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
_O200K_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

RANK_FILES: dict[str, Known] = {
    "r50k_base": Known("r50k", {END_OF_TEXT: 50256}, sha256=_R50K_SHA256),
    "p50k_base": Known("p50k", {END_OF_TEXT: 50256}, sha256=_P50K_SHA256),
    "p50k_edit": Known("p50k", {END_OF_TEXT: 50256, **dict(zip(_FIM, range(50281, 50284), strict=True))}, sha256=_P50K_SHA256),
    "cl100k_base": Known("cl100k", _CL100K, sha256=_CL100K_SHA256),
    "o200k_base": Known("o200k", _O200K, sha256=_O200K_SHA256),
    "o200k_harmony": Known("o200k", _HARMONY, sha256=_O200K_SHA256),
}
"""The rank files of tiktoken by name, without `.tiktoken`. Some have the same content and differ in name only."""

_ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/"
"""Where OpenAI publishes the rank files. tiktoken stores each under the SHA-1 of its URL."""

MODELS = {
    **dict.fromkeys(("gpt-3.5-turbo", "gpt-4", "text-embedding-ada-002"), "cl100k_base"),
    **dict.fromkeys(("gpt-4o", "gpt-4.1", "o1", "o3", "gpt-5"), "o200k_base"),
    **dict.fromkeys(("gpt-oss", "gpt-oss-20b", "gpt-oss-120b"), "o200k_harmony"),
}
"""The vocabularies of models, for messages."""

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
"""The name of a repository on the Hugging Face Hub."""

GPT2_VOCAB = Known("gpt2", {END_OF_TEXT: 50256}, sha256="196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783")
"""GPT-2's `vocab.json` (OpenAI's `encoder.json`)."""


def find_rank_file(path: StrPath, data: bytes) -> Known:
    """Return the published rank file with the name of a file, or with its content, which is then a warning.

    Raises
    ------
    TokenizerFormatError
        If there is none, or the content is not the one that the name promises.
    """
    name = without_gz(path).name.removesuffix(".tiktoken")
    found = hashlib.sha256(data).hexdigest()
    published = RANK_FILES.get(name)
    if published is not None and found != published.sha256:
        raise TokenizerFormatError(
            f"`{path}` has the name of the published {name}, but different content: its SHA-256 is {found}; expected "
            f"{published.sha256}: download the file again, or pass `pattern=` and `special_tokens=`"
        )
    if published is not None:
        return published
    names = names_of_content(found)
    if not names:
        raise no_pattern(path, "a file that tiktoken publishes")
    published = RANK_FILES[names[0]]
    others = "".join(f", not of {name}, which has the same tokens" for name in names[1:])
    warn_user(
        f"`{path}` has the content of the published {names[0]}, and is read with its pattern {published.pattern} and its "
        f"{len(published.special_tokens)} special tokens{others}; pass `pattern=` and `special_tokens=` for others"
    )
    return published


def no_pattern(path: StrPath, expected: str) -> TokenizerFormatError:
    """Return the error for a file whose split pattern is not known; `expected` is a noun phrase for those with a known one."""
    return TokenizerFormatError(
        f"`{path}` does not contain a split pattern; expected {expected}, or one that bpejit wrote, with its sidecar: pass "
        "`pattern=` (a preset's name or a regular expression), and `special_tokens=` if there are any"
    )


def explain_name(name: str) -> str | None:
    """Return advice for a path without a file that is a name in another tool, or None if the name is unknown."""
    vocabulary = MODELS.get(name, name)
    if vocabulary in RANK_FILES:
        kind = "a vocabulary" if vocabulary == name else f"a model with the vocabulary {vocabulary}"
        return (
            f"`{name}` is the name of {kind} of tiktoken, not a file; expected a path: pass `{vocabulary}.tiktoken`, its rank "
            f"file, which `{_command_for(vocabulary)}` writes"
        )
    if name in ("gpt2", "openai-community/gpt2"):
        return (
            f"`{name}` is the name of a model, not a file; expected a path: pass `hf:openai-community/gpt2` for the "
            "Hugging Face Hub, or the path of `tokenizer.json`, or of `vocab.json` with `merges.txt` beside it"
        )
    if name in PRESETS:
        return (
            f"`{name}` is the name of a split pattern, not a file; expected the path of a tokenizer: pass it, and the name "
            "as `pattern=` if the file does not contain its pattern"
        )
    if _REPOSITORY.fullmatch(name) and not Path(name).parent.exists():
        return f"there is no file `{name}`; expected the path of a tokenizer: for the Hugging Face Hub pass `hf:{name}`"
    return None


def _command_for(vocabulary: str) -> str:
    """Return a shell command that writes a published rank file: a copy of what tiktoken has stored, or a download."""
    import tempfile  # not at the top: it takes 5 ms

    url = f"{_ADDRESS}{names_of_content(RANK_FILES[vocabulary].sha256)[0]}.tiktoken"
    folder = os.environ.get("DATA_GYM_CACHE_DIR", Path(tempfile.gettempdir(), "data-gym-cache"))
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", folder)
    stored = Path(folder, hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest())
    if stored.is_file():
        return f"cp {shlex.quote(str(stored))} {vocabulary}.tiktoken"
    return f"curl -o {vocabulary}.tiktoken {url}"


def names_of_content(sha256: str) -> list[str]:
    """Return the names of the published rank files whose content has this hash."""
    return [name for name, published in RANK_FILES.items() if published.sha256 == sha256]


# ---- sidecars


def sidecar_path(path: StrPath) -> Path:
    """Return the path of the sidecar of a file."""
    return Path(path).with_name(Path(path).name + SUFFIX)


def sidecar_json(model: Model, data: bytes) -> bytes:
    """Return the content of the sidecar of a file with the content `data`."""
    fields = {
        "format": FORMAT,
        "format_version": 1 if model.unicode is None else FORMAT_VERSION,
        "bpejit_version": __version__,
        "sha256": hashlib.sha256(data).hexdigest(),
        "pattern": model.pattern,
        "special_tokens": dict(model.special_tokens),
    }
    if model.unicode is not None:
        fields["unicode"] = model.unicode
    return json.dumps(fields, indent=2).encode("ascii") + b"\n"


def read_sidecar(path: StrPath, data: bytes) -> Known | None:
    """Return the sidecar of a file with the content `data`, or None if there is none.

    Raises
    ------
    TokenizerFormatError
        If the sidecar is broken, or the file was changed after the sidecar was written.
    """
    beside = sidecar_path(path)
    if not beside.exists():
        return None
    fields = Fields(read_json(beside), file=beside, action="restore the file, or export again")
    version = fields.take_version(FORMAT, FORMAT_VERSION)
    specials = fields.take("special_tokens", dict)
    for text, number in specials.items():
        if type(number) is not int:
            raise TokenizerFormatError(
                f"`{beside}`: the special token {shorten(text)} has the id {shorten(number)}; expected a whole number"
            )
    action = f"restore the file, or remove its sidecar, `{beside}`, and pass the pattern"
    check_unchanged(path, data, fields.take("sha256", str), action=action)
    unicode = fields.take("unicode", str) if version > 1 else None
    return Known(fields.take("pattern", str), specials, unicode)
