"""Download tokenizers from the Hugging Face Hub with `huggingface_hub`, which caches them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from bpejit.errors import TokenizerFormatError

SCHEME = "hf:"

_NAME = re.compile(r"hf:(?P<repository>[\w.-]+(?:/[\w.-]+)?)(?:@(?P<revision>[\w./-]+))?")


def download(name: str, patterns: Iterable[str]) -> Path:
    """Return the folder with the tokenizer files of a repository, downloaded unless the cache has them.

    Parameters
    ----------
    name : str
        `hf:ORGANIZATION/NAME`, or `hf:ORGANIZATION/NAME@REVISION` for a branch, tag or commit.
    patterns : iterable of str
        Names and glob patterns of the files to download: those that tokenizers are read from, and no weights.

    Raises
    ------
    TokenizerFormatError
        If the name is invalid, `huggingface_hub` is not installed, or the download fails.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise TokenizerFormatError(
            f"`{name}` is not the name of a repository of the Hugging Face Hub; expected `hf:ORGANIZATION/NAME` or "
            "`hf:ORGANIZATION/NAME@REVISION`: correct it"
        )
    try:
        from huggingface_hub import snapshot_download
    except ImportError as cause:
        raise TokenizerFormatError(
            f"`{name}` is on the Hugging Face Hub, and the package `huggingface_hub` is not installed ({cause}); "
            "expected it for names that begin with `hf:`: run `pip install 'bpejit[hf]'`"
        ) from cause
    try:
        folder = snapshot_download(found["repository"], revision=found["revision"], allow_patterns=list(patterns))
    except Exception as cause:
        reason = " ".join(str(cause).split()) or type(cause).__name__
        raise TokenizerFormatError(
            f"cannot download `{name}`: {reason}; expected a readable repository: check its name and the network, and log "
            "in if it is not public"
        ) from cause
    return Path(folder)
