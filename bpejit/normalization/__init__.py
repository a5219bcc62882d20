"""The normalization and pre-tokenization pipeline of Hugging Face tokenizers.

Models trained by bpejit have no pipeline. A model read from `tokenizer.json` may normalize text (`NFC`), insert a prefix
space, strip white space around added tokens, or split in several steps; it then has a `PipelineConfig`.

- `pipeline_config`: `PipelineConfig` and `TokenFlags`, the pipeline as data
- `byte_characters`: GPT-2's characters for bytes
- `json_fields`: reading JSON objects key by key
- `patterns`: the patterns of components
- `normalizers`: text -> text; `unicode_forms`, the tables in which Unicode's versions differ
- `pretokenizers`: text -> pre-tokens
- `alignment`: mapping from the output to the original text; `form_sources`, the mapping for normal forms
- `added_tokens`: finding added tokens, with their flags
- `pipeline`: `TextPipeline`, which runs all of these
- `post_processor`: `Template`, the special tokens added around a text
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bpejit.normalization.alignment import PreTokenizedText as PreTokenizedText
    from bpejit.normalization.pipeline import TextPipeline as TextPipeline
    from bpejit.normalization.pipeline_config import PipelineConfig as PipelineConfig, TokenFlags as TokenFlags
    from bpejit.normalization.post_processor import Template as Template, TemplateItem as TemplateItem

# Resolved on first use, so that a model can be created without importing regex and NumPy.
_HOMES = {
    name: module
    for module, names in {
        "alignment": ("PreTokenizedText",),
        "pipeline": ("TextPipeline",),
        "pipeline_config": ("PipelineConfig", "TokenFlags"),
        "post_processor": ("Template", "TemplateItem"),
    }.items()
    for name in names
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bpejit.normalization' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"bpejit.normalization.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
