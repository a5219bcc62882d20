"""The layout of the folder in which bpejit saves a tokenizer.

The folder is a Hugging Face tokenizer, `tokenizer.json` with `tokenizer_config.json`, plus `bpejit.json`:

format, format_version, bpejit_version
    The kind of folder, and the version that wrote it.
tokenizer_file, tokenizer_file_sha256
    The file with tokens and merges, and its hash. A file that was changed is not read.
not_for_other_tools
    The reason why `tokenizer_file` is `model.json`, which no other tool reads, instead of `tokenizer.json`; null otherwise.
sha256
    Hash of everything that determines ids (`Model.sha256`). Token files contain it.
sections_of_source
    True if the sections of `tokenizer_file` except vocabulary and merges are from the `tokenizer.json` that the tokenizer was
    read from. Missing otherwise.
pattern
    `name` of the preset, or null, and `source`, the regular expression in bpejit's dialect, or a list of expressions that are
    applied in sequence.
shared_ids
    Ids of special tokens that are also ordinary tokens.
preparation, token_flags, post_processor
    As in `tokenizer.json` (see `Model`), if the tokenizer was read from one.
unicode
    The version of Unicode of the character classes in the pattern; null or missing for the version of the installed `regex`
    package.
ranked, ignore_merges
    How tokens merge (see `Model`). The merges in `tokenizer_file` of a ranked model are for other tools.
config
    Settings for `transformers`, as in `tokenizer_config.json`; missing if there are none.
tie_break, merge_counts
    The tie rule of the training, and the count of the pair of each merge.
vocab_size, token_lengths
    One more than the largest id, and the number of bytes of each id, 0 for special tokens and unused ids, for computing bits
    per byte. Null if the ids have large gaps.
training
    Notes for readers: settings and inputs of the training.

`token_bytes.npy` contains `token_lengths` as a NumPy array, int32 [vocab_size], for training loops that report bits per byte.
It is not read by bpejit, and is absent if the ids have large gaps.
"""

from __future__ import annotations

from bpejit.formats.huggingface_writing import CONFIG_FILE

FORMAT = "bpejit tokenizer"

FORMAT_VERSION = 3
"""Version 2 has `ranked`, `ignore_merges`, `preparation`, `token_flags` and `post_processor`, version 3 has `unicode`. The
oldest version that can represent a model is written."""

PREPARATION_STEPS = ("normalizer", "pre_tokenizer")

OWN_FILE = "bpejit.json"

TOKENIZER_FILE = "tokenizer.json"

PRIVATE_FILE = "model.json"
"""The name of `tokenizer.json` if other tools would give other ids; they do not read files of this name."""

PUBLIC_FILES = (TOKENIZER_FILE, CONFIG_FILE, OWN_FILE)
