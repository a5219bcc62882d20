"""Small `tokenizer.json` of each kind of symbols: characters, bytes as a fallback, ends of words, missing bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from helpers.huggingface import GPT2_LEVEL, added_token, dumped, sequence, split

TEXT = (
    "The cat sat on the mat, and the other cat sat there: 12 cats, 13 mats.\n"
    "Le chat est sur le tapis. Größe, naïve, café; 東京と京都, 你好你好!\n\n\tdef f(x): return x + 1  # ok\n"
)
"""What the vocabularies are trained on."""

UNSEEN = "hello  thé 東大 ☃ 🙂🙂 <s>x</s> the cats' <pad>  \r\n"
"""Text with characters that the vocabularies do not have."""

TEXTS = [TEXT, UNSEEN, "", " ", "the", "  the cat\n", "☃", "▁the▁ cat", TEXT.upper() + UNSEEN]

_METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}

_TO_SPACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}


def _trained(model: models.BPE, splitting: Any, **options: Any) -> dict[str, Any]:
    """Return the content of a file that `tokenizers` has trained."""
    tokenizer = Tokenizer(model)
    if splitting is not None:
        tokenizer.pre_tokenizer = splitting
    tokenizer.train_from_iterator([TEXT] * 4, trainers.BpeTrainer(show_progress=False, **{"vocab_size": 220, **options}))
    content: dict[str, Any] = json.loads(tokenizer.to_str())
    return content


def llama() -> dict[str, Any]:
    """Return a file like Llama 2's: byte fallback, and text that is not split."""
    content = _trained(models.BPE(), pre_tokenizers.Metaspace())
    ordinary = content["model"]["vocab"]
    texts = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *sorted(ordinary, key=ordinary.__getitem__)]
    content["model"] |= {
        "vocab": {text: number for number, text in enumerate(texts)},
        "unk_token": "<unk>",
        "fuse_unk": True,
        "byte_fallback": True,
    }
    return content | {
        "added_tokens": [{**added_token(text), "id": number} for number, text in enumerate(texts[:3])],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            ],
        },
        "pre_tokenizer": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                *(_TO_SPACE, {"type": "ByteFallback"}, {"type": "Fuse"}),
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
    }


def metaspace() -> dict[str, Any]:
    """Return a file with `▁` and an unknown token, of which several become one."""
    model = models.BPE(unk_token="<unk>", fuse_unk=True)
    content = _trained(model, pre_tokenizers.Metaspace(), special_tokens=["<unk>", "<pad>"])
    return content | {"pre_tokenizer": _METASPACE, "decoder": _METASPACE}


def clip() -> dict[str, Any]:
    """Return a file like CLIP's: lower case, and ends of words after byte-level tokens."""
    pattern = r"'s|'t|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    pieces = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    content = _trained(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
        pre_tokenizers.Sequence([pieces, level]),
        end_of_word_suffix="</w>",
        special_tokens=["<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        vocab_size=400,
    )
    return content | {
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": sequence(split(pattern, "Removed", invert=True), {**GPT2_LEVEL, "use_regex": False}),
        "decoder": GPT2_LEVEL,
    }


def words() -> dict[str, Any]:
    """Return a file of characters with ends of words, without an unknown token."""
    tokenizer = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.BPEDecoder()
    trainer = trainers.BpeTrainer(
        show_progress=False, vocab_size=200, end_of_word_suffix="</w>", special_tokens=["<s>", "</s>"]
    )
    tokenizer.train_from_iterator([TEXT] * 4, trainer)
    content: dict[str, Any] = json.loads(tokenizer.to_str())
    return content


def characters() -> dict[str, Any]:
    """Return a file of characters with an unknown token and without a decoder."""
    return _trained(models.BPE(unk_token="[UNK]"), pre_tokenizers.Whitespace(), special_tokens=["[UNK]", "<pad>"])


def byte_level() -> dict[str, Any]:
    """Return a byte-level file without the tokens of some bytes, and with the empty token."""
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    content = _trained(models.BPE(unk_token="<unk>"), level, special_tokens=["<unk>"])
    content["model"]["vocab"][""] = len(content["model"]["vocab"])
    return content | {"decoder": GPT2_LEVEL}


KINDS: dict[str, Callable[[], dict[str, Any]]] = {
    made.__name__: made for made in (llama, metaspace, clip, words, characters, byte_level)
}


def write_kind(name: str, folder: Path) -> Path:
    """Write the `tokenizer.json` of a kind into a folder, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tokenizer.json"
    path.write_text(dumped(KINDS[name]()), encoding="utf-8")
    return path
