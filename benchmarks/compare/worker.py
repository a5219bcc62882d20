"""Run one measurement in a process of its own: `python -m benchmarks.compare.worker JOB-FILE ANSWER-FILE`."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import numpy as np

from .processes import ONE_PROCESSOR
from .tools import CannotError, get_tool
from .works import get_work


def main() -> None:
    """Run the job and write its answer: figures, and the digest of the result."""
    given, answer = map(Path, sys.argv[1:])
    job = json.loads(given.read_text())
    if os.environ.get(ONE_PROCESSOR) and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        tool = get_tool(job["tool"])
        tool.prepare()
        metrics, result = get_work(job["work"]).job(tool, job["params"]) if job["work"] else ({}, np.zeros(0))
        if job["save"]:
            np.save(job["save"], result)
        digest = hashlib.sha256(np.ascontiguousarray(result).data).hexdigest()
        found = {"metrics": metrics, "digest": digest, "n_items": int(result.size)}
    except CannotError as reason:
        found = {"cannot": str(reason)}
    answer.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
