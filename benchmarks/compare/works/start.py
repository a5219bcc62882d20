from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..processes import JobError, last_line, run_command
from ..tools import CannotError, Tool
from ..vocabularies import Vocabulary
from .base import Case, Metric, Record, Work
from .load import LINE

if TYPE_CHECKING:
    from ..measure import Context


class Start(Work):
    name = "start"
    section = "Starting"
    unit = "seconds"
    about = "A process imports the package, loads the vocabulary and encodes a line."
    metrics = (Metric("seconds", "seconds"),)
    method = "script"
    memory = True

    def cases(self, context: Context) -> Iterable[Case]:
        for name in context.vocabulary_names():
            yield Case({"vocabulary": name}, {"vocabulary": context.vocabulary(name).params()})

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
        try:
            script = tool.script(Vocabulary(**params["vocabulary"]), LINE)
        except CannotError as reason:
            return {"cannot": str(reason), "process_seconds": 0.0}
        found = run_command([tool.interpreter, "-c", script], environment=environment, memory=memory, timeout=timeout)
        if found["exit_code"]:
            raise JobError(last_line(found["stderr"]))
        ids = np.array(json.loads(found["stdout"]), dtype=np.uint32)
        if save:
            np.save(save, ids)
        seconds = found["process_seconds"]
        digest = hashlib.sha256(ids.data).hexdigest()
        return {**found, "metrics": {"seconds": seconds}, "digest": digest, "n_items": int(ids.size)}

    def label(self, key: Record) -> str:
        return f"import, load {key['vocabulary']}, encode a line"
