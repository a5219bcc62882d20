from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ..corpora import LARGE, ROOT, cut
from ..processes import JobError, last_line, run_command
from ..tools import Tool
from .base import Case, Metric, Record, Work, text_label

if TYPE_CHECKING:
    from ..measure import Context

LABELS = {
    "help": "`bpejit --help`",
    "encode": "`bpejit encode` on 1 KB",
    "first": "`bpejit train`, `encode` and `decode` on 100 KB, nothing compiled",
}


class Commands(Work):
    name = "commands"
    section = "Starting"
    unit = "seconds"
    about = "Commands run with all kernels compiled, except where the row says otherwise."
    metrics = (Metric("seconds", "seconds"),)
    only: ClassVar[tuple[str, ...]] = ("bpejit", "bpejit-avx2", "bpejit-earlier")

    def cases(self, context: Context) -> Iterable[Case]:
        prose = (ROOT / "tests" / "data" / "prose.txt").read_bytes()
        line, corpus = context.folder / "1KB.txt", context.folder / "100KB.txt"
        line.write_bytes(cut(prose, 1_000))
        corpus.write_bytes(cut(prose, 100_000))
        vocabulary = context.vocabulary()
        yield Case({"what": "help"}, {"commands": [["--help"]]})
        encode = ["encode", str(line), "--out", "OUT/1KB.bin", "--tokenizer", str(vocabulary.path)]
        yield Case({"what": "encode", "vocabulary": vocabulary.name}, {"commands": [encode]})
        workers = context.settings.workers
        for large in context.large_corpora(*LARGE):
            text, own = context.own_vocabulary(large.name)
            encode = ["encode", str(text.path), "--out", "OUT/t.bin", "--tokenizer", str(own.path), "--workers", str(workers)]
            yield Case({"what": "large", "corpus": text.record(), "workers": workers}, {"commands": [encode]}, workers)
        if context.settings.first_runs:
            steps = [
                ["train", str(corpus), "--vocab-size", "1000", "--out", "OUT/tokenizer"],
                ["encode", str(corpus), "--out", "OUT/tokens.bin", "--tokenizer", "OUT/tokenizer"],
                ["decode", "OUT/tokens.bin", "--out", "OUT/back.txt", "--tokenizer", "OUT/tokenizer"],
            ]
            yield Case({"what": "first"}, {"commands": steps, "compile": True}, context.settings.workers)

    def run(
        self,
        tool: Tool,
        params: Record,
        *,
        environment: dict[str, str],
        save: Path | None,
        memory: bool,
        timeout: float,
    ) -> Record:
        seconds = []
        with tempfile.TemporaryDirectory() as folder:
            if params.get("compile"):
                environment = {**environment, "BPEJIT_CACHE_DIR": f"{folder}/cache", "BPEJIT_CACHE": "1"}
            for words in params["commands"]:
                words = [word.replace("OUT/", f"{folder}/") for word in words]
                found = run_command([*tool.command, *words], environment=environment, timeout=timeout)
                if found["exit_code"]:
                    raise JobError(f"bpejit {words[0]}: {last_line(found['stderr'])}")
                seconds.append(found["process_seconds"])
            outputs = sorted(Path(folder).glob("*.bin"))
            digest = hashlib.sha256(b"".join(path.read_bytes() for path in outputs)).hexdigest()
        metrics = {"seconds": sum(seconds)}
        return {"process_seconds": sum(seconds), "metrics": metrics, "digest": digest, "n_items": len(outputs)}

    def label(self, key: Record) -> str:
        if key["what"] == "large":
            return f"`bpejit encode` on {text_label(key['corpus'])}, own vocabulary, {key['workers']} workers"
        return LABELS[key["what"]]
