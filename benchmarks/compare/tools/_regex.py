from __future__ import annotations

from typing import Any

from ..corpora import SEPARATOR
from .base import Tool


class Regex(Tool):
    """The `regex` package, which iterates over an already decoded string and stores nothing."""

    name = "regex"
    package = "regex"
    is_reference = True
    bytes_per_second = 5e6

    def prepare(self) -> None:
        import regex  # noqa: F401

    def split(self, pattern: str, data: bytes) -> Any:
        from bpejit.arrays import padded_text
        from bpejit.splitting import Splitter, compile_pattern

        compiled = compile_pattern(pattern)
        splitter = Splitter(compiled, [SEPARATOR])
        strings = [document for document in data.decode().split(SEPARATOR.decode()) if document]

        def run() -> None:
            if len(compiled.stages) > 1:
                splitter.split_by_regex(*padded_text(data))
                return
            for string in strings:
                for _ in compiled.stages[0].finditer(string):
                    pass

        return run, lambda: splitter.split_by_regex(*padded_text(data))
