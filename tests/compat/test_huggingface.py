"""`as_hf` against `transformers.PreTrainedTokenizerFast` on the folder that `save` writes, and on GPT-2's own file."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_helpers as hf
import numpy as np
import pytest
from cli_helpers import ENVIRONMENT
from conftest import data_text, read_shared, small
from face_helpers import CHAT, END, listed_tokenizer, pieces
from hypothesis import assume, given
from hypothesis import strategies as st

import bpejit
from bpejit.compat.huggingface import HuggingFaceTokenizer
from bpejit.compat.template_rows import added_ids, apply_template, surround
from bpejit.formats.huggingface_reading import model_from_json, read_tokenizer_json
from bpejit.normalization.post_processor import Piece, Template

NAMES = {"bos_token": "<s>", "eos_token": END, "pad_token": "<|im_end|>"}

AROUND = [(False, False), (True, False), (True, True)]
"""Whether bos and eos are put around texts."""

texts = st.lists(pieces, max_size=8).map("".join).map(lambda text: text.encode("utf-8", "ignore").decode())


@pytest.fixture(scope="session")
def transformers() -> Any:
    """The package, where it is installed. It warns about other packages that it would like."""
    pytest.importorskip("tokenizers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "tokenizer"
    listed_tokenizer().save(folder)
    return folder


def make(transformers: Any, saved: Path, **options: Any) -> tuple[HuggingFaceTokenizer, Any]:
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(saved / "tokenizer.json"), **options)
    return listed_tokenizer().as_hf(**options), theirs


@pytest.fixture(scope="module", params=AROUND, ids=["plain", "bos", "both"])
def both(request: pytest.FixtureRequest, transformers: Any, saved: Path) -> tuple[HuggingFaceTokenizer, Any]:
    """Ours and theirs, of several templates; one has a greatest length, and one works from the left."""
    bos, eos = request.param
    options = {**NAMES, "add_bos_token": bos, "add_eos_token": eos}
    if bos:
        options["model_max_length"] = 9
    if eos:
        options |= {"padding_side": "left", "truncation_side": "left"}
    return make(transformers, saved, **options)


def plain(value: Any) -> Any:
    """Arrays and tuples as lists, so that results compare."""
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "items"):
        return {key: plain(item) for key, item in value.items()}
    return value


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or "error". Theirs may be a bare Exception, and rows of several lengths an array of objects."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = call()
        except Exception as error:
            if type(error).__module__ == "builtins" and not isinstance(error, ValueError) and type(error) is not Exception:
                raise
            return "error"
    ragged = hasattr(found, "items") and any(getattr(value, "dtype", None) == np.dtype(object) for value in found.values())
    return "error" if ragged else plain(found)


options = st.fixed_dictionaries(
    {},
    optional={
        "padding": st.sampled_from([True, False, "longest", "max_length", "do_not_pad"]),
        "truncation": st.sampled_from([True, False, None, "longest_first", "only_first", "only_second", "do_not_truncate"]),
        "max_length": st.integers(4, 12),  # `tokenizers` cuts nothing where the template alone is longer; ours is an error
        "pad_to_multiple_of": st.sampled_from([2, 4, 5]),
        "padding_side": st.sampled_from(["left", "right"]),
        "add_special_tokens": st.booleans(),
        "return_attention_mask": st.booleans(),
        "return_token_type_ids": st.booleans(),
        "return_special_tokens_mask": st.booleans(),
        "return_offsets_mapping": st.booleans(),
        "return_length": st.booleans(),
        "return_tensors": st.sampled_from([None, "np"]),
        "split_special_tokens": st.booleans(),
    },
)


@given(text=texts, pair=st.one_of(st.none(), texts), options=options)
def test_call__one_text(text: str, pair: str | None, options: dict[str, Any], both: tuple[HuggingFaceTokenizer, Any]) -> None:
    ours, theirs = both
    expected = outcome(lambda: theirs(text, pair, **options))
    assert outcome(lambda: ours(text, pair, **options)) == expected
    if expected != "error":
        assert list(ours(text, pair, **options)) == list(expected)


@given(rows=st.lists(st.tuples(texts, texts), min_size=1, max_size=4), paired=st.booleans(), options=options)
def test_call__a_batch(
    rows: list[tuple[str, str]], paired: bool, options: dict[str, Any], both: tuple[HuggingFaceTokenizer, Any]
) -> None:
    ours, theirs = both
    arguments = [list(column) for column in zip(*rows, strict=True)][: 2 if paired else 1]
    assert outcome(lambda: ours(*arguments, **options)) == outcome(lambda: theirs(*arguments, **options))


@given(text=texts, options=options)
def test_encode_and_tokenize(text: str, options: dict[str, Any], both: tuple[HuggingFaceTokenizer, Any]) -> None:
    ours, theirs = both
    assert outcome(lambda: ours.encode(text, **options)) == outcome(lambda: theirs.encode(text, **options))
    assert ours.tokenize(text) == theirs.tokenize(text)
    assert ours.tokenize(text, add_special_tokens=True) == theirs.tokenize(text, add_special_tokens=True)


@given(text=texts, skip=st.booleans())
def test_decode(text: str, skip: bool, both: tuple[HuggingFaceTokenizer, Any]) -> None:
    ours, theirs = both
    ids = theirs.encode(text)
    for cut in (ids, ids[1:], np.array(ids, np.int64), tuple(ids)):
        assert ours.decode(cut, skip_special_tokens=skip) == theirs.decode(cut, skip_special_tokens=skip)
    assert ours.batch_decode([ids, ids[:-1]], skip) == theirs.batch_decode([ids, ids[:-1]], skip)
    tokens = theirs.convert_ids_to_tokens(ids, skip_special_tokens=skip)
    assert ours.convert_ids_to_tokens(ids, skip_special_tokens=skip) == tokens
    assert ours.convert_tokens_to_ids(tokens) == theirs.convert_tokens_to_ids(tokens)
    assert ours.convert_tokens_to_string(tokens) == theirs.convert_tokens_to_string(tokens)
    mask = theirs.get_special_tokens_mask(ids, already_has_special_tokens=True)
    assert ours.get_special_tokens_mask(ids, already_has_special_tokens=True) == mask


@given(ids=st.lists(st.integers(0, 255), max_size=20))
def test_decode__any_bytes(ids: list[int], both: tuple[HuggingFaceTokenizer, Any]) -> None:
    ours, theirs = both
    assert ours.decode(ids) == theirs.decode(ids)


def test_decode__what_it_takes(both: tuple[HuggingFaceTokenizer, Any]) -> None:
    ours, theirs = both
    ids = theirs.encode("some text")
    table = np.array([ids, ids])
    for value in (65, [ids, ids], table, [np.array(ids)], {"input_ids": ids}, []):
        assert ours.decode(value) == theirs.decode(value)
    assert ours.decode(ids, clean_up_tokenization_spaces=False) == theirs.decode(ids, clean_up_tokenization_spaces=False)
    assert ours.batch_decode(table) == theirs.batch_decode(table)
    with pytest.raises(bpejit.TokenIdError, match="no token with id 99999"):
        ours.decode([99999])


@given(rows=st.lists(texts, min_size=1, max_size=4), options=options, as_dicts=st.booleans(), arrays=st.booleans())
def test_pad(
    rows: list[str], options: dict[str, Any], as_dicts: bool, arrays: bool, both: tuple[HuggingFaceTokenizer, Any]
) -> None:
    ours, theirs = both
    kept = ("padding", "max_length", "pad_to_multiple_of", "padding_side", "return_attention_mask", "return_tensors")
    options = {name: options[name] for name in kept if name in options}
    if options.get("max_length"):
        options["max_length"] += 300  # `pad` of transformers breaks where a row is longer
    encoded: Any = theirs(rows, return_special_tokens_mask=True, return_token_type_ids=True)
    columns = {name: [np.array(row) for row in rows] if arrays else rows for name, rows in encoded.items()}
    if as_dicts:
        columns = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]  # type: ignore[assignment]
    assert outcome(lambda: ours.pad(copy.deepcopy(columns), **options)) == outcome(
        lambda: theirs.pad(copy.deepcopy(columns), **options)
    )


def test_pad__one_row(both: tuple[HuggingFaceTokenizer, Any]) -> None:
    ours, theirs = both
    row = {"input_ids": [1, 2, 3]}
    for options in ({}, {"padding": "max_length", "max_length": 5}, {"pad_to_multiple_of": 4}, {"padding": False}):
        assert plain(ours.pad(dict(row), **options)) == plain(theirs.pad(dict(row), **options))


def test_what_it_is(both: tuple[HuggingFaceTokenizer, Any]) -> None:
    ours, theirs = both
    for name in (
        *(
            f"{name}{suffix}"
            for name in ("bos_token", "eos_token", "pad_token", "unk_token", "mask_token")
            for suffix in ("", "_id")
        ),
        *("all_special_tokens", "all_special_ids", "special_tokens_map", "model_max_length", "is_fast", "name_or_path"),
        *("vocab_size", "padding_side", "truncation_side", "model_input_names", "pad_token_type_id", "extra_special_tokens"),
        *("add_bos_token", "add_eos_token", "clean_up_tokenization_spaces", "split_special_tokens", "vocab"),
    ):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert len(ours) == len(theirs)
    assert bool(ours)
    assert ours.get_vocab() == theirs.get_vocab()
    assert ours.get_added_vocab() == theirs.get_added_vocab()
    for pair in (False, True):
        assert ours.num_special_tokens_to_add(pair) == theirs.num_special_tokens_to_add(pair)
    for token in ("a", "Ġthe", END, "nothing", ""):
        assert ours.convert_tokens_to_ids(token) == theirs.convert_tokens_to_ids(token)
    for number in (0, 300, ours.eos_token_id, 10**6):
        assert ours.convert_ids_to_tokens(number) == theirs.convert_ids_to_tokens(number)


def test_named_tokens_may_be_set(transformers: Any, saved: Path) -> None:
    for face in make(transformers, saved):
        assert face.pad_token is None
        assert face.pad_token_id is None
        face.pad_token = END
        assert face.pad_token_id == face.convert_tokens_to_ids(END)
        face.bos_token_id = face.convert_tokens_to_ids("<s>")
        assert face.bos_token == "<s>"
        assert face.add_special_tokens({"unk_token": "<|im_start|>", "extra_special_tokens": ["<|im_end|>"]}) == 0
        assert face.convert_tokens_to_ids("nothing") == face.unk_token_id
        assert face.all_special_tokens[-1] == "<|im_end|>"
        face.add_bos_token = True
        assert face.encode("a") == [face.bos_token_id, 97] or face.encode("a")[0] == face.bos_token_id
        face.pad_token = None
        with pytest.raises(ValueError, match="pad"):
            face(["a", "b c"], padding=True)


def test_targets(both: tuple[HuggingFaceTokenizer, Any]) -> None:
    ours, theirs = both
    assert plain(ours("a b", text_target="c d")) == plain(theirs("a b", text_target="c d"))
    assert plain(ours(text_target=["c d"])) == plain(theirs(text_target=["c d"]))


@pytest.mark.parametrize("name", ["prose.txt", "cjk.txt", "code.txt"])
def test_real_text(name: str, both: tuple[HuggingFaceTokenizer, Any]) -> None:
    ours, theirs = both
    lines = data_text(name)[: small(60_000, 2_000)].decode("utf-8", "ignore").splitlines(keepends=True)
    options = {"padding": True, "truncation": True, "max_length": 64, "return_offsets_mapping": True}
    assert plain(ours(lines, **options)) == plain(theirs(lines, **options))


@pytest.mark.compiled
def test_gpt2(transformers: Any, shared_data: Path, tmp_path: Path) -> None:
    """Against GPT-2's own tokenizer.json, which is written in another way than ours."""
    path = tmp_path / "tokenizer.json"
    path.write_bytes(read_shared("vocabs/gpt2.tokenizer.json"))
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path), eos_token=END, pad_token=END, model_max_length=1024)
    folder = shared_data / "cs336"
    tokenizer = bpejit.Tokenizer.from_files(folder / "gpt2_vocab.json", folder / "gpt2_merges.txt", [END])
    ours = tokenizer.as_hf(pad_token=END, model_max_length=1024)
    assert (ours.vocab_size, len(ours)) == (theirs.vocab_size, len(theirs))
    assert ours.get_vocab() == theirs.get_vocab()
    for corpus in ("multilingual", "code", "hard"):
        rows = read_shared(f"corpora/{corpus}.txt")[:200_000].decode("utf-8", "ignore").split("\n\n")
        rows = [f"{row}{END}" for row in rows if row]
        options = {"padding": True, "truncation": True, "return_offsets_mapping": True, "return_tensors": "np"}
        expected, found = theirs(rows, **options), ours(rows, **options)
        for key in expected:
            assert np.array_equal(found[key], expected[key]), key
        ids = [row[mask == 1] for row, mask in zip(found.input_ids, found.attention_mask, strict=True)]
        assert ours.batch_decode(ids, skip_special_tokens=True) == theirs.batch_decode(ids, skip_special_tokens=True)


def test_save_pretrained(transformers: Any, tmp_path: Path) -> None:
    lengths = {"model_max_length": 20, "padding_side": "left"}
    ours = listed_tokenizer().as_hf(**NAMES, **lengths, extra_special_tokens=["<|im_start|>"])
    files = ours.save_pretrained(tmp_path / "saved")
    assert {Path(file).name for file in files} >= {"tokenizer.json", "tokenizer_config.json"}
    theirs = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path / "saved")
    rows = ["one two", "three", "four " * 40]
    options = {"padding": True, "truncation": True}
    assert plain(ours(rows, **options)) == plain(theirs(rows, **options))
    assert ours.all_special_tokens == theirs.all_special_tokens
    assert ours.special_tokens_map == theirs.special_tokens_map
    assert (ours.padding_side, ours.model_max_length) == (theirs.padding_side, theirs.model_max_length)
    assert bpejit.load(tmp_path / "saved").model == listed_tokenizer().model
    with pytest.raises(bpejit.UnsupportedError, match="the template adds <s> to each text"):
        listed_tokenizer().as_hf(**NAMES, add_bos_token=True).save_pretrained(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_data_collators(transformers: Any) -> None:
    ours = listed_tokenizer().as_hf(**NAMES)
    rows = [dict(ours(text)) for text in ("one two three", "four")]
    plain_rows = transformers.DataCollatorWithPadding(ours, return_tensors="np")(copy.deepcopy(rows))
    assert plain_rows["input_ids"].shape == plain_rows["attention_mask"].shape
    assert plain_rows["attention_mask"].sum() == sum(len(row["input_ids"]) for row in rows)
    collate = transformers.DataCollatorForLanguageModeling(ours, mlm=False, return_tensors="np")
    batch = collate(copy.deepcopy(rows))
    assert (batch["labels"] == np.where(batch["input_ids"] == ours.pad_token_id, -100, batch["input_ids"])).all()


# ---- tokenizers alone, which transformers is built on ------------------------------------------------------------------


@given(
    rows=st.lists(st.tuples(texts, texts), min_size=1, max_size=4),
    paired=st.booleans(),
    max_length=st.integers(4, 12),
    strategy=st.sampled_from(["longest_first", "only_first", "only_second"]),
    sides=st.tuples(st.sampled_from(["left", "right"]), st.sampled_from(["left", "right"])),
    multiple=st.sampled_from([None, 4]),
)
def test_tokenizers(
    rows: list[tuple[str, str]],
    paired: bool,
    max_length: int,
    strategy: str,
    sides: tuple[str, str],
    multiple: int | None,
    saved: Path,
) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer.from_file(str(saved / "tokenizer.json"))
    specials = listed_tokenizer().special_tokens
    theirs.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s>:0 $A:0", pair="<s>:0 $A:0 <s>:1 $B:1", special_tokens=[("<s>", specials["<s>"])]
    )
    theirs.enable_truncation(max_length, strategy=strategy, direction=sides[0])
    theirs.enable_padding(direction=sides[1], pad_id=specials[END], pad_token=END, pad_to_multiple_of=multiple)
    ours = listed_tokenizer().as_hf(
        bos_token="<s>", pad_token=END, add_bos_token=True, truncation_side=sides[0], padding_side=sides[1]
    )
    columns = [list(column) for column in zip(*rows, strict=True)][: 2 if paired else 1]

    def expected() -> dict[str, list[Any]]:
        found = theirs.encode_batch(rows if paired else columns[0])
        return {
            "input_ids": [row.ids for row in found],
            "token_type_ids": [row.type_ids for row in found],
            "attention_mask": [row.attention_mask for row in found],
            "special_tokens_mask": [row.special_tokens_mask for row in found],
            "offset_mapping": [row.offsets for row in found],
        }

    options = dict.fromkeys(("return_token_type_ids", "return_special_tokens_mask", "return_offsets_mapping"), True)
    if multiple and max_length % multiple:
        return  # transformers refuses these together
    found = outcome(
        lambda: ours(*columns, truncation=strategy, max_length=max_length, padding=True, pad_to_multiple_of=multiple, **options)
    )
    assert found == outcome(expected)


# ---- without transformers ----------------------------------------------------------------------------------------------


@pytest.fixture
def face() -> HuggingFaceTokenizer:
    return listed_tokenizer().as_hf(**NAMES)


def test_ids_are_those_of_encode(face: HuggingFaceTokenizer) -> None:
    text = f"one two{END}"
    assert face(text).input_ids == face.encode(text) == listed_tokenizer().encode(text)
    batch = face([text, "a"], padding=True, return_tensors="np")
    assert batch.input_ids.dtype == np.int64
    assert batch["input_ids"][1].tolist() == [97] + [face.pad_token_id] * (batch.input_ids.shape[1] - 1)


def test_the_default_end_token() -> None:
    assert listed_tokenizer().as_hf().eos_token == END
    assert bpejit.Tokenizer({byte: bytes([byte]) for byte in range(256)}, []).as_hf().eos_token is None


def test_template() -> None:
    bos, eos, first, second = Piece((7,)), Piece((8, 9), type_id=2), Piece(text="A"), Piece(text="B", type_id=1)
    template = Template((bos, first, eos), (first, bos, second))
    one, two = ([1, 2], [(0, 1), (1, 3)]), ([3], [(0, 4)])
    assert apply_template(template, one)._asdict() == {
        "ids": [7, 1, 2, 8, 9],
        "types": [0, 0, 0, 2, 2],
        "special": [1, 0, 0, 1, 1],
        "offsets": [(0, 0), (0, 1), (1, 3), (0, 0), (0, 0)],
    }
    assert apply_template(template, one, two).ids == [1, 2, 7, 3]
    assert (added_ids(template), added_ids(template, pair=True)) == ([7, 8, 9], [7])
    assert surround(bos=7, eos=None) == Template((bos, first), (bos, first, Piece((7,), type_id=1), second))
    number = listed_tokenizer().special_tokens["<s>"]
    face = listed_tokenizer().as_hf(template=Template((Piece((number,)), first), None))
    assert face("a").input_ids == [number, *listed_tokenizer().encode("a")]
    assert face("a", add_special_tokens=False).input_ids == listed_tokenizer().encode("a")
    with pytest.raises(bpejit.OptionError, match="no form for a pair"):
        face("a", "b")
    with pytest.raises(bpejit.OptionError, match="both a template and add_bos_token"):
        listed_tokenizer().as_hf(template=Template(), add_bos_token=True, bos_token="<s>")


@pytest.fixture(scope="module", params=["template", "roberta"])
def with_template(
    request: pytest.FixtureRequest, transformers: Any, saved: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[HuggingFaceTokenizer, Any]:
    """Ours and theirs of a tokenizer.json with a post-processor; one of its added tokens is not special."""
    import tokenizers

    made = tokenizers.Tokenizer.from_file(str(saved / "tokenizer.json"))
    bos, eos = (("<s>", made.token_to_id("<s>")), (END, made.token_to_id(END)))
    processors = tokenizers.processors
    made.post_processor = (
        processors.TemplateProcessing(single="<s>:0 $A:0", pair=f"<s>:0 $A:0 {END}:2 $B:1", special_tokens=[bos, eos])
        if request.param == "template"
        else processors.RobertaProcessing(eos, bos, trim_offsets=False, add_prefix_space=False)
    )
    made.add_tokens([tokenizers.AddedToken("don't", normalized=False)])
    path = tmp_path_factory.mktemp(request.param) / "tokenizer.json"
    made.save(str(path))
    ours = bpejit.Tokenizer.from_model(read_tokenizer_json(path)).as_hf()
    return ours, transformers.PreTrainedTokenizerFast(tokenizer_file=str(path))


def test_save_pretrained__keeps_the_template_of_a_file(with_template: Any, tmp_path: Path) -> None:
    import tokenizers

    ours, theirs = with_template
    ours.save_pretrained(tmp_path / "saved")
    again = tokenizers.Tokenizer.from_file(str(tmp_path / "saved" / "tokenizer.json"))
    text = "Hello, I don't know."
    assert again.encode(text).ids == ours(text).input_ids == theirs(text).input_ids
    assert ours(text).input_ids != ours(text, add_special_tokens=False).input_ids


@given(text=texts, pair=st.one_of(st.none(), texts), split=st.booleans())
def test_the_template_of_a_file(
    text: str, pair: str | None, split: bool, with_template: tuple[HuggingFaceTokenizer, Any]
) -> None:
    ours, theirs = with_template
    options = {"return_token_type_ids": True, "return_special_tokens_mask": True, "split_special_tokens": split}
    assert plain(ours(text, pair, **options)) == plain(theirs(text, pair, **options))
    ids = theirs.encode(text)
    assert ours.decode(ids, skip_special_tokens=True) == theirs.decode(ids, skip_special_tokens=True)
    assert ours.num_special_tokens_to_add() == theirs.num_special_tokens_to_add()


LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
TRIMMING = {
    "nothing": None,
    "bytes": LEVEL,
    "prefix": {**LEVEL, "add_prefix_space": True},
    "roberta": {"type": "RobertaProcessing", "sep": ["a", 1], "cls": ["b", 2], "trim_offsets": True, "add_prefix_space": True},
}


@pytest.fixture(scope="module", params=TRIMMING)
def changing(
    request: pytest.FixtureRequest, transformers: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[HuggingFaceTokenizer, Any]:
    """Ours and theirs of a tokenizer that normalizes, puts a space before text, and trims offsets or not."""
    path = tmp_path_factory.mktemp(request.param) / "tokenizer.json"
    content = hf.tokenizer_json(
        added=(hf.added_token("<a>", lstrip=True, rstrip=True), hf.added_token(" \n"), hf.added_token("ﬁ", normalized=True)),
        normalizer={"type": "NFKC"},
        pre_tokenizer=hf.PRE_TOKENIZERS["space"],
        post_processor=TRIMMING[request.param],
    )
    path.write_text(hf.dumped(content), encoding="utf-8")
    ours = bpejit.Tokenizer.from_model(read_tokenizer_json(path)).as_hf(pad_token="<a>", truncation_side="left")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path), pad_token="<a>", truncation_side="left")
    return ours, theirs


@given(text=hf.words, pair=st.one_of(st.none(), hf.words), split=st.booleans(), max_length=st.integers(5, 40))
def test_offsets_in_text_that_is_changed(
    text: str, pair: str | None, split: bool, max_length: int, changing: tuple[HuggingFaceTokenizer, Any]
) -> None:
    ours, theirs = changing
    options = {"return_offsets_mapping": True, "split_special_tokens": split, "truncation": True, "max_length": max_length}
    assert plain(ours(text, pair, **options)) == plain(theirs(text, pair, **options))
    batch = {"padding": True, "return_offsets_mapping": True, "return_tensors": "np"}
    assert plain(ours([text, "e\u0301 ﬁ"], **batch)) == plain(theirs([text, "e\u0301 ﬁ"], **batch))


@given(content=hf.pipelines(), rows=st.lists(st.tuples(hf.words, hf.words), min_size=1, max_size=4))
def test_offsets_of_pipelines(content: dict[str, Any], rows: list[tuple[str, str]]) -> None:
    """With offsets trimmed or not, by each post-processor."""
    tokenizers = pytest.importorskip("tokenizers")
    try:
        ours = bpejit.Tokenizer.from_model(model_from_json(content)).as_hf()
    except bpejit.TokenizerFormatError:
        assume(False)
    theirs = tokenizers.Tokenizer.from_str(hf.dumped(content))
    for first, second in rows:
        for pair in (None, second):
            found = ours(first, pair, return_offsets_mapping=True)
            expected = theirs.encode(first, pair)
            if pair != "":  # an empty second text is none here
                assert (found.input_ids, found.offset_mapping) == (expected.ids, expected.offsets), (first, pair)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda face: face("a", is_split_into_words=True),
            bpejit.UnsupportedError,
            "is_split_into_words=True is not",
        ),
        (lambda face: face("a", return_overflowing_tokens=True), bpejit.UnsupportedError, "return_overflowing_tokens"),
        (lambda face: face("a", stride=2), bpejit.UnsupportedError, "stride=2"),
        (lambda face: face("a", return_tensors="tf"), bpejit.UnsupportedError, "return_tensors is 'tf'"),
        (lambda face: face("a", padding="most"), bpejit.OptionError, "padding is 'most'; expected one of 'longest'"),
        (lambda face: face("a", truncation="most"), bpejit.OptionError, "truncation is 'most'"),
        (lambda face: face("a", padding_side="top"), bpejit.OptionError, "padding_side is 'top'"),
        (lambda face: face(["a", 1]), bpejit.OptionError, "text 1 is 1, a int; expected a str"),
        (lambda face: face(["a", "b"], ["c"]), bpejit.OptionError, "there are 2 texts, and 1 in text_pair"),
        (lambda face: face(["a", "b c d"], return_tensors="np"), bpejit.OptionError, "'input_ids' have from 1 to"),
        (lambda face: face(), bpejit.OptionError, "there is no text"),
        (lambda face: face.pad({"ids": [1]}), bpejit.OptionError, "no 'input_ids' among ids"),
        (
            lambda face: face.pad({"input_ids": [[1]], "labels": [1, 2]}),
            bpejit.OptionError,
            "'labels' has another number",
        ),
        (lambda face: setattr(face, "pad_token", "<pad>"), bpejit.SpecialTokenError, "pad_token is '<pad>', which"),
        (lambda face: setattr(face, "pad_token_id", 10**6), bpejit.SpecialTokenError, "pad_token_id is 1000000"),
        (lambda face: face.add_special_tokens({"pad": "<s>"}), bpejit.OptionError, "no special token named 'pad'"),
        (lambda face: face.get_special_tokens_mask([1]), bpejit.UnsupportedError, "already_has_special_tokens"),
        (lambda face: face("a", "b c", truncation="only_first", max_length=1), bpejit.OptionError, "that has 1; expected"),
        (lambda face: face("a b c", truncation="only_second", max_length=1), bpejit.OptionError, "there is one text"),
        (lambda face: face.apply_chat_template([]), AttributeError, "apply_chat_template"),
        (lambda face: face("a").labels, AttributeError, "no 'labels'; it has input_ids, attention_mask"),
    ],
)
def test_what_is_refused(
    call: Callable[[HuggingFaceTokenizer], Any], error: type[Exception], message: str, face: HuggingFaceTokenizer
) -> None:
    with pytest.raises(error, match=message):
        call(face)


def test_no_room_for_the_template() -> None:
    face = listed_tokenizer().as_hf(**NAMES, add_bos_token=True, add_eos_token=True)
    with pytest.raises(bpejit.OptionError, match="max_length is 1, and 2 special tokens are added"):
        face("a", truncation=True, max_length=1)
    assert face("a b", truncation=True, max_length=2).input_ids == [face.bos_token_id, face.eos_token_id]


def test_save_pretrained__where_transformers_cannot_read(tmp_path: Path) -> None:
    tokenizer = bpejit.Tokenizer({byte: bytes([byte]) for byte in range(256)}, [], ["\udcff"])
    with pytest.raises(bpejit.OutputError, match=r"transformers cannot read .* not valid UTF-8; .* bpejit\.load"):
        tokenizer.as_hf().save_pretrained(tmp_path / "saved")
    assert bpejit.load(tmp_path / "saved").model == tokenizer.model


def test_batches_and_faces_can_be_pickled(face: HuggingFaceTokenizer) -> None:
    batch = face("a b")
    assert pickle.loads(pickle.dumps(batch)) == batch
    assert copy.deepcopy(batch).input_ids == batch.input_ids
    other = pickle.loads(pickle.dumps(face))
    assert other("a b") == batch
    assert other.pad_token == face.pad_token
    assert repr(face).startswith("<bpejit.HuggingFaceTokenizer: ")


def test_torch(face: HuggingFaceTokenizer) -> None:
    torch = pytest.importorskip("torch")
    batch = face(["a", "b c"], padding=True, return_tensors="pt")
    assert batch.input_ids.dtype == torch.int64
    assert face.batch_decode(batch.input_ids, skip_special_tokens=True) == ["a", "b c"]
    assert isinstance(face.pad([{"input_ids": row} for row in batch.input_ids]).input_ids, torch.Tensor)


def test_transformers_is_not_imported() -> None:
    code = """
import sys, bpejit
face = bpejit.Tokenizer({byte: bytes([byte]) for byte in range(256)}, [], ["<s>"]).as_hf(bos_token="<s>", add_bos_token=True)
assert face("a").input_ids == [256, 97]
assert not {"transformers", "tokenizers", "torch"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=ENVIRONMENT, timeout=600)


def test_chat_names_are_in_the_vocabulary() -> None:
    assert set(NAMES.values()) <= set(CHAT)
