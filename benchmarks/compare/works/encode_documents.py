from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..corpora import LARGE, OPTIONAL, SEPARATOR, cut, data_folder, documents_of
from ..timing import stop_sampling, timed
from ..tools import Tool
from ..vocabularies import Vocabulary
from .base import Case, Metric, Record, Work, text_label

if TYPE_CHECKING:
    from ..measure import Context

SAMPLE_BYTES = 20_000_000
"""Bytes of text for slow tools."""

FAST = 1e8
"""Bytes per second: a faster tool gets the whole text."""

FORMS = {"text": "plain text", "jsonl": "JSON lines", "parquet": "Parquet (zstd)", "files": "small files"}

ROWS = 10_000
"""Rows of a row group of Parquet."""


class EncodeDocuments(Work):
    name = "encode_documents"
    section = "Corpora to token files"
    about = """From documents to ids on disk, with the id of the end of a document after each, on all cores. The rate is in
    bytes of text. bpejit writes shards of 20 million ids with manifest and checksums; gigatoken returns arrays in memory, and
    NumPy writes them with the ends of the documents; datatrove runs its readers and its tokenizer step without shuffling;
    megatron-scheme is the scheme of `preprocess_data.py`, a pool of processes with the package tokenizers. These two get the
    first 20 MB. dolma is left out, since it shuffles documents, so that its ids cannot be compared."""
    metrics = (Metric("mb_s", "MB/s", True),)
    method = "encode_documents"
    memory = True

    def cases(self, context: Context) -> Iterable[Case]:
        workers = context.settings.workers
        vocabulary = context.vocabulary()
        size = context.settings.file_bytes
        named = [*OPTIONAL, *LARGE] if data_folder() and not (context.settings.corpora or context.corpora.given) else None
        (corpus,) = context.corpora.mixed([size], named)
        english = context.corpora.get(context.corpus_names()[0])
        for form, kind in FORMS.items():
            one = english if form == "files" else corpus
            folders = {}
            for name, data in (("all", one.read()), ("sample", cut(one.read(), min(SAMPLE_BYTES, one.n_bytes // 2)))):
                folder = Path(context.folder) / f"documents-{form}-{name}"
                folder.mkdir(exist_ok=True)
                write_documents(form, data, folder, workers, context.settings.small_files)
                folders[name] = str(folder)
            key = {"vocabulary": vocabulary.name, "corpus": one.record(), "form": kind, "workers": workers}
            if form == "files":
                key["files"] = context.settings.small_files
            yield Case(key, {"vocabulary": vocabulary.params(), "form": form, "folders": folders, "workers": workers}, workers)

    def in_summary(self, key: Record) -> bool:
        return False

    def params_for(self, tool: Tool, case: Case) -> Record:
        folder = case.params["folders"]["all" if tool.bytes_per_second >= FAST else "sample"]
        return {**{name: value for name, value in case.params.items() if name != "folders"}, "folder": folder}

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        vocabulary = Vocabulary(**params["vocabulary"])
        folder = Path(params["folder"])
        n_bytes = json.loads((folder / "size").read_text())
        paths = sorted(path for path in folder.iterdir() if path.name != "size")
        with tempfile.TemporaryDirectory() as name:
            out = Path(name)
            options = {"workers": params["workers"]}
            _, seconds = timed(lambda: tool.encode_documents(vocabulary, params["form"], paths, out, **options))
            stop_sampling()
            return {"mb_s": n_bytes / seconds / 1e6}, tool.document_ids(vocabulary, out)

    def label(self, key: Record) -> str:
        text = text_label(key["corpus"])
        if "files" in key:
            return f"{text} in {key['files']:,} files, {key['vocabulary']}"
        return f"{key['form']}, {text}, {key['vocabulary']}"


def write_documents(form: str, data: bytes, folder: Path, n_files: int, small_files: int) -> None:
    """Write the documents of a text to files of a form, and the number of their bytes to `size`."""
    if form == "files":
        written = write_small_files(data.replace(SEPARATOR, b""), folder, small_files)
        (folder / "size").write_text(json.dumps(written))
        return
    texts = documents_of(data)
    (folder / "size").write_text(json.dumps(sum(len(text.encode()) for text in texts)))
    step = -(-len(texts) // n_files)
    for number in range(n_files):
        some = texts[number * step : (number + 1) * step]
        path = folder / f"{number:03d}.{form}"
        if form == "text":
            path.write_bytes(b"".join(text.encode() + SEPARATOR for text in some))
        elif form == "jsonl":
            lines = (json.dumps({"id": str(index), "text": text}, ensure_ascii=False) for index, text in enumerate(some))
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        else:
            import pyarrow
            import pyarrow.parquet

            table = pyarrow.table({"id": list(map(str, range(len(some)))), "text": some})
            pyarrow.parquet.write_table(table, path, compression="zstd", row_group_size=ROWS)


def write_small_files(data: bytes, folder: Path, n_files: int) -> int:
    """Divide a text at line ends into files of about the same size; return the number of bytes written."""
    size = max(len(data) // n_files, 1)
    start = written = 0
    for number in range(n_files):
        stop = data.find(b"\n", min(max(start + 1, (number + 1) * size), len(data))) + 1 or len(data)
        if data[start:stop]:
            (folder / f"{number:06d}.txt").write_bytes(data[start:stop])
            written += stop - start
        start = stop
    return written
