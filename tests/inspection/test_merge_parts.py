"""Tests of compression curves and suspicious tokens."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import data_text, small
from helpers.encoding import learned_model
from helpers.reports import HOSTILE, hostile_model

import bpejit
from bpejit.encoding.codec import Codec
from bpejit.inspection.vocabulary_measures import compression_curve, find_suspicious_tokens, merge_parts
from bpejit.model import Model


@pytest.mark.parametrize("ranked", [False, True])
def test_compression_curve_equals_smaller_vocabularies(ranked):
    text = data_text("prose.txt")[: small(20_000, 1000)]
    learned = learned_model(text, 60, specials=["<|e|>"])
    tokens = {number: bytes([number]) for number in range(256)}
    tokens |= {256 + rank: left + right for rank, (left, right) in enumerate(learned.merges)}
    model = Model(tokens, [] if ranked else learned.merges, ranked=ranked)
    counts = np.bincount(Codec(model).encode(text), minlength=model.vocab_size)
    sizes, numbers = compression_curve(model, merge_parts(model), counts)
    assert sizes.tolist() == list(range(256, 317))
    for n_merges in range(0, 61, 7):
        some = Model({number: tokens[number] for number in range(256 + n_merges)}, learned.merges[:n_merges])
        assert numbers[n_merges] == Codec(some).encode(text).size


def test_suspicious_tokens():
    model = hostile_model()
    found = find_suspicious_tokens(Codec(model))

    def tokens(ids):
        return {model.tokens[number] for number in ids.tolist()}

    assert b"someone@example.com" in tokens(found["private"])
    assert "Ã©tÃ©".encode() in tokens(found["mojibake"])
    assert b"=" * 64 in tokens(found["long"])
    assert {HOSTILE[6], HOSTILE[8], HOSTILE[9]} <= tokens(found["control"])
    assert b"<img src" in tokens(found["unreachable"])  # the pattern splits it
    assert b"someone" not in tokens(found["unreachable"])
    assert b"\xe4\xb8" not in tokens(found["unreachable"])


def test_plots_of_a_tokenizer(tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "text.txt").write_bytes(b"ab ab abc " * 20)
    tokenizer = bpejit.train([tmp_path / "text.txt"], vocab_size=260)
    axes = tokenizer.plot_compression([tmp_path / "text.txt"])
    sizes, ratios = axes.get_lines()[0].get_data()
    assert sizes[0] == 256
    assert ratios[0] == 1
    assert ratios[-1] == 200 / len(tokenizer.encode("ab ab abc " * 20))
    assert tokenizer.plot_frequencies(tmp_path / "text.txt", ax=axes) is axes
    assert tokenizer.plot_lengths().get_ylabel() == "tokens"
