"""Tokenizers with the interfaces of other packages.

- `tiktoken`: the methods of `tiktoken.Encoding`
- `huggingface`: the methods of `transformers.PreTrainedTokenizerFast` that training and inference code uses

Neither imports the package whose interface it has.
"""
