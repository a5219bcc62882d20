"""Token files: reading and writing token ids on disk, in several formats.

A format is a class with the interface of `bpejit.tokenfiles.base.TokenFileFormat`. To add one, write a module with such a
class, and add its location to the table below, or call `register` from outside the package. `encode_files`,
`decode_file`, `open_tokens` and the commands then accept its name.

`opening` opens files, and chooses the format to write. `base` has templates of formats, and `readers`
what opens files. Most map one array of ids (with `mapping`), and are in `array_files`; `arrow_files` has rows, and
`text_files` lines.

Writers reject ids that their dtype cannot hold before anything is written, and their files appear only when they are complete.
Readers check length, dtype and tokenizer, and require what the file does not contain as an argument. Everything on disk is
little-endian. Test a round trip, the code of the tool that reads the format, a full disk, and each kind of damage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpejit.errors import TokenFileError
from bpejit.registry import AUTO, Registry

if TYPE_CHECKING:
    from bpejit.tokenfiles.base import TokenFileFormat

DEFAULT_FORMAT = "bin"
"""The format that is written by default, and read if no format recognizes a file."""

TEXT_FORMAT = "text"
"""The format that options such as `--text` select."""

_formats: Registry[TokenFileFormat] = Registry(
    "token file format",
    {
        "bin": ("bpejit.tokenfiles.array_files:BinFormat", "ids without a header, as nanoGPT reads them"),
        "npy": ("bpejit.tokenfiles.array_files:NpyFormat", "a NumPy array"),
        "megatron": ("bpejit.tokenfiles.array_files:MegatronFormat", "FILE.bin and FILE.idx of Megatron"),
        "parquet": ("bpejit.tokenfiles.arrow_files:ParquetFormat", "a row per document"),
        "llmc": ("bpejit.tokenfiles.array_files:LlmcFormat", "ids after the header of llm.c"),
        "datatrove": ("bpejit.tokenfiles.array_files:DatatroveFormat", "FILE with FILE.index and FILE.metadata"),
        "arrow": ("bpejit.tokenfiles.arrow_files:ArrowFormat", "a row per document, mapped into memory"),
        TEXT_FORMAT: ("bpejit.tokenfiles.text_files:TextFormat", "numbers, a line per document"),
    },
    reserved=AUTO,
    error=TokenFileError,
)


register, unregister = _formats.register, _formats.unregister
"""Add and remove a format (see `Registry`) that functions and commands select by name: a class or function without parameters
that returns a `bpejit.tokenfiles.base.TokenFileFormat`.
"""

load_format = _formats.load

format_names, format_descriptions = _formats.names, _formats.descriptions
"""Return the names of all formats, without `auto`, and their descriptions."""


def dtype_names() -> tuple[str, ...]:
    """Return the names of the dtypes that at least one format stores."""
    return tuple(dict.fromkeys(dtype for name in format_names() for dtype in load_format(name).dtypes))
