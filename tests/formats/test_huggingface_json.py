"""Tests of reading `tokenizer.json`: ids equal to those of `tokenizers`, and clear errors for unsupported files."""

# ruff: noqa: RUF001 (look-alike characters are intended)

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import data_text, read_shared, small
from helpers import huggingface as hf
from helpers.strategies import PIECES, awkward_bytes
from hypothesis import given, strategies as st

from bpejit.arrays import padded_text
from bpejit.compat.model_inputs import TokenRows, apply_template
from bpejit.encoding.encoder import Encoder
from bpejit.errors import TokenizerFormatError
from bpejit.formats.folder import load_folder
from bpejit.formats.folder_writing import save_folder
from bpejit.formats.huggingface_reading import model_from_json, read_tokenizer_json
from bpejit.normalization.pipeline import TextPipeline
from bpejit.normalization.pipeline_config import TokenFlags
from bpejit.tokenizer import Tokenizer

tokenizers = pytest.importorskip("tokenizers")

FILES = ["gpt2", "olmo2_dolma2", "olmo_gpt-neox-dolma-v1_5"]
CORPORA = ["english", "code", "multilingual", "hard"]

CORPUS_BYTES = int(os.environ.get("BPEJIT_PARITY_BYTES", 4_000_000))
"""The number of bytes of each corpus to compare; whole corpora take minutes. `bpejit verify` compares whole files."""

SMALL_PIECES = [
    *("a", "b", "A", "B", "1", "2", "12", "1234", " ", " ", "  ", "-", "--", ".", "\n", "<a>", "<b>", "ab", "AB", " a ", "éa"),
    *("é", "e\u0301", "ﬁ", "中", "龥", "²", "½", "'s", "s", "\u200c", "İ", "Σ", "ſ", "\u1abf", "\u00a0", "_", "<", "\x1c"),
    *("३", "\u2028", "€", "🎉", "\r", "\u0315", "a-b", "-ba", "<a> ", " <b>\t", "Ϊ́", "각", "\u1100\u1161\u11a8"),
]
texts = st.lists(st.sampled_from(SMALL_PIECES), max_size=14).map("".join)

SMALL: dict[str, Any] = {"cache_bytes": 1 << 16, "text_bytes": 1 << 12}
"""Options of a workspace for a short text: filling the default one takes several milliseconds."""


def pair(content: dict[str, Any]) -> tuple[Encoder, Any]:
    return Encoder(model_from_json(content)), tokenizers.Tokenizer.from_str(hf.dumped(content))


def their_ids(theirs: Any, text: str) -> list[int]:
    ids: list[int] = theirs.encode(text, add_special_tokens=False).ids
    return ids


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("published")
    paths = {name: folder / f"{name}.json" for name in FILES}
    for name, path in paths.items():
        path.write_bytes(read_shared(f"vocabs/{name}.tokenizer.json"))
    return paths


# ---- equal ids ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_published_tokenizers_give_equal_ids(published, name):
    encoder = Encoder(read_tokenizer_json(published[name]))
    theirs = tokenizers.Tokenizer.from_file(str(published[name]))
    workspace = encoder.new_workspace()
    for corpus in CORPORA:
        text = read_shared(f"corpora/{corpus}.txt")[-small(150_000, 300) :].decode("utf-8", "ignore")
        assert encoder.encode(text.encode(), workspace).tolist() == their_ids(theirs, text), corpus
    for text in ("<|endoftext|>", "a <|endoftext|>  b", "   |||IP_ADDRESS|||  \n      x", "e\u0301  <|padding|>\u0301", ""):
        assert encoder.encode(text.encode(), workspace).tolist() == their_ids(theirs, text), text


@pytest.mark.slow
@pytest.mark.parity
@pytest.mark.compiled
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("corpus", CORPORA)
def test_published_tokenizers_give_equal_ids_on_large_corpora(published, name, corpus):
    encoder = Encoder(read_tokenizer_json(published[name]))
    theirs = tokenizers.Tokenizer.from_file(str(published[name]))
    text = read_shared(f"corpora/{corpus}.txt")[:CORPUS_BYTES].decode("utf-8", "ignore")
    assert np.array_equal(encoder.encode(text.encode()), np.array(their_ids(theirs, text), dtype=np.uint32))


@pytest.mark.slow
@pytest.mark.parametrize("pre_tokenizer", hf.PRE_TOKENIZERS)
def test_pipelines_give_equal_ids(pre_tokenizer):
    generator = random.Random(pre_tokenizer)
    for normalizer in hf.NORMALIZERS:
        for added in generator.sample(list(hf.ADDED), 2):
            content = hf.tokenizer_json(
                added=hf.ADDED[added],
                normalizer=hf.NORMALIZERS[normalizer],
                pre_tokenizer=hf.PRE_TOKENIZERS[pre_tokenizer],
            )
            if "strip" in normalizer and added == "stripping":
                content["added_tokens"] = [token for token in content["added_tokens"] if token["content"] != "A"]
            encoder, theirs = pair(content)
            workspace = encoder.new_workspace(**SMALL)
            for _ in range(small(12, 2)):
                text = "".join(generator.choices(SMALL_PIECES, k=generator.randrange(14)))
                wanted = their_ids(theirs, text)
                assert encoder.encode(text.encode(), workspace).tolist() == wanted, (normalizer, added, text)


MIXED = [
    ("NFC", "gpt2", "normalized"),
    ("none", "space", "stripping"),
    ("NFKC", "llama3-removed", "plain"),
    ("sequence", "falcon", "overlapping"),
    ("replace-regex", "MergedWithNext", "normalized"),
    ("none", "deepseek", "none"),
]


@pytest.fixture(scope="module", params=MIXED, ids="-".join)
def mixed(request: pytest.FixtureRequest) -> tuple[Encoder, Any]:
    normalizer, pre_tokenizer, added = request.param
    return pair(
        hf.tokenizer_json(
            added=hf.ADDED[added],
            normalizer=hf.NORMALIZERS[normalizer],
            pre_tokenizer=hf.PRE_TOKENIZERS[pre_tokenizer],
        )
    )


@given(text=texts | st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_awkward_text_has_equal_ids(mixed, text):
    encoder, theirs = mixed
    assert encoder.encode(text.encode(), encoder.new_workspace(**SMALL)).tolist() == their_ids(theirs, text)


@given(text=texts, cuts=st.lists(st.integers(0, 60), max_size=4))
def test_stream_matches_whole_text(mixed, text, cuts):
    encoder, theirs = mixed
    data = text.encode()
    stream = encoder.stream(encoder.new_workspace(**SMALL | {"text_bytes": 16}))
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    ids = [stream.feed(data[start:end]) for start, end in itertools.pairwise(bounds)]
    assert np.concatenate([*ids, stream.finish()]).tolist() == their_ids(theirs, text)


@given(data=awkward_bytes(), repeats=st.integers(1, 3))
def test_chunks_match_whole_text(mixed, data, repeats):
    encoder, _ = mixed
    data = (data + b" ab <a>12. a-") * repeats
    whole = encoder.encode(data, encoder.new_workspace(**SMALL)).tolist()
    text, stop = padded_text(data)
    splitter, workspace = encoder.splitter, encoder.new_workspace(**SMALL)
    ahead = max(4, *map(len, splitter.special_tokens), 0)
    first, ids = 0, []
    while first < stop:
        cut = splitter.find_cut(text[first:], 1, stop - first, stop - first)
        cut = stop - first if cut < 0 else cut
        end = min(cut + ahead, stop - first)
        ids += encoder.encode_chunk(text[first:], cut, end, cut == stop - first, workspace).tolist()
        first += cut
    assert ids == whole


def test_normalized_text_is_cut_into_chunks(published, tmp_path):
    tokenizer = Tokenizer.from_model(read_tokenizer_json(published["olmo_gpt-neox-dolma-v1_5"]))
    text = (
        data_text("prose.txt")[: small(200_000, 2000)].decode("utf-8", "ignore").encode()
        + "e\u0301 \u2126 ".encode()
        + data_text("cjk.txt")[: small(100_000, 900)].decode("utf-8", "ignore").encode()
    )
    (tmp_path / "text").write_bytes(text)
    report = tokenizer.encode_files([tmp_path / "text"], tmp_path / "out", chunk_bytes=small(5_000, 300), workers=1)
    ids = np.fromfile(report.path, dtype="<u2").tolist()
    assert ids == tokenizer.encode(text)
    pipeline = tokenizer._codec.encoder.splitter
    assert isinstance(pipeline, TextPipeline)
    assert pipeline.find_cut(padded_text(text)[0], 1, 500, len(text)) > 0
    assert tokenizer.decode_bytes(ids).decode() == tokenizers.normalizers.NFC().normalize_str(text.decode())


def test_bytes_that_are_not_utf8_pass_through(published):
    tokenizer = Tokenizer.from_model(read_tokenizer_json(published["gpt2"]))
    assert tokenizer.decode_bytes(tokenizer.encode(b"a\xff\xc3 b")) == b"a\xff\xc3 b"
    content = hf.tokenizer_json(normalizer=hf.NORMALIZERS["sequence"], pre_tokenizer=hf.PRE_TOKENIZERS["falcon"])
    encoder = Encoder(model_from_json(content))
    assert encoder.decode(encoder.encode(b"A\xff\xc3 b")) == b"a\xff\xc3 b"


def test_tokenizers_without_pipeline_use_fast_path(published):
    model = read_tokenizer_json(published["gpt2"])
    assert (model.pattern, model.pipeline) == ("gpt2", None)
    model = read_tokenizer_json(published["olmo2_dolma2"])
    assert (model.pattern, model.pipeline) == ("llama3", None)
    assert model.token_flags["<|extra_id_0|>"] == TokenFlags(special=False)
    model = read_tokenizer_json(published["olmo_gpt-neox-dolma-v1_5"])
    pipeline = Encoder(model).splitter
    assert isinstance(pipeline, TextPipeline)
    for text, left in (("English    text", True), ("中文", True), ("e\u0301", False)):
        assert pipeline.is_noop(text.encode()) == left
    assert read_tokenizer_json(published["gpt2"]).sha256 == read_tokenizer_json(published["gpt2"]).sha256 != model.sha256


def test_hash_covers_flags_and_pipeline():
    contents = [
        hf.tokenizer_json(normalizer=hf.NORMALIZERS[normalizer], added=(hf.added_token("<a>", lstrip=lstrip),))
        for normalizer in ("NFC", "NFD")
        for lstrip in (False, True)
    ]
    assert len({model_from_json(content).sha256 for content in contents}) == 4


# ---- the model -------------------------------------------------------------------------------------------------------


def test_old_and_new_forms_of_merges():
    content = hf.tokenizer_json()
    old = copy.deepcopy(content)
    old["model"] = {
        "vocab": content["model"]["vocab"],
        "merges": ["#version: 0.2", *(" ".join(merge) for merge in content["model"]["merges"])],
        "continuing_subword_prefix": "",
        "dropout": 0.0,
    }
    assert model_from_json(old) == model_from_json(content)
    assert (
        tokenizers.Tokenizer.from_str(hf.dumped(old)).encode("ab ab").ids
        == Encoder(model_from_json(old)).encode(b"ab ab").tolist()
    )


def test_last_occurrence_of_a_repeated_merge_wins():
    content = hf.tokenizer_json()
    content["model"]["merges"] += content["model"]["merges"][:40]
    encoder, theirs = pair(content)
    text = "ab1- .\nAsé<ab 11--.."
    assert encoder.encode(text.encode()).tolist() == their_ids(theirs, text)


def test_a_repeated_added_token_counts_once():
    content = hf.tokenizer_json(added=(hf.added_token("<x>"), hf.added_token("<y>")))
    content["added_tokens"].insert(1, dict(content["added_tokens"][0]))
    encoder, theirs = pair(content)
    assert encoder.encode(b"a<x><y>").tolist() == their_ids(theirs, "a<x><y>")


@pytest.mark.parametrize("ignore_merges", [False, True])
def test_whole_tokens_take_precedence_over_merges(ignore_merges):
    content = hf.tokenizer_json(pre_tokenizer=hf.BYTE_LEVEL, ignore_merges=ignore_merges, added=(hf.added_token("<ab>"),))
    content["model"]["vocab"]["abab1"] = 900
    content["model"]["vocab"]["<ab>"] = content["added_tokens"][0]["id"] = 901
    content["model"]["vocab"]["Ġ" * 5] = 5000
    encoder, theirs = pair(content)
    for text in ("abab1", "abab", "<ab>", "x<ab>", "     ", "ab     "):
        assert encoder.encode(text.encode()).tolist() == their_ids(theirs, text)


def test_template():
    name = {"id": "<s>", "ids": [7], "tokens": ["<s>"]}
    two = {"id": "</s>", "ids": [8, 9], "tokens": ["a", "b"]}

    def piece(token: str, type_id: int = 0) -> dict[str, Any]:
        return {"Sequence" if token in "AB" else "SpecialToken": {"id": token, "type_id": type_id}}

    processors = [
        {
            "type": "TemplateProcessing",
            "single": [piece("<s>"), piece("A")],
            "pair": [piece("<s>"), piece("B", 1), piece("</s>", 1), piece("A")],
            "special_tokens": {"<s>": name, "</s>": two},
        },
        {"type": "RobertaProcessing", "sep": ["</s>", 4], "cls": ["<s>", 5], "trim_offsets": True, "add_prefix_space": False},
        {"type": "BertProcessing", "sep": ["</s>", 4], "cls": ["<s>", 5]},
    ]
    for processor in processors:
        for wrapped in (processor, {"type": "Sequence", "processors": [hf.GPT2_LEVEL, processor]}):
            encoder, theirs = pair(hf.tokenizer_json(post_processor=wrapped))
            template = encoder.model.template
            assert template is not None
            first, second = (encoder.encode(data).tolist() for data in (b"ab", b"1 1"))
            single, both = theirs.encode("ab"), theirs.encode("ab", "1 1")
            a, b = (TokenRows({"input_ids": np.array(ids, np.uint32)}, np.array([0, len(ids)])) for ids in (first, second))
            for found, encoding in ((apply_template(template, a), single), (apply_template(template, a, b), both)):
                assert found.columns["input_ids"].tolist() == encoding.ids
                assert found.columns["token_type_ids"].tolist() == encoding.type_ids
    assert model_from_json(hf.tokenizer_json(post_processor=hf.GPT2_LEVEL)).template is None


# ---- refused files -------------------------------------------------------------------------------------------------

REFUSED = [
    *(({"normalizer": {"type": kind}}, "`normalizer`", kind) for kind in ("Nmt", "Precompiled")),
    (
        {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Nmt"}]}},
        "`normalizer.normalizers[1]`",
        "Nmt",
    ),
    (
        {"normalizer": {"type": "Sequence", "normalizers": [{"type": "ByteLevel"}, {"type": "NFC"}]}},
        "normalizers[0]",
        "ByteLevel",
    ),
    ({"normalizer": {"type": "ByteLevel"}}, "`pre_tokenizer`", "second ByteLevel"),
    ({"normalizer": {"type": "NFC", "x": 1}}, "`normalizer.x`", "unknown key"),
    *(
        ({"pre_tokenizer": hf.sequence(hf.split("a"), {"type": kind}, hf.BYTE_LEVEL)}, "`pre_tokenizer.pretokenizers[1]`", kind)
        for kind in ("CharDelimiterSplit", "UnicodeScripts", "FixedLength")
    ),
    ({"pre_tokenizer": hf.sequence(hf.BYTE_LEVEL, hf.BYTE_LEVEL)}, "pretokenizers[1]", "second ByteLevel"),
    (
        {"pre_tokenizer": hf.sequence(hf.BYTE_LEVEL, {"type": "Metaspace", "replacement": "▁"})},
        "pretokenizers[1]",
        "Metaspace after",
    ),
    ({"pre_tokenizer": hf.sequence(hf.split("a", "Random"), hf.BYTE_LEVEL)}, "pretokenizers[0].behavior", "Random"),
    ({"pre_tokenizer": hf.sequence(hf.split("\\X"), hf.BYTE_LEVEL)}, "pretokenizers[0].pattern", "\\X"),
    ({"pre_tokenizer": hf.sequence(hf.split(""), hf.BYTE_LEVEL)}, "pretokenizers[0].pattern", "empty"),
    ({"pre_tokenizer": hf.sequence({**hf.split("a"), "more": 1}, hf.BYTE_LEVEL)}, "pretokenizers[0].more", "unknown key"),
    *(({"post_processor": {"type": kind}}, "`post_processor`", kind) for kind in ("Other",)),
    *(({"decoder": {"type": kind}}, "`decoder`", kind) for kind in ("CTC", "Other")),
    ({"decoder": {"type": "Strip", "content": "ab", "start": 1, "stop": 0}}, "`decoder`", "one character"),
    ({"decoder": {"type": "Metaspace", "replacement": "ab"}}, "`decoder.replacement`", "one character"),
    *(({"model.type": kind}, "`model`", f"{kind}, not BPE") for kind in ("WordPiece", "Unigram", "WordLevel")),
    ({"model.dropout": 0.1}, "`model.dropout`", "0.1"),
    ({"model.continuing_subword_prefix": "##"}, "`model.continuing_subword_prefix`", "##"),
    ({"model.byte_fallback": True, "pre_tokenizer": None, "model.vocab.<0x0A>": 9000}, "`model.byte_fallback`", "<0x00>"),
    ({"model.cache": 1}, "`model.cache`", "unknown key"),
    ({"model.merges": [["a"]]}, "`model.merges[0]`", "two tokens"),
    ({"model.merges": ["a b c"]}, "`model.merges[0]`", "two tokens"),
    ({"model.merges": [1]}, "`model.merges[0]`", "two tokens"),
    ({"model.merges": [["a", "xyz"]]}, "`model.merges[0]`", "'xyz' is not in model.vocab"),
    ({"model.merges": [["x", "y"]]}, "`model.merges[0]`", "'xy' is not in model.vocab"),
    ({"model.vocab.a": -1}, "`model.vocab`", "-1"),
    ({"model.vocab.a": 1.5}, "`model.vocab`", "1.5"),
    ({"model.vocab.a": True}, "`model.vocab`", "True"),
    ({"version": "2.0"}, "`version`", "2.0"),
    ({"more": 1}, "`more`", "unknown key"),
    ({"added_tokens": [{"id": 3}]}, "`added_tokens[0]`", "no 'content'"),
    ({"added_tokens": [{**hf.added_token("<a>"), "id": 77_777}]}, "`added_tokens[0].id`", "tokenizers"),
    ({"added_tokens": [{**hf.added_token("a"), "id": 77_777}]}, "`added_tokens[0].id`", "tokenizers"),
    ({"added_tokens": [hf.added_token("")]}, "`added_tokens[0].content`", "''"),
    ({"added_tokens": [{**hf.added_token("<a>"), "extra": 1}]}, "`added_tokens[0].extra`", "unknown key"),
    ({"added_tokens": [{**hf.added_token("<a>"), "lstrip": 1}]}, "`added_tokens[0].lstrip`", "true or false"),
]


@pytest.mark.parametrize(("changes", "field", "named"), REFUSED)
def test_unsupported_settings_are_refused(changes, field, named, tmp_path):
    content = hf.tokenizer_json()
    for path, value in changes.items():
        *keys, last = path.split(".")
        target = content
        for key in keys:
            target = target[key]
        target[last] = value
    file = tmp_path / "tokenizer.json"
    file.write_text(hf.dumped(content), encoding="utf-8")
    with pytest.raises(TokenizerFormatError) as caught:
        read_tokenizer_json(tmp_path)
    message = str(caught.value)
    assert message.startswith(f"`{file}`: ")
    assert field in message
    assert named in message


def test_indistinguishable_added_tokens_are_refused():
    added = (hf.added_token("AB", normalized=True), hf.added_token("ab", normalized=True))
    with pytest.raises(TokenizerFormatError, match="the same when normalized"):
        model_from_json(hf.tokenizer_json(normalizer={"type": "Lowercase"}, added=added))
    blank = (hf.added_token("  ", normalized=True),)
    with pytest.raises(TokenizerFormatError, match="is empty after normalization"):
        model_from_json(hf.tokenizer_json(normalizer=hf.NORMALIZERS["strip"], added=blank))
    content = hf.tokenizer_json(added=(hf.added_token("<x>"), hf.added_token("<x>")))
    with pytest.raises(TokenizerFormatError, match=r"added_tokens\[1\]\.content"):
        model_from_json(content)
    with pytest.raises(TokenizerFormatError, match="'é'"):
        model_from_json(hf.tokenizer_json(added=(hf.added_token("é"),)))


WRONG_TYPES: list[Any] = [None, 5, "x", [1], {"type": 5}, {"a": 1}, True]


@pytest.mark.parametrize(
    "key", ["added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model", "version"]
)
def test_wrong_types_are_reported(key):
    allowed = dict.fromkeys(("normalizer", "pre_tokenizer", "post_processor", "decoder"), (None,))
    for value in WRONG_TYPES:
        if key in allowed and value in allowed[key]:
            continue
        with pytest.raises(TokenizerFormatError, match=key):
            model_from_json({**hf.tokenizer_json(), key: value})
    for inner in ("vocab", "merges", "ignore_merges", "byte_fallback", "fuse_unk"):
        with pytest.raises(TokenizerFormatError, match=rf"model\.{inner}"):
            content = hf.tokenizer_json()
            model_from_json({**content, "model": {**content["model"], inner: None}})


BROKEN = [
    (b"", "broken at line 1"),
    (b"{", "broken at line 1"),
    (b"[]", "expected an object"),
    (b"null", "expected an object"),
    (b"\xff\xfe{}", "broken at"),
    (b"\xef\xbb\xbf{}", "byte order mark"),
    (b'{"model": {}, "model": {}}', "'model' occurs twice"),
    (b'{"model": {"vocab": {"a": 0}, "vocab": {"a": 1}, "merges": []}}', "'vocab' occurs twice"),
    (b"[" * 200_000, "nested too deep"),
    (b'{"x": "' + b"a" * 10_000_000 + b'"}', "has no 'model'"),
]


@pytest.mark.parametrize(("data", "found"), BROKEN)
def test_invalid_files(data, found, tmp_path):
    file = tmp_path / "tokenizer.json"
    file.write_bytes(data)
    with pytest.raises(TokenizerFormatError) as caught:
        read_tokenizer_json(file)
    assert str(file) in str(caught.value)
    assert found in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_truncated_files(tmp_path):
    data = hf.dumped(hf.tokenizer_json(added=hf.ADDED["normalized"], normalizer=hf.NORMALIZERS["sequence"])).encode()
    file = tmp_path / "tokenizer.json"
    for size in range(0, len(data) - 1, len(data) // 60):
        file.write_bytes(data[:size])
        with pytest.raises(TokenizerFormatError, match="broken at"):
            read_tokenizer_json(file)
    with pytest.raises(TokenizerFormatError, match="no such file"):
        read_tokenizer_json(tmp_path / "missing.json")


@given(seed=st.integers(0, 10**6))
def test_changed_value_is_an_error_or_a_valid_tokenizer(seed):
    """Replace one value by any other: no other exception may be raised."""
    generator = random.Random(seed)
    content = hf.tokenizer_json(
        added=hf.ADDED["normalized"],
        normalizer=hf.NORMALIZERS["sequence"],
        pre_tokenizer=hf.PRE_TOKENIZERS["falcon"],
        post_processor={
            "type": "RobertaProcessing",
            "sep": ["a", 4],
            "cls": ["b", 5],
            "trim_offsets": True,
            "add_prefix_space": False,
        },
    )
    content = json.loads(json.dumps(content))
    target: Any = content
    while True:
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        key = generator.choice(keys)
        if not isinstance(target[key], (dict, list)) or not target[key] or generator.random() < 0.2:
            break
        target = target[key]
    target[key] = generator.choice([*WRONG_TYPES, [], {}, "", -1, 1e300, "[", "(?i)ß"])
    with contextlib.suppress(TokenizerFormatError):
        model_from_json(content)


# ---- features unavailable with a pipeline ------------------------------------------------------------------------------------


def test_some_special_tokens_only():
    content = hf.tokenizer_json(added=hf.ADDED["normalized"], normalizer=hf.NORMALIZERS["NFC"])
    tokenizer = Tokenizer.from_model(model_from_json(content))
    fewer = Tokenizer.from_model(model_from_json({**content, "added_tokens": content["added_tokens"][:1]}))
    text = "AB <a>e\u0301a a b"
    assert tokenizer.encode(text, allowed_special={"<a>"}, disallowed_special=()) == fewer.encode(text)
    assert tokenizer.encode(text) != fewer.encode(text)
    assert tokenizer.decode(tokenizer.encode("AB<a>"), skip_special_tokens=True) == "AB"


# ---- saving ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("normalizer", "pre_tokenizer", "added"), [*MIXED, ("none", "llama3", "plain")])
def test_saved_folders_restore_model_and_have_equal_ids(normalizer, pre_tokenizer, added, tmp_path):
    content = hf.tokenizer_json(
        added=hf.ADDED[added],
        normalizer=hf.NORMALIZERS[normalizer],
        pre_tokenizer=hf.PRE_TOKENIZERS[pre_tokenizer],
        post_processor={"type": "BertProcessing", "sep": ["</s>", 4], "cls": ["<s>", 5]},
    )
    model = model_from_json(content)
    assert save_folder(model, tmp_path) is None
    assert load_folder(tmp_path) == model
    assert load_folder(tmp_path).sha256 == model.sha256
    again = read_tokenizer_json(tmp_path)
    assert (again.sha256, again.token_flags, again.template) == (model.sha256, model.token_flags, model.template)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    encoder, generator = Encoder(model), random.Random(3)
    workspace = encoder.new_workspace()
    for _ in range(small(60, 5)):
        text = "".join(generator.choices(SMALL_PIECES, k=generator.randrange(14)))
        assert encoder.encode(text.encode(), workspace).tolist() == their_ids(theirs, text)


@pytest.mark.parametrize(
    ("key", "value"),
    [("preparation", {"normaliser": None}), ("token_flags", {"<a>": {"x": 1}}), ("token_flags", 5)],
)
def test_invalid_pipeline_in_folder(tmp_path, key, value):
    content = hf.tokenizer_json(added=hf.ADDED["normalized"], normalizer=hf.NORMALIZERS["NFC"])
    save_folder(model_from_json(content), tmp_path)
    own = json.loads((tmp_path / "bpejit.json").read_text())
    (tmp_path / "bpejit.json").write_text(json.dumps({**own, key: value}))
    with pytest.raises(TokenizerFormatError, match=key):
        load_folder(tmp_path)


def test_single_word_token_unsupported_by_folder(tmp_path):
    content = hf.tokenizer_json(added=(hf.added_token("<x>", single_word=True),), ignore_merges=True)
    model = model_from_json(content)
    obstacle = save_folder(model, tmp_path)
    assert obstacle is not None
    assert "'<x>'" in obstacle
    assert load_folder(tmp_path) == model
