"""Random vocabularies and pipelines of all kinds of symbols, compared with `tokenizers`."""

from __future__ import annotations

import random
from os import environ
from pathlib import Path

import pytest
from helpers.huggingface import dumped
from helpers.random_symbols import random_file, random_text
from tokenizers import Tokenizer

import bpejit
from bpejit.errors import CorpusError, TokenizerFormatError

N_FILES = 8 * int(environ.get("BPEJIT_EXAMPLES", "50"))

GROUPS = 8


def difference(seed: int, path: Path) -> str | None:
    """Return how a random file differs from the judge, None if it does not, or why it is not read."""
    generator = random.Random(seed)
    path.write_text(dumped(random_file(generator)), encoding="utf-8")
    try:
        judge = Tokenizer.from_file(str(path))
    except Exception:  # a base class of pyo3 alone
        return "not read by the judge"
    try:
        own = bpejit.load(path)
    except TokenizerFormatError as error:
        return f"refused: {error}"
    texts = [random_text(generator) for _ in range(6)]
    expected = []
    for text in texts:
        try:
            expected.append(judge.encode(text, add_special_tokens=False))
        except Exception:  # a missing unknown token
            with pytest.raises(CorpusError):
                own.encode(text)
            return None
    assert [list(ids) for ids in own.encode_batch(texts)] == [one.ids for one in expected]
    for text, one in zip(texts, expected, strict=True):
        assert own.encode(text) == one.ids, repr(text)
        found = own.encode_with_offsets(text)
        offsets = [*zip(found.char_starts.tolist(), found.char_ends.tolist(), strict=True)]
        assert (found.ids.tolist(), offsets) == (one.ids, one.offsets), repr(text)
    numbers = [*judge.get_vocab(with_added_tokens=True).values()]
    if len({*numbers}) < len(numbers):
        return None  # the judge decodes an id with several tokens to any of them
    for one in expected:
        assert own.decode(one.ids) == judge.decode(one.ids, skip_special_tokens=False)
    for _ in range(4):
        ids = generator.choices(numbers, k=generator.randrange(1, 9))
        assert own.decode(ids) == judge.decode(ids, skip_special_tokens=False), ids
    return None


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_files(group: int, tmp_path: Path) -> None:
    found = [difference(seed, tmp_path / "tokenizer.json") for seed in range(group, N_FILES, GROUPS)]
    assert found.count(None) > len(found) // 2


@pytest.mark.parametrize("seed", [46431])
def test_files_that_once_differed(seed: int, tmp_path: Path) -> None:
    assert difference(seed, tmp_path / "tokenizer.json") is None
