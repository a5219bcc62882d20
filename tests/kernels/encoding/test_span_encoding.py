"""The encoding kernels: the cache, its limits, and going on after every stop."""

from __future__ import annotations

import naive
import numpy as np
import pytest
import regex
from conftest import small
from encoding_helpers import make_model, merge_lists, naive_rules, ranked_models, texts
from hypothesis import given
from hypothesis import strategies as st

from bpejit.arrays import ByteStrings, padded_text
from bpejit.encoding.encoder_tables import make_tables, make_whole
from bpejit.kernels.common import keys
from bpejit.kernels.common.keys import LONG_TAG, hash_bytes, hash_key, short_key
from bpejit.kernels.constants import DONE, NEED_SCRATCH, NEED_SPACE, SPECIAL_FLAG
from bpejit.kernels.encoding import boundary_filter, pretoken_cache, windowed_merging
from bpejit.kernels.encoding import span_encoding as kernels
from bpejit.kernels.encoding.interleaved_merging import MOST, TOGETHER_WORDS
from bpejit.kernels.encoding.records import EncoderMemory, addresses_of
from bpejit.kernels.encoding.text_encoding import encode_text
from bpejit.kernels.splitting.spans import MIN_ENDS, STATE_SIZE
from bpejit.splitting import Splitter
from bpejit.splitting.presets import PRESETS

SPECIALS = [b"<|s|>", b"ab", b" "]


def make_memory(*, slots: int = 1024, arena: int = 4096, ends: int = 64, scratch: int = 4096) -> EncoderMemory:
    return EncoderMemory(
        slots=np.zeros(slots * pretoken_cache.SLOT_WORDS, np.uint64),
        arena=np.full(arena, 0xEE, np.uint8),
        once=np.zeros(1 << 2, np.uint64),
        characters=np.zeros(boundary_filter.CHARACTERS * boundary_filter.CHARACTER_WORDS, np.uint64),
        batch=np.zeros(keys.BATCH * keys.BATCH_WORDS, np.uint64),
        scratch=np.zeros(scratch, np.uint32),
        ends=np.zeros(ends, np.uint32),
        progress=np.zeros(pretoken_cache.PROGRESS_SIZE, np.int64),
        split_state=np.full(STATE_SIZE, 99, np.int64),
    )


def encode(data: bytes, ends: list[int], tables, memory: EncoderMemory, room: int | None = None) -> list[int]:
    """Encode all spans with an output of `room` ids, emptied whenever it is full; larger by one if nothing fits."""
    text, _ = padded_text(data)
    spans = np.array(ends, dtype=np.uint32)
    progress = memory.progress
    progress[pretoken_cache.FIRST] = progress[pretoken_cache.SPAN] = progress[pretoken_cache.N_OUT] = 0
    progress[pretoken_cache.N_SPANS] = len(ends)
    ids: list[int] = []
    out = np.zeros(room or len(data) + kernels.OUT_SLACK, dtype=np.uint32)
    while (status := kernels.encode_spans(text, spans, tables, memory, out)) != DONE:
        assert room is not None
        assert status == NEED_SPACE
        ids += out[: progress[pretoken_cache.N_OUT]].tolist()
        if progress[pretoken_cache.N_OUT] == 0:
            out = np.zeros(out.size + 1, dtype=np.uint32)
        progress[pretoken_cache.N_OUT] = 0
    assert progress[pretoken_cache.SPAN] == len(ends)
    assert progress[pretoken_cache.FIRST] == (ends[-1] & (SPECIAL_FLAG - 1) if ends else 0)
    return ids + out[: progress[pretoken_cache.N_OUT]].tolist()


spans = st.lists(
    st.tuples(texts.filter(len) | st.sampled_from([b"a" * n for n in (1, 7, 8, 9, 14, 15, 16, 17, 31, 32, 33)]), st.booleans()),
    max_size=40,
)


@given(merge_lists(), spans, st.integers(1, 3), st.none() | st.integers(1, 60))
def test_encode_spans(merges, pieces, repeats, room):
    """Equal to no cache at all: when a pre-token is new, when it is known, and when the output is small."""
    model = make_model(merges)
    pieces = [(SPECIALS[len(piece) % 3], True) if special else (piece, False) for piece, special in pieces] * repeats
    specials = {token: 1000 + number for number, token in enumerate(SPECIALS)}
    data = b"".join(piece for piece, _ in pieces)
    position, ends = 0, []
    for piece, special in pieces:
        position += len(piece)
        ends.append(position | (SPECIAL_FLAG if special else 0))
    table, ids = naive_rules(model)
    memory = make_memory()
    assert encode(data, ends, make_tables(model, specials), memory, room) == naive.encode_spans(
        data, ends, table, ids, specials
    )


@pytest.mark.parametrize(
    ("slots", "arena"), [(512, 1 << 20), (1 << 14, 700), (512, 300), (512, pretoken_cache.ARENA_SLACK + 16)]
)
def test_encode_spans__a_cache_that_is_too_small(slots, arena):
    """The slots are emptied, the arena goes round; the same pre-tokens come back before and after."""
    generator = np.random.default_rng(3)
    words = [bytes(generator.choice([97, 98, 99], size).astype(np.uint8)) for size in generator.integers(1, 40, 900)]
    order = [words[number] for number in generator.integers(0, len(words), small(20_000, 1500)) % generator.integers(1, 900)]
    model = make_model([(b"a", b"b"), (b"ab", b"c"), (b"a", b"a"), (b"aa", b"ab"), (b"c", b"c")])
    table, ids = naive_rules(model)
    known = {word: naive.encode_pretoken(word, table, ids) for word in words}
    memory = make_memory(slots=slots, arena=arena)
    ends = np.cumsum([len(word) for word in order]).tolist()
    encoded = encode(b"".join(order), ends, make_tables(model, {}), memory)
    assert encoded == [number for word in order for number in known[word]]
    if arena == 1 << 20:
        assert memory.progress[pretoken_cache.WIPES] > 0
    if arena == 700:
        assert memory.progress[pretoken_cache.WRITTEN] > 3 * arena


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
    st.none() | st.integers(1, 300),
)
def test_encode_spans__many_new_pretokens_at_once(merges, vocabulary, order, slots, arena, room):
    """More than are encoded together, the same ones again in a batch; the slots are emptied between finding and encoding."""
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
    expected = naive.encode_spans(data, ends, table, ids, specials)
    tables = make_tables(model, specials)
    longest = max(len(piece) for piece, _ in pieces)
    for scratch in (TOGETHER_WORDS, TOGETHER_WORDS - 1):
        memory = make_memory(slots=slots, arena=arena, scratch=scratch + windowed_merging.SCRATCH_WORDS * longest)
        memory = memory._replace(scratch=memory.scratch[:scratch] if longest <= 40 else memory.scratch)
        for _ in range(2):
            assert encode(data, ends, tables, memory, room) == expected


def test_encode_spans__a_batch_of_new_pretokens():
    """Each size of a batch around the number that is encoded together, and each place of one that is known."""
    model = make_model([(b"1", b"2"), (b"12", b"3"), (b"2", b"3"), (b"4", b"5"), (b"45", b"45"), (b"6", b"6"), (b"66", b"6")])
    table, ids = naive_rules(model)
    tables = make_tables(model, {})
    generator = np.random.default_rng(2)
    for size in [1, 2, MOST - 1, MOST, MOST + 1, 2 * MOST, keys.BATCH - 1, keys.BATCH, keys.BATCH + 1, 600]:
        numbers = generator.integers(0, 10 ** generator.integers(1, 15, size))
        words = [b"%d" % number for number in numbers.tolist()]
        expected = [number for word in words for number in naive.encode_pretoken(word, table, ids)]
        ends = np.cumsum([len(word) for word in words]).tolist()
        memory = make_memory(slots=4096, arena=1 << 15)
        for known in (0, 1, size // 2):
            some = words[known : known + 3]
            encode(b"".join(some), np.cumsum([len(word) for word in some]).tolist(), tables, memory)
            assert encode(b"".join(words), ends, tables, memory) == expected
            memory = make_memory(slots=4096, arena=1 << 15)
        # One slot for each: what is encoded together is remembered, once.
        assert encode(b"".join(words), ends, tables, memory) == expected
        assert memory.progress[pretoken_cache.USED] == len(set(words))


def test_encode_spans__the_same_pretoken_twice_in_a_batch():
    """It is remembered once: its nine ids are one record."""
    model = make_model([])
    memory = make_memory()
    table, ids = naive_rules(model)
    data = b"abcdefgh0" * 3
    assert encode(data, [9, 18, 27], make_tables(model, {}), memory) == naive.encode_spans(data, [9, 18, 27], table, ids, {})
    assert memory.progress[pretoken_cache.USED] == 1
    assert memory.progress[pretoken_cache.WRITTEN] == 4 * 10


@given(ranked_models(), st.lists(words, min_size=1, max_size=80))
def test_encode_spans__tokens_that_stay_whole(model, pieces):
    """With tokens that no merges make nothing is encoded together, and the same result comes of it."""
    pieces += [token for token in model.tokens.values() if len(token) > 1]
    table, ids = naive_rules(model)
    whole, pool = make_whole(model, list(model.tokens.values()))
    tables = make_tables(model, {})._replace(whole=whole, whole_pool=pool)
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    data = b"".join(pieces)
    assert encode(data, ends, tables, make_memory()) == naive.encode_spans(data, ends, table, ids, {}, model.ids)


def test_encode_spans__many_new_pretokens_empty_the_slots():
    words = [b"%d" % number for number in range(2000)]
    model = make_model([(b"1", b"2")])
    table, ids = naive_rules(model)
    memory = make_memory(slots=512)
    ends = np.cumsum([len(word) for word in words]).tolist()
    data = b"".join(words)
    expected = naive.encode_spans(data, ends, table, ids, {})
    assert encode(data, ends, make_tables(model, {}), memory) == expected
    assert memory.progress[pretoken_cache.WIPES] == 2000 // (512 * 3 // 4)
    assert memory.progress[pretoken_cache.USED] <= 512 * 3 // 4


def test_encode_spans__equal_hashes_are_not_equal_pretokens():
    """Another pre-token's record lies behind the hash and the length of this one: its bytes tell."""
    model = make_model([(b"a", b"b")])
    tables = make_tables(model, {})
    memory = make_memory()
    data = b"ab" * 20
    expected = encode(data, [40], tables, memory)
    assert encode(data, [40], tables, memory) == expected
    memory.arena[:40] = 99  # the bytes of the record
    memory.arena[40:200] = 1  # its ids
    assert encode(data, [40], tables, memory) == expected == [model.ids[b"ab"]] * 20


han = st.sampled_from([*"中国日本東京大学あいう", "é", "a", "1", "😀"]).map(str.encode) | st.sampled_from(
    [b"\xe4", b"\xad", b"\xff"]
)
sentences = st.lists(han, min_size=1, max_size=30).map(b"".join)


@st.composite
def han_models(draw):
    """Models with tokens of several characters, of pieces of characters, and of what lies across two."""
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
def test_encode_spans__sentences(model, vocabulary, order, slots, arena, room, stay_whole):
    """Equal to no cache at all, the first time, the second, when they are kept, and the third."""
    table, ids = naive_rules(model)
    pieces = [*vocabulary, *(vocabulary[i % len(vocabulary)] for i in order)]
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    data = b"".join(pieces)
    tables = make_tables(model, {})
    whole_ids = None
    if stay_whole:
        whole, pool = make_whole(model, list(model.tokens.values()))
        tables = tables._replace(whole=whole, whole_pool=pool)
        whole_ids = model.ids
    expected = naive.encode_spans(data, ends, table, ids, {}, whole_ids)
    memory = make_memory(slots=slots, arena=arena)
    for _ in range(3):
        assert encode(data, ends, tables, memory, room) == expected


def test_encode_spans__a_part_is_not_left_whole():
    """What is one token as a pre-token may be several as a part of one."""
    middle, land = "中".encode(), "国".encode()
    merges = [(middle[1:2], middle[2:]), (middle[:1], middle[1:2]), (middle[:2], middle[2:])]
    merges += [(land[:1], land[1:2]), (land[:2], land[2:]), (middle, land)]
    model = make_model(merges)
    table, ids = naive_rules(model)
    whole, pool = make_whole(model, [middle + land])
    tables = make_tables(model, {})._replace(whole=whole, whole_pool=pool)
    pieces = [middle + land, "日本中国日本".encode(), middle + land, "日本中国日本".encode()]
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    expected = naive.encode_spans(b"".join(pieces), ends, table, ids, {}, {middle + land: model.ids[middle + land]})
    assert expected.count(model.ids[middle + land]) == 2
    assert encode(b"".join(pieces), ends, tables, make_memory()) == expected


def test_encode_spans__a_sentence_is_kept_when_it_comes_again():
    model = make_model([(b"\xe4", b"\xb8"), (b"\xe4\xb8", b"\xad")])
    table, ids = naive_rules(model)
    tables = make_tables(model, {})
    memory = make_memory()
    data = "中国日本東京大学".encode()
    expected = naive.encode_pretoken(data, table, ids)
    used = []
    for _ in range(4):
        assert encode(data, [len(data)], tables, memory) == expected
        used.append((int(memory.progress[pretoken_cache.USED]), int(memory.progress[pretoken_cache.WRITTEN])))
    size = len(data) + 4 * (len(expected) + len(expected) % 2)
    assert used == [(0, 0), (1, size), (1, size), (1, size)]
    assert memory.progress[pretoken_cache.NOTED] == 1
    # What does not fall apart into small parts is kept at once.
    encode(b"abcdefghijklmnopqrstuvwxyz", [26], tables, memory)
    assert memory.progress[pretoken_cache.USED] == 2
    assert memory.progress[pretoken_cache.NOTED] == 1


def test_encode_spans__sentences_are_forgotten():
    """Of those that came once a bit is noted; when half of the bits are set it begins anew."""
    model = make_model([])
    table, ids = naive_rules(model)
    tables = make_tables(model, {})
    memory = make_memory(slots=1 << 12, arena=1 << 20)
    characters = "中国日本東京大学一二三四五六七八"
    some = ["".join(characters[number >> shift & 15] for shift in (0, 4, 8, 12)) * 2 for number in range(7, 60_000, 197)]
    data = "".join(some).encode()
    ends = [24 * (number + 1) for number in range(len(some))]
    expected = naive.encode_spans(data, ends, table, ids, {})
    limit = 32 * memory.once.size
    assert len(some) > 2 * limit
    for _ in range(3):
        assert encode(data, ends, tables, memory) == expected
        assert memory.progress[pretoken_cache.NOTED] <= limit
    assert memory.progress[pretoken_cache.NOTED] == sum(int(word).bit_count() for word in memory.once)


def test_encode_spans__every_character_of_three_bytes():
    """Each has its place in the table of characters, and some have one, some two, some three ids."""
    model = make_model([(b"\xe4", b"\xb8"), (b"\xe4\xb8", b"\xad"), (b"\x83", b"\xbf"), (b"\xe3", b"\x83")])
    table, ids = naive_rules(model)
    characters = [chr(point).encode() for point in range(0x800, 0x10000, small(1, 97)) if not 0xD800 <= point < 0xE000]
    data = b"".join(characters)
    ends = [*range(120, len(data), 120), len(data)]
    expected = [number for character in characters for number in naive.encode_pretoken(character, table, ids)]
    memory = make_memory(arena=1 << 14)
    tables = make_tables(model, {})
    for _ in range(2):
        memory.once[:] = 0
        assert encode(data, ends, tables, memory) == expected
    assert (memory.characters[1::2] != 0).sum() == len(characters)


def test_encode_spans__asks_for_scratch_space():
    model = make_model([(b"a" * n, b"a" * n) for n in (1, 2, 4, 8, 16, 32, 64, 128, 256)])
    table, ids = naive_rules(model)
    tables = make_tables(model, {})
    data = b"b" + b"a" * 2000 + b"b"
    text, _ = padded_text(data)
    ends = np.array([1, 2001, 2002], np.uint32)
    memory = make_memory(scratch=windowed_merging.SCRATCH_EXTRA + windowed_merging.SCRATCH_WORDS * windowed_merging.WINDOW)
    memory.progress[pretoken_cache.N_SPANS] = 3
    out = np.zeros(3000, np.uint32)
    assert kernels.encode_spans(text, ends, tables, memory, out) == NEED_SCRATCH
    assert memory.progress[pretoken_cache.NEEDED] == 2000
    assert memory.progress[pretoken_cache.SPAN] == 1
    memory = memory._replace(
        scratch=np.zeros(windowed_merging.SCRATCH_EXTRA + windowed_merging.SCRATCH_WORDS * 2000, np.uint32)
    )
    assert kernels.encode_spans(text, ends, tables, memory, out) == DONE
    assert out[: memory.progress[pretoken_cache.N_OUT]].tolist() == naive.encode_spans(data, ends.tolist(), table, ids, {})


@given(merge_lists(), texts, st.integers(0, 120), st.integers(4, 80))
def test_encode_text(merges, data, cut, room):
    """With the least room for ends, little room for ids, and the text in two pieces."""
    pattern, specials = PRESETS["gpt2"], {b"<|s|>": 1, b"ab": 2, b"aba": 3}
    model = make_model(merges)
    table, ids = naive_rules(model)
    tables = make_tables(model, specials)
    splitter = Splitter("gpt2", list(specials))
    text, length = padded_text(data)
    memory = make_memory(ends=MIN_ENDS)
    out = np.zeros(room, np.uint32)
    encoded: list[int] = []
    fresh = True
    for stop, final in ((min(cut, length), False), (length, True)):
        while True:
            memory.progress[pretoken_cache.N_OUT] = 0
            places = splitter.addresses, addresses_of(tables), addresses_of(memory)
            status = encode_text(text, stop, stop, final, fresh, *places, out)
            fresh = False
            encoded += out[: memory.progress[pretoken_cache.N_OUT]].tolist()
            if status == DONE:
                break
            assert status == NEED_SPACE
            if memory.progress[pretoken_cache.N_OUT] == 0:
                out = np.zeros(out.size + 8, np.uint32)
    assert encoded == naive.encode_text(data, regex.compile(pattern), table, ids, specials)


@given(st.lists(st.binary(min_size=1, max_size=90) | st.integers(1, 50).map(bytes), max_size=10))
def test_hash_strings(strings):
    packed = ByteStrings.from_list(strings)
    hashes = np.zeros(len(strings), np.uint64)
    kernels.hash_strings(np.concatenate([packed.pool, np.full(16, 0xEE, np.uint8)]), packed.starts, hashes)
    assert hashes.tolist() == naive.hash_strings(strings)


@given(given_texts=st.lists(st.binary(min_size=1, max_size=40), max_size=110))
def test_move_slots__finds_everything_again(given_texts):
    """What was in the cache is in the larger one, with the same words, at a place where a look-up finds it."""
    small_slots = np.zeros(128 * pretoken_cache.SLOT_WORDS, np.uint64)
    words = {}
    for number, text in enumerate(dict.fromkeys(given_texts)):
        padded, n_bytes = padded_text(text)
        length = np.uint64(n_bytes)
        if n_bytes <= 15:
            key = short_key(padded, np.uint64(0), length)
        else:
            key = (hash_bytes(padded, np.uint64(0), length), LONG_TAG | length)
        small_slots[4 * number : 4 * number + 4] = [*key, number, number + 1]
        words[int(key[0]), int(key[1])] = (number, number + 1)
    larger = np.zeros(256 * pretoken_cache.SLOT_WORDS, np.uint64)
    pretoken_cache.move_slots(small_slots, larger)
    rows = larger.reshape(-1, 4)
    assert {(int(a), int(b)): (int(c), int(d)) for a, b, c, d in rows if b} == naive.move_slots(words)
    for low, high in words:
        hashed = low if high >= int(LONG_TAG) else int(hash_key(np.uint64(low), np.uint64(high)))
        slot = hashed & 255
        tried = 0
        while rows[slot].tolist()[:2] != [low, high]:
            assert rows[slot, 1], "an empty slot would end the look-up"
            # Both slots of a line, then the next line.
            slot = slot ^ 1 if tried % 2 == 0 else ((slot ^ 1) + 2) & 255
            tried += 1
