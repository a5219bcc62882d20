"""Compile every kernel ahead of the first use."""

from __future__ import annotations

import time

from bpejit.arrays import padded_text
from bpejit.counting import PretokenCounter, merge_tables
from bpejit.encoding import Encoder
from bpejit.formats.ranks import recover_merges
from bpejit.kernels._jit import on_compile
from bpejit.model import Model
from bpejit.split import Splitter
from bpejit.subword import SubwordTextEncoder
from bpejit.training import TIE_RULES, learn_merges

# Long and short pre-tokens, tied pairs, a special token: each kernel has something to do.
_TEXT = b"low lower lowest newest widest<|endoftext|>" * 3 + b"a pre-token beyond fifteen bytes: " + b"abc" * 40


def warmup() -> tuple[int, float]:
    """Compile the kernels for this machine, or load those that were compiled before.

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

    on_compile(count)
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
    merges = learn_merges(table, 200, tie_break=TIE_RULES[0])
    tokens = merges.token_bytes()
    pairs = [(tokens[left], tokens[right]) for left, right in zip(merges.left.tolist(), merges.right.tolist(), strict=True)]
    encoder = Encoder(Model(dict(enumerate(tokens)), pairs, {"<|endoftext|>": len(tokens)}), splitter)
    encoder.decode(encoder.encode(_TEXT))
    recover_merges(dict(enumerate(tokens)))
    stream = encoder.stream()
    stream.feed(_TEXT[:100])
    stream.finish()
    SubwordTextEncoder.build_from_generator([_TEXT.decode()], 100).encode("low")
    return compiled, time.perf_counter() - begun
