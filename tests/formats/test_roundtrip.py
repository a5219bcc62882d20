"""Tests of round trips through every format: ids are preserved, and unsupported models are refused, never changed."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import ROOT, data_text, examples, read_shared, small
from helpers.encoding import ranked_models
from helpers.formats import TEXT, changed, grown_models, models
from helpers.strategies import awkward_bytes
from hypothesis import given, settings, strategies as st

import bpejit
from bpejit.encoding.encoder import Encoder
from bpejit.errors import BpejitError, TokenizerFormatError
from bpejit.formats.any_format import load_model, save_model
from bpejit.formats.base import writable_names
from bpejit.model import Model
from bpejit.normalization.json_fields import canonical
from bpejit.normalization.pipeline_config import PipelineConfig, TokenFlags

FORMATS = writable_names()


def path_in(folder: Path, form: str) -> Path:
    return folder / ("mine.tiktoken" if form == "tiktoken" else form)


def ids_of(model: Model, data: bytes) -> list[int] | str:
    encoder = Encoder(model)
    try:
        return encoder.encode(data, encoder.new_workspace(cache_bytes=1 << 16)).tolist()
    except BpejitError as error:
        return str(error)


any_models = st.one_of(models(), models(pattern="gpt2", reachable=True), ranked_models(), grown_models())


@examples(1.2)
@given(any_models, st.lists(st.one_of(TEXT.map(str.encode), awkward_bytes(6)), max_size=3), st.sampled_from(FORMATS))
def test_random_models(tmp_path_factory: pytest.TempPathFactory, model: Model, texts: list[bytes], form: str) -> None:
    path = path_in(tmp_path_factory.mktemp("model"), form)
    try:
        save_model(model, path, format=form)
    except TokenizerFormatError as error:
        assert form != "bpejit"
        assert "cannot be written" in str(error)  # noqa: PT017
        assert not path.exists()
        return
    loaded = load_model(path)
    assert loaded.special_tokens == model.special_tokens
    assert loaded.vocab == model.vocab
    if model.vocab_size > 1 << 20:
        return
    for text in texts:
        assert ids_of(loaded, text) == ids_of(model, text)
    if form in ("bpejit", "hf"):
        assert loaded == model


@pytest.mark.slow
def test_some_random_models_are_supported_by_every_format(tmp_path: Path) -> None:
    """Check that the test above does not consist of refusals only."""
    written = dict.fromkeys(FORMATS, 0)

    @settings(max_examples=small(60, 30), database=None, derandomize=True)
    @given(any_models)
    def count(model: Model) -> None:
        folder = tmp_path / str(sum(written.values()) + len(list(tmp_path.iterdir())))
        folder.mkdir()
        for form in FORMATS:
            with suppress(TokenizerFormatError):
                save_model(model, path_in(folder, form), format=form)
                written[form] += 1

    count()
    assert min(written.values()) >= 3, written


CORPORA = ["english", "code", "multilingual", "hard"]

PUBLISHED = {"r50k_base": FORMATS, "p50k_base": FORMATS, "cl100k_base": FORMATS[:3], "o200k_base": FORMATS[:3]}
LARGE = [pytest.param(name, marks=[pytest.mark.slow, pytest.mark.parity]) for name in ("p50k_base", "o200k_base")]
"""p50k_base has r50k_base's pattern, and o200k_base cl100k_base's formats, with twice its tokens."""


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["r50k_base", "cl100k_base", *LARGE])
def test_published_vocabularies(tmp_path: Path, name: str) -> None:
    """Convert from format to format in a chain, and compare ids of samples after each step."""
    source = tmp_path / f"{name}.tiktoken"
    source.write_bytes(read_shared(f"vocabs/{name}.tiktoken"))
    original = bpejit.load(source)
    texts = [read_shared(f"corpora/{corpus}.txt")[:100_000] + b"<|endoftext|>" for corpus in CORPORA]
    texts.append(read_shared("corpora/hard_bytes.bin")[:100_000])
    expected = [original.encode_array(text).tolist() for text in texts]
    tokenizer = original
    for form in PUBLISHED[name]:
        path = path_in(tmp_path, form)
        assert tokenizer.save(path, format=form) is None
        tokenizer = bpejit.load(path)
        assert [tokenizer.encode_array(text).tolist() for text in texts] == expected, form
        assert tokenizer.special_tokens == original.special_tokens
        assert (form == "gpt2") == (tokenizer.sha256 != original.sha256), "the pair holds merges, the others ranks"
    if "gpt2" not in PUBLISHED[name]:
        with pytest.raises(TokenizerFormatError, match="does not split by the pattern `gpt2`"):
            tokenizer.save(tmp_path / "gpt2", format="gpt2")


@pytest.mark.compiled
@pytest.mark.parametrize("pattern", ["gpt2", "o200k", r"\p{L}+|\p{N}{1,3}", r"(?i:don't)|\S+|\s+"])
def test_trained_tokenizers(tmp_path: Path, pattern: str) -> None:
    names = ("prose.txt", "code.txt", "cjk.txt")
    files = [ROOT / "tests" / "data" / name for name in names]
    original = bpejit.train(files, vocab_size=2000, pattern=pattern, special_tokens=["<|end|>", "é<x>"], workers=1)
    texts = [data_text(name)[:60_000] + "<|end|>é<x>".encode() for name in (*names, "awkward.bin")]
    expected = [original.encode_array(text).tolist() for text in texts]
    for form in FORMATS:
        path = path_in(tmp_path, form)
        if form == "gpt2" and pattern != "gpt2":
            continue
        assert original.save(path, format=form) is None
        assert [bpejit.load(path).encode_array(text).tolist() for text in texts] == expected, form


# ---- tokenizers of Hugging Face with pipelines


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["gpt2", "olmo2_dolma2", "olmo_gpt-neox-dolma-v1_5"])
def test_tokenizers_of_hugging_face(tmp_path: Path, name: str) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    source = tmp_path / "tokenizer.json"
    source.write_bytes(read_shared(f"vocabs/{name}.tokenizer.json"))
    original = bpejit.load(source)
    texts = [read_shared(f"corpora/{corpus}.txt")[:60_000].decode("utf-8", "ignore") for corpus in CORPORA]
    texts.append("e\u0301 \u212b  <|endoftext|>   x |||IP_ADDRESS|||\n    indented" + " " * 30)
    expected = [original.encode(text) for text in texts]
    for form in ("bpejit", "hf"):
        assert original.save(tmp_path / form, format=form) is None
        again = bpejit.load(tmp_path / form)
        assert again.model == original.model
        assert again.sha256 == original.sha256
        assert [again.encode(text) for text in texts] == expected
    # The package reads the written file alike, and so does bpejit without its own file.
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "hf" / "tokenizer.json"))
    assert [theirs.encode(text, add_special_tokens=False).ids for text in texts] == expected
    (tmp_path / "hf" / "bpejit.json").unlink()
    assert bpejit.load(tmp_path / "hf").sha256 == original.sha256
    if original.model.pipeline is not None:
        with pytest.raises(TokenizerFormatError, match="cannot be written for tiktoken: it normalizes text"):
            original.save(tmp_path / "mine.tiktoken", format="tiktoken")
    elif name == "olmo2_dolma2":
        original.save(tmp_path / "mine.tiktoken", format="tiktoken")
        assert [bpejit.load(tmp_path / "mine.tiktoken").encode(text) for text in texts] == expected


def test_pipeline_flags_and_template_are_preserved(tmp_path: Path) -> None:
    flags = {"<a>": TokenFlags(special=False, lstrip=True), "<b>": TokenFlags(normalized=True, single_word=True)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    model = Model(
        {byte: bytes([byte]) for byte in range(256)},
        [],
        {"<a>": 256, "<b>": 257, "<c>": 258},
        pipeline=PipelineConfig(canonical({"type": "NFC"}), canonical(byte_level)),
        token_flags=flags,
        post_processor=canonical({**byte_level, "add_prefix_space": False}),
    )
    assert save_model(model, tmp_path / "own") is None
    loaded = load_model(tmp_path / "own")
    assert loaded == model
    assert loaded.sha256 == model.sha256
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "own" / "tokenizer.json"))
    for text in ("e\u0301 <a> x<b>y <b> <c>", "", " x"):
        assert theirs.encode(text, add_special_tokens=False).ids == ids_of(loaded, text.encode())
    # transformers 4 changes the pre-tokenizer by this setting.
    assert json.loads((tmp_path / "own" / "tokenizer_config.json").read_bytes())["add_prefix_space"] is True
    own = json.loads((tmp_path / "own" / "bpejit.json").read_bytes())
    assert own["format_version"] == 2
    for path, new, message in (
        (("preparation",), 5, "preparation is 5; expected an object or null"),
        (("preparation", "normalizer"), ..., "preparation is {'pre_tokenizer'"),
        (("token_flags",), [], "token_flags is []; expected an object"),
        (("token_flags", "<a>"), {}, "token_flags.'<a>' has no 'special'"),
        (("token_flags", "<a>", "lstrip"), 1, "token_flags.'<a>'.lstrip is 1; expected true or false"),
        (("token_flags", "<z>"), flags["<a>"]._asdict(), "which is not a special token"),
        (("preparation", "normalizer"), {"type": "NFD"}, "was changed after bpejit wrote it"),
    ):
        (tmp_path / "own" / "bpejit.json").write_text(json.dumps(changed(own, path, new)))
        with pytest.raises(TokenizerFormatError, match=re.escape(message)):
            load_model(tmp_path / "own")
