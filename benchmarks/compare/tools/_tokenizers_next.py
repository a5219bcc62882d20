from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from ..corpora import ROOT
from ._tokenizers import HuggingFace
from .base import CannotError, Tool

FOLDER = ROOT / ".bench" / "tokenizers-1.0"
"""The environment that `make bench` creates from benchmarks/environments/tokenizers-1.0.txt."""


class HuggingFaceNext(HuggingFace):
    """The pre-release of tokenizers 1.0, which has no trainer."""

    name = "tokenizers-1.0"
    bytes_per_second = 1e8

    def can(self, method: str) -> bool:
        return method != "train" and super().can(method)

    @property
    def interpreter(self) -> str:
        return str(FOLDER / "bin" / "python")

    def version(self) -> str | None:
        if not Path(self.interpreter).is_file():
            return None
        code = "from importlib.metadata import version; print(version('tokenizers'))"
        done = subprocess.run([self.interpreter, "-c", code], capture_output=True, text=True, check=False)
        return done.stdout.strip() or None

    train = Tool.train

    def load(self, vocabulary: Any) -> Any:
        try:
            return super().load(vocabulary)
        except Exception as error:
            raise CannotError(f"it refuses the file: {str(error).splitlines()[0][:100]}") from error

    def encode_batch(self, encoder: Any, texts: list[str], threads: int) -> Any:
        os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
        return encoder.encode_batch(texts, add_special_tokens=False)
