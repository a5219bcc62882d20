"""Tests of the tables computed from a vocabulary when it is loaded, and of their cost."""

from __future__ import annotations

import base64
import importlib
import platform
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import twins
from conftest import small
from helpers.encoding import naive_rules, ranked_models
from hypothesis import given

from bpejit.encoding import encoder as encoding, kernel_runner
from bpejit.encoding.encoder_tables import make_whole_tokens
from bpejit.jit import dispatch
from bpejit.kernels.encoding import span_encoding as kernels
from bpejit.model import Model


def unreachable_tokens(model: Model) -> set[bytes]:
    """Return the tokens that their merges do not produce, according to the twin of the kernel."""
    rules, ids = naive_rules(model)
    return {token for token in model.tokens.values() if len(twins.encoding.encode_pretoken(token, rules, ids)) > 1}


def whole_tokens(encoder: encoding.Encoder) -> dict[bytes, int]:
    """Return the entries of the table of whole tokens."""
    pool = encoder.tables.whole_token_pool.tobytes()
    rows = encoder.tables.whole_tokens.reshape(-1, kernels.WHOLE_WORDS).tolist()
    return {pool[entry >> 32 :][: entry & 0xFFFF_FFFF]: token_id for _, entry, token_id in rows if entry}


@given(ranked_models())
def test_unreachable_tokens(model: Model) -> None:
    encoder = encoding.Encoder(model)
    assert whole_tokens(encoder) == {token: model.ids[token] for token in unreachable_tokens(model)}


def test_unreachable_tokens_without_some_bytes() -> None:
    tokens = [*(bytes([byte]) for byte in range(0xF5)), b"\xff\xfe\xfd", b"a\xff", b"ab", b"abcd"]
    tokens = [token for token in tokens if token not in (b"\xc0", b"\xc1")]
    model = Model(dict(enumerate(tokens)), [], ranked=True)
    assert set(whole_tokens(encoding.Encoder(model))) == {b"\xff\xfe\xfd", b"abcd"}


def test_each_whole_token_is_found() -> None:
    strings = [b"%d tokens that no merges make" % number for number in range(small(5000, 50))]
    model = Model(dict(enumerate([*(bytes([byte]) for byte in range(256)), *strings])), [], ranked=True)
    encoder = encoding.Encoder(model)
    assert whole_tokens(encoder) == {token: model.ids[token] for token in strings}
    encoded = encoder.encode_pretokens(strings, encoder.new_workspace(cache_bytes=1 << 16))
    assert [ids.tolist() for ids in encoded] == [[model.ids[token]] for token in strings]
    # However the slots collide, the probe sequence of each token has no free slot.
    whole, _ = make_whole_tokens(model, strings)
    taken = whole.reshape(-1, kernels.WHOLE_WORDS)[:, 1] != 0
    assert np.count_nonzero(taken) == len(strings)


def test_number_of_kernel_calls_is_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    run = kernel_runner.encode_text
    monkeypatch.setattr(kernel_runner, "encode_text", lambda *args: calls.append(1) or run(*args))
    chance = random.Random(1)
    counts = []
    for size in (100, small(20_000, 400)):
        # Half of them are unreachable by merges.
        longer = {bytes(chance.choices(b"abcdefgh", k=chance.randint(2, 9))) for _ in range(size)}
        calls.clear()
        encoding.Encoder(Model(dict(enumerate([*(bytes([byte]) for byte in range(256)), *longer])), [], ranked=True))
        counts.append(len(calls))
    assert counts[0] == counts[1]


def test_many_special_tokens() -> None:
    specials = {f"<|{number}|>": 256 + number for number in range(small(20_000, 200))}
    encoder = encoding.Encoder(Model(dict(enumerate(bytes([byte]) for byte in range(256))), [], specials))
    found = encoder.encode("".join(specials).encode(), encoder.new_workspace(cache_bytes=1 << 16))
    assert found.tolist() == list(specials.values())


@pytest.mark.compiled
@pytest.mark.skipif(dispatch.BY_NUMBA, reason="Numba compiles the kernels")
def test_a_stored_tokenizer_loads_without_compilers(tmp_path: Path) -> None:
    path = tmp_path / "bytes.tiktoken"
    path.write_bytes(b"".join(b"%s %d\n" % (base64.b64encode(bytes([byte])), byte) for byte in range(256)))
    load = f"import bpejit; assert bpejit.load({str(path)!r}, pattern='gpt2').encode('a b') == [97, 32, 98]"
    subprocess.run([sys.executable, "-c", load], check=True, timeout=600)  # stores the kernels and the tables of the pattern

    def modules(code: str) -> set[str]:
        code += "; import sys; print(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=600)
        return set(done.stdout.split())

    heavy = {"numba", "regex", "numpy.ma"}
    if sys.platform == "linux" and platform.machine() == "x86_64":
        heavy.add("llvmlite")
    assert heavy.isdisjoint(modules(load) - modules("import numpy"))  # NumPy 1 imports numpy.ma


@pytest.mark.compiled
@pytest.mark.skipif(dispatch.BY_NUMBA, reason="Numba compiles the kernels")
@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="LLVM links files of other platforms")
def test_all_kernels_are_linked_without_llvm() -> None:
    """Importing llvmlite takes 30 ms."""
    code = "import bpejit, sys; compiled, _ = bpejit.warmup(); print(compiled or 'llvmlite' in sys.modules)"
    code += "; from bpejit.jit.dispatch import KERNELS; print(sum(len(kernel.signatures) for kernel in KERNELS))"
    shown = [subprocess.check_output([sys.executable, "-c", code], text=True, timeout=600).split() for _ in range(2)]
    assert shown[1][0] == "False"
    assert abs(int(shown[1][1]) - importlib.import_module("bpejit.warm_kernels").ALL_KERNELS) < 12, "the length of the bar"
