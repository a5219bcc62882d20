"""Which format a tokenizer's file or folder is of, told by name and content, and the model read from it.

Nothing is guessed: what a format does not say has to be given, and the error names the option.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from bpejit.errors import TokenizerFormatError
from bpejit.formats.compressed import GZIP_SUFFIX, decompressed_head, read_tokenizer_file, without_gz
from bpejit.formats.folder import OWN_FILE, PRIVATE_FILE, TOKENIZER_FILE, load_folder
from bpejit.formats.gpt2 import MERGES_FILE, VOCAB_FILE, load_gpt2_pair
from bpejit.formats.hub import SCHEME, download
from bpejit.formats.huggingface import CONFIG_FILE
from bpejit.formats.huggingface_reading import read_tokenizer_json
from bpejit.formats.published import TOOLS_UNICODE, explain_name
from bpejit.formats.sidecar import SUFFIX as SIDECAR_SUFFIX
from bpejit.formats.sidecar import sidecar_path
from bpejit.formats.tekken import read_tekken
from bpejit.formats.tiktoken import SUFFIX, looks_like_ranks, read_tiktoken
from bpejit.model import Model
from bpejit.splitting.presets import Pattern
from bpejit.storage.exchange import recover_description, recover_folder
from bpejit.storage.files import StrPath, parse_json, read_error

TEKKEN_FILE = "tekken.json"

HEAD_BYTES = 1 << 10

Kind = Literal["bpejit", "huggingface", "tiktoken", "tekken", "gpt2"]

_EXPECTED = (
    f"a folder that bpejit wrote, Hugging Face's `{TOKENIZER_FILE}`, a rank file (`NAME{SUFFIX}`), Mistral's `{TEKKEN_FILE}`, "
    f"or GPT-2's `{VOCAB_FILE}` with `{MERGES_FILE}` beside it"
)


def load_model(
    path: StrPath,
    *,
    pattern: Pattern | None = None,
    special_tokens: Mapping[str, int] | Iterable[str] | None = None,
    unicode: str | None = None,
) -> Model:
    """Read a tokenizer of any format that is known.

    Parameters
    ----------
    path : path
        A file or a folder, or `hf:ORGANISATION/NAME` or `hf:ORGANISATION/NAME@REVISION` for a repository on the Hugging
        Face Hub (see `bpejit.formats.hub`).
    pattern : str or tuple of str, optional
        The split pattern, a preset's name or a regular expression, for a format that does not say it.
    special_tokens : dict of str to int, optional
        Text and id of each special token, for a format that does not say them; for GPT-2's pair a list is enough.
    unicode : str, optional
        The version of Unicode that the pattern follows, such as "15.0", instead of the one that a folder of bpejit says, or
        that of the tools that the file is for.

    Raises
    ------
    TokenizerFormatError
        If the file is missing, broken or of no known format, if it does not say what is needed, or if an option is given
        though the file says it.
    PatternError
        If `unicode` is no version that can be had.
    """
    if unicode is not None:
        from bpejit.splitting.unicode_versions import check_unicode

        check_unicode(unicode)
    kind, place = recognise(download(path) if isinstance(path, str) and path.startswith(SCHEME) else path)
    if kind == "gpt2":
        return load_gpt2_pair(place, pattern=pattern, special_tokens=special_tokens, unicode=unicode)
    if kind == "tiktoken":
        if special_tokens is not None and not isinstance(special_tokens, Mapping):
            raise TokenizerFormatError(
                f"`{place}` does not say the ids of special tokens; expected `special_tokens=` with them: give a dict"
            )
        return read_tiktoken(place, pattern=pattern, special_tokens=special_tokens, unicode=unicode)
    for name, value in (("pattern", pattern), ("special_tokens", special_tokens)):
        if value is not None:
            raise TokenizerFormatError(
                f"`{place}` says its own pattern and special tokens; expected no `{name}=`: leave it out"
            )
    if kind == "bpejit":
        return load_folder(place, unicode=unicode)
    read = read_tekken if kind == "tekken" else read_tokenizer_json
    return read(place, unicode=unicode or TOOLS_UNICODE)


def tokenizer_files(path: StrPath) -> list[Path]:
    """Return the files that may be read to load a tokenizer from `path`, a file or a folder: those that must not be lost."""
    place = Path(path)
    folder = place if place.is_dir() else place.parent
    names = (OWN_FILE, TOKENIZER_FILE, CONFIG_FILE, PRIVATE_FILE, VOCAB_FILE, MERGES_FILE, TEKKEN_FILE)
    files = [folder / name for name in names]
    if place.is_dir():
        files += [*folder.glob(f"*{SUFFIX}"), *folder.glob(f"*{SIDECAR_SUFFIX}")]
    elif place.name not in names:
        files = [place, sidecar_path(place)]
    return [file for file in files if file.is_file()]


def recognise(path: StrPath) -> tuple[Kind, Path]:
    """Return the format of a file or folder, and the path that its reader takes.

    Raises
    ------
    TokenizerFormatError
        If there is no such file, it is of no known format, or a folder holds several tokenizers.
    """
    place = Path(path)
    folder = place if place.is_dir() else place.parent
    if not (folder / OWN_FILE).exists():
        recover_description(folder / OWN_FILE, error=TokenizerFormatError)
    if place.is_dir():
        recover_folder(place, error=TokenizerFormatError)
        return _recognise_folder(place)
    if not place.exists():
        advice = explain_name(os.fspath(path))
        if advice is not None:
            raise TokenizerFormatError(advice)
        return "bpejit", place  # whose reader says best what is missing
    name = without_gz(place).name
    if name in (OWN_FILE, TOKENIZER_FILE, PRIVATE_FILE) and (place.parent / OWN_FILE).exists():
        return "bpejit", place.parent
    if name.endswith(SUFFIX):
        return "tiktoken", place
    if name == TEKKEN_FILE:
        return "tekken", place
    if name == VOCAB_FILE:
        return "gpt2", place
    if name == TOKENIZER_FILE:
        return "huggingface", place
    if name == MERGES_FILE:
        raise TokenizerFormatError(
            f"`{place}` is half of GPT-2's pair; expected `{VOCAB_FILE}`, which lies beside it: give that"
        )
    head = decompressed_head(_read_head(place), HEAD_BYTES)
    if looks_like_ranks(head):
        return "tiktoken", place
    kind: Kind | None = None
    if head.lstrip()[:1] == b"{":
        data = read_tokenizer_file(place)
        kind = _kind_of_json(parse_json(data, place, error=TokenizerFormatError))
    if kind is None:
        raise TokenizerFormatError(f"`{place}` is of no known format; expected {_EXPECTED}: give such a path")
    return kind, place


def _read_head(path: Path) -> bytes:
    """Read the first bytes only: it may be a file of many gigabytes that is no tokenizer."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError as cause:
        raise read_error(path, cause, error=TokenizerFormatError, what="tokenizer file") from cause


def _recognise_folder(folder: Path) -> tuple[Kind, Path]:
    if (folder / OWN_FILE).exists():
        return "bpejit", folder
    found: list[tuple[Kind, Path]] = []
    if (folder / TOKENIZER_FILE).exists():
        found.append(("huggingface", folder / TOKENIZER_FILE))
    elif (folder / VOCAB_FILE).exists() and (folder / MERGES_FILE).exists():
        # Beside a tokenizer.json the pair is the same tokenizer in its older form, which says less.
        found.append(("gpt2", folder / VOCAB_FILE))
    if (folder / TEKKEN_FILE).exists():
        found.append(("tekken", folder / TEKKEN_FILE))
    found += [("tiktoken", file) for suffix in ("", GZIP_SUFFIX) for file in sorted(folder.glob(f"*{SUFFIX}{suffix}"))]
    if len(found) > 1:
        names = ", ".join(f"`{place.name}`" for _, place in found)
        raise TokenizerFormatError(
            f"`{folder}` holds several tokenizers ({names}); expected one: give the path of the one that you mean"
        )
    if not found:
        raise TokenizerFormatError(f"`{folder}` holds no tokenizer; expected {_EXPECTED}: check the path")
    return found[0]


def _kind_of_json(content: Any) -> Kind | None:
    """Return the format of JSON in a file of no known name."""
    if not isinstance(content, dict):
        return None
    if isinstance(content.get("config"), dict) and isinstance(content.get("vocab"), list):
        return "tekken"
    if isinstance(content.get("model"), dict):
        return "huggingface"
    return "gpt2" if content and all(type(value) is int for value in content.values()) else None
