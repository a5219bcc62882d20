"""GPT-2's way to write bytes as text, under the name by which the other formats know it (see `bpejit.bytemap`)."""

from bpejit.bytemap import CHARACTERS, bytes_to_text, text_to_bytes

__all__ = ["CHARACTERS", "bytes_to_text", "text_to_bytes"]
