"""Comparison of the encoder with a naive implementation: texts, batches, streams, chunks, decoding, memory."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from itertools import pairwise

import numpy as np
import pytest
import tiktoken
from conftest import JIT, data_text, small
from helpers.encoding import (
    FALLBACK,
    PATTERNS,
    SMALL,
    WORDS,
    learned_model,
    make_model,
    merge_lists,
    naive_ids,
    ranked_models,
    texts,
)
from hypothesis import given, strategies as st

from bpejit.arrays import padded_text
from bpejit.encoding import encode_stream
from bpejit.encoding.codec import Codec
from bpejit.encoding.encoder import Encoder
from bpejit.errors import CorpusError, TokenIdError, TokenizerFormatError
from bpejit.kernels.encoding import pretoken_cache
from bpejit.model import NEVER_IN_UTF8, Model
from bpejit.process_memory import Budget
from bpejit.splitting.presets import PRESETS
from bpejit.utf8 import encode_utf8

SPECIALS = ["<|s|>", "<|s|><|t|>", "ab", "aba", "あ0"]

special_texts = st.lists(
    st.one_of(texts, st.sampled_from([token.encode() for token in SPECIALS] + [b"<|s|", b"<|t|>"])), max_size=8
).map(b"".join)


@pytest.fixture(scope="module")
def prose() -> Encoder:
    return Encoder(learned_model(data_text("prose.txt")[: small(400_000, 4_000)], small(2_000, 60), specials=["<|endoftext|>"]))


def cut(data: bytes | str, cuts: list[int]) -> list:
    bounds = [0, *sorted(position % (len(data) + 1) for position in cuts), len(data)]
    return [data[start:stop] for start, stop in pairwise(bounds)]


# ---- comparison with the naive implementation ---------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", PATTERNS)
@given(merges=merge_lists(), data=special_texts, cuts=st.lists(st.integers(0, 2000), max_size=8))
def test_all_methods_match_naive_encoder(pattern, merges, data, cuts):
    model = make_model(merges, SPECIALS, pattern=pattern, step=3)
    expected = naive_ids(model, data, PATTERNS[pattern])
    encoder = Encoder(model)
    workspace = encoder.new_workspace(**SMALL)
    for _ in range(2):  # the second time, from the cache
        ids = encoder.encode(data, workspace)
        assert ids.dtype == np.uint32
        assert ids.tolist() == expected
        stream = encoder.stream(workspace)
        pieces = [stream.feed(piece) for piece in cut(data, cuts)]
        assert np.concatenate([*pieces, stream.finish()]).tolist() == expected
    assert encoder.decode(expected) == data
    assert encoder.decode(ids) == data


@given(model=ranked_models(), data=special_texts)
def test_ranked_models_match_naive_encoder_and_tiktoken(model, data):
    expected = naive_ids(model, data, PRESETS["gpt2"])
    encoder = Encoder(model)
    workspace = encoder.new_workspace(**SMALL)
    for _ in range(2):
        assert encoder.encode(data, workspace).tolist() == expected
    theirs = tiktoken.Encoding(
        "theirs", pat_str=PRESETS["gpt2"], mergeable_ranks=dict(model.ids), special_tokens=dict(model.special_tokens)
    )
    text = data.decode("utf-8", "ignore")
    assert encoder.encode(text.encode(), workspace).tolist() == theirs.encode(text, allowed_special="all")


@given(merges=merge_lists(), extra=st.sets(texts.filter(lambda text: len(text) > 1), max_size=12), data=texts)
def test_ignore_merges__pretoken_equal_to_a_token(merges, extra, data):
    model = make_model(merges)
    unmerged = {1000 + number: token for number, token in enumerate(sorted(extra - model.ids.keys()))}
    model = Model(tokens=model.tokens | unmerged, merges=merges, ignore_merges=True)
    data += b" ".join(unmerged.values())
    expected = naive_ids(model, data, PRESETS["gpt2"])
    encoder = Encoder(model)
    workspace = encoder.new_workspace(**SMALL)
    for _ in range(2):
        assert encoder.encode(data, workspace).tolist() == expected


def test_character_vocabulary_without_unused_bytes():
    tokens = {byte: bytes([byte]) for byte in range(256) if byte not in NEVER_IN_UTF8}
    encoder = Encoder(Model(tokens=tokens, merges=[]))
    text = "naïve 語 \U0010ffff".encode()
    assert encoder.encode(text).tolist() == list(text)
    stream = encoder.stream()
    for call in (encoder.encode, encoder.stream().encode_rest, lambda data: stream.feed(data + b" ")):
        with pytest.raises(CorpusError, match=r"no token for, one of 0xc0, 0xc1, 0xf5.*expected valid UTF-8"):
            call(b"a\xff b")
    del tokens[0xC2]
    with pytest.raises(TokenizerFormatError, match="lacks 14 of the 256 single bytes"):
        Model(tokens=tokens, merges=[])


def test_ranked_model_has_no_merges():
    with pytest.raises(TokenizerFormatError, match="a ranked model has 1 merges; expected none"):
        Model(tokens={**{b: bytes([b]) for b in range(256)}, 256: b"ab"}, merges=[(b"a", b"b")], ranked=True)


def test_hash_depends_on_merge_algorithm():
    tokens = {byte: bytes([byte]) for byte in range(256)}
    kinds = [{}, {"ranked": True}, {"ignore_merges": True}]
    assert len({Model(tokens=tokens, merges=[], **kind).sha256 for kind in kinds}) == 3


@pytest.mark.parametrize("name", ["prose.txt", "code.txt", "cjk.txt", "awkward.bin"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_real_text(name, pattern):
    data = data_text(name)
    training = data[: small(60_000, 2_000)]
    sample = data[-small(30_000, 1_000) :]
    model = learned_model(training, small(400, 40), pattern)
    encoder = Encoder(model)
    expected = naive_ids(model, sample, PATTERNS[pattern])
    assert encoder.encode(sample).tolist() == expected
    assert encoder.encode(sample, encoder.new_workspace(**SMALL)).tolist() == expected
    assert encoder.decode(expected) == sample


@given(st.binary(max_size=200))
def test_round_trip_of_any_bytes(data):
    encoder = Encoder(make_model([(b"a", b"b")]))
    assert encoder.decode(encoder.encode(data)) == data


def test_round_trip_of_byte_pairs(prose):
    data = b"".join(bytes([a, b]) for a in range(256) for b in range(0, 256, small(1, 50)))
    assert prose.decode(prose.encode(data)) == data


@pytest.mark.parametrize("length", [15, 16, 17, 255, 256, 257, small(100_000, 700)])
def test_long_runs(length):
    """Tokens are powers of two of one letter, so the expected ids are known."""
    sizes = [1, 2, 4, 8, 16, 32, 64]
    model = make_model([(b"a" * size, b"a" * size) for size in sizes[:-1]])
    encoder = Encoder(model)
    expected, left = [], length
    for size in reversed(sizes):
        expected += [model.ids[b"a" * size]] * (left // size)
        left %= size
    for workspace in (encoder.new_workspace(), encoder.new_workspace(**SMALL)):
        assert encoder.encode(b"a" * length, workspace).tolist() == expected
        assert encoder.encode(b"a" * length, workspace).tolist() == expected


def test_token_longer_than_scratch_space():
    sizes = [2**power for power in range(small(14, 9))]
    model = make_model([(b"a" * size, b"a" * size) for size in sizes])
    encoder = Encoder(model)
    data = b"a" * (2 * sizes[-1] * 3 + 1)
    assert encoder.decode(encoder.encode(data)) == data
    assert encoder.encode(data).tolist() == [model.ids[b"a" * (2 * sizes[-1])]] * 3 + [model.ids[b"a"]]


def test_tokens_unreachable_by_merges():
    """The cache is initialized with the ids of each token, here several of them."""
    model = make_model([(b"b", b"c"), (b"a", b"b"), (b"ab", b"c")])
    encoder = Encoder(model)
    assert encoder.encode(b"abc").tolist() == [model.ids[b"a"], model.ids[b"bc"]]


def test_two_merges_into_one_token():
    model = make_model([(b"a", b"b"), (b"b", b"c"), (b"a", b"bc"), (b"ab", b"c"), (b"abc", b"d")])
    encoder = Encoder(model)
    assert encoder.encode(b"abcd").tolist() == [model.ids[b"abcd"]]
    assert encoder.encode(b"bcd").tolist() == [model.ids[b"bc"], model.ids[b"d"]]


# ---- special tokens ------------------------------------------------------------------------------------------------


def test_special_tokens__longest_first_adjacent_and_at_the_ends():
    model = make_model([(b"a", b"b")], ["<|s|>", "<|s|><|t|>", "ab"])
    short, long, ab = model.special_tokens.values()
    encoder = Encoder(model)
    assert encoder.encode(b"<|s|>").tolist() == [short]
    assert encoder.encode(b"<|s|><|s|><|t|>ab").tolist() == [short, long, ab]
    assert encoder.encode(b"aabb").tolist() == [model.ids[b"a"], ab, model.ids[b"b"]]
    assert encoder.decode([long, ab]) == b"<|s|><|t|>ab"


def test_many_special_tokens():
    specials = [f"<|{number}|>" for number in range(300)]
    model = make_model([], specials)
    encoder = Encoder(model)
    assert encoder.encode("".join(specials).encode()).tolist() == list(model.special_tokens.values())


# ---- streams -------------------------------------------------------------------------------------------------------


@given(st.text(alphabet="ab あ😀\ud83d\ude00é", max_size=60), st.lists(st.integers(0, 99), max_size=6))
def test_stream__surrogates(text, cuts):
    encoder = Encoder(make_model([(b"\xf0", b"\x9f")], ["ab"]))
    expected = encoder.encode(encode_utf8(text)).tolist()
    stream = encoder.stream()
    pieces = [stream.feed(piece) for piece in cut(text, cuts)]
    assert np.concatenate([*pieces, stream.finish()]).tolist() == expected


def test_stream__one_byte_at_a_time(prose):
    data = data_text("prose.txt")[: small(20_000, 500)] + "日本 <|endoftext|>\r\n".encode()
    stream = prose.stream(prose.new_workspace(**SMALL))
    pieces = [stream.feed(data[position : position + 1]) for position in range(len(data))]
    assert np.concatenate([*pieces, stream.finish()]).tolist() == prose.encode(data).tolist()


def test_stream__second_text(prose):
    stream = prose.stream()
    for text in (b"the end", b"s of", b""):
        first = stream.feed(text)
        assert np.concatenate([first, stream.finish()]).tolist() == prose.encode(text).tolist()


def test_stream__bytes_and_strings_mixed(prose):
    stream = prose.stream()
    pieces = [stream.feed(piece) for piece in ("the \ud83d", b"end", bytearray(b" of"), memoryview(b" it"), "\ude00")]
    expected = prose.encode("the �end of it�".encode())
    assert np.concatenate([*pieces, stream.finish()]).tolist() == expected.tolist()


def test_stream__long_string_in_little_memory(prose):
    text = "the quick brown fox " * small(100_000, 50)
    workspace = prose.new_workspace()
    sizes = [ids.size for ids in prose.stream(workspace).blocks(text, final=True)]
    assert sum(sizes) == prose.encode(text.encode()).size
    assert max(sizes) <= workspace.text_bytes


def test_stream__long_pretoken_in_small_pieces_is_linear(prose):
    """Each byte is split once, according to the positions passed to the splitter."""
    workspace = prose.new_workspace(text_bytes=256)
    stream = prose.stream(workspace)
    n_pieces = small(2_000, 40)
    ids = [stream.feed(b"abcdefgh" * 4) for _ in range(n_pieces)]
    assert sum(block.size for block in ids) == 0
    assert workspace.text_capacity < 4 * 32 * n_pieces
    ids.append(stream.finish())
    assert workspace.text_capacity == 256
    assert prose.decode(np.concatenate(ids)) == b"abcdefgh" * 4 * n_pieces


def test_stream__regex_pattern_waits_for_special_tokens():
    model = make_model([(b"a", b"b")], ["<|s|>", "<|s|>x"], pattern=FALLBACK)
    encoder = Encoder(model)
    stream = encoder.stream()
    assert stream.feed(b"ab ab").size == 0
    assert stream.feed(b"<|s|>").size == 0  # it may become the longer token
    assert encoder.decode(stream.feed(b"ab")) == b"ab ab<|s|>"
    assert encoder.decode(stream.finish()) == b"ab"


# ---- chunks and batches --------------------------------------------------------------------------------------------


def test_encode_chunk__chunks_match_whole_text(prose):
    data = data_text("prose.txt")[: small(200_000, 3_000)]
    expected = prose.encode(data).tolist()
    text, length = padded_text(data)
    workspace = prose.new_workspace(**SMALL)
    assert prose.encode_chunk(text, length, length, True, workspace).tolist() == expected
    encoded: list[int] = []
    start, step = 0, small(5_000, 400)
    while start < length:
        position = prose.splitter.find_cut(text, min(start + step, length), length, length)
        end = position if position > 0 else length
        stop = min(end + 20, length)
        part, _ = padded_text(data[start:stop])
        encoded += prose.encode_chunk(part, end - start, stop - start, end == length, workspace).tolist()
        start = end
    assert encoded == expected


def test_encode_chunk__more_ids_than_estimated():
    encoder = Encoder(make_model([], pattern=WORDS))
    data = bytes(range(256)) * small(400, 3)
    text, length = padded_text(data)
    workspace = encoder.new_workspace()
    assert encoder.decode(encoder.encode_chunk(text, length, length, True, workspace)) == data


def test_encode_chunk__regex_pattern():
    model = make_model([(b"a", b"b")], ["<|s|>"], pattern=FALLBACK)
    encoder = Encoder(model)
    data = b"ab aab <|s|>b"
    text, length = padded_text(data)
    ids = encoder.encode_chunk(text, length, length, True, encoder.new_workspace(**SMALL))
    assert ids.tolist() == naive_ids(model, data, FALLBACK)


def test_encode_batch(prose):
    documents = [b"the end", b"", b"a" * 100, "日本".encode(), b"<|endoftext|>"]
    batch = prose.encode_batch(documents, prose.new_workspace(**SMALL))
    assert [ids.tolist() for ids in batch] == [prose.encode(document).tolist() for document in documents]
    assert len(prose.encode_batch([])) == 0


def test_threads_share_an_encoder(prose):
    data = data_text("prose.txt")[: small(300_000, 2_000)]
    expected = prose.encode(data).tolist()
    results: list[list[int]] = []

    def work() -> None:
        workspace = prose.new_workspace()
        results.append(prose.encode(data, workspace).tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)])
def test_encode__bytes_like_objects(prose, kind):
    for data in (b"the end", b"the end " * 50):
        workspace = prose.new_workspace(**SMALL)
        assert prose.encode(kind(data), workspace).tolist() == prose.encode(data).tolist()


def test_text_to_bytes():
    assert encode_utf8("aé😀") == "aé😀".encode()
    assert encode_utf8("\ud83d\ude00") == "😀".encode()
    assert encode_utf8("a\udc80b\ud83d") == "a�b�".encode()


# ---- decoding ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.uint32, np.int64, np.uint64, object])
def test_decode__integer_dtypes(dtype):
    model = make_model([])
    encoder = Encoder(model)
    ids = [model.ids[b"h"], model.ids[b"i"]]
    assert encoder.decode(np.array(ids, dtype=dtype)) == b"hi"
    assert encoder.decode(np.array([0, *ids], dtype=dtype)[1:]) == b"hi"
    assert encoder.decode(iter(ids)) == b"hi"
    assert encoder.decode([]) == b""
    assert encoder.decode(np.array([], dtype=dtype)) == b""


@pytest.mark.parametrize("number", [-1, 2, 766, 2**31, 2**32 + 3, 2**63, 2**64, -(2**70)])
def test_decode__reports_invalid_id_and_position(number):
    encoder = Encoder(make_model([], step=3))
    dtype = None if abs(number) < 2**63 else object
    for ids in ([3, 0, number, -7], np.array([3, 0, number, -7], dtype=dtype)):
        with pytest.raises(TokenIdError, match=rf"no token with id {number} \(at position 102\).*from 0 to 765") as raised:
            encoder.decode(ids, offset=100)
        assert ("not in use" in str(raised.value)) == (number == 2)


@pytest.mark.parametrize("wrong", [[1.5], ["a"], [None], [[1, 2], [3]], np.zeros((2, 2), int), np.zeros(3)])
def test_decode__non_integers_are_refused(wrong):
    with pytest.raises(TokenIdError, match="whole numbers"):
        Encoder(make_model([])).decode(wrong)


def test_encoder__too_large_id_is_refused():
    tokens = {number: bytes([number]) for number in range(256)}
    with pytest.raises(TokenizerFormatError, match="1073741824"):
        Encoder(Model(tokens, [], {"<|s|>": 1 << 30}))
    Encoder(Model(tokens, [], {"<|s|>": 1 << 12}))


# ---- memory --------------------------------------------------------------------------------------------------------


def test_workspace__size_is_constant(prose):
    """A cache of fixed size encodes any amount of text."""
    workspace = prose.new_workspace(cache_bytes=1 << 10, cache_limit=1 << 10)
    sizes = [array.nbytes for array in workspace.arrays]
    data = b" ".join(b"%d" % (number * 7919 % 10007) for number in range(small(50_000, 2_000)))
    assert prose.decode(prose.encode(data, workspace)) == data
    assert [array.nbytes for array in workspace.arrays] == sizes
    assert workspace.progress[pretoken_cache.CLEARS] > 0


LIMITED = """
    import os, resource, sys
    sys.path.insert(0, {tests!r})
    from conftest import data_text
    from helpers.encoding import make_model
    from bpejit.encoding.encoder import Encoder
    lines = data_text("prose.txt").decode("utf-8").splitlines(keepends=True)
    encoder = Encoder(make_model([(b"t", b"h"), (b"th", b"e"), (b" ", b"the")], ["<|s|>"]))
    workspace = encoder.new_workspace()
    with open("/proc/self/statm") as file:
        total, resident, *_ = (int(pages) * os.sysconf("SC_PAGE_SIZE") for pages in file.read().split())
    limit = {limit}
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    stream = encoder.stream(workspace)
    n_ids = 0
    for line in lines:
        for block in stream.blocks(line):
            n_ids += len(block.tolist())
    for block in stream.blocks("", final=True):
        n_ids += len(block.tolist())
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    assert n_ids == encoder.encode("".join(lines).encode()).size
    print(n_ids)
"""


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and a limit on the address space")
@pytest.mark.parametrize("limit", ["total + 1_000_000", "resident"])
def test_stream__allocates_no_memory(limit, request):
    """Limit the address space to just above its current size, or forbid new mappings altogether."""
    code = textwrap.dedent(LIMITED).format(tests=str(request.config.rootpath / "tests"), limit=limit)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert JIT
    assert int(done.stdout) > 100_000


@given(
    merges=merge_lists(),
    data=special_texts,
    long=st.sampled_from([b"", b"a" * 90, b" " * 90, "\u3042".encode() * 30]),
    width=st.sampled_from([1, 40, 300]),
)
def test_encode__text_in_place(merges, data, long, width):
    """Immutable text is not copied to the buffer, except for its end."""
    encoder = Encoder(make_model(merges, SPECIALS))
    text = data + long + data
    workspace = encoder.new_workspace(cache_bytes=1 << 15, text_bytes=16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode_stream, "_IN_PLACE_BYTES", width)
        found = encoder.encode(text, workspace).tolist()
        again = encoder.encode(text, workspace).tolist()
    assert found == again == encoder.encode(bytearray(text), workspace).tolist() == encoder.encode(text).tolist()
    assert workspace.text_capacity == 16


@pytest.mark.parametrize("pattern", ["gpt2", r"(?<=\s)\w+|\w+|\W"], ids=["automaton", "regex"])
@given(text=st.text(st.characters() | st.sampled_from("ab \ud83d\ude00"), max_size=60))
def test_encode__long_strings_in_slices(pattern, text):
    """A long string is converted to UTF-8 while it is encoded; lone halves of surrogate pairs are replaced."""
    codec = Codec(make_model([(b"a", b"b"), (b"\xf0", b"\x9f")], SPECIALS, pattern=pattern))
    text = f"{text}<|s|>{text}"
    expected = codec.encode(text).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bpejit.encoding.codec._LONG_STRING", 1)
        patch.setattr("bpejit.utf8.STRING_SLICE", 3)
        assert codec.encode(text).tolist() == expected
        assert codec.encode(text, set(), set()).tolist() == codec.encode(encode_utf8(text), set(), set()).tolist()


def test_cache_grows_with_long_texts(prose):
    """The cache doubles up to its limit, and ids do not change, whether or not its entries are preserved."""
    words = [f"{number:x}" * (1 + number % 9) for number in range(small(20_000, 300))]
    text = " ".join(words).encode()
    expected = prose.encode(text).tolist()
    limit = 1 << 19
    size = small(1 << 12, 1 << 9)
    workspace = prose.new_workspace(cache_bytes=1 << 15, cache_limit=limit, text_bytes=size, budget=Budget(1 << 30))
    before = workspace.arrays.slots.size, workspace.arrays.arena.size
    for _ in range(3):
        assert prose.encode(text, workspace).tolist() == expected
    after = workspace.arrays.slots.size, workspace.arrays.arena.size
    assert after[0] > before[0]
    assert after[1] > before[1]
    arrays = workspace.arrays
    assert arrays.slots.nbytes + arrays.long_index.nbytes + arrays.arena.nbytes <= limit


def test_stream_cache_grows_only_on_request(prose):
    text = b" ".join(b"%d" % number for number in range(small(20_000, 500)))
    workspace = prose.new_workspace(cache_bytes=1 << 15)
    before = workspace.arrays.slots.size
    prose.stream(workspace).feed(text)
    assert workspace.arrays.slots.size == before
