"""A tokenizer with the methods that another package's users know.

- `tiktoken`: those of `tiktoken.Encoding`
- `huggingface`: those that training loops use of `transformers.PreTrainedTokenizerFast`

Neither imports the package that it stands for.
"""
