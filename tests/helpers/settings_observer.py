"""Observe a tokenizer of `transformers`, also as a program in an environment that has nothing else.

    python tests/helpers/settings_observer.py FOLDER

prints what `AutoTokenizer` gives for each folder in `FOLDER`, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

TEXTS = ("a b", "a <|endoftext|> b", "<x> a<y>", "<pad>ab<pad> s", "<s>a</s> <mask>b", "as\u0301", "")


def observe(tokenizer: Any) -> dict[str, Any]:
    """Return what a tokenizer of `transformers`, or one of `as_hf`, gives for the texts, and its settings."""
    ids = [list(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in TEXTS]
    around = [list(tokenizer(*texts)["input_ids"]) for texts in (("a b",), ("a b", "b"))]
    names = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
    settings = ("padding_side", "truncation_side", "model_max_length", "split_special_tokens", "chat_template")
    return {
        "ids": ids,
        "around": around,
        "decoded": [tokenizer.decode(one, skip_special_tokens=True, clean_up_tokenization_spaces=False) for one in ids],
        "tokens": {name: getattr(tokenizer, f"{name}_token") for name in names},
        "special": sorted(tokenizer.all_special_tokens),
        "n_tokens": len(tokenizer),
        **{name: getattr(tokenizer, name) for name in settings},
    }


def main() -> None:
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "critical"}
    from transformers import AutoTokenizer

    folders = [*Path(sys.argv[1]).iterdir()]
    print(json.dumps({folder.name: observe(AutoTokenizer.from_pretrained(str(folder))) for folder in folders}))


if __name__ == "__main__":
    main()
