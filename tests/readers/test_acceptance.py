"""Tests that other tools read the files of bpejit and return equal ids; run by `make readers`, not by `make test`.

Each file `NAME.txt` beside this one lists pinned packages, and `make readers` installs them into `.readers/NAME`, an
environment of its own: the readers exclude each other's versions. `BPEJIT_READERS` names another folder of environments.
Without an environment its tests are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from conftest import DATA, ROOT, data_text, read_shared
from helpers.settings_cases import STORED, published_settings

import bpejit
from bpejit.formats.huggingface_writing import BYTE_LEVEL_MISREAD, READ_PRESETS, WORD_END_MISREAD, not_read_by
from bpejit.splitting import PRESETS
from bpejit.verification.acceptance import SAMPLES, Reading, check_readers, sample_texts

ENVIRONMENTS = Path(os.environ.get("BPEJIT_READERS", ROOT / ".readers"))

READERS = [
    ("rewrite", "tokenizers"),
    ("rewrite", "gigatoken"),
    ("rewrite", "kitoken"),
    ("transformers4", "transformers"),
    ("transformers5", "tokenizers"),
    ("transformers5", "transformers"),
    ("transformers5", "gguf"),
]

CORPORA = ("english", "code", "multilingual", "hard")

UNICODE = "16.0"
"""The version of Unicode of these readers; the default of bpejit is that of the installed `regex` package."""


def python_of(environment: str) -> Path:
    python = ENVIRONMENTS / environment / "bin" / "python"
    if not python.exists():
        pytest.skip(f"needs the environment {environment}: run `make readers`")
    return python


@cache
def texts() -> tuple[str, ...]:
    """Return the samples, the texts of tests/data, and prefixes of the larger corpora if these are available."""
    found = [*SAMPLES]
    documents = [data_text(name).decode() for name in ("prose.txt", "code.txt", "cjk.txt")]
    with suppress(pytest.skip.Exception):
        documents += [read_shared(f"corpora/{name}.txt")[:400_000].decode("utf-8", "ignore") for name in CORPORA]
    for document in documents:
        found += [document[start : start + 2000] for start in range(0, len(document), 2000)]
    return tuple(found)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory):
    """Return a function that makes a tokenizer for a preset, saved for Hugging Face."""
    folder = tmp_path_factory.mktemp("trained")

    @cache
    def make(name: str) -> tuple[bpejit.Tokenizer, Path]:
        corpus = [DATA / "prose.txt", DATA / "code.txt", DATA / "cjk.txt"]
        specials = ["<|endoftext|>", "<pad>"]
        tokenizer = bpejit.train(corpus, vocab_size=3000, special_tokens=specials, pattern=name, unicode=UNICODE)
        assert tokenizer.save(folder / name, format="hf") is None
        return tokenizer, folder / name

    return make


def read(tokenizer: bpejit.Tokenizer, path: Path, environment: str, reader: str) -> Reading:
    python = python_of(environment)
    chosen = [*texts(), *sample_texts(tokenizer.model)]
    (found,) = check_readers(tokenizer, path, readers=[reader], python=python, texts=chosen)
    assert found.status != "absent", found.detail
    return found


@pytest.mark.parametrize(("environment", "reader"), READERS)
@pytest.mark.parametrize("name", PRESETS)
def test_presets(trained, name: str, environment: str, reader: str) -> None:
    tokenizer, path = trained(name)
    found = read(tokenizer, path, environment, reader)
    refusing = [known for known in not_read_by(tokenizer.model) if f"{reader} {found.version}".startswith(known)]
    if not refusing:
        assert (found.status, found.detail) == ("equal", "")
    elif refusing == [BYTE_LEVEL_MISREAD]:
        assert found.status == "different"
    else:
        # The ids must never differ.
        assert found.status == "refused", found.detail


SYMBOLS = {
    "llama": {"symbols": "characters", "byte_fallback": True, "metaspace": True, "prefix_space": True},
    "words": {"symbols": "characters", "word_end": "</w>"},
    "clip": {"word_end": "</w>"},
}
"""Options of training with other symbols than bytes."""


@pytest.mark.parametrize(
    ("environment", "reader"), [one for one in READERS if one[1] in ("tokenizers", "transformers", "gguf")]
)
@pytest.mark.parametrize("name", SYMBOLS)
def test_symbols(tmp_path: Path, name: str, environment: str, reader: str) -> None:
    if reader == "gguf" and name != "llama":
        pytest.skip("llama.cpp has no ends of words")
    corpus = [DATA / "prose.txt", DATA / "code.txt", DATA / "cjk.txt"]
    tokenizer = bpejit.train(corpus, vocab_size=9000, unk_token="<unk>" if name != "clip" else None, **SYMBOLS[name])
    tokenizer.save(tmp_path / name, format="hf")
    found = read(tokenizer, tmp_path / name, environment, reader)
    misread = f"{reader} {found.version}" in not_read_by(tokenizer.model)
    assert found.status == ("different" if misread else "equal"), found.detail


@pytest.mark.parametrize(("environment", "reader"), [("transformers4", "transformers"), ("transformers5", "transformers")])
def test_superwords(tmp_path: Path, environment: str, reader: str) -> None:
    sizes = {"vocab_size": 6000, "superwords": "super", "transition": 5000}
    tokenizer = bpejit.train([DATA / "prose.txt", DATA / "code.txt"], **sizes, unicode=UNICODE)
    tokenizer.save(tmp_path / "superwords", format="hf")
    found = read(tokenizer, tmp_path / "superwords", environment, reader)
    assert (found.status, found.detail) == ("equal", "")


def test_documented_versions_match_environments() -> None:
    listed = {
        line.strip().replace("==", " ")
        for file in Path(__file__).parent.glob("*.txt")
        for line in file.read_text().splitlines()
    }
    for known in (*READ_PRESETS, BYTE_LEVEL_MISREAD, WORD_END_MISREAD):
        assert any(line.startswith(known) for line in listed), known


@pytest.mark.parametrize(("environment", "reader"), READERS)
def test_published_file_is_rewritten(tmp_path: Path, environment: str, reader: str) -> None:
    source = tmp_path / "tokenizer.json"
    source.write_bytes(read_shared("vocabs/gpt2.tokenizer.json"))
    tokenizer = bpejit.load(source)
    tokenizer.save(tmp_path / "again", format="hf")
    found = read(tokenizer, tmp_path / "again", environment, reader)
    expected = "different" if reader == "kitoken" else "equal"
    assert found.status == expected, found.detail


@pytest.mark.parametrize("environment", ["transformers4", "transformers5"])
@pytest.mark.parametrize("specials", [["<|endoftext|>", "<é>", "<pad>"], ["[X]"], []])
def test_gpt2s_pair_with_transformers(tmp_path: Path, environment: str, specials: list[str]) -> None:
    tokenizer = bpejit.train([DATA / "prose.txt"], vocab_size=2000, special_tokens=specials, unicode=UNICODE)
    tokenizer.save(tmp_path / "pair", format="gpt2")
    found = read(tokenizer, tmp_path / "pair", environment, "transformers")
    assert (found.status, found.detail) == ("equal", "")


def test_gpt2s_pair_with_llama_cpp(tmp_path: Path) -> None:
    tokenizer = bpejit.train([DATA / "prose.txt"], vocab_size=2000, special_tokens=["<|endoftext|>"], unicode=UNICODE)
    tokenizer.save(tmp_path / "pair", format="gpt2")
    found = read(tokenizer, tmp_path / "pair", "transformers5", "gguf")
    assert (found.status, found.detail) == ("equal", "")


@pytest.mark.parametrize("name", ["tekken_240718.json", "tekken_240911.json"])
def test_published_files_of_mistral_common(name: str) -> None:
    python = python_of("transformers5")
    command = [python, "-c", "import mistral_common; print(mistral_common.__path__[0])"]
    folder = Path(subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()) / "data"
    tokenizer = bpejit.load(folder / name)
    chosen = [*texts(), *sample_texts(tokenizer.model, special_tokens=False)]
    (found,) = check_readers(tokenizer, folder / name, python=python, texts=chosen)
    assert (found.reader, found.status, found.detail) == ("mistral-common", "equal", "")


@pytest.mark.parametrize("version", ["4", "5"])
def test_stored_results_of_settings(tmp_path: Path, version: str) -> None:
    found = published_settings(tmp_path, python_of(f"transformers{version}"))
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    for name, result in found.items():
        expected = stored[name]["4"] | (stored[name]["other in 5"] if version == "5" else {})
        assert result == expected, name
