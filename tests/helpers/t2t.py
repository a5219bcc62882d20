"""Results of the cases in `t2t_cases.py` with bpejit, and with Tensor2Tensor in its own environment."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from conftest import ROOT, data_text, read_shared

from bpejit import subword
from bpejit.t2t import subword_text_encoder, text_encoders, word_tokenizer
from bpejit.t2t.example_arrays import pack_example_arrays
from bpejit.t2t.subword_files import train_vocabulary
from helpers import t2t_cases

PYTHON = Path(os.environ.get("BPEJIT_READERS", ROOT / ".readers")) / "tensor2tensor" / "bin" / "python"
"""Python of the environment with Tensor2Tensor, which `make readers` creates."""

SCRIPT = ROOT / "tests" / "readers" / "published_t2t.py"

STORED = ROOT / "tests" / "t2t" / "published.json"
"""Results of Tensor2Tensor; `tests/readers/store_published_t2t.py` writes them."""

SMALL = "cases"
OWN_TEXTS = ("prose", "code", "cjk")
TEXTS = (*OWN_TEXTS, *t2t_cases.LANGUAGES)


@lru_cache(maxsize=1)
def languages() -> dict[str, str]:
    """Return the text of each language in the optional corpora; skip the test if they are absent."""
    english, multilingual = (read_shared(f"corpora/{name}.txt").decode() for name in ("english", "multilingual"))
    return t2t_cases.select_languages(english, multilingual)


def write_text(name: str, folder: Path) -> None:
    text = t2t_cases.text_of(data_text(f"{name}.txt")) if name in OWN_TEXTS else languages()[name]
    (folder / f"{name}.txt").write_bytes(text.encode())


def arrays(examples: Sequence[Mapping[str, Sequence[int]]], names: Sequence[str]) -> dict[str, tuple[Any, Any]]:
    """Return the features of examples as arrays."""
    return {
        name: (
            np.array([value for example in examples for value in example[name]], np.int64),
            np.array([0, *accumulate(len(example[name]) for example in examples)], np.int64),
        )
        for name in names
    }


def pack_examples(
    examples: Any, has_inputs: bool, packed_length: int = 256, *options: Any, **named: Any
) -> list[dict[str, Any]]:
    """Return what the published function yields, computed by `pack_example_arrays`."""
    names = ["inputs", "targets"] if has_inputs else ["targets"]
    found = pack_example_arrays(arrays(list(examples), names), has_inputs, packed_length, *options, **named)
    rows = range(found["targets"][1].size - 1)
    return [{name: ids[starts[row] : starts[row + 1]] for name, (ids, starts) in found.items()} for row in rows]


def modules() -> t2t_cases.Modules:
    """Return the modules of bpejit, with the private functions that the cases call."""
    names = {**vars(text_encoders), **vars(subword_text_encoder)}
    names |= {"_escape_token": word_tokenizer.escape_token, "_unescape_token": word_tokenizer.unescape_token}

    def train(path: Path, size: int, byte_budget: float | None) -> Any:
        return train_vocabulary(str(path), size, byte_budget=None if byte_budget is None else int(byte_budget))

    return t2t_cases.Modules(SimpleNamespace(**names), subword.tokenizer, train, pack_examples)


def results(name: str, folder: Path) -> Any:
    """Return the results of bpejit for a text, or of the small cases, as they are after a round trip through JSON."""
    if name == SMALL:
        found = t2t_cases.small_results(modules(), folder)
    else:
        write_text(name, folder)
        found = t2t_cases.language_results(modules(), name, folder)
    return json.loads(json.dumps(found))


def published_results(folder: Path) -> dict[str, Any]:
    """Run Tensor2Tensor with all texts, which takes minutes."""
    for name in TEXTS:
        write_text(name, folder)
    done = subprocess.run([PYTHON, SCRIPT, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def differences(ours: dict[str, Any], published: dict[str, Any]) -> dict[str, Any]:
    """Return the results that differ, ours first."""
    assert set(ours) == set(published)
    return {name: (ours[name], published[name]) for name in published if not t2t_cases.agree(ours[name], published[name])}
