"""Tokenizers with the interfaces of other packages.

- `tiktoken`: the methods of `tiktoken.Encoding`
- `grammars`: what llguidance needs, and the bytes of all tokens for other engines
- `huggingface`: the methods of `transformers.PreTrainedTokenizerFast` that training and inference code uses

`huggingface` has `model_inputs` (truncation, padding, arrays), `named_tokens` and `chat_templates`.

Neither imports the package whose interface it has.
"""
