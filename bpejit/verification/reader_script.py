"""Read a tokenizer with another tool and encode texts. A script for any Python with the tool; bpejit is not required.

`python reader_script.py READER PATH` reads a JSON list of texts from standard input. For tiktoken, PATH is the module beside
the rank file. The last line of standard output is a JSON object with `version`, and one of:

ids
    Ids of each text.
tokens
    The vocabulary in order of id, for a reader that does not encode.
error
    Why the reader refused the file.
absent
    Why the reader cannot be used here.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

Encode = Callable[[str], Any]
"""A function from a text to its ids."""


def _file(path: Path) -> str:
    return str(path / "tokenizer.json" if path.is_dir() else path)


def _tokenizers(path: Path) -> Encode:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(_file(path))
    for name in ("no_truncation", "no_padding"):
        getattr(tokenizer, name, lambda: None)()  # version 1.0.0rc3 has neither
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def _transformers(path: Path) -> Encode:
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    folder = path if path.is_dir() else path.parent
    tokenizer: Any
    if (folder / "tokenizer_config.json").exists():
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    else:
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=_file(path))
    return lambda text: tokenizer.encode(text, add_special_tokens=False)


def _gigatoken(path: Path) -> Encode:
    import gigatoken

    tokenizer = gigatoken.Tokenizer(_file(path))
    return lambda text: map(int, tokenizer.encode(text))


def _kitoken(path: Path) -> Encode:
    from kitoken import Kitoken

    tokenizer = Kitoken.from_file(_file(path))
    return lambda text: tokenizer.encode(text, True)


def _tiktoken(path: Path) -> Encode:
    encoding = runpy.run_path(str(path))["encoding"]
    return lambda text: encoding.encode(text, allowed_special="all")


def _mistral_common(path: Path) -> Encode:
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    tokenizer = Tekkenizer.from_file(str(path))
    return lambda text: tokenizer.encode(text, bos=False, eos=False)


def _gguf(path: Path) -> list[str]:
    from gguf.vocab import BpeVocab, LlamaHfVocab, SpecialVocab

    folder = path if path.is_dir() else path.parent
    file = folder / "tokenizer.json"  # which a pair of vocab.json and merges.txt lacks
    model = json.loads(file.read_text(encoding="utf-8"))["model"] if file.exists() else {}
    vocab = (LlamaHfVocab if model.get("byte_fallback") else BpeVocab)(folder)
    SpecialVocab(folder, load_merges=True, n_vocab=vocab.vocab_size)
    return [token.decode() if isinstance(token, bytes) else token for token, _, _ in vocab.all_tokens()]


READERS: dict[str, Callable[[Path], Any]] = {
    "tokenizers": _tokenizers,
    "transformers": _transformers,
    "gigatoken": _gigatoken,
    "kitoken": _kitoken,
    "gguf": _gguf,
    "tiktoken": _tiktoken,
    "mistral-common": _mistral_common,
}
"""The function for each reader, by distribution name."""


def read(reader: str, path: Path, texts: list[str]) -> dict[str, Any]:
    """Return the result of a reader, in the form described above."""
    found: dict[str, Any] = {}
    try:
        found["version"] = version(reader)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = READERS[reader](path)
            found |= {"tokens": made} if isinstance(made, list) else {"ids": [list(made(text)) for text in texts]}
    except ImportError as error:
        found["absent"] = str(error)
    except BaseException as error:
        found["error"] = f"{type(error).__name__}: {error}"
    return found


if __name__ == "__main__":
    sys.path.pop(0)  # this script's folder, whose modules would hide other tools
    _, name, place = sys.argv
    answer = read(name, Path(place), json.load(sys.stdin))
    sys.stdout.write(f"\n{json.dumps(answer)}\n")
