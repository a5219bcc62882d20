"""Tests of parsed vocabularies on disk: the models equal parsed ones, and no damaged or changed file changes a model."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest
from conftest import data_text

from bpejit import train
from bpejit.errors import TokenizerFormatError
from bpejit.formats import folder, huggingface_reading, vocabulary_arrays
from bpejit.formats.folder import load_folder
from bpejit.formats.folder_writing import save_folder
from bpejit.formats.huggingface_reading import read_tokenizer_json
from bpejit.jit import folders
from bpejit.model import Model
from bpejit.normalization.pipeline_config import PipelineConfig
from bpejit.packed_tokens import PackedMerges, PackedTokens
from bpejit.splitting.pattern import register_preset, unregister_preset


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Model:
    file = tmp_path_factory.mktemp("corpus") / "text.txt"
    file.write_bytes(data_text("prose.txt")[:20_000] + data_text("cjk.txt")[:5000])
    return train([file], vocab_size=400, special_tokens=["<|end|>", "é\udcff"], workers=1).model


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the empty folder for tables."""
    folder = tmp_path / "cache" / folders.ENCODERS
    folder.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("BPEJIT_CACHE_DIR", str(folder.parent))
    monkeypatch.setenv("BPEJIT_CACHE", "1")
    monkeypatch.setattr(vocabulary_arrays, "LEAST_TOKENS", 300)
    return folder


def check_equal(found: Model, expected: Model) -> None:
    for field in fields(Model):
        assert getattr(found, field.name) == getattr(expected, field.name), field.name
    assert found == expected
    assert expected == found
    assert (found.sha256, found.vocab, found.ids) == (expected.sha256, expected.vocab, expected.ids)
    assert list(found.tokens.items()) == list(expected.tokens.items())
    assert list(found.special_tokens.items()) == list(expected.special_tokens.items())
    del vars(found)["sha256"]
    assert found.sha256 == expected.sha256


def from_tokenizer_json(model: Model, folder: Path) -> Model:
    """Return a model with the sections of a file, and a pipeline."""
    lowercase = PipelineConfig(
        '{"type": "Lowercase"}', '{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}'
    )
    save_folder(replace(model, special_tokens={"<|end|>": model.vocab_size}, pipeline=lowercase), folder)
    return read_tokenizer_json(folder)


@pytest.mark.parametrize("kind", ["merges", "no counts", "ranked", "ignore_merges", "sequence", "from tokenizer.json"])
def test_stored_model_equals_parsed_one(
    kind: str, trained: Model, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = {
        "merges": lambda: trained,
        "no counts": lambda: replace(trained, merge_counts=None),
        "ranked": lambda: replace(trained, merges=[], merge_counts=None, ranked=True),
        "ignore_merges": lambda: replace(trained, ignore_merges=True),
        "sequence": lambda: replace(trained, pattern=(r"\p{N}{1,3}", "gpt2")),
        "from tokenizer.json": lambda: from_tokenizer_json(trained, tmp_path / "source"),
    }[kind]()
    save_folder(model, tmp_path / "saved")
    before = {*cache.iterdir()}
    parsed = load_folder(tmp_path / "saved")
    (file,) = {*cache.iterdir()} - before
    stamp = file.stat().st_mtime_ns
    monkeypatch.setattr(folder, "_parse", None)  # not called
    stored = load_folder(tmp_path / "saved")
    assert isinstance(stored.tokens, PackedTokens)
    assert isinstance(stored.merges, PackedMerges)
    check_equal(stored, parsed)
    other = load_folder(tmp_path / "saved", unicode="15.0")
    check_equal(other, replace(parsed, unicode="15.0"))
    check_equal(pickle.loads(pickle.dumps(load_folder(tmp_path / "saved"))), parsed)
    assert file.stat().st_mtime_ns == stamp


def test_merges_are_a_sequence_like_a_tuple(trained: Model, cache: Path, tmp_path: Path) -> None:
    save_folder(trained, tmp_path / "saved")
    load_folder(tmp_path / "saved")
    merges = load_folder(tmp_path / "saved").merges
    expected = tuple(trained.merges)
    assert (len(merges), tuple(merges), repr(merges), hash(merges)) == (len(expected), expected, repr(expected), hash(expected))
    assert (merges[3], merges[-1], merges[2:5]) == (expected[3], expected[-1], expected[2:5])
    assert merges == expected == merges == load_folder(tmp_path / "saved").merges
    assert merges != expected[1:]
    assert expected[1:] != merges
    assert merges != list(expected)  # as a tuple
    assert pickle.loads(pickle.dumps(merges)) == merges


def flipped(at: float) -> Callable[[bytes], bytes]:
    def damage(data: bytes) -> bytes:
        index = int(at * (len(data) - 1))
        return data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        *(pytest.param(flipped(at), id=f"flip at {at}") for at in (0, 0.001, 0.1, 0.5, 0.999, 1)),
        *(pytest.param(lambda data, at=at: data[: int(at * len(data))], id=f"cut at {at}") for at in (0, 0.3, 0.99999)),
        pytest.param(lambda data: data + b"\0", id="longer"),
        pytest.param(lambda data: bytes(len(data)), id="zeros"),
    ],
)
def test_damaged_file_is_ignored_and_written_again(
    damage: Callable[[bytes], bytes], trained: Model, cache: Path, tmp_path: Path
) -> None:
    save_folder(trained, tmp_path / "saved")
    expected = load_folder(tmp_path / "saved")
    (file,) = cache.iterdir()
    good = file.read_bytes()
    file.write_bytes(damage(good))
    assert load_folder(tmp_path / "saved") == expected
    assert file.read_bytes() == good


def test_changed_folder_is_refused(trained: Model, cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    model = replace(trained, special_tokens={"<|end|>": trained.vocab_size})
    save_folder(model, folder)
    load_folder(folder)
    contents = {name: (folder / name).read_bytes() for name in ("bpejit.json", "tokenizer.json")}
    (folder / "tokenizer.json").write_bytes(contents["tokenizer.json"] + b"\n")
    with pytest.raises(TokenizerFormatError, match="was changed after bpejit wrote it: its SHA-256"):
        load_folder(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(TokenizerFormatError, match="there is no such file"):
        load_folder(folder)
    (folder / "tokenizer.json").write_bytes(contents["tokenizer.json"])
    (folder / "bpejit.json").write_bytes(contents["bpejit.json"].replace(b'"ignore_merges": false', b'"ignore_merges": true'))
    with pytest.raises(TokenizerFormatError, match="the SHA-256 of the tokenizer is"):
        load_folder(folder)
    (folder / "bpejit.json").write_bytes(contents["bpejit.json"])
    assert load_folder(folder) == model
    assert len(list(cache.iterdir())) == 1


def test_name_of_a_preset_depends_on_the_process(trained: Model, cache: Path, tmp_path: Path) -> None:
    register_preset("mine", r"\w+|\W")
    try:
        save_folder(replace(trained, pattern="mine"), tmp_path / "saved")
        assert [load_folder(tmp_path / "saved").pattern for _ in range(2)] == ["mine", "mine"]
    finally:
        unregister_preset("mine")
    assert load_folder(tmp_path / "saved").pattern == r"\w+|\W"
    assert len(list(cache.iterdir())) == 1


def test_version_of_unicode_is_checked(trained: Model, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another `regex` package may support other versions, so it is part of the name."""
    save_folder(trained, tmp_path / "saved")
    load_folder(tmp_path / "saved")
    monkeypatch.setattr(vocabulary_arrays, "describe_engine", lambda: "another")
    monkeypatch.setattr("bpejit.splitting.unicode_versions.installed_unicode", lambda: "15.0")
    with pytest.raises(TokenizerFormatError, match="Unicode"):
        load_folder(tmp_path / "saved")


def test_nothing_is_stored_of_small_vocabularies_or_without_a_cache(
    trained: Model, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_folder(trained, tmp_path / "saved")
    monkeypatch.setenv("BPEJIT_CACHE", "0")
    assert load_folder(tmp_path / "saved") == trained
    monkeypatch.setenv("BPEJIT_CACHE", "1")
    monkeypatch.setattr(vocabulary_arrays, "LEAST_TOKENS", len(trained.tokens) + 1)
    assert load_folder(tmp_path / "saved") == trained
    assert not list(cache.iterdir())


def test_nothing_is_stored_without_sources(
    trained: Model, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_folder(trained, tmp_path / "saved")
    monkeypatch.setattr(vocabulary_arrays, "_MODULES", ("absent.py",))
    assert load_folder(tmp_path / "saved") == trained
    assert not list(cache.iterdir())


def test_file_that_changes_while_it_is_read_is_stored_as_what_was_read(
    trained: Model, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = replace(trained, special_tokens={"<|end|>": trained.vocab_size})
    save_folder(trained, tmp_path / "one")
    save_folder(replace(trained, special_tokens={"<|other|>": trained.vocab_size}), tmp_path / "other")
    file = tmp_path / "one" / "tokenizer.json"
    content, changed = file.read_bytes(), (tmp_path / "other" / "tokenizer.json").read_bytes()

    def read(path: Path) -> bytes:
        assert path == file
        file.write_bytes(changed)
        return changed

    with monkeypatch.context() as patch:
        patch.setattr(huggingface_reading, "read_tokenizer_file", read)
        assert [*read_tokenizer_json(file).special_tokens] == ["<|other|>"]
    file.write_bytes(content)
    assert read_tokenizer_json(file).special_tokens == trained.special_tokens
    assert any(cache.iterdir())
