"""Tokenizers of bpejit, and the tokenizers of other packages that they must equal."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import twins
from conftest import JIT, data_text, read_shared, small
from hypothesis import strategies as st

import bpejit
from bpejit.arrays import padded_text
from bpejit.counting.pretoken_counter import PretokenCounter
from bpejit.formats.missing_parts import TOOLS_UNICODE
from bpejit.model import Model, pattern_source
from bpejit.splitting import Splitter
from helpers.learner import learn_merges

END = "<|endoftext|>"

CHAT = [END, "<|im_start|>", "<|im_end|>", "<s>"]
"""Special tokens of the small model. None is a prefix of another: tiktoken does not define which of them it finds."""

PUBLISHED = {
    "r50k_base": ("gpt2", {END: 50256}),
    "cl100k_base": (
        "cl100k",
        {END: 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260, "<|endofprompt|>": 100276},
    ),
    "o200k_base": ("o200k", {END: 199999, "<|endofprompt|>": 200018}),
}


@lru_cache(maxsize=1)
def trained() -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
    """Return tokens and merges of a small vocabulary, trained on the repository's texts."""
    counter = PretokenCounter()
    splitter = Splitter("gpt2")
    for name in ("prose.txt", "code.txt", "cjk.txt"):
        text, n_bytes = padded_text(data_text(name)[: small(300_000, 2_000)])
        counter.add_text(splitter, text, np.full(1, n_bytes), n_bytes, True)
    merges = learn_merges(counter.table(), small(1200, 40))
    tokens = twins.training.expand_merges(merges.left.tolist(), merges.right.tolist())
    return tokens, [(tokens[a], tokens[b]) for a, b in zip(merges.left.tolist(), merges.right.tolist(), strict=True)]


@lru_cache(maxsize=1)
def listed_tokenizer() -> bpejit.Tokenizer:
    """Return a model with a list of merges and several special tokens."""
    tokens, merges = trained()
    return bpejit.Tokenizer(dict(enumerate(tokens)), merges, CHAT, unicode=TOOLS_UNICODE)


@lru_cache(maxsize=1)
def small_tokenizer() -> bpejit.Tokenizer:
    """Return a ranked model with several special tokens, and with gaps between ids."""
    tokens, _ = trained()
    specials = {text: len(tokens) + 10 * (number + 1) for number, text in enumerate(CHAT)}
    return bpejit.Tokenizer.from_model(
        Model(dict(enumerate(tokens)), [], specials, pattern="gpt2", ranked=True, unicode=TOOLS_UNICODE)
    )


@lru_cache(maxsize=4)
def published_tokenizer(name: str) -> bpejit.Tokenizer:
    """Return a published vocabulary of the optional data folder; skip the test if it is absent."""
    if not JIT:
        pytest.skip("too slow without compiled kernels")
    pattern, specials = PUBLISHED[name]
    lines = read_shared(f"vocabs/{name}.tiktoken").splitlines()
    tokens = {int(rank): base64.b64decode(token) for token, rank in (line.split() for line in lines)}
    return bpejit.Tokenizer.from_model(Model(tokens, [], specials, pattern=pattern, ranked=True, unicode=TOOLS_UNICODE))


def tokenizer_named(name: str) -> bpejit.Tokenizer:
    return small_tokenizer() if name == "small" else published_tokenizer(name)


@lru_cache(maxsize=4)
def tiktoken_named(name: str) -> Any:
    """Return the tiktoken encoding that `tokenizer_named` must equal."""
    tiktoken = pytest.importorskip("tiktoken")
    model = tokenizer_named(name).model
    return tiktoken.Encoding(
        name, pat_str=pattern_source(model.pattern), mergeable_ranks=dict(model.ids), special_tokens=dict(model.special_tokens)
    )


NAMES = ["small", *PUBLISHED]

plain_text = st.text(max_size=40)
"""Text without lone surrogates, which other tools do not accept."""

PIECES = [*CHAT, "<|endofprompt|>", "<|", "|>", "<|im", "endoftext", "<|im_", "start|>", "don't", "é", "漢字", "😀"]

pieces = st.one_of(
    st.sampled_from([*PIECES, " ", "\n", "  "]),
    st.sampled_from(["\ud83d", "\ude00", "\udc80", "\ud800"]),
    st.text(max_size=8),
)

texts = st.lists(pieces, max_size=12).map("".join)
"""Text with special tokens, parts of special tokens, and lone surrogates."""
