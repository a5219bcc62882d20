"""Random appends, edits and forks of sessions, compared with encoding anew."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from helpers.compat import trained
from helpers.huggingface import dumped
from helpers.random_symbols import random_file
from helpers.sessions import check_changes, random_pipeline, small_sessions
from helpers.symbols import KINDS

import bpejit
from bpejit.errors import BpejitError
from bpejit.model import Model
from bpejit.splitting.presets import PRESETS
from tests.faults.area import WrongError

CHANGES = 100
TITLE = f"sessions with {CHANGES} random changes each, against encoding anew"
CASES = 1000
TIMEOUT = 120.0

SPECIALS = ["<|end|>", "<|e", "<s>", "<pad>", " ab"]
FALLBACK = r"(?<=a)b+|\p{L}+| "
"""A pattern that runs through the `regex` package."""


def prepare(folder: Path) -> Any:
    """Return the folder of files, and the tokenizers made so far."""
    return folder, {}


def _make(case: random.Random, folder: Path, made: dict[str, bpejit.Tokenizer]) -> bpejit.Tokenizer:
    kind = case.random()
    if kind < 0.5:
        pattern = case.choice([*PRESETS, FALLBACK, r"\p{L}+|\s", "[^a]+|a"])
        specials = case.choice([0, 1, 5])
        ranked = case.random() < 0.5
        name = f"{pattern} {specials} {ranked}"
        if name not in made:
            tokens, merges = trained()
            numbers = {text: len(tokens) + number for number, text in enumerate(SPECIALS[:specials])}
            model = Model(dict(enumerate(tokens)), [] if ranked else merges, numbers, pattern=pattern, ranked=ranked)
            made[name] = bpejit.Tokenizer.from_model(model)
        return made[name]
    if kind < 0.6:
        name = case.choice([*KINDS])
        content = KINDS[name]() if name not in made else {}
        if name in made:
            return made[name]
    elif kind < 0.8:
        name, content = "", random_file(case)
    else:
        name, content = "", random_pipeline(case)
    path = folder / "tokenizer.json"
    path.write_text(dumped(content), encoding="utf-8")
    tokenizer = bpejit.load(path)
    if name:
        made[name] = tokenizer
    return tokenizer


def attempt(shared: Any, case: random.Random, _: int) -> str:
    """Change sessions of a random tokenizer."""
    try:
        tokenizer = _make(case, *shared)
    except BpejitError:
        return "refused"
    try:
        with small_sessions(case):
            check_changes(tokenizer, case, CHANGES)
    except AssertionError as error:
        raise WrongError(f"{tokenizer!r}: {error}") from error
    return "equal"
