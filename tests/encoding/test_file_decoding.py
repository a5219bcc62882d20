"""Writing in a second thread."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given, strategies as st

from bpejit.encoding import file_decoding
from bpejit.encoding.file_decoding import BackgroundWriter

BLOCK = 1 << 17


def names(prefix: str = "bpejit-write") -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(prefix)]


@given(
    sizes=st.lists(st.integers(0, 9), max_size=30),
    n_buffers=st.integers(1, 4),
    slow=st.sampled_from(["nobody", "writer", "caller"]),
)
def test_blocks_are_written_in_order_from_buffers_that_are_reused(sizes, n_buffers, slow):
    least, file_decoding._LEAST_BYTES = file_decoding._LEAST_BYTES, 4
    written = bytearray()

    def write(block: memoryview) -> None:
        time.sleep(0.0002 * (slow == "writer"))
        written.extend(block)

    buffers = [bytearray(9) for _ in range(n_buffers)]
    expected = b""
    try:
        with BackgroundWriter(write, n_buffers=n_buffers) as writer:
            for number, size in enumerate(sizes):
                buffer = buffers[number % n_buffers]
                buffer[:] = bytes([number]) * 9
                expected += buffer[:size]
                time.sleep(0.0002 * (slow == "caller"))
                writer.write(memoryview(buffer)[:size])
        assert written == expected
        assert not names()
    finally:
        file_decoding._LEAST_BYTES = least


@pytest.mark.parametrize("failing", range(4))
@pytest.mark.parametrize("n_buffers", [1, 2, 3])
def test_an_error_of_a_block_is_raised_and_ends_writing(failing, n_buffers):
    written = []

    def write(block: memoryview) -> None:
        if len(written) == failing:
            raise OSError("no space left")
        written.append(bytes(block[:1]))

    def run() -> None:
        with BackgroundWriter(write, n_buffers=n_buffers) as writer:
            for number in range(4):
                writer.write(memoryview(bytes([number]) * BLOCK))

    with pytest.raises(OSError, match="no space left"):
        run()
    assert written == [bytes([number]) for number in range(failing)]
    assert not names()


def test_after_an_error_of_the_caller_waiting_blocks_are_left_out():
    begun, continued = threading.Event(), threading.Event()
    written = []

    def write(block: memoryview) -> None:
        begun.set()
        assert continued.wait(10)
        written.append(bytes(block[:1]))

    def run() -> None:
        with BackgroundWriter(write, n_buffers=4) as writer:
            for number in range(3):
                writer.write(memoryview(bytes([number]) * BLOCK))
            assert begun.wait(10)
            threading.Timer(0.05, continued.set).start()
            raise ValueError("an id is unknown")

    with pytest.raises(ValueError, match="an id is unknown"):
        run()
    assert written == [b"\0"]
    assert not names()


def idents(n_buffers: int, size: int) -> list[int]:
    found = []
    with BackgroundWriter(lambda block: found.append(threading.get_ident()), n_buffers=n_buffers) as writer:
        writer.write(memoryview(bytes(size)))
        writer.write(memoryview(b"end"))
    return found


def test_a_thread_is_started_by_a_large_block_and_if_there_are_several_buffers():
    own = threading.get_ident()
    assert idents(1, BLOCK) == [own, own]
    assert idents(2, BLOCK - 1) == [own, own]
    first, second = idents(2, BLOCK)
    assert first == second != own


def test_without_a_thread_the_caller_writes(monkeypatch):
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert idents(2, BLOCK) == [threading.get_ident()] * 2
