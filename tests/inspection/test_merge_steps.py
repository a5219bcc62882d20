"""Tests of `bpejit.inspection.token_rows`: the last step has the tokens of the encoder."""

from __future__ import annotations

from helpers.encoding import make_model, merge_lists, naive_rules, ranked_models
from hypothesis import given, strategies as st

from bpejit.encoding.codec import Codec
from bpejit.inspection.token_rows import LONGEST_TRACED, MergeTracer, pretokens, token_rows

words = st.lists(st.sampled_from([b"a", b"b", b" ", b"\xe3\x81\x82", b"0"]), min_size=1, max_size=30).map(b"".join)


def check(model, word):
    codec = Codec(model)
    with codec.workspace() as workspace:
        (ids,) = codec.encoder.encode_pretokens([word], workspace)
    expected = tuple(model.tokens[number] for number in ids.tolist())
    steps = MergeTracer(model).steps(word)
    assert (steps[-1].tokens if steps else tuple(word[i : i + 1] for i in range(len(word)))) == expected
    before = tuple(word[i : i + 1] for i in range(len(word)))
    for step in steps:
        assert b"".join(step.tokens) == word
        if step.rank is not None:
            assert len(step.tokens) == len(before) - 1
        before = step.tokens


@given(merge_lists(), words)
def test_steps_end_with_the_tokens_of_the_encoder(merges, word):
    check(make_model(merges), word)


@given(ranked_models(), words)
def test_steps_of_ranked_models(model, word):
    assert naive_rules(model)
    check(model, word)


def test_known_steps():
    tracer = MergeTracer(make_model([(b"a", b"b"), (b"ab", b"ab")]))
    assert [(step.rank, step.result, step.tokens) for step in tracer.steps(b"ababa")] == [
        (0, b"ab", (b"ab", b"a", b"b", b"a")),
        (0, b"ab", (b"ab", b"ab", b"a")),
        (1, b"abab", (b"abab", b"a")),
    ]
    assert tracer.steps(b"ab" * LONGEST_TRACED) == []


def test_rows_and_pretokens_of_a_text():
    codec = Codec(make_model([(b"a", b"b"), (b" ", b"ab")], ["<|e|>"]))
    text = "ab ab<|e|>é"
    rows = token_rows(codec, text)
    assert b"".join(row.data for row in rows) == text.encode()
    assert [row.special for row in rows] == [False, False, True, False, False]
    assert [(row.start, row.end, row.char_start, row.char_end) for row in rows][-2:] == [(10, 11, 10, 11), (11, 12, 10, 11)]
    assert list(pretokens(codec, text)) == [(b"ab", False), (b" ab", False), (b"<|e|>", True), ("é".encode(), False)]
