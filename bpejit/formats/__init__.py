"""Tokenizer files: reading files into a `bpejit.model.Model` and writing them, with one module per format.

A format is a class with the interface of `bpejit.formats.base.TokenizerFormat`. To add one, write a module with such a class,
and add its location to the list in `bpejit.formats.base`, or call `register` from outside the package. `bpejit.load`,
`Tokenizer.save` and the commands then support it.

- `base` has the interface and the list of formats, `any_format` recognizes, reads and writes files of any format
- bpejit's folder: `folder`, `folder_writing`, `vocabulary_arrays`
- Hugging Face: `huggingface_reading`, `huggingface_writing`; `settings_beside` for the settings in other files
- Others: `tiktoken_ranks` and `ranked_merges`; `gpt2`; `tekken`
- `missing_parts` has what some files do not contain, and `tokenizer_files` the checks and limits of all

Test a round trip over random models, the ids against the package that the format belongs to, and each kind of damage.
"""

from __future__ import annotations

from bpejit.formats.base import register as register, unregister as unregister
