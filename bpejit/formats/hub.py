"""Tokenizers of the Hugging Face Hub, downloaded by `huggingface_hub` and kept in its cache."""

from __future__ import annotations

import re
from pathlib import Path

from bpejit.errors import TokenizerFormatError

SCHEME = "hf:"

FILES = (
    *("bpejit.json", "model.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "vocab.json.bpejit.json", "merges.txt", "tekken.json", "*.tiktoken", "*.tiktoken.bpejit.json"),
)
"""What of a repository is downloaded: what tokenizers are made of, and never a model's weights."""

_NAME = re.compile(r"hf:(?P<repository>[\w.-]+(?:/[\w.-]+)?)(?:@(?P<revision>[\w./-]+))?")


def download(name: str) -> Path:
    """Return the folder with the tokenizer files of a repository, downloaded unless the cache has them.

    Parameters
    ----------
    name : str
        `hf:ORGANISATION/NAME`, or `hf:ORGANISATION/NAME@REVISION` for a branch, tag or commit.

    Raises
    ------
    TokenizerFormatError
        If the name is no such name, `huggingface_hub` is not installed, or the files cannot be had.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise TokenizerFormatError(
            f"`{name}` names no repository of the Hugging Face Hub; expected `hf:ORGANISATION/NAME` or "
            "`hf:ORGANISATION/NAME@REVISION`: correct it"
        )
    try:
        from huggingface_hub import snapshot_download
    except ImportError as cause:
        raise TokenizerFormatError(
            f"`{name}` is on the Hugging Face Hub, and the package `huggingface_hub` is not installed ({cause}); "
            "expected it for names that begin with `hf:`: run `pip install 'bpejit[hf]'`"
        ) from cause
    try:
        folder = snapshot_download(found["repository"], revision=found["revision"], allow_patterns=list(FILES))
    except Exception as cause:
        reason = " ".join(str(cause).split()) or type(cause).__name__
        raise TokenizerFormatError(
            f"cannot download `{name}`: {reason}; expected a repository that can be read: check its name, the network, and "
            "whether you are logged in where it is not public"
        ) from cause
    return Path(folder)
