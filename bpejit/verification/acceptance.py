"""Check which other tools can read a tokenizer file, and whether their ids are equal.

Each reader runs in its own process (`bpejit.verification.reader_script`): some take long to import, some exit on a file that
they do not support, and they may be installed in another environment than bpejit.
"""

# ruff: noqa: RUF001 (the samples have letters of many scripts)

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from os.path import commonprefix
from pathlib import Path
from typing import Literal

from bpejit.errors import TokenizerFormatError, shorten
from bpejit.formats.any_format import recognize
from bpejit.formats.folder import PRIVATE_FILE
from bpejit.formats.tiktoken_ranks import module_path
from bpejit.model import Model
from bpejit.normalization.symbols import file_text, unused_texts
from bpejit.storage.files import StrPath
from bpejit.tokenizer import Tokenizer
from bpejit.verification import reader_script

READERS_OF: dict[str, tuple[str, ...]] = {
    "bpejit": ("tokenizers", "transformers", "gigatoken", "kitoken", "gguf"),
    "hf": ("tokenizers", "transformers", "gigatoken", "kitoken", "gguf"),
    "gpt2": ("transformers", "gguf"),
    "tiktoken": ("tiktoken",),
    "tekken": ("mistral-common",),
}
"""Distribution names of the readers of each format."""

TIMEOUT_SECONDS = 300

SAMPLES = (
    "The quick brown fox doesn't jump; it's 12345678 o'clock, they'LL say.\n",
    "def add(a, b):\n\treturn a + b  # 3.14e-10\n\n\n    x = [1, 22, 333, 4444]\r\n\r\n",
    "ÄÖÜ ß naïve œuvre, ŻÓŁĆ; Привет, мир! Γειά σου Κόσμε. שלום עולם مرحبا بالعالم नमस्ते दुनिया สวัสดีชาวโลก",
    "日本語のテキスト、漢字とカナ。中文文本，標點符號。한국어 텍스트 １２３",
    "👩‍👩‍👧‍👦 e\u0301 a\u0308\u0323 ½²₃ⅷ ①",
    "white  space\u00a0\u3000\u2009 \t\t tabs\n \n\n  and lines at the end  \n\n  ",
    "at the end \n ",
    "\n'dog\t'sun \n'llama\n",
    " \n\t\n",
    "https://example.org/a_b?c=d&e=%20#f!!!...///***---___===''\"\"``~~",
)
"""Texts with contractions, digits, code, many scripts, combining marks, emoji, white space and line endings."""

Status = Literal["equal", "different", "refused", "absent"]


@dataclass(frozen=True)
class Reading:
    """The result of one reader for a tokenizer file.

    Parameters
    ----------
    reader : str
        Its distribution name.
    version : str
        Its version. Empty if it is not installed.
    status : str
        `equal`: the ids of all samples are equal. `different`: some ids differ. `refused`: the reader fails on the file.
        `absent`: the reader is not installed.
    detail : str
        The first difference, or the reader's error message.
    """

    reader: str
    version: str
    status: Status
    detail: str


def sample_texts(model: Model, *, special_tokens: bool = True) -> list[str]:
    """Return texts for a comparison: `SAMPLES`, concatenated tokens of the vocabulary, and special tokens.

    Parameters
    ----------
    model : Model
    special_tokens : bool
        Whether to include texts with special tokens.
    """
    tokens = [token for _, token in sorted(model.tokens.items())]
    step = max(1, len(tokens) // 4000)
    chosen = [token.decode("utf-8", "ignore") for token in tokens[::step]]
    joined = ("".join(chosen[at : at + 100]) for at in range(0, len(chosen), 100))
    texts = [*SAMPLES, *joined]
    if special_tokens:
        texts += [f"a {text} b{text}{text}\n" for text in islice(model.special_tokens, 50)]
    return texts


def check_readers(
    tokenizer: Tokenizer,
    path: StrPath,
    *,
    readers: Sequence[str] | None = None,
    python: StrPath = sys.executable,
    texts: Sequence[str] | None = None,
) -> list[Reading]:
    """Read a tokenizer file with other tools, and compare their ids with the ids of a tokenizer.

    Parameters
    ----------
    tokenizer : Tokenizer
        The tokenizer that was loaded from the file or saved to it.
    path : path
        A file or folder of a format that other tools read.
    readers : sequence of str, optional
        Distribution names. Defaults to all known readers of the format (see `READERS_OF`).
    python : path
        The Python interpreter that has the readers installed.
    texts : sequence of str, optional
        Texts to encode. Defaults to the result of `sample_texts`.

    Raises
    ------
    TokenizerFormatError
        If the file is missing, or no other tool reads it.
    """
    kind, location = recognize(path)
    if not location.exists():
        raise TokenizerFormatError(f"there is no `{location}`; expected a file or folder that other tools read: check the path")
    if kind == "bpejit" and (location / PRIVATE_FILE).exists():
        raise TokenizerFormatError(
            f"`{location}` is not for other tools: its tokens are in {PRIVATE_FILE}, because other tools would give other ids; "
            "expected a tokenizer that can be exported: see `not_for_other_tools` in its bpejit.json"
        )
    if texts is None:
        texts = sample_texts(tokenizer.model, special_tokens=kind != "tekken")
    expected = [ids.tolist() for ids in tokenizer.encode_batch(list(texts))]
    location = location.parent if kind == "gpt2" else location
    return [
        _reading(reader, location, texts, expected, tokenizer.model, python)
        for reader in (READERS_OF.get(kind, ()) if readers is None else readers)
    ]


def _reading(
    reader: str, location: Path, texts: Sequence[str], expected: list[list[int]], model: Model, python: StrPath
) -> Reading:
    target = module_path(location) if reader == "tiktoken" else location
    command = [str(python), reader_script.__file__, reader, str(target.resolve())]
    try:
        done = subprocess.run(
            command, input=json.dumps(list(texts)).encode(), capture_output=True, timeout=TIMEOUT_SECONDS, check=False
        )
        found = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return Reading(reader, "", "refused", f"it took more than {TIMEOUT_SECONDS} seconds")
    except (IndexError, ValueError):
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        return Reading(reader, "", "refused", f"its process ended with exit code {done.returncode}: {' '.join(last)}")
    if "absent" in found:
        return Reading(reader, "", "absent", found["absent"])
    version = found.get("version", "")
    if "error" in found:
        return Reading(reader, version, "refused", " ".join(found["error"].split()))
    if "tokens" in found:
        detail = _other_vocabulary(found["tokens"], model)
    else:
        compared = zip(texts, expected, found["ids"], strict=True)
        detail = next((_shortest(text, ours, theirs, model) for text, ours, theirs in compared if ours != theirs), "")
    return Reading(reader, version, "different" if detail else "equal", detail)


def _shortest(text: str, ours: list[int], theirs: list[int], model: Model) -> str:
    """Describe the first position at which two lists of ids differ."""
    same = len(commonprefix([ours, theirs]))  # noqa: RUF071 - of lists
    vocab = model.vocab
    before = b"".join(vocab[token] for token in ours[:same]).decode("utf-8", "ignore")
    rest = text[max(0, len(before) - 4) : len(before) + 12]
    return f"near {shorten(rest)} it returns {theirs[same : same + 4]}, not {ours[same : same + 4]}"


def _other_vocabulary(tokens: list[str], model: Model) -> str:
    """Describe the first difference of a vocabulary, given in order of id. Return an empty string if there is none."""
    expected = {number: file_text(token, model.symbols) for number, token in model.tokens.items()}
    expected |= unused_texts(model.symbols)
    expected |= {number: text for text, number in model.special_tokens.items()}
    if len(tokens) != len(expected):
        return f"it has {len(tokens)} tokens, not {len(expected)}"
    for number, token in enumerate(tokens):
        if expected.get(number) != token:
            return f"its token {number} is {shorten(token)}, not {shorten(expected.get(number))}"
    return ""
