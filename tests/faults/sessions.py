"""Random appends, edits and forks of sessions, compared with encoding anew."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from helpers.compat import trained
from helpers.encoding import FALLBACK, make_model
from helpers.random_symbols import random_file
from helpers.sessions import check_changes, random_pipeline, small_sessions
from helpers.symbols import KINDS

import bpejit
from bpejit.errors import BpejitError
from bpejit.formats.huggingface_reading import model_from_json
from bpejit.model import Model
from bpejit.splitting.presets import PRESETS
from tests.faults.area import WrongError

SESSIONS, CHANGES = 5, 100
TITLE = f"tokenizers with {SESSIONS * CHANGES} random changes of sessions each, against encoding anew"
CASES = 200
TIMEOUT = 120.0

SPECIALS = ["<|end|>", "<|e", "<s>", "<pad>", " ab"]
RUNS = r"\p{N}{1,3}|[^\p{N}\n]+|\n+"
"""A pattern for superwords: tokens of several words, which are merged last."""


def prepare(_: Path) -> dict[str, bpejit.Tokenizer]:
    """Return the tokenizers made so far that are used again, by their names."""
    return {}


def _bytes(pattern: str, n_specials: int, ranked: bool) -> Model:
    tokens, merges = trained()
    if pattern == RUNS and not ranked:
        starts = [token for token in tokens if token.startswith(b" ") and token[1:].isalpha()][:20]
        superwords = [(left, right) for left in starts for right in starts]
        merges, tokens = merges + superwords, [*tokens, *(left + right for left, right in superwords)]
    numbers = {text: len(tokens) + number for number, text in enumerate(SPECIALS[:n_specials])}
    return Model(dict(enumerate(tokens)), [] if ranked else merges, numbers, pattern=pattern, ranked=ranked)


def _few_letters(pattern: str, seed: str) -> Model:
    """Return a model in which most adjacent tokens merge, so that ids depend on all of a run."""
    letters = random.Random(seed)
    merges: dict[bytes, tuple[bytes, bytes]] = {}
    while len(merges) < 30:
        left, right = letters.choices([*(b"a", b"b", b" ", b"1", b"."), *merges], k=2)
        if len(left + right) < 16:
            merges.setdefault(left + right, (left, right))
    return make_model([*merges.values()], SPECIALS[:3], pattern=pattern)


def _spaced(scheme: str, flags: list[str]) -> Model:
    """Return a model that inserts spaces, and whose added tokens strip them."""
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}
    content = KINDS["metaspace"]() | {"pre_tokenizer": space, "decoder": space}
    for token in content["added_tokens"]:
        token |= dict.fromkeys(flags, True)
    return model_from_json(content)


def _make(case: random.Random, made: dict[str, bpejit.Tokenizer]) -> bpejit.Tokenizer:
    kind = case.choices(["bytes", "few", "spaced", "kinds", "file", "pipeline"], [60, 10, 6, 8, 8, 8])[0]
    pattern = case.choice([*PRESETS, FALLBACK, r"\p{L}+|\s", "[^a]+|a", RUNS])
    arguments: list[Any]
    if kind == "bytes":
        make, arguments = _bytes, [pattern, case.choice([0, 1, 5]), case.random() < 0.5]
    elif kind == "few":
        make, arguments = _few_letters, [case.choice(["gpt2", "[^a]+|a", RUNS]), str(case.randrange(40))]
    elif kind == "spaced":
        flags = ["lstrip", "rstrip", "single_word"]
        make, arguments = _spaced, [case.choice(["always", "first"]), case.sample(flags, case.randrange(3))]
    elif kind == "kinds":
        make, arguments = (lambda name: model_from_json(KINDS[name]())), [case.choice([*KINDS])]
    else:
        content = random_file(case) if kind == "file" else random_pipeline(case)
        return bpejit.Tokenizer.from_model(model_from_json(content))
    name = f"{kind} {arguments}"
    if name not in made:
        made[name] = bpejit.Tokenizer.from_model(make(*arguments))
    return made[name]


def attempt(shared: dict[str, bpejit.Tokenizer], case: random.Random, _: int) -> str:
    """Change sessions of a random tokenizer."""
    try:
        tokenizer = _make(case, shared)
    except BpejitError:
        return "refused"
    try:
        for _ in range(SESSIONS):
            with small_sessions(case):
                check_changes(tokenizer, case, CHANGES)
    except AssertionError as error:
        raise WrongError(f"{tokenizer!r}: {error}") from error
    return "equal"
