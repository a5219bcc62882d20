from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from ..corpora import END_OF_TEXT, ROOT
from ..vocabularies import Vocabulary
from .base import CannotError, Tool

FOLDER = ROOT / ".bench" / "datatrove"
"""The environment that `make bench` creates from benchmarks/environments/datatrove.txt."""


class Datatrove(Tool):
    """Its readers and its tokenizer step, without shuffling, a task for each file."""

    name = "datatrove"
    package = "datatrove"
    bytes_per_second = 4e6

    @property
    def interpreter(self) -> str:
        return str(FOLDER / "bin" / "python")

    def version(self) -> str | None:
        if not Path(self.interpreter).is_file():
            return None
        code = "from importlib.metadata import version; print(version('datatrove'))"
        done = subprocess.run([self.interpreter, "-c", code], capture_output=True, text=True, check=False)
        return done.stdout.strip() or None

    def prepare(self) -> None:
        import datatrove.executor
        import datatrove.pipeline.readers
        import datatrove.pipeline.tokens  # noqa: F401

    def encode_documents(self, vocabulary: Vocabulary, form: str, paths: list[Path], out: Path, *, workers: int) -> None:
        from datatrove.executor import LocalPipelineExecutor
        from datatrove.pipeline.readers import JsonlReader, ParquetReader
        from datatrove.pipeline.tokens import DocumentTokenizer

        readers: dict[str, Any] = {"jsonl": JsonlReader, "parquet": ParquetReader}
        if form not in readers:
            raise CannotError("it has no reader for plain text")
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its tasks are processes
        steps = [
            readers[form](str(paths[0].parent), glob_pattern=f"*{paths[0].suffix}"),
            DocumentTokenizer(
                output_folder=str(out),
                tokenizer_name_or_path=str(vocabulary.saved / "tokenizer.json"),
                eos_token=END_OF_TEXT,
                shuffle_documents=False,
                save_final_metadata=False,
            ),
        ]
        LocalPipelineExecutor(pipeline=steps, tasks=len(paths), workers=workers, logging_dir=str(out / "logs")).run()

    def document_ids(self, vocabulary: Vocabulary, out: Path) -> np.ndarray:
        files = sorted(out.glob("*.ds"))
        return np.concatenate([np.fromfile(path, dtype=vocabulary.dtype) for path in files]).astype(np.uint32)
