"""Vocabularies in which `</w>` marks the end of a word: CLIP's and GPT-1's pairs, and OpenAI's `bpe_simple_vocab_16e6.txt`.

A pair does not say how text is cleaned and split. Its class in transformers does, which files beside it name; CLIP's is also
recognized by its construction. The result is the `tokenizer.json` that transformers makes of the pair, except that decoding
replaces the mark by a space, as the tools of these models do. CLIP's own code repairs text with `ftfy` first, and replaces HTML
entities; like transformers, bpejit does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpejit.errors import TokenizerFormatError
from bpejit.formats.base import Given, TokenizerFormat
from bpejit.formats.huggingface_writing import byte_level, sequence
from bpejit.formats.missing_parts import END_OF_TEXT, TOOLS_UNICODE
from bpejit.formats.tokenizer_files import MERGES_FILE, broken_line, naming, read_merge_texts, read_tokenizer_file
from bpejit.model import Model
from bpejit.normalization.byte_characters import CHARACTERS
from bpejit.normalization.pipeline_config import added_token
from bpejit.splitting.presets import Pattern
from bpejit.tokenizer_config import TokenizerConfig

if TYPE_CHECKING:
    from typing_extensions import Unpack

WORD_END = "</w>"

CLASSES = ("CLIPTokenizer", "OpenAIGPTTokenizer")
"""The classes of transformers whose pairs have the mark."""

START_OF_TEXT = "<|startoftext|>"

_FIRST_LINE = '"bpe_simple_vocab_16e6.txt#version: 0.2'

_N_MERGES = 49152 - 256 - 2
"""The merges of OpenAI's file that CLIP uses, of 262,143."""

_BYTES = [*sorted(text for text in CHARACTERS if text < "\u0100"), *sorted(text for text in CHARACTERS if text >= "\u0100")]
"""The byte characters in the order of CLIP's ids."""

_WORDS = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


class ClipFormat(TokenizerFormat):
    """OpenAI's `bpe_simple_vocab_16e6.txt`, the merges of CLIP."""

    name = "clip"
    expected = "CLIP's `bpe_simple_vocab_16e6.txt`"
    file_names = ("bpe_simple_vocab_16e6.txt", "bpe_simple_vocab_16e6.txt.gz")

    def recognizes(self, head: bytes, content: Any) -> bool:  # noqa: ARG002
        """Return True if the file begins with OpenAI's first line."""
        return head.startswith(_FIRST_LINE.encode())

    def find(self, folder: Path) -> list[Path]:
        """Return the files in a folder."""
        return [folder / name for name in self.file_names if (folder / name).exists()]

    def read(self, path: Path, **given: Unpack[Given]) -> Model:
        """Return the model; the vocabulary is made of the merges as in OpenAI's code."""
        try:
            lines = read_tokenizer_file(path).decode("utf-8").split("\n")
        except UnicodeDecodeError as cause:
            raise TokenizerFormatError(f"`{path}` is not UTF-8 ({cause}); expected OpenAI's file: get it again") from cause
        if lines[0] != _FIRST_LINE:
            raise broken_line(path, 1, lines[0].encode(), repr(_FIRST_LINE))
        merges = [line.split(" ") for line in lines[1 : _N_MERGES + 1]]
        known = clip_bytes()
        for number, merge in enumerate(merges, start=2):
            if len(merge) != 2 or not known.issuperset(merge) or "".join(merge) in known:
                raise broken_line(path, number, " ".join(merge).encode(), "two tokens that are known, and make a new one")
            known.add("".join(merge))
        if len(merges) < _N_MERGES:
            raise TokenizerFormatError(f"`{path}` has {len(merges)} merges; expected at least {_N_MERGES}: get it again")
        every = [*_BYTES, *(text + WORD_END for text in _BYTES), *map("".join, merges), START_OF_TEXT, END_OF_TEXT]
        vocab = {text: number for number, text in enumerate(every)}
        return model_from(content_for(CLASSES[0], vocab, merges), path, given.get("unicode") or TOOLS_UNICODE)


def clip_bytes() -> set[str]:
    """Return the tokens of single bytes: each with and without the mark."""
    return {*CHARACTERS, *(text + WORD_END for text in CHARACTERS)}


def word_content(path: Path, vocab: dict[str, Any], class_name: str | None, pattern: Pattern | None) -> dict[str, Any] | None:
    """Return the content of the `tokenizer.json` of a pair that marks the ends of words, and None for others.

    Its class is named by files beside it, unless it is constructed as CLIP's.

    Raises
    ------
    TokenizerFormatError
        If the class is not known, or a pattern is given beside it.
    """
    if class_name not in CLASSES and not any(text.endswith(WORD_END) for text in vocab):
        return None
    merges = read_merge_texts(path.with_name(MERGES_FILE))
    if class_name not in CLASSES:
        made = set(map("".join, merges))
        if not any(len(text) == 1 + len(WORD_END) and text.endswith(WORD_END) and text not in made for text in vocab):
            return None
        if class_name is not None or not {*clip_bytes(), END_OF_TEXT, START_OF_TEXT} <= vocab.keys():
            named = f"a file beside it names the class {class_name}" if class_name else "no file beside it names its class"
            raise TokenizerFormatError(
                f"`{path}` marks the ends of words with `{WORD_END}`, and {named}; expected {' or '.join(CLASSES)}, which "
                "tells how text is cleaned and split: load the folder with a `tokenizer_config.json` that has the "
                '"tokenizer_class", or a `tokenizer.json`'
            )
        class_name = CLASSES[0]
    if pattern is not None:
        raise TokenizerFormatError(f"`{path}` is split as the class {class_name} splits text; expected no `pattern=`: omit it")
    return content_for(class_name, vocab, merges)


def content_for(class_name: str | None, vocab: dict[str, int], merges: Iterable[Iterable[str]]) -> dict[str, Any]:
    """Return the content of the `tokenizer.json` that transformers makes of a pair, with another decoder."""
    model = {
        "type": "BPE",
        "end_of_word_suffix": WORD_END,
        "vocab": vocab,
        "merges": [*map(list, merges)],
    }
    if class_name == "OpenAIGPTTokenizer":
        return {
            "normalizer": {
                "type": "BertNormalizer",
                "clean_text": True,
                "handle_chinese_chars": True,
                "strip_accents": None,
                "lowercase": True,
            },
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "decoder": {"type": "BPEDecoder", "suffix": WORD_END},
            "model": {**model, "unk_token": "<unk>"},
            "added_tokens": added_tokens(["<unk>"], vocab),
        }
    steps = [
        {"type": "NFC"},
        {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
        {"type": "Lowercase"},
    ]
    level = byte_level(use_regex=True)
    words = {"type": "Split", "pattern": {"Regex": _WORDS}, "behavior": "Removed", "invert": True}
    sep, cls = ([text, vocab[text]] for text in (END_OF_TEXT, START_OF_TEXT))
    marks = {"type": "Replace", "pattern": {"String": WORD_END}, "content": " "}
    return {
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": sequence(words, level),
        "post_processor": {
            "type": "RobertaProcessing",
            "sep": sep,
            "cls": cls,
            "trim_offsets": False,
            "add_prefix_space": False,
        },
        "decoder": {"type": "Sequence", "decoders": [level, marks]},
        "model": {**model, "unk_token": END_OF_TEXT},
        "added_tokens": added_tokens([START_OF_TEXT, END_OF_TEXT], vocab),
    }


def added_tokens(texts: Iterable[str], vocab: dict[str, int]) -> list[dict[str, Any]]:
    """Return plain special tokens as in a `tokenizer.json`; those that the vocabulary lacks have the next ids."""
    numbers = dict(vocab)
    for text in dict.fromkeys(texts):
        numbers.setdefault(text, len(numbers))  # as `tokenizers` numbers them
    return [added_token(text, numbers[text]) for text in dict.fromkeys(texts)]


def model_from(content: dict[str, Any], path: Path, unicode: str, config: TokenizerConfig | None = None) -> Model:
    """Return the model in the content of a `tokenizer.json` that was made of other files; errors name one of these."""
    from bpejit.formats.huggingface_reading import model_from_json  # not at the top: it takes 30 ms

    with naming(path):
        return model_from_json(content, unicode=unicode, config=config)
