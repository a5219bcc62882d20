"""Tokenizer files: reading files into a `bpejit.model.Model` and writing them, with one module per format.

A format is a class with the interface of `bpejit.formats.base.TokenizerFormat`. To add one, write a module with such a class,
and add its location to `bpejit.formats.registry`, or call `register` from outside the package. `bpejit.load`,
`Tokenizer.save` and the commands then support it.

- bpejit's folder: `folder`, `folder_layout`, `folder_reading`, `folder_writing`, `token_bytes`, `vocabulary_lines`
- Hugging Face: `huggingface_json`, `huggingface_reading`, `huggingface_writing`, `pipelines`; `settings_beside` and
  `tokenizer_classes` for the settings in other files
- Others: `tiktoken_ranks` with `sidecar`, `ranked_merges` and `published`; `gpt2_format`; `tekken`
- `recognize` chooses the format, `export` writes one, `remote_tokenizers` fetches and stores, `untrusted` has the limits

Test a round trip over random models, the ids against the package that the format belongs to, and each kind of damage.
"""

from __future__ import annotations

from bpejit.formats.registry import register, unregister

__all__ = ["register", "unregister"]
