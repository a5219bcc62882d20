"""Tests of merges recovered from ranks: ids are equal in bpejit and in `tokenizers`."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
import twins
from conftest import examples, read_shared
from helpers.encoding import ranked_models, texts
from helpers.formats import grown_models, hugging_face
from helpers.strategies import awkward_text
from hypothesis import example, given, strategies as st

from bpejit.encoding.encoder import Encoder
from bpejit.formats.folder import load_folder
from bpejit.formats.folder_writing import save_folder
from bpejit.formats.missing_parts import TOOLS_UNICODE
from bpejit.formats.ranked_merges import as_merge_list, list_all_splits, rank_obstacle, recover_merges
from bpejit.formats.tiktoken_ranks import parse_ranks
from bpejit.model import Model
from bpejit.normalization.byte_characters import decode_byte_characters

BYTES = {byte: bytes([byte]) for byte in range(256)}

PUBLISHED = {"r50k_base": "r50k", "cl100k_base": "cl100k", "o200k_base": "o200k", "qwen2_voyage3": "qwen2", "kimi_k2": "o200k"}


def encoded(model: Model, data: bytes) -> list[int]:
    encoder = Encoder(model)
    return encoder.encode(data, encoder.new_workspace(cache_bytes=1 << 16)).tolist()


@given(grown_models(), texts)
@example(Model(BYTES | {256: b"aaa", 257: b"aa"}, [], pattern=r"[\s\S]+", ranked=True), b"aaaaaaa")
def test_merges_and_ranks_have_equal_ids(model: Model, data: bytes) -> None:
    expected = encoded(model, data)
    merges, unreachable = recover_merges(model.tokens)
    everything = list_all_splits(model.tokens)
    assert set(merges) <= set(everything)
    assert len(merges) + len(unreachable) == len(model.tokens) - 256
    listed = Model(model.tokens, as_merge_list(model), pattern=model.pattern, ignore_merges=True)
    assert encoded(listed, data) == expected
    if not unreachable:
        assert encoded(Model(model.tokens, merges, pattern=model.pattern), data) == expected
        longer = Model(model.tokens, everything, pattern=model.pattern)
        assert rank_obstacle(longer) is None
        assert encoded(longer, data) == expected


@given(ranked_models())
@example(Model(BYTES, [], ranked=True))
@example(Model(BYTES | dict(enumerate([b"bc", b"ab", b"abc", b"aaa", b"aa", b"aaaa", b"abcabc"], start=256)), [], ranked=True))
@example(Model(BYTES | {256: b"a" * 2000, 257: b"aa", 258: b"a" * 1000}, [], ranked=True))
def test_recover_merges(model: Model) -> None:
    internal = [bytes([byte]) for byte in range(256)] + [token for _, token in sorted(model.tokens.items()) if len(token) > 1]
    found = twins.encoding.recover_splits(internal)
    merges, unreachable = recover_merges(model.tokens)
    assert merges == [(internal[left], internal[right]) for left, right in found[256:] if left >= 0]
    assert unreachable == [token for token, (left, _) in zip(internal[256:], found[256:], strict=True) if left < 0]


def test_splits_are_in_order_of_rank() -> None:
    tokens = BYTES | {256: b"bc", 257: b"ab", 258: b"abc", 300: b"abcabc", 301: b"xyz"}
    assert list_all_splits(tokens) == [(b"b", b"c"), (b"a", b"b"), (b"a", b"bc"), (b"ab", b"c"), (b"abc", b"abc")]
    assert recover_merges(tokens)[1] == [b"xyz"]


def test_list_all_splits_without_some_bytes() -> None:
    tokens = {number: token for number, token in BYTES.items() if token not in (b"\xc0", b"\xff")} | {256: b"a\xff", 257: b"ab"}
    assert list_all_splits(tokens) == [(b"a", b"b")]


@pytest.mark.parametrize(
    ("tokens", "merges", "reason"),
    [
        ([b"ab", b"abc"], [(b"a", b"b"), (b"ab", b"c")], None),
        ([b"ab", b"bc", b"abc"], [(b"a", b"b"), (b"b", b"c"), (b"a", b"bc"), (b"ab", b"c")], None),
        ([b"ab", b"bc"], [(b"b", b"c"), (b"a", b"b")], r"merge 2 forms the token b'ab' \(id 256\) after the token with id 257"),
        ([b"ab", b"bc", b"abc"], [(b"a", b"b"), (b"b", b"c"), (b"a", b"bc")], r"by rank b'ab' and b'c' merge .* not in"),
        (
            [b"ab", b"xyz"],
            [(b"a", b"b")],
            r"the token b'xyz' \(id 257\) cannot be formed by merging two tokens with lower ids;",
        ),
    ],
)
def test_rank_obstacle(tokens: list[bytes], merges: list[tuple[bytes, bytes]], reason: str | None) -> None:
    found = rank_obstacle(Model(BYTES | dict(enumerate(tokens, start=256)), merges))
    assert (found is None) == (reason is None)
    assert re.search(reason or "", found or "")


@pytest.mark.compiled
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_vocabularies_are_lists_of_merges(name: str) -> None:
    tokens = parse_ranks(read_shared(f"vocabs/{name}.tiktoken"), name)
    merges, unreachable = recover_merges(tokens)
    assert unreachable == []
    assert len(merges) == len(tokens) - 256
    assert rank_obstacle(Model(tokens, list_all_splits(tokens))) is None


@pytest.mark.compiled
def test_merges_of_gpt2() -> None:
    lines = read_shared("cs336/gpt2_merges.txt").decode().splitlines()
    published = [
        tuple(map(decode_byte_characters, line.split(" "))) for line in lines if line and not line.startswith("#version")
    ]
    assert recover_merges(parse_ranks(read_shared("vocabs/r50k_base.tiktoken"), "r50k_base"))[0] == published


@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name == "r50k_base" else pytest.param(name, marks=pytest.mark.parity) for name in PUBLISHED]
)
def test_equal_ids_in_tokenizers(tmp_path: Path, name: str) -> None:
    pytest.importorskip("tokenizers")
    tokens = parse_ranks(read_shared(f"vocabs/{name}.tiktoken"), name)
    model = Model(tokens, [], {"<|endoftext|>": max(tokens) + 7}, PUBLISHED[name], ranked=True, unicode=TOOLS_UNICODE)
    assert save_folder(model, tmp_path) is None
    assert load_folder(tmp_path) == model
    ours, theirs = Encoder(model), hugging_face(tmp_path)
    workspace = ours.new_workspace()
    for corpus in ("english", "code", "multilingual", "hard"):
        data = read_shared(f"corpora/{corpus}.txt")
        for start in range(0, len(data), len(data) // 4):
            text = data[start : start + 300_000].decode("utf-8", "ignore")
            assert ours.encode(text.encode(), workspace).tolist() == theirs(text)
    # Random sequences of fragments of tokens: merges that do not occur in ordinary text.
    choice = random.Random(1)
    pool = [token.decode("utf-8", "ignore") for token in choice.sample(sorted(tokens.values()), 5000)]
    for _ in range(300):
        text = "".join(choice.choices(pool, k=200))
        assert ours.encode(text.encode(), workspace).tolist() == theirs(text)


@examples(0.6)
@given(grown_models(), st.lists(st.sampled_from(["a", "b", " ", "aaaa", "abab"]), max_size=20).map("".join), awkward_text(6))
def test_equal_ids_in_tokenizers_for_random_models(
    tmp_path_factory: pytest.TempPathFactory, model: Model, text: str, more: str
) -> None:
    folder = tmp_path_factory.mktemp("model")
    model = replace(model, unicode=TOOLS_UNICODE)
    assert save_folder(model, folder) is None
    assert load_folder(folder) == model
    text += more
    assert encoded(model, text.encode()) == hugging_face(folder)(text)
