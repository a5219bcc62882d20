"""Comparison of the new sentences of a batch with their encoding one by one."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
import twins
from conftest import small
from helpers.encoding import (
    CHARACTERS,
    UNITS,
    character_merges,
    characters,
    make_model,
    make_workspace,
    naive_rules,
    ranked_character_models,
)
from hypothesis import given, strategies as st

from bpejit.arrays import padded_text
from bpejit.encoding import encoder_tables
from bpejit.encoding.encoder import Encoder
from bpejit.encoding.encoder_tables import make_tables
from bpejit.kernels.common.keys import BATCH
from bpejit.kernels.encoding import long_pretokens, pretoken_cache, sentence_merging
from bpejit.model import Model


@pytest.fixture(autouse=True, scope="module")
def _for_all_vocabularies():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder_tables, "LEAST_CHARACTERS", 0)
        patch.setattr(encoder_tables, "LEAST_SENTENCE_TOKENS", 0)
        yield


def merge(pretokens: list[bytes], model: Model, known: set[bytes]) -> list[list[int] | None]:
    """Return the ids of each pre-token of a batch, None for one that is not merged. Those in `known` are in the cache."""
    tables = make_tables(model, {})
    workspace = make_workspace(arena=1 << 16)
    out = np.zeros(sentence_merging.MAX_SENTENCE_BYTES + 2, dtype=np.uint32)
    # A character after the last pre-token must not matter.
    text, _ = padded_text(b"".join(pretokens) + "あ".encode())
    ends = np.fromiter(accumulate(map(len, pretokens)), dtype=np.uint32)
    batch = np.uint64(0), ends, np.uint64(0), np.uint64(len(pretokens)), workspace
    n_long = long_pretokens.make_cache_keys(text, *batch)
    ids = np.uint64(0), np.uint64(1)
    for i, pretoken in enumerate(pretokens):
        if pretoken in known:
            low, high, home = (np.uint64(word) for word in workspace.batch[3 * i : 3 * i + 3])
            start, length = np.uint64(int(ends[i]) - len(pretoken)), np.uint64(len(pretoken))
            if length > 15:
                long_pretokens.insert_long(workspace, low, length, text, start, out, *ids)
            else:
                slot, found = pretoken_cache.find_cache_slot(workspace, low, high, home)
                if not found:
                    pretoken_cache.insert_pretoken(workspace, home, np.uint64(slot), low, high, out, *ids)
    n_missing = long_pretokens.prefetch_records(workspace, n_long)
    records = workspace.batch[int(long_pretokens.LONG_HASHES) :][: int(n_long)]
    assert n_missing == np.count_nonzero(records == long_pretokens.NO_RECORD)
    workspace.sentences[:] = 0xFFFFFFFF  # what an earlier batch left there must not matter
    if tables.merges_sentences[0]:
        workspace.sentences[:] = np.arange(workspace.sentences.size) % 256
        sentence_merging.merge_sentences(text, ends, *batch[:1], *batch[2:4], tables, workspace)
    results: list[list[int] | None] = []
    for i in range(len(pretokens)):
        merged = sentence_merging.merged_ids(workspace.sentences, np.uint64(i)) if tables.merges_sentences[0] else 0
        end = sentence_merging.copy_merged(workspace.sentences, np.uint64(merged), out, np.uint64(1))
        results.append(out[1 : int(end)].tolist() if merged != sentence_merging.NOT_MERGED else None)
    n_ids = sum(len(ids) for ids in results if ids)
    assert workspace.progress[pretoken_cache.SENTENCE_PAUSE] in ((0,) if n_ids == 0 else (0, sentence_merging.PAUSE))
    return results


def check(pretokens: list[bytes], model: Model, known: set[bytes] | None = None) -> None:
    wanted = twins.encoding.merge_sentences(pretokens, sentence_merging.MAX_SENTENCE_BYTES, *naive_rules(model))
    if not make_tables(model, {}).merges_sentences[0]:
        known = set(pretokens)
    known = known or set()
    assert merge(pretokens, model, known) == [
        None if data in known else ids for data, ids in zip(pretokens, wanted, strict=True)
    ]


@given(character_merges().map(make_model) | ranked_character_models(), st.data())
def test_merge_sentences(model, data):
    pretokens = data.draw(st.lists(characters, min_size=1, max_size=small(30, 8), unique=True))
    known = set(data.draw(st.lists(st.sampled_from(pretokens), max_size=3)))
    check(pretokens, model, known)


@pytest.mark.parametrize("n", [15, 16, 17, 31, 32, 33, 64, 84, 85, 86])
def test_merge_sentences__sizes(n):
    """Fragments of all sizes, in more than one group, and sentences that are too long."""
    merges = [(b"\xe3", b"\x81"), (b"\xe3\x81", b"\x82"), (b"\xe3\x81", b"\x84"), (b"\xe8", b"\xaa"), (b"\xe8\xaa", b"\x9e")]
    merges += [("あ".encode(), "い".encode()), ("い".encode(), "あ".encode()), ("あい".encode(), "あい".encode())]
    kinds = [
        ("あい" * n)[:n],
        "い" * n,
        ("いいあ語" * n)[:n],
        "語" * n,
        ("本あ" * n)[:n],
        ("語" + "あ" * (n % 16) + "語" * n)[:n],
    ]
    check([kinds[(i + i // 7) % 6].encode() for i in range(BATCH)], make_model(merges))


def test_merge_sentences__longest_batch():
    """A full batch of the longest sentences, of which no bytes are merged."""
    data = "本".encode() * (sentence_merging.MAX_SENTENCE_BYTES // 3)
    check([data] * BATCH, make_model([(b"\xe3", b"\x81")]))


long_sentences = st.lists(st.sampled_from(CHARACTERS), min_size=6, max_size=40)


@given(character_merges(), st.lists(long_sentences, min_size=8, max_size=small(60, 12)))
def test_encode_text__of_sentences(merges, sentences):
    """Texts of new and repeated sentences, and other pre-tokens."""
    model = make_model(merges)
    data = b" ".join(["".join(sentence).encode() + UNITS[i % len(UNITS)] for i, sentence in enumerate(sentences * 2)])
    encoder = Encoder(model)
    text, n_bytes = padded_text(data)
    ends = encoder.splitter.split(text, n_bytes).tolist()
    rules = naive_rules(model)
    pretokens = [data[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    expected = [number for pretoken in pretokens for number in twins.encoding.encode_pretoken(pretoken, *rules)]
    assert encoder.encode(data).tolist() == expected
