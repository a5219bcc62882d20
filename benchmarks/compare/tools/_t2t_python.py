from __future__ import annotations

from .base import Tool


class T2tPython(Tool):
    """Tensor2Tensor's algorithm in plain Python, as the tests have it; see the work `subword`."""

    name = "t2t-python"
    package = "bpejit"
    is_reference = True
