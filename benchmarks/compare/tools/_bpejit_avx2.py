from __future__ import annotations

from typing import ClassVar

from ..machine import has_avx512_vbmi
from ._bpejit import Bpejit


class BpejitAvx2(Bpejit):
    """bpejit as it runs on a processor without AVX-512: measured where the processor has it, so that both are known."""

    name = "bpejit-avx2"
    environment: ClassVar[dict[str, str]] = {"BPEJIT_CPU": "x86-64-v3"}

    def version(self) -> str | None:
        return super().version() if has_avx512_vbmi() else None
