from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..corpora import END_OF_TEXT, SEPARATOR, documents_of
from ..vocabularies import Vocabulary, parse_ranks
from .base import CannotError, Tool, concatenate, join_documents

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}

OLMO_3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
OLMO_3_ADDED = """
    <|extra_id_0|> <|endoftext|> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> |||PHONE_NUMBER||| |||EMAIL_ADDRESS|||
    |||IP_ADDRESS||| <|im_start|> <|im_end|> <|extra_id_1|> <|extra_id_2|> <|extra_id_3|> <|extra_id_4|> <|extra_id_5|>
    <|extra_id_6|> <|extra_id_7|> <|extra_id_8|> <|extra_id_9|> <|extra_id_10|> <|endofprompt|> <|pad|>
"""
GPT_OSS_ADDED = """
    <|startoftext|> <|endoftext|> <|reserved_200000|> <|reserved_200001|> <|return|> <|constrain|> <|reserved_200004|>
    <|channel|> <|start|> <|end|> <|message|> <|reserved_200009|> <|reserved_200010|> <|reserved_200011|> <|call|>
    <|reserved_200013|> <|reserved_200014|> <|reserved_200015|> <|reserved_200016|> <|reserved_200017|> <|endofprompt|>
"""


def olmo_3(document: dict[str, Any], ranks: dict[bytes, int]) -> None:
    """Turn cl100k as bpejit writes it into the file of OLMo 3, which has its tokens and other added ones."""
    document["added_tokens"] = added_tokens(OLMO_3_ADDED, len(ranks))
    split = document["pre_tokenizer"]["pretokenizers"][0]
    split.update(pattern={"Regex": OLMO_3_PATTERN}, behavior="Removed", invert=True)
    document["model"].update(continuing_subword_prefix="", end_of_word_suffix="")
    document["model"]["vocab"] |= {token["content"]: token["id"] for token in document["added_tokens"]}


def gpt_oss(document: dict[str, Any], ranks: dict[bytes, int]) -> None:
    """Turn o200k as bpejit writes it into the file of gpt-oss, whose merges are all pairs of tokens that form a token."""
    from bpejit.normalization.byte_characters import encode_byte_characters

    document["added_tokens"] = added_tokens(GPT_OSS_ADDED, len(ranks))
    document["post_processor"] = BYTE_LEVEL | {"trim_offsets": False}
    written = {token: encode_byte_characters(token) for token in ranks}
    merges: list[list[str]] = []
    for token in sorted(ranks, key=ranks.__getitem__):
        pairs = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        found = [pair for pair in pairs if pair[0] in ranks and pair[1] in ranks]
        merges += [[written[one] for one in pair] for pair in sorted(found, key=lambda pair: [ranks[one] for one in pair])]
    document["model"].update(ignore_merges=True, merges=merges)


def added_tokens(names: str, first: int) -> list[dict[str, Any]]:
    """Return the list of added tokens whose ids begin with `first`."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return [
        {"id": number, "content": name, **flags, "special": "extra_id" not in name and "|||" not in name}
        for number, name in enumerate(names.split(), first)
    ]


FAMILIES = {"cl100k": ("olmo_3_7b", olmo_3), "o200k": ("gpt_oss_120b", gpt_oss)}
"""The tokenizer with the tokens of a vocabulary, by toktier's name, and what makes its file."""


def published_file(vocabulary: Vocabulary) -> bytes:
    """Return the `tokenizer.json` of FAMILIES, byte for byte as it was published."""
    document = json.loads((vocabulary.saved / "tokenizer.json").read_text(encoding="utf-8"))
    for token in vocabulary.special_tokens:
        document["model"]["vocab"].pop(token, None)
    FAMILIES[vocabulary.name][1](document, parse_ranks(vocabulary.ranks.read_bytes()))
    document["decoder"] = BYTE_LEVEL
    return json.dumps(document, indent=2, ensure_ascii=False).encode()


class Toktier(Tool):
    """It loads 15 tokenizers of models, which it recognizes by the SHA-256 of their files.

    The file of a model that has the tokens of a published vocabulary is made from the vocabulary, and put into its cache.
    Texts are encoded as lists of documents: a string with a special token is encoded by the package tokenizers.
    """

    name = "toktier"
    package = "toktier"

    def prepare(self) -> None:
        import toktier  # noqa: F401

    def load(self, vocabulary: Vocabulary) -> Any:
        import toktier
        from toktier.artifacts import ArtifactManifest, ArtifactStore, LocalDirectorySource
        from toktier.artifacts.tables import ARTIFACT_MANIFEST

        family, folder = self._put(vocabulary)
        entry = json.loads(Path(ARTIFACT_MANIFEST).read_text(encoding="utf-8"))[family]
        # The other files of the model have no tokens that this one lacks.
        entry |= {"files": {"tokenizer.json": entry["files"]["tokenizer.json"]}, "local_dir": str(folder)}
        manifest, config = ArtifactManifest.from_mapping({family: entry}), toktier.Config(home=folder / "home")
        ArtifactStore(manifest, config=config, source=LocalDirectorySource()).ensure(family)
        encoder = toktier.load(family, manifest=manifest, config=config, device="cpu")
        encoder.encode("")  # creates its engine
        return encoder

    def _put(self, vocabulary: Vocabulary) -> tuple[str, Path]:
        """Return the family of a vocabulary, and the folder with its file, which is made on the first call."""
        if not vocabulary.published or vocabulary.name not in FAMILIES:
            raise CannotError(f"it has no tokenizer with the tokens of {vocabulary.name}")
        folder = Path(vocabulary.folder) / self.name
        if not (folder / "tokenizer.json").exists():
            folder.mkdir(exist_ok=True)
            (folder / "tokenizer.json").write_bytes(published_file(vocabulary))
        return FAMILIES[vocabulary.name][0], folder

    def text_of(self, data: bytes) -> Any:
        return documents_of(data), data.endswith(SEPARATOR)

    def encode(self, encoder: Any, text: Any) -> Any:
        documents, ends_with_special = text
        return encoder.encode_batch(documents), ends_with_special

    def ids_of(self, result: Any, vocabulary: Vocabulary) -> np.ndarray:
        encodings, ends_with_special = result
        return join_documents([one.ids for one in encodings], vocabulary.special_tokens[END_OF_TEXT], ends_with_special)

    def encode_line(self, encoder: Any, text: str) -> Any:
        return encoder.encode(text).ids

    def encode_batch(self, encoder: Any, texts: list[str], threads: int) -> Any:
        return encoder.encode_batch(texts)

    def session(self, encoder: Any, text: str) -> Any:
        found = encoder.session(text=text).__enter__()
        return SimpleNamespace(append=found.append_patch, session=found)

    def session_ids(self, session: Any) -> np.ndarray:
        return np.asarray(session.session.ids, dtype=np.uint32)

    def batch_ids(self, result: Any) -> np.ndarray:
        return concatenate(one.ids for one in result)
