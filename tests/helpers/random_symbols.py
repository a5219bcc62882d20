"""Random `tokenizer.json` files of all kinds of symbols, and texts for them."""

# ruff: noqa: RUF001 (look-alike characters are intended)

from __future__ import annotations

import random
from typing import Any

from bpejit.normalization.byte_characters import CHARACTERS, encode_byte_characters

LETTERS = "abcA1 _é中☃▁.\u0301\n"
"""The characters of vocabularies. Texts have others as well."""

TEXT_PIECES = (
    *LETTERS,
    *("ab", "bc", "abc", "  ", " a", "ba ", "▁a", "Ab", "aa", "<s>", "<pad>", "<unk>", "</w>", "<0x41>", "x", "Ｘ", "ﬁ"),
    *("\t", "\r\n", "\u00a0", "\u3000", "🙂", "東京", "12", "don't", "\x00", "\ufffd", "Σ", "İ", "e\u0301\u0323", "한"),
    *("\u1734", "#"),
)


def random_text(generator: random.Random) -> str:
    """Return a short text."""
    return "".join(generator.choices(TEXT_PIECES, k=generator.randrange(0, 14)))


def random_file(generator: random.Random) -> dict[str, Any]:
    """Return the content of a file."""
    level = generator.random() < 0.4
    suffix = generator.choice(["", "", "</w>"])
    fallback = not level and not suffix and generator.random() < 0.4
    alphabet = [*LETTERS] if not level else [encode_byte_characters(bytes([byte])) for byte in "".join(LETTERS).encode()]
    known = [one for one in dict.fromkeys(alphabet) if generator.random() < 0.8]
    if level and generator.random() < 0.4:
        known = [*CHARACTERS]
    symbols = [*known, *(one + suffix for one in known if suffix and generator.random() < 0.9)]
    texts = [*(f"<0x{byte:02X}>" for byte in range(256) if fallback), *symbols]
    unknown = generator.choice([None, "<unk>", "<unk>", "<missing>"])
    if unknown == "<unk>" or generator.random() < 0.2:
        texts.insert(generator.choice([0, len(texts)]), "<unk>")
    made = dict.fromkeys(texts)
    merges = []
    for _ in range(generator.randrange(0, 30)):
        left, right = (generator.choice([*symbols, *(a + b for a, b in merges[-8:])]) for _ in range(2))
        if not left or (suffix and left.endswith(suffix)) or len(left + right) > 24:
            continue
        merges.append((left, right))
        made[left + right] = None
    texts = [*made]
    generator.shuffle(texts)
    vocab = {text: number for number, text in enumerate(texts)}
    if generator.random() < 0.1 and len(texts) > 3:
        vocab[texts[2]] = vocab[texts[1]]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _random_added(generator, vocab),
        "normalizer": _random_normalizer(generator),
        "pre_tokenizer": _random_pre_tokenizer(generator, level),
        "post_processor": None,
        "decoder": _random_decoder(generator, level),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": unknown,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": suffix or None,
            "fuse_unk": generator.random() < 0.5,
            "byte_fallback": fallback,
            "ignore_merges": generator.random() < 0.08,
            "vocab": vocab,
            "merges": list(map(list, merges)),
        },
    }


def _random_added(generator: random.Random, vocab: dict[str, int]) -> list[dict[str, Any]]:
    added = []
    following = len(vocab)
    for text in ("<s>", "<pad>", "<unk>", "ab"):
        if generator.random() < 0.7:
            continue
        number = vocab.get(text, following)
        following = max(following, number + 1)
        flags = {name: generator.random() < 0.2 for name in ("single_word", "lstrip", "rstrip", "normalized")}
        added.append({"id": number, "content": text, **flags, "special": generator.random() < 0.8})
    return sorted(added, key=lambda token: token["id"])


def _component(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


TO_MARK = _component("Replace", pattern={"String": " "}, content="▁")

_BERT = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}


def _random_normalizer(generator: random.Random) -> dict[str, Any] | None:
    bert = _component("BertNormalizer", **{name: generator.choice([value, False]) for name, value in _BERT.items()})
    some = [
        *map(_component, ("NFC", "NFD", "NFKC", "Lowercase", "StripAccents")),
        bert,
        _component("Replace", pattern={"Regex": r"\s+"}, content=" "),
        _component("Strip", strip_left=True, strip_right=generator.random() < 0.5),
    ]
    llama = [_component("Prepend", prepend="▁"), TO_MARK]
    choice = generator.randrange(6)
    if choice <= 1:
        return None
    if choice == 2:
        return generator.choice(some)
    steps = [generator.choice(some) for _ in range(generator.randrange(1, 3))]
    steps = llama if choice == 3 else [TO_MARK] if choice == 4 else steps
    return _component("Sequence", normalizers=steps)


def byte_level(*, prefix: bool = False, use_regex: bool = True) -> dict[str, Any]:
    """Return a ByteLevel component."""
    return _component("ByteLevel", add_prefix_space=prefix, trim_offsets=True, use_regex=use_regex)


def metaspace(scheme: str = "always", *, split: bool = True) -> dict[str, Any]:
    """Return a Metaspace component."""
    return _component("Metaspace", replacement="▁", prepend_scheme=scheme, split=split)


def _random_pre_tokenizer(generator: random.Random, level: bool) -> dict[str, Any] | None:
    words = _component("Split", pattern={"Regex": r"'s|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"}, behavior="Removed", invert=True)
    splits = [
        *map(_component, ("Whitespace", "WhitespaceSplit", "BertPreTokenizer")),
        words,
        _component("Digits", individual_digits=generator.random() < 0.5),
        _component("Punctuation", behavior=generator.choice(["Isolated", "Contiguous"])),
        _component("Split", pattern={"String": " "}, behavior="MergedWithPrevious", invert=False),
        _component("Split", pattern={"Regex": r"\d+|\n"}, behavior="Isolated", invert=False),
    ]
    steps = [generator.choice(splits) for _ in range(generator.choice([0, 0, 1, 1, 2]))]
    if level:
        steps.append(byte_level(prefix=generator.random() < 0.3, use_regex=generator.random() < 0.6))
    elif generator.random() < 0.4:
        mark = metaspace(generator.choice(["always", "first", "never"]), split=generator.random() < 0.6)
        steps = [*steps, mark] if generator.random() < 0.3 else [mark, *steps]
    if not steps:
        return None
    return steps[0] if len(steps) == 1 else _component("Sequence", pretokenizers=steps)


def _random_decoder(generator: random.Random, level: bool) -> dict[str, Any] | None:
    space = _component("Replace", pattern={"String": "▁"}, content=" ")
    strip = _component("Strip", content=" ", start=1, stop=0)
    llama = [space, _component("ByteFallback"), _component("Fuse")]
    return generator.choice(
        [
            None,
            byte_level(),
            byte_level() if level else metaspace(generator.choice(["always", "first", "never"])),
            _component("BPEDecoder", suffix="</w>"),
            _component("WordPiece", prefix="##", cleanup=generator.random() < 0.5),
            _component("Fuse"),
            _component("Sequence", decoders=llama),
            _component("Sequence", decoders=[*llama, strip]),
            _component("Sequence", decoders=[_component("ByteFallback"), metaspace()]),
        ]
    )
