"""Compile every kernel ahead of the first use."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bpejit.jit.dispatch import is_first_run, on_compile

# Long and short pre-tokens, tied pairs, a special token: each kernel has something to do.
_TEXT = b"low lower lowest newest widest<|endoftext|>" * 3 + b"a pre-token beyond fifteen bytes: " + b"abc" * 40


def warmup(part: str | None = None) -> tuple[int, float]:
    """Compile the kernels for this machine, or load those that were compiled before.

    Parameters
    ----------
    part : str, optional
        Only those of one part: `training`, `encoding` or `others`.

    Returns
    -------
    compiled : int
        Number of kernels that were not in the disk cache.
    seconds : float
        Wall time.
    """
    begun = time.perf_counter()
    compiled = 0

    def count(event: str, _: float) -> None:
        nonlocal compiled
        compiled += event == "end"

    stop_counting = on_compile(count, reports=False)
    for name, run in (("training", _train), ("encoding", _encode), ("others", _run_others)):
        if part in (None, name):
            run()
    stop_counting()
    return compiled, time.perf_counter() - begun


@contextmanager
def compiling_meanwhile(part: str) -> Iterator[None]:
    """Have another process compile a part while the block runs, if this machine has compiled nothing yet.

    Whoever trains a first tokenizer encodes with it next: the two take as long to compile, and there mostly is a processor
    to spare. Nothing depends on that process; what it fails to do is done when it is needed.
    """
    if not is_first_run():
        yield
        return
    code = f"from bpejit.warmup import warmup; warmup({part!r})"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        process.wait()
    finally:
        process.kill()
        process.wait()


def _train() -> None:
    from bpejit.arrays import padded_text
    from bpejit.splitting import Splitter
    from bpejit.training.counting import PretokenCounter, merge_tables
    from bpejit.training.merge_learner import TIE_RULES, learn_merges

    splitter = Splitter("gpt2", [b"<|endoftext|>"])
    text, n_bytes = padded_text(_TEXT)
    splitter.find_cut(text, 0, n_bytes, n_bytes)
    # The smallest tables, so that those kernels run that make them larger.
    counter = PretokenCounter(slots=512, arena_bytes=1)
    counter.add_text(splitter, text, n_bytes, n_bytes, True)
    for number in range(1000):
        word, length = padded_text(b"%d" % number)
        counter.add_text(splitter, word, length, length, True)
    table = merge_tables([counter.table(), counter.table()])
    learn_merges(table, 200, tie_break=TIE_RULES[0])


def _encode() -> None:
    from bpejit.encoding.encoder import Encoder
    from bpejit.model import Model
    from bpejit.splitting import Splitter

    # Cutting a text into chunks is compiled for training, meanwhile.
    splitter = Splitter("gpt2", [b"<|endoftext|>"])
    tokens = [*(bytes([byte]) for byte in range(256)), b"lo", b"low"]
    encoder = Encoder(Model(dict(enumerate(tokens)), [(b"l", b"o"), (b"lo", b"w")], {"<|endoftext|>": len(tokens)}), splitter)
    encoder.decode(encoder.encode(_TEXT))
    stream = encoder.stream()
    stream.feed(_TEXT[:100])
    stream.finish()


def _run_others() -> None:
    from bpejit.formats.ranks import recover_merges
    from bpejit.splitting.special_finder import SpecialFinder
    from bpejit.t2t.subword_text_encoder import SubwordTextEncoder

    list(SpecialFinder([b"<|endoftext|>"]).spans(_TEXT))
    recover_merges(dict(enumerate([*(bytes([byte]) for byte in range(256)), b"lo", b"low"])))
    SubwordTextEncoder.build_from_generator([_TEXT.decode()], 100).encode("low")
