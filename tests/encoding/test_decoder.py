"""Decoding of long sequences of ids, which takes several blocks and pieces."""

from __future__ import annotations

import numpy as np
import pytest

from bpejit.encoding.decoder import BLOCK_BYTES, BLOCK_IDS, SHORT_IDS, Decoder
from bpejit.errors import TokenIdError
from bpejit.model import Model

LONG = b"0123456789" * 300
WORDS = {number: bytes([number]) for number in range(256)} | {
    256: b"word",
    257: LONG,
    260: b"sixteen bytes...",
    261: b"fifteen bytes..",
}


@pytest.fixture(scope="module")
def decoder():
    return Decoder(Model(WORDS, [], {"<|s|>": 262}))


def some_ids(n: int, dtype: type) -> np.ndarray:
    ids = np.arange(n) % 256
    ids[::7], ids[::1001], ids[5::13], ids[6::17] = 256, 257, 260, 261
    return ids.astype(dtype)


@pytest.mark.parametrize("n", [0, 1, SHORT_IDS, SHORT_IDS + 1, BLOCK_IDS + 3])
@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.uint32, np.int64, ">u4"])
def test_decode__types_and_sizes(decoder, n, dtype):
    ids = some_ids(n, dtype)
    expected = b"".join(WORDS[number] for number in ids.tolist())
    assert decoder.decode(ids) == expected
    ids.flags.writeable = False
    assert decoder.decode(ids) == expected
    assert decoder.decode(np.repeat(ids, 2)[::2]) == expected


@pytest.mark.parametrize("n", [3, 200])
def test_decode__of_lists(decoder, n):
    ids = some_ids(n, np.int64)
    expected = decoder.decode(ids)
    assert decoder.decode(ids.tolist()) == expected
    assert decoder.decode(list(ids)) == expected
    assert decoder.decode(iter(ids.tolist())) == expected
    assert decoder.decode([*ids.tolist(), True]) == expected + WORDS[1]
    for wrong in (-1, 1 << 32, 1 << 70, 1.0, "1", None, [1]):
        with pytest.raises(TokenIdError):
            decoder.decode([*ids.tolist(), wrong])
    for mask in (ids > 1, list(ids > 1)):
        with pytest.raises(TokenIdError, match="is not a token id"):
            decoder.decode(mask)


@pytest.mark.parametrize("n", [10, BLOCK_IDS + 10])
@pytest.mark.parametrize("number", [-1, 258, 263, 1 << 40])
def test_decode__names_the_position_of_an_unknown_id(decoder, n, number):
    ids = some_ids(n, np.int64)
    ids[-3] = number
    with pytest.raises(TokenIdError, match=rf"id {number} \(at position {n + 97}\)"):
        decoder.decode(ids, offset=100)


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.int64, ">u2"])
@pytest.mark.parametrize("back", [1, 2, 3, 4, 5, 300])
def test_decode__unknown_ids_near_the_end(decoder, dtype, back):
    ids = some_ids(SHORT_IDS + 10, dtype)
    ids[-back] = 259
    with pytest.raises(TokenIdError, match=rf"id 259 \(at position {ids.size - back}\)"):
        decoder.decode(ids)


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.int64])
@pytest.mark.parametrize("n", range(6))
def test_decode_blocks__of_few_ids(decoder, dtype, n):
    blocks = [some_ids(n, dtype), some_ids(SHORT_IDS, dtype)[-n:], some_ids(n, dtype)]
    data = b"".join(piece.tobytes() for piece in decoder.decode_blocks(blocks))
    assert data == b"".join(WORDS[number] for block in blocks for number in block.tolist())


def test_decode_blocks__reuses_one_buffer(decoder):
    blocks = [some_ids(n, np.uint32) for n in (5, 0, 3000, BLOCK_IDS * 2, 1)]
    first = None
    data = b""
    for piece in decoder.decode_blocks(blocks):
        first = piece if first is None else first
        assert np.shares_memory(first[:1], piece) or not piece.size
        data += piece.tobytes()
    assert data == b"".join(WORDS[number] for block in blocks for number in block.tolist())


@pytest.mark.parametrize("n_buffers", [2, 3])
@pytest.mark.parametrize("piece_bytes", [1 << 12, 1 << 19])
def test_decode_blocks__uses_buffers_in_turn(decoder, n_buffers, piece_bytes):
    blocks = [some_ids(n, np.uint16) for n in (5, BLOCK_IDS * 3, 1)]
    pieces, copies = [], []
    for piece in decoder.decode_blocks(blocks, piece_bytes=piece_bytes, n_buffers=n_buffers):
        pieces.append(piece)
        copies.append(piece.tobytes())
        for back in range(min(n_buffers, len(pieces))):
            assert pieces[-1 - back].tobytes() == copies[-1 - back]
    assert {len(copy) for copy in copies[:-1]} == {piece_bytes}
    assert b"".join(copies) == b"".join(WORDS[number] for block in blocks for number in block.tolist())


def test_decode_blocks__yields_pieces_of_one_size(decoder):
    blocks = [some_ids(n, dtype) for n, dtype in ((BLOCK_IDS, np.uint16), (7, np.int64), (BLOCK_IDS, np.uint32))]
    sizes = [piece.size for piece in decoder.decode_blocks(blocks)]
    assert set(sizes[:-1]) == {BLOCK_BYTES}
    assert len(sizes) > 2
