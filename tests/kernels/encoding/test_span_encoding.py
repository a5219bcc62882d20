"""Tests of the encoding kernels: the cache, its limits, and resumption after every stop."""

from __future__ import annotations

import numpy as np
import pytest
import regex
import twins
from conftest import small
from helpers.encoding import make_model, make_workspace, merge_lists, naive_rules, ranked_models, texts
from hypothesis import given, strategies as st

from bpejit.arrays import ByteStrings, padded_text
from bpejit.encoding.encoder_tables import make_tables, make_whole_tokens
from bpejit.jit.dispatch import addresses_of
from bpejit.kernels.common import keys
from bpejit.kernels.common.keys import hash_key, short_key
from bpejit.kernels.constants import DONE, NEED_SCRATCH, NEED_SPACE, SPECIAL_FLAG
from bpejit.kernels.encoding import pretoken_cache, recurring_sentences, span_encoding as kernels, windowed_merging
from bpejit.kernels.encoding.encoder_arrays import WorkspaceArrays
from bpejit.kernels.encoding.interleaved_merging import GAP, MAX_DEFERRED
from bpejit.kernels.encoding.row_merging import MAX_ROWS, ROWS_WORDS
from bpejit.kernels.encoding.text_encoding import encode_text
from bpejit.kernels.splitting.spans import MIN_ENDS
from bpejit.splitting import Splitter
from bpejit.splitting.presets import PRESETS

SPECIALS = [b"<|s|>", b"ab", b" "]


def encode(data: bytes, ends: list[int], tables, workspace: WorkspaceArrays, capacity: int | None = None) -> list[int]:
    """Encode all spans with an output of `capacity` ids, emptied when full; if nothing fits, it grows by one.

    By default there is space for all gaps (see `interleaved_merging`).
    """
    text, _ = padded_text(data)
    spans = np.array(ends, dtype=np.uint32)
    progress = workspace.progress
    progress[pretoken_cache.NEXT_START] = progress[pretoken_cache.NEXT_SPAN] = progress[pretoken_cache.N_OUT] = 0
    progress[pretoken_cache.N_SPANS] = len(ends)
    ids: list[int] = []
    out = np.zeros(capacity or len(data) + kernels.OUT_SLACK + GAP * MAX_DEFERRED, dtype=np.uint32)
    while (status := kernels.encode_spans(text, spans, tables, workspace, out)) != DONE:
        assert capacity is not None
        assert status == NEED_SPACE
        ids += out[: progress[pretoken_cache.N_OUT]].tolist()
        if progress[pretoken_cache.N_OUT] == 0:
            out = np.zeros(out.size + 1, dtype=np.uint32)
        progress[pretoken_cache.N_OUT] = 0
    assert progress[pretoken_cache.NEXT_SPAN] == len(ends)
    assert progress[pretoken_cache.NEXT_START] == (ends[-1] & (SPECIAL_FLAG - 1) if ends else 0)
    return ids + out[: progress[pretoken_cache.N_OUT]].tolist()


spans = st.lists(
    st.tuples(texts.filter(len) | st.sampled_from([b"a" * n for n in (1, 7, 8, 9, 14, 15, 16, 17, 31, 32, 33)]), st.booleans()),
    max_size=40,
)


@given(merge_lists(), spans, st.integers(1, 3), st.none() | st.integers(1, 60))
def test_encode_spans(merges, pieces, repeats, capacity):
    """Ids match encoding without a cache: for new and known pre-tokens, and for small outputs."""
    model = make_model(merges)
    pieces = [(SPECIALS[len(piece) % 3], True) if special else (piece, False) for piece, special in pieces] * repeats
    specials = {token: 1000 + number for number, token in enumerate(SPECIALS)}
    data = b"".join(piece for piece, _ in pieces)
    position, ends = 0, []
    for piece, special in pieces:
        position += len(piece)
        ends.append(position | (SPECIAL_FLAG if special else 0))
    table, ids = naive_rules(model)
    workspace = make_workspace()
    assert encode(data, ends, make_tables(model, specials), workspace, capacity) == twins.encoding.encode_spans(
        data, ends, table, ids, specials
    )


@pytest.mark.parametrize(
    ("slots", "arena"), [(256, 1 << 20), (1 << 14, 700), (512, 300), (512, pretoken_cache.ARENA_SLACK + 16)]
)
def test_encode_spans__small_cache(slots, arena):
    """The slots and the index are cleared and the arena wraps around, while the same pre-tokens recur."""
    generator = np.random.default_rng(3)
    words = [bytes(generator.choice([97, 98, 99], size).astype(np.uint8)) for size in generator.integers(1, 40, 900)]
    order = [words[number] for number in generator.integers(0, len(words), small(20_000, 1500)) % generator.integers(1, 900)]
    model = make_model([(b"a", b"b"), (b"ab", b"c"), (b"a", b"a"), (b"aa", b"ab"), (b"c", b"c")])
    table, ids = naive_rules(model)
    known = {word: twins.encoding.encode_pretoken(word, table, ids) for word in words}
    workspace = make_workspace(slots=slots, arena=arena)
    ends = np.cumsum([len(word) for word in order]).tolist()
    encoded = encode(b"".join(order), ends, make_tables(model, {}), workspace)
    assert encoded == [number for word in order for number in known[word]]
    if arena == 1 << 20:
        assert workspace.progress[pretoken_cache.CLEARS] > 0
        assert workspace.progress[pretoken_cache.LONG_CLEARS] > 0
    if arena == 700:
        assert workspace.progress[pretoken_cache.ARENA_WRITTEN] > 3 * arena


words = st.one_of(
    st.lists(st.sampled_from(b"ab 0"), min_size=1, max_size=16).map(bytes),
    st.integers(0, 99_999).map(lambda number: b"%d" % number),
    st.integers(1, 40).map(lambda size: b"a" * size),
    texts.filter(len),
)


@given(
    merge_lists(),
    st.lists(words, min_size=1, max_size=small(150, 50)),
    st.lists(st.tuples(st.integers(0, 1 << 20), st.sampled_from([0, 0, 0, 0, 0, 1, 2])), max_size=small(400, 80)),
    st.sampled_from([4, 16, 64, 512]),
    st.sampled_from([pretoken_cache.ARENA_SLACK + 16, 300, 4096]),
    st.none() | st.integers(1, 300) | st.integers(GAP * MAX_DEFERRED, GAP * MAX_DEFERRED + 900),
)
def test_encode_spans__many_new_pretokens_at_once(merges, vocabulary, order, slots, arena, capacity):
    """Batches exceed the limits of deferring and have duplicates; slots are cleared between lookup and encoding."""
    model = make_model(merges)
    table, ids = naive_rules(model)
    specials = {token: 1000 + number for number, token in enumerate(SPECIALS)}
    vocabulary = [*vocabulary, *(word + b"x" for word in vocabulary)]
    pieces = [(word, False) for word in vocabulary]
    pieces += [(SPECIALS[i % 3] if kind == 1 else vocabulary[i % len(vocabulary)] * (1 + kind), kind == 1) for i, kind in order]
    position, ends = 0, []
    for piece, special in pieces:
        position += len(piece)
        ends.append(position | (SPECIAL_FLAG if special else 0))
    data = b"".join(piece for piece, _ in pieces)
    expected = twins.encoding.encode_spans(data, ends, table, ids, specials)
    tables = make_tables(model, specials)
    longest = max(len(piece) for piece, _ in pieces)
    for scratch in (ROWS_WORDS, ROWS_WORDS - 1):
        workspace = make_workspace(slots=slots, arena=arena, scratch=scratch + windowed_merging.SCRATCH_WORDS * longest)
        workspace = workspace._replace(scratch=workspace.scratch[:scratch] if longest <= 40 else workspace.scratch)
        for _ in range(2):
            assert encode(data, ends, tables, workspace, capacity) == expected


def test_encode_spans__batch_of_new_pretokens():
    """Test each batch size around the interleaving limit, and each index of a known pre-token."""
    model = make_model([(b"1", b"2"), (b"12", b"3"), (b"2", b"3"), (b"4", b"5"), (b"45", b"45"), (b"6", b"6"), (b"66", b"6")])
    table, ids = naive_rules(model)
    tables = make_tables(model, {})
    generator = np.random.default_rng(2)
    for size in [
        1,
        2,
        MAX_ROWS - 1,
        MAX_ROWS,
        MAX_ROWS + 1,
        2 * MAX_ROWS,
        keys.BATCH - 1,
        keys.BATCH,
        keys.BATCH + 1,
        600,
    ]:
        numbers = generator.integers(0, 10 ** generator.integers(1, 15, size))
        words = [b"%d" % number for number in numbers.tolist()]
        expected = [number for word in words for number in twins.encoding.encode_pretoken(word, table, ids)]
        ends = np.cumsum([len(word) for word in words]).tolist()
        workspace = make_workspace(slots=4096, arena=1 << 15)
        for known in (0, 1, size // 2):
            some = words[known : known + 3]
            encode(b"".join(some), np.cumsum([len(word) for word in some]).tolist(), tables, workspace)
            assert encode(b"".join(words), ends, tables, workspace) == expected
            workspace = make_workspace(slots=4096, arena=1 << 15)
        # One slot for each: interleaved pre-tokens are cached, once.
        assert encode(b"".join(words), ends, tables, workspace) == expected
        assert workspace.progress[pretoken_cache.USED_SLOTS] == len(set(words))


def test_encode_spans__same_pretoken_twice_in_a_batch():
    """The pre-token is cached once: its nine ids are one record."""
    model = make_model([])
    workspace = make_workspace()
    table, ids = naive_rules(model)
    data = b"abcdefgh0" * 3
    assert encode(data, [9, 18, 27], make_tables(model, {}), workspace) == twins.encoding.encode_spans(
        data, [9, 18, 27], table, ids, {}
    )
    assert workspace.progress[pretoken_cache.USED_SLOTS] == 1
    assert workspace.progress[pretoken_cache.ARENA_WRITTEN] == 4 * 10


@given(ranked_models(), st.lists(words, min_size=1, max_size=80))
def test_encode_spans__whole_tokens(model, pieces):
    """Tokens that are kept whole are not deferred."""
    pieces += [token for token in model.tokens.values() if len(token) > 1]
    table, ids = naive_rules(model)
    whole, pool = make_whole_tokens(model, list(model.tokens.values()))
    tables = make_tables(model, {})._replace(whole_tokens=whole, whole_token_pool=pool)
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    data = b"".join(pieces)
    assert encode(data, ends, tables, make_workspace()) == twins.encoding.encode_spans(data, ends, table, ids, {}, model.ids)


def test_encode_spans__many_new_pretokens_clear_the_slots():
    words = [b"%d" % number for number in range(2000)]
    model = make_model([(b"1", b"2")])
    table, ids = naive_rules(model)
    workspace = make_workspace(slots=512)
    ends = np.cumsum([len(word) for word in words]).tolist()
    data = b"".join(words)
    expected = twins.encoding.encode_spans(data, ends, table, ids, {})
    assert encode(data, ends, make_tables(model, {}), workspace) == expected
    assert workspace.progress[pretoken_cache.CLEARS] == 2000 // (512 * 3 // 4)
    assert workspace.progress[pretoken_cache.USED_SLOTS] <= 512 * 3 // 4


def test_encode_spans__equal_hashes_are_not_equal_pretokens():
    """The record of another pre-token has the same hash and length, but other bytes."""
    model = make_model([(b"a", b"b")])
    tables = make_tables(model, {})
    workspace = make_workspace()
    data = b"ab" * 20
    expected = encode(data, [40], tables, workspace)
    assert encode(data, [40], tables, workspace) == expected
    workspace.arena[8:48] = 99  # the bytes of the record
    workspace.arena[48:208] = 1  # its ids
    assert encode(data, [40], tables, workspace) == expected == [model.ids[b"ab"]] * 20


han = st.sampled_from([*"中国日本東京大学あいう", "é", "a", "1", "😀"]).map(str.encode) | st.sampled_from(
    [b"\xe4", b"\xad", b"\xff"]
)
sentences = st.lists(han, min_size=1, max_size=30).map(b"".join)


@st.composite
def han_models(draw):
    """Draw models with tokens of several characters, of parts of characters, and across characters."""
    words = draw(st.lists(st.lists(han, min_size=1, max_size=4).map(b"".join), max_size=12))
    merges = []
    for word in words:
        cut = draw(st.integers(1, len(word)))
        for part in (word[:cut], word[cut:]):
            merges += [(part[:end], part[end : end + 1]) for end in range(1, len(part))]
        merges += [(word[:cut], word[cut:])] if cut < len(word) else []
    return make_model(draw(st.permutations(list(dict.fromkeys(merges)))))


@given(
    han_models(),
    st.lists(sentences, min_size=1, max_size=20),
    st.lists(st.integers(0, 19), max_size=60),
    st.sampled_from([16, 1024]),
    st.sampled_from([pretoken_cache.ARENA_SLACK + 16, 600, 8192]),
    st.none() | st.integers(1, 200),
    st.booleans(),
)
def test_encode_spans__sentences(model, vocabulary, order, slots, arena, capacity, stay_whole):
    """Ids match encoding without a cache the first time, the second, when sentences are cached, and the third."""
    table, ids = naive_rules(model)
    pieces = [*vocabulary, *(vocabulary[i % len(vocabulary)] for i in order)]
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    data = b"".join(pieces)
    tables = make_tables(model, {})
    whole_ids = None
    if stay_whole:
        whole, pool = make_whole_tokens(model, list(model.tokens.values()))
        tables = tables._replace(whole_tokens=whole, whole_token_pool=pool)
        whole_ids = model.ids
    expected = twins.encoding.encode_spans(data, ends, table, ids, {}, whole_ids)
    workspace = make_workspace(slots=slots, arena=arena)
    for _ in range(3):
        assert encode(data, ends, tables, workspace, capacity) == expected


def test_encode_spans__fragment_equal_to_whole_token():
    """Bytes that are one token as a pre-token may be several tokens as a fragment."""
    middle, land = "中".encode(), "国".encode()
    merges = [(middle[1:2], middle[2:]), (middle[:1], middle[1:2]), (middle[:2], middle[2:])]
    merges += [(land[:1], land[1:2]), (land[:2], land[2:]), (middle, land)]
    model = make_model(merges)
    table, ids = naive_rules(model)
    whole, pool = make_whole_tokens(model, [middle + land])
    tables = make_tables(model, {})._replace(whole_tokens=whole, whole_token_pool=pool)
    pieces = [middle + land, "日本中国日本".encode(), middle + land, "日本中国日本".encode()]
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    expected = twins.encoding.encode_spans(b"".join(pieces), ends, table, ids, {}, {middle + land: model.ids[middle + land]})
    assert expected.count(model.ids[middle + land]) == 2
    assert encode(b"".join(pieces), ends, tables, make_workspace()) == expected


def test_encode_spans__sentence_is_cached_when_it_recurs():
    model = make_model([(b"\xe4", b"\xb8"), (b"\xe4\xb8", b"\xad")])
    table, ids = naive_rules(model)
    tables = make_tables(model, {})
    workspace = make_workspace()
    data = "中国日本東京大学".encode()
    expected = twins.encoding.encode_pretoken(data, table, ids)
    used = []
    for _ in range(4):
        assert encode(data, [len(data)], tables, workspace) == expected
        used.append((int(workspace.progress[pretoken_cache.USED_LONG]), int(workspace.progress[pretoken_cache.ARENA_WRITTEN])))
    size = 8 + len(data) + 4 * (len(expected) + len(expected) % 2)
    assert used == [(0, 0), (1, size), (1, size), (1, size)]
    assert workspace.progress[pretoken_cache.N_SEEN] == 1
    # A pre-token without small fragments is cached immediately.
    encode(b"abcdefghijklmnopqrstuvwxyz", [26], tables, workspace)
    assert workspace.progress[pretoken_cache.USED_LONG] == 2
    assert workspace.progress[pretoken_cache.N_SEEN] == 1


def test_encode_spans__seen_sentences_are_cleared():
    """Each sentence seen once sets a bit; when an eighth of the bits are set, all are cleared."""
    model = make_model([])
    table, ids = naive_rules(model)
    tables = make_tables(model, {})
    workspace = make_workspace(slots=1 << 12, arena=1 << 20)
    characters = "中国日本東京大学一二三四五六七八"
    some = ["".join(characters[number >> shift & 15] for shift in (0, 4, 8, 12)) * 2 for number in range(7, 60_000, 197)]
    data = "".join(some).encode()
    ends = [24 * (number + 1) for number in range(len(some))]
    expected = twins.encoding.encode_spans(data, ends, table, ids, {})
    limit = recurring_sentences.SEEN_PER_WORD * workspace.seen_once.size
    assert len(some) > 2 * limit
    for _ in range(3):
        assert encode(data, ends, tables, workspace) == expected
        assert 0 <= workspace.progress[pretoken_cache.N_SEEN] <= limit
    n_seen = workspace.progress[pretoken_cache.N_SEEN]
    assert sum(int(word).bit_count() for word in workspace.seen_once) in (n_seen, n_seen + limit)


def test_encode_spans__every_character_of_three_bytes():
    """Each has its entry in the table of characters, with one, two or three ids."""
    model = make_model([(b"\xe4", b"\xb8"), (b"\xe4\xb8", b"\xad"), (b"\x83", b"\xbf"), (b"\xe3", b"\x83")])
    table, ids = naive_rules(model)
    characters = [chr(point).encode() for point in range(0x800, 0x10000, small(1, 97)) if not 0xD800 <= point < 0xE000]
    data = b"".join(characters)
    ends = [*range(120, len(data), 120), len(data)]
    expected = [number for character in characters for number in twins.encoding.encode_pretoken(character, table, ids)]
    workspace = make_workspace(arena=1 << 14)
    tables = make_tables(model, {})
    for _ in range(2):
        workspace.seen_once[:] = 0
        assert encode(data, ends, tables, workspace) == expected
    assert (workspace.character_ids[1::2] != 0).sum() == len(characters)


def test_encode_spans__needs_scratch_space():
    model = make_model([(b"a" * n, b"a" * n) for n in (1, 2, 4, 8, 16, 32, 64, 128, 256)])
    table, ids = naive_rules(model)
    tables = make_tables(model, {})
    data = b"b" + b"a" * 2000 + b"b"
    text, _ = padded_text(data)
    ends = np.array([1, 2001, 2002], np.uint32)
    workspace = make_workspace(
        scratch=windowed_merging.SCRATCH_EXTRA + windowed_merging.SCRATCH_WORDS * windowed_merging.WINDOW
    )
    workspace.progress[pretoken_cache.N_SPANS] = 3
    out = np.zeros(3000, np.uint32)
    assert kernels.encode_spans(text, ends, tables, workspace, out) == NEED_SCRATCH
    assert workspace.progress[pretoken_cache.NEEDED_BYTES] == 2000
    assert workspace.progress[pretoken_cache.NEXT_SPAN] == 1
    workspace = workspace._replace(
        scratch=np.zeros(windowed_merging.SCRATCH_EXTRA + windowed_merging.SCRATCH_WORDS * 2000, np.uint32)
    )
    assert kernels.encode_spans(text, ends, tables, workspace, out) == DONE
    assert out[: workspace.progress[pretoken_cache.N_OUT]].tolist() == twins.encoding.encode_spans(
        data, ends.tolist(), table, ids, {}
    )


@given(merge_lists(), texts, st.integers(0, 120), st.integers(4, 80))
def test_encode_text(merges, data, cut, capacity):
    """Use the least capacity for ends, little capacity for ids, and a text in two pieces."""
    pattern, specials = PRESETS["gpt2"], {b"<|s|>": 1, b"ab": 2, b"aba": 3}
    model = make_model(merges)
    table, ids = naive_rules(model)
    tables = make_tables(model, specials)
    splitter = Splitter("gpt2", list(specials))
    text, length = padded_text(data)
    workspace = make_workspace(ends=MIN_ENDS)
    out = np.zeros(capacity, np.uint32)
    encoded: list[int] = []
    fresh = True
    for stop, final in ((min(cut, length), False), (length, True)):
        while True:
            workspace.progress[pretoken_cache.N_OUT] = 0
            addresses = splitter.addresses, addresses_of(tables), addresses_of(workspace)
            status = encode_text(text, stop, stop, final, fresh, *addresses, out)
            fresh = False
            encoded += out[: workspace.progress[pretoken_cache.N_OUT]].tolist()
            if status == DONE:
                break
            assert status == NEED_SPACE
            if workspace.progress[pretoken_cache.N_OUT] == 0:
                out = np.zeros(out.size + 8, np.uint32)
    assert encoded == twins.encoding.encode_text(data, regex.compile(pattern), table, ids, specials)


@given(st.lists(st.binary(min_size=1, max_size=90) | st.integers(1, 50).map(bytes), max_size=10))
def test_hash_strings(strings):
    packed = ByteStrings.from_list(strings)
    hashes = np.zeros(len(strings), np.uint64)
    kernels.hash_strings(np.concatenate([packed.pool, np.full(16, 0xEE, np.uint8)]), packed.starts, hashes)
    assert hashes.tolist() == twins.encoding.hash_strings(strings)


@given(given_texts=st.lists(st.binary(min_size=1, max_size=15), max_size=110))
def test_move_slots__preserves_all_entries(given_texts):
    """The larger cache contains each entry, with the same words, in a slot where lookups find it."""
    small_slots = np.zeros(128 * pretoken_cache.SLOT_WORDS, np.uint64)
    words = {}
    for number, text in enumerate(dict.fromkeys(given_texts)):
        padded, n_bytes = padded_text(text)
        key = short_key(padded, np.uint64(0), np.uint64(n_bytes))
        small_slots[4 * number : 4 * number + 4] = [*key, number, number + 1]
        words[int(key[0]), int(key[1])] = (number, number + 1)
    larger = np.zeros(256 * pretoken_cache.SLOT_WORDS, np.uint64)
    pretoken_cache.move_slots(small_slots, larger)
    rows = larger.reshape(-1, 4)
    assert {(int(a), int(b)): (int(c), int(d)) for a, b, c, d in rows if b} == twins.encoding.move_slots(words)
    for low, high in words:
        slot = int(hash_key(np.uint64(low), np.uint64(high))) & 255
        tried = 0
        while rows[slot].tolist()[:2] != [low, high]:
            assert rows[slot, 1], "an empty slot would end the look-up"
            # Both slots of a line, then the next line.
            slot = slot ^ 1 if tried % 2 == 0 else ((slot ^ 1) + 2) & 255
            tried += 1
