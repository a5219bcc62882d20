"""Token files: reading and writing token ids on disk, with one module per format.

A format is a class with the interface of `bpejit.tokenfiles.base.TokenFileFormat`. To add one, write a module with such a
class, and add its location to `bpejit.tokenfiles.registry`, or call `register` from outside the package. `encode_files`,
`decode_file`, `open_tokens` and the commands then accept its name.

`opening` opens a file for reading and writing, and chooses the format to write. `templates` has those of formats. Most map one
array of ids (with `mapping`): `array_files` has three of these, `megatron_files` and `datatrove_files` one each; `arrow_files`
has rows, which `list_readers` reads, and `text_files` lines.

Writers reject ids that their dtype cannot hold before anything is written, and their files appear only when they are complete.
Readers check length, dtype and tokenizer, and require what the file does not contain as an argument. Everything on disk is
little-endian. Test a round trip, the code of the tool that reads the format, a full disk, and each kind of damage.
"""

from __future__ import annotations

from bpejit.tokenfiles.registry import (
    DEFAULT_FORMAT as DEFAULT_FORMAT,
    TEXT_FORMAT as TEXT_FORMAT,
    format_descriptions as format_descriptions,
    format_names as format_names,
    load_format as load_format,
    register as register,
    unregister as unregister,
)
