from __future__ import annotations

import gc
import random
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from ..corpora import SEPARATOR, cut
from ..timing import timed
from ..tools import CannotError, Tool
from ..vocabularies import Vocabulary
from .base import Case, Metric, Record, Work, text_label

if TYPE_CHECKING:
    from ..measure import Context

MAX_BYTES = 4_000_000
CHANGES = 400
APPENDED = 256
SHARE = 100
"""One in so many changes may take longer than the second figure."""


class Session(Work):
    name = "session"
    section = "Sessions"
    unit = "µs, median / 99th percentile"
    about = """A text of 4 MB is encoded, and then changed: 256 characters are appended, five characters at a random place
    are replaced by two words, or the session is forked."""
    metrics = (Metric("us", "µs, median"), Metric("most_us", "99th percentile"))
    method = "session"

    def cases(self, context: Context) -> Iterable[Case]:
        corpus = context.corpus()
        n_bytes = len(cut(corpus.read(), MAX_BYTES))
        for name in context.vocabulary_names():
            vocabulary = context.vocabulary(name)
            for change in ("append", "edit", "fork"):
                key = {"change": change, "vocabulary": name, "corpus": {"name": corpus.name, "bytes": n_bytes}}
                params = {"vocabulary": vocabulary.params(), "path": str(corpus.path), "n_bytes": n_bytes, "change": change}
                yield Case(key, params)

    def job(self, tool: Tool, params: Record) -> tuple[Record, np.ndarray]:
        encoder = tool.load(Vocabulary(**params["vocabulary"]))
        data = Path(params["path"]).read_bytes()
        text = data.replace(SEPARATOR, b"\n\n").decode(errors="replace")
        session = tool.session(encoder, text[: params["n_bytes"]])
        if not hasattr(session, params["change"]):
            raise CannotError("its sessions are only appended to")
        generator = random.Random(1)
        taken = []
        gc.collect()
        for number in range(CHANGES):
            place = generator.randrange(params["n_bytes"] // 2)
            piece = text[APPENDED * number : APPENDED * (number + 1)]
            change = {
                "append": lambda piece=piece: session.append(piece),
                "edit": lambda place=place: session.edit(place, place + 5, " two words"),
                "fork": lambda: session.fork(),
            }
            taken.append(timed(change[params["change"]])[1] * 1e6)
        return {"us": median(taken), "most_us": sorted(taken)[-CHANGES // SHARE]}, tool.session_ids(session)

    def label(self, key: Record) -> str:
        return f"{key['change']}, {key['vocabulary']}, {text_label(key['corpus'])}"
