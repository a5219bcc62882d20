"""Encoding and decoding: text to token ids and back, in memory.

- `codec` gives each call an `encoder` and a `workspace`; `encoder_tables` has a model as arrays, `kernel_runner` calls kernels
- Text that arrives in pieces: `encode_stream`; many texts: `batch_encoding`
- `special_token_policy`, `offsets`
- `decoder`, `file_decoding`
- Memory: `encoder_cache`
"""
