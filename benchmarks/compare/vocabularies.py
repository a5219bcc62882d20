"""Vocabularies: published rank files, GPT-2's pair of files, or trained by bpejit.

Each vocabulary is written to a folder in every form that a tool reads: a `.tiktoken` file of ranks, and a folder saved by
bpejit, which contains Hugging Face's `tokenizer.json`.
"""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .corpora import END_OF_TEXT, MissingInputError, data_folder

SPECIALS = {
    "gpt2": {END_OF_TEXT: 50256},
    "cl100k": {
        END_OF_TEXT: 100257,
        "<|fim_prefix|>": 100258,
        "<|fim_middle|>": 100259,
        "<|fim_suffix|>": 100260,
        "<|endofprompt|>": 100276,
    },
    "o200k": {END_OF_TEXT: 199999, "<|endofprompt|>": 200018},
}
"""Special tokens of the published vocabularies, as in tiktoken; rank files do not contain them."""

KINDS: dict[str, dict[str, Any]] = {
    "byte fallback": {"symbols": "characters", "byte_fallback": True, "metaspace": True, "tie_break": "hf"},
    "superwords": {"superwords": "super", "tie_break": "smallest-ids"},
}
"""Options of `bpejit.train` for vocabularies of other kinds, which are trained on a text."""

RANK_FILES = {"gpt2": "r50k_base", "cl100k": "cl100k_base", "o200k": "o200k_base"}
"""Files vocabs/NAME.tiktoken.gz of the optional data folder."""


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary in a folder."""

    name: str
    folder: str
    pattern: str
    special_tokens: dict[str, int]
    n_tokens: int
    unreachable: int
    """Number of tokens that no merges produce: they never occur in encoded text."""
    published: bool = False

    @property
    def ranks(self) -> Path:
        name = RANK_FILES[self.name] if self.published else "ranks"
        return Path(self.folder) / f"{name}.tiktoken"

    @property
    def saved(self) -> Path:
        return Path(self.folder) / "tokenizer"

    @property
    def plain(self) -> Path:
        """`tokenizer.json` with special tokens outside of the vocabulary, for readers that refuse gaps between ids in it."""
        return Path(self.folder) / "plain.json"

    @property
    def path(self) -> Path:
        """The file or folder that a user of bpejit would load."""
        return self.ranks if self.published else self.saved

    @property
    def dtype(self) -> str:
        """The type of its ids in a token file."""
        return "uint16" if self.n_tokens + len(self.special_tokens) <= 1 << 16 else "uint32"

    def params(self) -> dict[str, object]:
        return asdict(self)


def parse_ranks(data: bytes) -> dict[bytes, int]:
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in data.splitlines() if line)}


def write_ranks(ranks: dict[bytes, int], path: Path) -> None:
    lines = [base64.b64encode(token) + b" %d\n" % rank for token, rank in sorted(ranks.items(), key=lambda item: item[1])]
    path.write_bytes(b"".join(lines))


def merges_from_ranks(ranks: dict[bytes, int]) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
    """Return the merges, in order, that are equivalent to a vocabulary of ranks, and the tokens that no merges produce.

    A token is produced by the merge of the two parts that remain when its bytes are merged with the ranks below its own.
    If more than two remain, the token is unreachable: its bytes are never encoded as this token.
    """
    merges, unreachable = [], []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) == 1:
            continue
        parts = [token[i : i + 1] for i in range(len(token))]
        while len(parts) > 2:
            lowest, position = rank, -1
            for i in range(len(parts) - 1):
                found = ranks.get(parts[i] + parts[i + 1], rank)
                if found < lowest:
                    lowest, position = found, i
            if position < 0:
                break
            parts[position : position + 2] = [parts[position] + parts[position + 1]]
        if len(parts) == 2:
            merges.append((parts[0], parts[1]))
        else:
            unreachable.append(token)
    return merges, unreachable


class Vocabularies:
    """Create vocabularies in a folder, each once."""

    def __init__(self, folder: Path, given: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.given = given or {}
        self._made: dict[str, Vocabulary] = {}

    def names(self) -> tuple[str, ...]:
        """Return the default vocabularies of a run."""
        if self.given:
            return tuple(self.given)
        return tuple(RANK_FILES) if data_folder() else ("trained",)

    def get(self, name: str, *, corpus: Path | None = None, vocab_size: int = 32_000) -> Vocabulary:
        """Return the vocabulary of that name; one that is neither given nor published is trained by bpejit on the corpus."""
        if name not in self._made:
            self._made[name] = self._make(name, corpus, vocab_size)
        return self._made[name]

    def _make(self, name: str, corpus: Path | None, vocab_size: int) -> Vocabulary:
        from bpejit import Tokenizer, train
        from bpejit.model import Model

        pattern = name if name in RANK_FILES else "gpt2"
        if name not in RANK_FILES and name not in self.given and corpus is not None:
            options = {"tie_break": "smallest-ids", **KINDS.get(name, {})}
            if "superwords" in options:
                options["transition"] = vocab_size - vocab_size // 8
            tokenizer = train([corpus], vocab_size=vocab_size, special_tokens=[END_OF_TEXT], **options)
            return self._write(name, tokenizer.model, unreachable=0)
        source = self.given.get(name)
        specials = SPECIALS.get(name)
        if source and "," in source:
            vocab, merges = source.split(",")
            return self._write(name, Tokenizer.from_files(vocab, merges, [END_OF_TEXT], pattern=pattern).model, unreachable=0)
        ranks = parse_ranks(self._read(name, source))
        merges, unreachable = merges_from_ranks(ranks)
        tokens = {rank: token for token, rank in ranks.items()}
        model = Model(tokens, merges, specials or {END_OF_TEXT: max(tokens) + 1}, pattern)
        return self._write(name, model, unreachable=len(unreachable), published=name in RANK_FILES and not source)

    def _read(self, name: str, source: str | None) -> bytes:
        folder = data_folder()
        if source:
            path = Path(source)
        elif folder and name in RANK_FILES:
            path = folder / "vocabs" / f"{RANK_FILES[name]}.tiktoken.gz"
        else:
            path = None
        if path is None or not path.is_file():
            raise MissingInputError(
                f"the vocabulary {name!r} is not available: give its rank file, or vocab.json and merges.txt "
                f"separated by a comma, with --vocabulary {name}=FILE"
            )
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data

    def _write(self, name: str, model: Any, *, unreachable: int, published: bool = False) -> Vocabulary:
        from bpejit import Tokenizer

        folder = self.folder / "vocabularies" / name
        folder.mkdir(parents=True)
        tokens = len(model.tokens)
        made = Vocabulary(name, str(folder), model.pattern, dict(model.special_tokens), tokens, unreachable, published)
        write_ranks({token: number for number, token in model.tokens.items()}, made.ranks)
        Tokenizer.from_model(model).save(made.saved)
        written = json.loads((made.saved / "tokenizer.json").read_text(encoding="utf-8"))
        for token in made.special_tokens:
            written["model"]["vocab"].pop(token, None)
        made.plain.write_text(json.dumps(written), encoding="utf-8")
        return made
