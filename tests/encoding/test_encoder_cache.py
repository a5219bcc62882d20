"""Tests of the tables of encoders on disk: they equal computed ones, and no damaged or exchanged file changes an id."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import data_text

from bpejit import Tokenizer, train
from bpejit.encoding import encoder_cache, encoder_tables
from bpejit.encoding.codec import Codec
from bpejit.encoding.encoder import Encoder
from bpejit.jit import dispatch, fingerprint, folders, upkeep
from bpejit.model import Model
from bpejit.process_memory import DEFAULT_BYTES, process_budget

pytestmark = [
    pytest.mark.compiled,  # in the other modes nothing is stored
    pytest.mark.skipif(dispatch.BY_NUMBA, reason="tables are stored only if bpejit loads the kernels"),
]

TEXT = data_text("prose.txt")[:20_000] + data_text("cjk.txt")[:5000]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Model:
    file = tmp_path_factory.mktemp("corpus") / "text.txt"
    file.write_bytes(TEXT)
    return train([file], vocab_size=900, special_tokens=["<|end|>"], workers=1).model


@pytest.fixture(scope="module")
def ranked(trained: Model) -> Model:
    """Return a ranked model with tokens that are kept whole, since merges do not produce them."""
    tokens = {**trained.tokens, 5000: b"xyzzy quux", 5001: "日本語の".encode(), 5002: b"q" * 30}
    return Model(tokens=tokens, merges=[], pattern="gpt2", ranked=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: Model, ranked: Model) -> Path:
    """Return the empty folder for tables.

    A cache that is smaller than usual is not stored, so the tokenizers of other tests must not use up the budget.
    """
    monkeypatch.setattr(process_budget, "_limit", process_budget.used + DEFAULT_BYTES)
    for model in (trained, ranked):
        encoded(model)  # loads the kernels
    folder = tmp_path / "cache" / folders.ENCODERS
    folder.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("BPEJIT_CACHE_DIR", str(folder.parent))
    monkeypatch.setenv("BPEJIT_CACHE", "1")
    monkeypatch.setattr(encoder_cache, "LEAST_TOKENS", 300)
    return folder


def encoded(model: Model) -> list[int]:
    text = TEXT + b"<|end|>xyzzy quux " + "日本語の".encode() + b" " + b"q" * 30
    codec = Codec(model)
    ids = codec.encode(text)
    assert codec.decode_bytes(ids) == text
    assert codec.encoder.encode(text, codec.encoder.new_workspace()).tolist() == ids.tolist()
    return ids.tolist()


def computed(model: Model, monkeypatch: pytest.MonkeyPatch) -> Encoder:
    with monkeypatch.context() as patch:
        patch.setenv("BPEJIT_CACHE", "0")
        return Encoder(model)


@pytest.mark.parametrize("name", ["trained", "ranked"])
def test_stored_tables_equal_computed_ones(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    model: Model = request.getfixturevalue(name)
    expected = computed(model, monkeypatch)
    seeded = expected.new_workspace()
    ids = encoded(model)
    (file,) = folder.iterdir()
    stamp = file.stat().st_mtime_ns
    monkeypatch.setattr("bpejit.encoding.encoder.make_tables", None)  # not called
    monkeypatch.setattr(Encoder, "_seed", None)
    found = Encoder(model)
    assert found.tables._fields == expected.tables._fields
    assert (found.tables.whole_tokens.size > 0) == (name == "ranked")
    workspaces = found.new_workspace(), found.new_workspace()
    pairs = [*zip(found.tables, expected.tables, strict=True)]
    for workspace in workspaces:
        pairs += [
            (workspace.arrays.slots, seeded.arrays.slots),
            (workspace.arrays.arena, seeded.arrays.arena),
            (workspace.progress, seeded.progress),
        ]
    for array, other in pairs:
        assert np.array_equal(array, other)
        assert array.dtype == other.dtype
        assert array.flags.aligned
        assert array.flags.writeable  # another type would compile another kernel
    assert encoded(model) == ids
    assert [path.stat().st_mtime_ns for path in folder.iterdir()] == [stamp]


def flipped(at: float) -> Callable[[bytes], bytes]:
    def damage(data: bytes) -> bytes:
        index = int(at * (len(data) - 1))
        return data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        *(pytest.param(flipped(at), id=f"flip at {at}") for at in (0, 0.00001, 0.001, 0.1, 0.5, 0.999, 1)),
        *(pytest.param(lambda data, at=at: data[: int(at * len(data))], id=f"cut at {at}") for at in (0, 1e-6, 0.3, 0.99999)),
        pytest.param(lambda data: data + b"\0", id="longer"),
        pytest.param(lambda data: bytes(len(data)), id="zeros"),
    ],
)
def test_damaged_file_is_ignored_and_written_again(damage: Callable[[bytes], bytes], folder: Path, ranked: Model) -> None:
    ids = encoded(ranked)
    (file,) = folder.iterdir()
    good = file.read_bytes()
    file.write_bytes(damage(good))
    assert encoded(ranked) == ids
    assert file.read_bytes() == good


def test_exchanged_files_are_ignored(folder: Path, trained: Model, ranked: Model) -> None:
    expected = [encoded(trained), encoded(ranked)]
    one, other = folder.iterdir()
    contents = one.read_bytes(), other.read_bytes()
    one.write_bytes(contents[1])
    other.write_bytes(contents[0])
    assert [encoded(trained), encoded(ranked)] == expected
    assert (one.read_bytes(), other.read_bytes()) == contents


@pytest.mark.skipif(not folders.has_owners(), reason="the system has no owners of files")
def test_file_that_others_can_write_is_ignored(folder: Path, trained: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded(trained)
    (file,) = folder.iterdir()
    file.chmod(0o666)
    name = file.name
    assert encoder_cache.load_encoder(name) is None


def test_every_change_of_the_model_has_a_file_of_its_own(folder: Path, trained: Model, ranked: Model) -> None:
    left, right = trained.merges[:2]
    models = [
        trained,
        ranked,
        replace(trained, ignore_merges=True),
        replace(trained, merges=[right, left, *trained.merges[2:]]),
        replace(trained, special_tokens={}),
        replace(trained, special_tokens={**trained.special_tokens, "<|x|>": trained.vocab_size}),
        replace(ranked, tokens={token_id + (token_id > 4999): token for token_id, token in ranked.tokens.items()}),
        replace(ranked, tokens={**ranked.tokens, 5003: b"of the"}),
        replace(ranked, special_tokens={"q" * 30: 5002}),
    ]
    for number, model in enumerate(models, start=1):
        Codec(model)
        assert len(list(folder.iterdir())) == number
    Codec(replace(trained, training={"corpus": "another"}))
    assert len(list(folder.iterdir())) == len(models)


def test_edit_is_detected(folder: Path, trained: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = Path(encoder_cache.__file__).parent.parent
    copied = tmp_path / "package"
    shutil.copytree(package, copied, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(encoder_cache, "__file__", str(copied / "encoding" / "encoder_cache.py"))

    def files() -> int:
        fingerprint.of_modules.cache_clear()
        Codec(trained)
        return len(list(folder.iterdir()))

    assert files() == 1
    for number, name in enumerate(["encoding/encoder_tables.py", "encoding/workspace.py", "formats/ranked_merges.py"], start=2):
        with (copied / name).open("a") as source:
            source.write("# edited\n")
        assert files() == number


def test_nothing_is_stored_of_small_vocabularies_or_without_a_cache(
    folder: Path, trained: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = encoded(trained)
    (file,) = folder.iterdir()
    file.unlink()
    monkeypatch.setenv("BPEJIT_CACHE", "0")
    assert encoded(trained) == ids
    monkeypatch.setenv("BPEJIT_CACHE", "1")
    monkeypatch.setattr(encoder_cache, "LEAST_TOKENS", len(trained.tokens) + 1)
    assert encoded(trained) == ids
    assert not list(folder.iterdir())


def test_least_recently_used_tables_are_removed(folder: Path, trained: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    Codec(trained)
    (newest,) = folder.iterdir()
    for number in range(3):
        path = folder / f"encoder-{number:032x}.tables"
        path.write_bytes(bytes(1000))
        os.utime(path, (0, newest.stat().st_mtime - 1000 * (number + 1)))
    monkeypatch.setitem(upkeep.MAX_BYTES, folders.ENCODERS, newest.stat().st_size + 2500)
    upkeep.prune(folder.parent, folders.ENCODERS)
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [newest.name, *(f"encoder-{number:032x}.tables" for number in range(2))]
    )


def test_tokenizers_of_files_use_stored_tables(folder: Path, trained: Model, tmp_path: Path) -> None:
    import bpejit

    Tokenizer.from_model(trained).save(tmp_path / "saved")
    (file,) = folder.iterdir()
    stamp = file.stat().st_mtime_ns
    assert bpejit.load(tmp_path / "saved").encode(TEXT) == Codec(trained).encode(TEXT).tolist()
    assert [path.stat().st_mtime_ns for path in folder.iterdir()] == [stamp]


def test_nothing_is_stored_without_sources(folder: Path, trained: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = encoded(trained)
    monkeypatch.setattr(encoder_cache, "_MODULES", ("absent.py",))
    shutil.rmtree(folder)
    assert encoded(trained) == expected
    assert not folder.exists()


def test_the_modules_that_build_tables_identify_them() -> None:
    source = Path(encoder_tables.__file__).read_text(encoding="utf-8")
    imported = re.findall(r"^from bpejit\.encoding\.(\w+)", source, re.MULTILINE)
    assert imported
    assert {"encoder_tables.py", *(f"{name}.py" for name in imported)} <= {*encoder_cache._MODULES}
