"""The normalization and pre-tokenization pipeline of Hugging Face tokenizers.

Models trained by bpejit have no pipeline. A model read from `tokenizer.json` may normalize text (`NFC`), insert a prefix
space, strip white space around added tokens, or split in several steps; it then has a `PipelineConfig`.

- `pipeline_config`: `PipelineConfig` and `TokenFlags`, the pipeline as data; `Template`, the special tokens around a text
- `byte_characters`: GPT-2's characters for bytes
- `json_fields`: reading JSON objects key by key
- `normalizers`: text -> text, and patterns; `unicode_forms`, the normal forms of Unicode
- `pretokenizers`: text -> pre-tokens
- `alignment`: mapping from the output to the original text
- `added_tokens`: finding added tokens, with their flags
- `pipeline`: `TextPipeline`, which runs all of these
"""
