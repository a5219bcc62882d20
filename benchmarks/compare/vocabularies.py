"""Vocabularies to encode with: published rank files, GPT-2's pair of files, or one trained here.

Every vocabulary is put into a folder as each tool wants it: `ranks.tiktoken` for those that read ranks, `tokenizer/`,
saved by bpejit, for bpejit and for those that read Hugging Face's `tokenizer.json`.
"""

from __future__ import annotations

import base64
import gzip
from dataclasses import asdict, dataclass
from pathlib import Path

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
"""Special tokens of the published vocabularies, as tiktoken has them; a rank file does not hold them."""

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
    """Tokens that no merges make: they are never met in encoded text."""

    @property
    def ranks(self) -> Path:
        return Path(self.folder) / "ranks.tiktoken"

    @property
    def saved(self) -> Path:
        return Path(self.folder) / "tokenizer"

    def params(self) -> dict[str, object]:
        return asdict(self)


def parse_ranks(data: bytes) -> dict[bytes, int]:
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in data.splitlines() if line)}


def write_ranks(ranks: dict[bytes, int], path: Path) -> None:
    lines = [base64.b64encode(token) + b" %d\n" % rank for token, rank in sorted(ranks.items(), key=lambda item: item[1])]
    path.write_bytes(b"".join(lines))


def merges_from_ranks(ranks: dict[bytes, int]) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
    """Return the merges, in order, that a vocabulary of ranks stands for, and the tokens that no merges make.

    A token is made by the merge of the two parts that remain when its bytes are merged with the ranks below its own. Where
    more than two remain, the token is unreachable: text with these bytes never becomes it.
    """
    merges, unreachable = [], []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) == 1:
            continue
        parts = [token[i : i + 1] for i in range(len(token))]
        while len(parts) > 2:
            lowest, place = rank, -1
            for i in range(len(parts) - 1):
                found = ranks.get(parts[i] + parts[i + 1], rank)
                if found < lowest:
                    lowest, place = found, i
            if place < 0:
                break
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
        if len(parts) == 2:
            merges.append((parts[0], parts[1]))
        else:
            unreachable.append(token)
    return merges, unreachable


class Vocabularies:
    """Makes vocabularies in a folder, each once."""

    def __init__(self, folder: Path, given: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.given = given or {}
        self._made: dict[str, Vocabulary] = {}

    def names(self) -> tuple[str, ...]:
        """The vocabularies that a run takes if none are named."""
        if self.given:
            return tuple(self.given)
        return tuple(RANK_FILES) if data_folder() else ("trained",)

    def get(self, name: str, *, corpus: Path | None = None, vocab_size: int = 32_000) -> Vocabulary:
        """The vocabulary of that name; `trained` is trained by bpejit on the corpus."""
        if name not in self._made:
            self._made[name] = self._make(name, corpus, vocab_size)
        return self._made[name]

    def _make(self, name: str, corpus: Path | None, vocab_size: int) -> Vocabulary:
        from bpejit import Tokenizer, train
        from bpejit.model import Model

        pattern = name if name in RANK_FILES else "gpt2"
        if name == "trained":
            if corpus is None:
                raise MissingInputError("the vocabulary `trained` needs a corpus to be trained on")
            tokenizer = train([corpus], vocab_size=vocab_size, special_tokens=[END_OF_TEXT], tie_break="smallest-ids")
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
        return self._write(name, model, unreachable=len(unreachable))

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
                f"there is no vocabulary {name!r} here: name its rank file, or vocab.json and merges.txt with a comma between, "
                f"as in --vocabulary {name}=FILE"
            )
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data

    def _write(self, name, model, *, unreachable: int) -> Vocabulary:
        from bpejit import Tokenizer

        folder = self.folder / "vocabularies" / name
        folder.mkdir(parents=True)
        write_ranks({token: number for number, token in model.tokens.items()}, folder / "ranks.tiktoken")
        Tokenizer.from_model(model).save(folder / "tokenizer")
        return Vocabulary(name, str(folder), model.pattern, dict(model.special_tokens), len(model.tokens), unreachable)
