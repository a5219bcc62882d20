"""Run the cases of `tests/helpers/t2t_cases.py` with Tensor2Tensor's own modules, and print the results as JSON.

    .readers/tensor2tensor/bin/python tests/readers/published_t2t.py FOLDER

Each file `NAME.txt` in the folder is the text of a language. It runs in the environment `tensor2tensor`, which does not contain
TensorFlow: of TensorFlow, these modules use only the file functions and the log, which are defined here.
"""

from __future__ import annotations

import glob
import json
import sys
import tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from helpers import t2t_cases


class File:
    """TensorFlow's file. A line ends with a newline only, and carriage returns in it are dropped."""

    def __init__(self, name: str, mode: str = "r") -> None:
        self._file = Path(name).open(mode.rstrip("b") + "b")  # noqa: SIM115

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Any:
        return iter(self.readlines())

    def readlines(self) -> list[str]:
        return [line.replace(b"\r", b"").decode() for line in self._file]

    def read(self) -> str:
        return self._file.read().decode()

    def write(self, text: str) -> None:
        self._file.write(text.encode())

    def size(self) -> int:
        return Path(self._file.name).stat().st_size


def ignore(*_: object, **__: object) -> None:
    pass


def substitute() -> ModuleType:
    """Return the module `tensorflow.compat.v1`."""
    module = ModuleType("tensorflow.compat.v1")
    found: Any = module
    found.gfile = SimpleNamespace(
        Open=File, GFile=File, Exists=lambda name: Path(name).exists(), Glob=glob.glob, MakeDirs=ignore
    )
    found.logging = SimpleNamespace(info=ignore, warning=ignore)
    found.estimator, found.int32 = SimpleNamespace(ModeKeys=SimpleNamespace(TRAIN="train")), None  # named by generator_utils
    return module


for name in ("tensorflow", "tensorflow.compat", "requests"):
    sys.modules[name] = ModuleType(name)
sys.modules["tensorflow.compat.v1"] = substitute()

from tensor2tensor.data_generators import generator_utils, text_encoder, tokenizer  # noqa: E402
from tensor2tensor.utils import mlperf_log  # noqa: E402

mlperf_log.transformer_print = ignore


def train(path: Path, size: int, byte_budget: float | None) -> Any:
    """Build a vocabulary from the lines of a file, or from a sample of them."""
    if byte_budget is None:
        counts = tokenizer.corpus_token_counts(str(path), None)
        return text_encoder.SubwordTextEncoder.build_to_target_size(size, counts, 1, 1e3)
    lines = generator_utils.generate_lines_for_vocab(str(path.parent), [[path.name, [path.name]]], byte_budget)
    return generator_utils.get_or_generate_vocab_inner(None, None, size, lines)


if __name__ == "__main__":
    modules = t2t_cases.Modules(text_encoder, tokenizer, train, generator_utils.pack_examples)
    texts = sorted(Path(sys.argv[1]).glob("*.txt"))
    with tempfile.TemporaryDirectory() as scratch:
        found: dict[str, Any] = {"cases": t2t_cases.small_results(modules, Path(scratch))}
        for path in texts:
            (Path(scratch) / path.name).write_bytes(path.read_bytes())
            found[path.stem] = t2t_cases.language_results(modules, path.stem, Path(scratch))
    json.dump(found, sys.stdout)
