"""Comparison of `as_hf` with `transformers.PreTrainedTokenizerFast`, on saved folders and on the file of GPT-2."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import data_text, read_shared, small
from helpers import huggingface as hf
from helpers.cli import ENVIRONMENT
from helpers.compat import CHAT, END, listed_tokenizer, pieces
from hypothesis import assume, given, strategies as st

import bpejit
from bpejit.compat.huggingface import HuggingFaceTokenizer
from bpejit.compat.model_inputs import TokenRows, added_ids, apply_template
from bpejit.compat.named_tokens import AddedToken
from bpejit.formats.huggingface_reading import model_from_json, read_tokenizer_json
from bpejit.normalization.pipeline_config import Template, TemplateItem

NAMES = {"bos_token": "<s>", "eos_token": END, "pad_token": "<|im_end|>"}

AROUND = [(False, False), (True, False), (True, True)]
"""True to add bos and eos around texts."""

texts = st.lists(pieces, max_size=8).map("".join).map(lambda text: text.encode("utf-8", "ignore").decode())


@pytest.fixture(scope="session")
def transformers() -> Any:
    """Import the package, without its warnings about optional packages; skip the test if it is not installed."""
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
    """Return our tokenizer and theirs, for several templates; one has a maximum length, one pads and truncates on the left."""
    bos, eos = request.param
    options = {**NAMES, "add_bos_token": bos, "add_eos_token": eos}
    if bos:
        options["model_max_length"] = 9
    if eos:
        options |= {"padding_side": "left", "truncation_side": "left"}
    return make(transformers, saved, **options)


def plain(value: Any) -> Any:
    """Convert arrays and tuples to lists, for comparison."""
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "items"):
        return {key: plain(item) for key, item in value.items()}
    return value


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or "error". Transformers may raise a bare Exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = call()
        except Exception as error:
            if type(error).__module__ == "builtins" and not isinstance(error, ValueError) and type(error) is not Exception:
                raise
            return "error"
    return plain(found)


options = st.fixed_dictionaries(
    {},
    optional={
        "padding": st.sampled_from([True, False, "longest", "max_length", "do_not_pad"]),
        "truncation": st.sampled_from([True, False, None, "longest_first", "only_first", "only_second", "do_not_truncate"]),
        # If the template alone is longer, `tokenizers` does not truncate, and bpejit raises an error.
        "max_length": st.integers(4, 12),
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


def test_decode__accepted_types(both: tuple[HuggingFaceTokenizer, Any]) -> None:
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
    names = ("padding", "max_length", "pad_to_multiple_of", "padding_side", "return_attention_mask", "return_tensors")
    options = {name: options[name] for name in names if name in options}
    if options.get("max_length"):
        options["max_length"] += 300  # `pad` of transformers fails if a row is longer
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


def test_attributes(both: tuple[HuggingFaceTokenizer, Any]) -> None:
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


def test_named_tokens_can_be_set(transformers: Any, saved: Path) -> None:
    for tokenizer in make(transformers, saved):
        assert tokenizer.pad_token is None
        assert tokenizer.pad_token_id is None
        tokenizer.pad_token = END
        assert tokenizer.pad_token_id == tokenizer.convert_tokens_to_ids(END)
        tokenizer.bos_token_id = tokenizer.convert_tokens_to_ids("<s>")
        assert tokenizer.bos_token == "<s>"
        assert tokenizer.add_special_tokens({"unk_token": "<|im_start|>", "extra_special_tokens": ["<|im_end|>"]}) == 0
        assert tokenizer.convert_tokens_to_ids("nothing") == tokenizer.unk_token_id
        assert tokenizer.all_special_tokens[-1] == "<|im_end|>"
        tokenizer.add_bos_token = True
        assert tokenizer.encode("a") == [tokenizer.bos_token_id, 97] or tokenizer.encode("a")[0] == tokenizer.bos_token_id
        tokenizer.pad_token = None
        with pytest.raises(ValueError, match="pad"):
            tokenizer(["a", "b c"], padding=True)


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
    """Compare on GPT-2's own tokenizer.json, which is structured differently from ours."""
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


# ---- tokenizers, on which transformers is built ------------------------------------------------------------------


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
    if paired and strategy == "longest_first" and tokenizers.__version__ in ("0.23.0", "0.23.1"):
        return  # these versions keep less of the longer text if the other one has as many tokens as are left
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
        return  # transformers refuses this combination
    found = outcome(
        lambda: ours(*columns, truncation=strategy, max_length=max_length, padding=True, pad_to_multiple_of=multiple, **options)
    )
    assert found == outcome(expected)


# ---- without transformers ----------------------------------------------------------------------------------------------


@pytest.fixture
def tokenizer() -> HuggingFaceTokenizer:
    return listed_tokenizer().as_hf(**NAMES)


def test_ids_match_encode(tokenizer: HuggingFaceTokenizer) -> None:
    text = f"one two{END}"
    assert tokenizer(text).input_ids == tokenizer.encode(text) == listed_tokenizer().encode(text)
    batch = tokenizer([text, "a"], padding=True, return_tensors="np")
    assert batch.input_ids.dtype == np.int64
    assert batch["input_ids"][1].tolist() == [97] + [tokenizer.pad_token_id] * (batch.input_ids.shape[1] - 1)


@given(
    rows=st.lists(st.text(st.one_of(st.characters(), st.sampled_from("ab 日\U0001f600\ud83d\ude00")), max_size=9), max_size=9),
    max_length=st.one_of(st.none(), st.integers(1, 9)),
    prefix=st.sampled_from([None, False, True]),
)
def test_batch_equals_single_calls(rows: list[str], max_length: int | None, prefix: bool | None) -> None:
    """Texts may have halves of surrogate pairs, which do not form a pair with the next text."""
    level = None if prefix is None else {**hf.GPT2_LEVEL, "trim_offsets": True, "add_prefix_space": prefix}
    tokenizer = bpejit.Tokenizer.from_model(model_from_json(hf.tokenizer_json(post_processor=level))).as_hf()
    options: dict[str, Any] = {"return_offsets_mapping": True, "return_special_tokens_mask": True}
    options |= {"truncation": max_length is not None, "max_length": max_length}
    ones = [tokenizer(row, **options) for row in rows]
    assert tokenizer(rows, **options).data == {name: [one[name] for one in ones] for name in tokenizer("a", **options)}
    assert tokenizer(rows).input_ids == [tokenizer(row).input_ids for row in rows]
    ids = tokenizer(rows).input_ids
    assert tokenizer.batch_decode(ids) == [tokenizer.decode(row) for row in ids or [[]]]


def test_default_end_token() -> None:
    assert listed_tokenizer().as_hf().eos_token == END
    assert bpejit.Tokenizer({byte: bytes([byte]) for byte in range(256)}, []).as_hf().eos_token is None


def test_template() -> None:
    bos, eos = TemplateItem((7,)), TemplateItem((8, 9), type_id=2)
    first, second = TemplateItem(text="A"), TemplateItem(text="B", type_id=1)
    template = Template((bos, first, eos), (first, bos, second))
    ids, offsets = np.array([1, 2, 4], dtype=np.uint32), np.array([(0, 1), (1, 3), (0, 5)])
    one = TokenRows({"input_ids": ids, "offset_mapping": offsets}, np.array([0, 2, 2, 3]))
    ids, offsets = np.array([3, 5], dtype=np.uint32), np.array([(0, 4), (0, 6)])
    two = TokenRows({"input_ids": ids, "offset_mapping": offsets}, np.array([0, 1, 2, 2]))
    assert apply_template(template, one).lists() == {
        "input_ids": [[7, 1, 2, 8, 9], [7, 8, 9], [7, 4, 8, 9]],
        "token_type_ids": [[0, 0, 0, 2, 2], [0, 2, 2], [0, 0, 2, 2]],
        "attention_mask": [[1] * 5, [1] * 3, [1] * 4],
        "special_tokens_mask": [[1, 0, 0, 1, 1], [1, 1, 1], [1, 0, 1, 1]],
        "offset_mapping": [[(0, 0), (0, 1), (1, 3), (0, 0), (0, 0)], [(0, 0)] * 3, [(0, 0), (0, 5), (0, 0), (0, 0)]],
    }
    assert apply_template(template, one, two).lists()["input_ids"] == [[1, 2, 7, 3], [7, 5], [4, 7]]
    assert (added_ids(template), added_ids(template, pair=True)) == ([7, 8, 9], [7])
    number = listed_tokenizer().special_tokens["<s>"]
    bos, again = TemplateItem((number,)), TemplateItem((number,), type_id=1)
    found = listed_tokenizer().as_hf(bos_token="<s>", add_bos_token=True).template
    assert found == Template((bos, first), (bos, first, again, second))
    tokenizer = listed_tokenizer().as_hf(template=Template((TemplateItem((number,)), first), None))
    assert tokenizer("a").input_ids == [number, *listed_tokenizer().encode("a")]
    assert tokenizer("a", add_special_tokens=False).input_ids == listed_tokenizer().encode("a")
    with pytest.raises(bpejit.OptionError, match="does not support pairs"):
        tokenizer("a", "b")
    with pytest.raises(bpejit.OptionError, match="both a template and add_bos_token"):
        listed_tokenizer().as_hf(template=Template(), add_bos_token=True, bos_token="<s>")


@pytest.fixture(scope="module", params=["template", "roberta"])
def with_template(
    request: pytest.FixtureRequest, transformers: Any, saved: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[HuggingFaceTokenizer, Any]:
    """Return our tokenizer and theirs for a tokenizer.json with a post-processor; one added token is not special."""
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


def test_save_pretrained__preserves_template(with_template: Any, tmp_path: Path) -> None:
    import tokenizers

    ours, theirs = with_template
    ours.save_pretrained(tmp_path / "saved")
    again = tokenizers.Tokenizer.from_file(str(tmp_path / "saved" / "tokenizer.json"))
    text = "Hello, I don't know."
    assert again.encode(text).ids == ours(text).input_ids == theirs(text).input_ids
    assert ours(text).input_ids != ours(text, add_special_tokens=False).input_ids


@given(text=texts, pair=st.one_of(st.none(), texts), split=st.booleans())
def test_template_of_a_file(text: str, pair: str | None, split: bool, with_template: tuple[HuggingFaceTokenizer, Any]) -> None:
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
    """Return our tokenizer and theirs that normalize and prepend a space, with and without trimmed offsets."""
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
def test_offsets_in_normalized_text(
    text: str, pair: str | None, split: bool, max_length: int, changing: tuple[HuggingFaceTokenizer, Any]
) -> None:
    ours, theirs = changing
    options = {"return_offsets_mapping": True, "split_special_tokens": split, "truncation": True, "max_length": max_length}
    assert plain(ours(text, pair, **options)) == plain(theirs(text, pair, **options))
    batch = {"padding": True, "return_offsets_mapping": True, "return_tensors": "np"}
    assert plain(ours([text, "e\u0301 ﬁ"], **batch)) == plain(theirs([text, "e\u0301 ﬁ"], **batch))


@pytest.mark.slow
@given(content=hf.pipelines(), rows=st.lists(st.tuples(hf.words, hf.words), min_size=1, max_size=4))
def test_offsets_of_pipelines(content: dict[str, Any], rows: list[tuple[str, str]]) -> None:
    """Compare with each post-processor, with and without trimmed offsets."""
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
            if pair != "":  # bpejit ignores an empty second text
                assert (found.input_ids, found.offset_mapping) == (expected.ids, expected.offsets), (first, pair)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda tokenizer: tokenizer("a", is_split_into_words=True),
            bpejit.UnsupportedError,
            "is_split_into_words=True is not",
        ),
        (
            lambda tokenizer: tokenizer("a", return_overflowing_tokens=True),
            bpejit.UnsupportedError,
            "return_overflowing_tokens",
        ),
        (lambda tokenizer: tokenizer("a", stride=2), bpejit.UnsupportedError, "stride=2"),
        (lambda tokenizer: tokenizer("a", return_tensors="tf"), bpejit.UnsupportedError, "return_tensors is 'tf'"),
        (lambda tokenizer: tokenizer("a", padding="most"), bpejit.OptionError, "padding is 'most'; expected one of 'longest'"),
        (lambda tokenizer: tokenizer("a", truncation="most"), bpejit.OptionError, "truncation is 'most'"),
        (lambda tokenizer: tokenizer("a", padding_side="top"), bpejit.OptionError, "padding_side is 'top'"),
        (lambda tokenizer: tokenizer(["a", 1]), bpejit.OptionError, "text 1 is 1, a int; expected a str"),
        (lambda tokenizer: tokenizer(["a", "b"], ["c"]), bpejit.OptionError, "text has 2 texts, and text_pair 1"),
        (lambda tokenizer: tokenizer(["a", "b c d"], return_tensors="pt"), bpejit.OptionError, "'input_ids' have from 1 to"),
        (lambda tokenizer: tokenizer(), bpejit.OptionError, "neither text nor text_target"),
        (lambda tokenizer: tokenizer.pad({"ids": [1]}), bpejit.OptionError, "the columns ids lack 'input_ids'"),
        (
            lambda tokenizer: tokenizer.pad({"input_ids": [[1]], "labels": [1, 2]}),
            bpejit.OptionError,
            "'labels' and 'input_ids' differ",
        ),
        (
            lambda tokenizer: setattr(tokenizer, "pad_token", "<pad>"),
            bpejit.SpecialTokenError,
            "pad_token is '<pad>', which is not in the vocabulary",
        ),
        (lambda tokenizer: setattr(tokenizer, "pad_token_id", 10**6), bpejit.SpecialTokenError, "pad_token_id is 1000000"),
        (lambda tokenizer: tokenizer.add_special_tokens({"pad": "<s>"}), bpejit.OptionError, "no special token named 'pad'"),
        (lambda tokenizer: tokenizer.get_special_tokens_mask([1]), bpejit.UnsupportedError, "already_has_special_tokens"),
        (
            lambda tokenizer: tokenizer("a", "b c", truncation="only_first", max_length=1),
            bpejit.OptionError,
            "that has 1; expected",
        ),
        (
            lambda tokenizer: tokenizer("a b c", truncation="only_second", max_length=1),
            bpejit.OptionError,
            "without a text_pair",
        ),
        (lambda tokenizer: tokenizer.backend_tokenizer, bpejit.UnsupportedError, "there is no backend_tokenizer"),
        (lambda tokenizer: tokenizer.apply_chat_template(CHAT), bpejit.OptionError, "there is no chat template"),
        (lambda tokenizer: render(tokenizer, []), bpejit.OptionError, "the conversation is empty"),
        (lambda tokenizer: render(tokenizer, ["x"]), bpejit.OptionError, "a message is 'x'; expected a dict"),
        (
            lambda tokenizer: render(tokenizer, MESSAGES, sanitize_control_tokens=True),
            bpejit.UnsupportedError,
            "sanitize_control_tokens",
        ),
        (
            lambda tokenizer: render(tokenizer, MESSAGES, return_assistant_tokens_mask=True),
            bpejit.UnsupportedError,
            "assistant_tokens",
        ),
        (lambda tokenizer: render(tokenizer, MESSAGES, tools=[len]), bpejit.UnsupportedError, "expected a JSON schema"),
        (lambda tokenizer: render(tokenizer, MESSAGES, documents=["x"]), bpejit.OptionError, "a document is 'x'"),
        (lambda tokenizer: render(tokenizer, MESSAGES, chat_template="{{ 'x'"), bpejit.OptionError, "is not valid"),
        (
            lambda tokenizer: render(tokenizer, MESSAGES, chat_template="{{ raise_exception('no') }}"),
            bpejit.OptionError,
            "failed: no",
        ),
        (lambda tokenizer: render(tokenizer, MESSAGES, chat_template="{{ messages.append(1) }}"), bpejit.OptionError, "failed"),
        (lambda tokenizer: render(tokenizer, MESSAGES, chat_template=5), bpejit.ArgumentTypeError, "chat_template is 5"),
        (lambda tokenizer: render(tokenizer, [None], chat_template="x"), bpejit.OptionError, "a message is None"),
        (lambda tokenizer: render(tokenizer, None, chat_template="x"), bpejit.OptionError, "failed: TypeError"),
        (
            lambda tokenizer: render(tokenizer, MESSAGES, chat_template="x", continue_final_message=True),
            bpejit.OptionError,
            "does not use",
        ),
        (
            lambda tokenizer: render(tokenizer, MESSAGES, continue_final_message=True, add_generation_prompt=True),
            bpejit.OptionError,
            "both continue_final_message and add_generation_prompt",
        ),
        (lambda tokenizer: tokenizer.add_tokens("Ġa"), bpejit.UnsupportedError, "is how `tokenizer.json` writes the token"),
        (lambda tokenizer: tokenizer.add_tokens([1]), bpejit.ArgumentTypeError, "a token is 1; expected a str"),
        (lambda tokenizer: tokenizer("a").labels, AttributeError, "no 'labels'; it has input_ids, attention_mask"),
    ],
)
def test_invalid_arguments_are_refused(
    call: Callable[[HuggingFaceTokenizer], Any], error: type[Exception], message: str, tokenizer: HuggingFaceTokenizer
) -> None:
    with pytest.raises(error, match=message):
        call(tokenizer)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% include '/etc/passwd' %}", "failed: TypeError: no loader"),
        ("{% import 'os' as o %}", "failed: TypeError: no loader"),
        ("{% extends 'x' %}", "failed: TypeError: no loader"),
        ("{{ range(10**9) | list }}", "failed: OverflowError: Range too big"),
        ("{{ 1 / 0 }}", "failed: ZeroDivisionError"),
        ("{{ 'x' * 10**18 }}", "failed: MemoryError;"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "failed: RecursionError"),
        ("{{ none.x.y }}", "failed: 'None' has no attribute 'x'"),
        ("{{ messages | tojson(indent=messages) }}", "failed: TypeError"),
        ("{{ 1 | nothing }}", "is not valid: No filter named 'nothing'"),
        ("{{ " + "(" * 5000 + " }}", "is not valid"),
        ("{{ " + "9" * 5000 + " }}", "is not valid"),
    ],
)
def test_templates_that_fail(template: str, message: str, tokenizer: HuggingFaceTokenizer) -> None:
    with pytest.raises(bpejit.OptionError, match=re.escape(message)):
        render(tokenizer, MESSAGES, chat_template=template)


def test_max_length_shorter_than_template() -> None:
    tokenizer = listed_tokenizer().as_hf(**NAMES, add_bos_token=True, add_eos_token=True)
    with pytest.raises(bpejit.OptionError, match="max_length is 1, and 2 special tokens are added"):
        tokenizer("a", truncation=True, max_length=1)
    assert tokenizer("a b", truncation=True, max_length=2).input_ids == [tokenizer.bos_token_id, tokenizer.eos_token_id]


def test_save_pretrained__unsupported_by_transformers(tmp_path: Path) -> None:
    tokenizer = bpejit.Tokenizer({byte: bytes([byte]) for byte in range(256)}, [], ["\udcff"])
    with pytest.raises(bpejit.OutputError, match=r"transformers cannot read .* not valid UTF-8; .* bpejit\.load"):
        tokenizer.as_hf().save_pretrained(tmp_path / "saved")
    assert bpejit.load(tmp_path / "saved").model == tokenizer.model


def test_batches_and_tokenizers_can_be_pickled(tokenizer: HuggingFaceTokenizer) -> None:
    batch = tokenizer("a b")
    assert pickle.loads(pickle.dumps(batch)) == batch
    assert copy.deepcopy(batch).input_ids == batch.input_ids
    other = pickle.loads(pickle.dumps(tokenizer))
    assert other("a b") == batch
    assert other.pad_token == tokenizer.pad_token
    assert repr(tokenizer).startswith("<bpejit.HuggingFaceTokenizer: ")


def test_torch(tokenizer: HuggingFaceTokenizer) -> None:
    torch = pytest.importorskip("torch")
    batch = tokenizer(["a", "b c"], padding=True, return_tensors="pt")
    assert batch.input_ids.dtype == torch.int64
    assert tokenizer.batch_decode(batch.input_ids, skip_special_tokens=True) == ["a", "b c"]
    assert isinstance(tokenizer.pad([{"input_ids": row} for row in batch.input_ids]).input_ids, torch.Tensor)


TEMPLATE = (
    "{% for message in messages %}\n"
    "    {{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>\\n' -}}\n"
    "{% endfor %}\n"
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

MESSAGES = [{"role": "user", "content": " <b>&é</b> "}, {"role": "assistant", "content": "Yes", "tool_calls": None}]

TEXT = "<|im_start|>user\n<b>&é</b><|im_end|>\n<|im_start|>assistant\nYes<|im_end|>\n"


def render(tokenizer: HuggingFaceTokenizer, conversation: Any, **options: Any) -> Any:
    pytest.importorskip("jinja2")
    return tokenizer.apply_chat_template(conversation, **{"chat_template": TEMPLATE, "tokenize": False, **options})


def test_chat_template(tokenizer: HuggingFaceTokenizer) -> None:
    """Compare with texts rendered by transformers (see `tests/readers/test_interface.py`)."""
    assert render(tokenizer, MESSAGES) == TEXT
    assert render(tokenizer, MESSAGES, add_generation_prompt=True) == TEXT + "<|im_start|>assistant\n"
    assert render(tokenizer, MESSAGES, continue_final_message=True) == TEXT.removesuffix("<|im_end|>\n")
    assert render(tokenizer, [MESSAGES, MESSAGES[:1]]) == [TEXT, TEXT.partition("<|im_start|>a")[0]]
    assert render(tokenizer, MESSAGES, tools=[{"name": "<é>"}]) == TEXT + '[{"name": "<é>"}]'
    assert (
        render(tokenizer, MESSAGES, chat_template="{{ eos_token }}{{ x }}{{ tools }}", x=[1, np.int64(2)]) == f"{END}[1, 2]None"
    )
    assert render(tokenizer, MESSAGES, chat_template="{{ x }}", x=object()) == "<object>"
    assert tokenizer.chat_template is None
    tokenizer.chat_template = TEMPLATE
    assert tokenizer.apply_chat_template(MESSAGES) == tokenizer(TEXT, add_special_tokens=False)
    assert tokenizer.apply_chat_template(MESSAGES, return_dict=False) == tokenizer.encode(TEXT, add_special_tokens=False)
    batch = tokenizer.apply_chat_template(
        [MESSAGES, MESSAGES[:1]], padding=True, return_tensors="np", max_length=9, truncation=True
    )
    assert batch.input_ids.shape == (2, 9)


def test_chat_template__special_tokens_in_messages(tokenizer: HuggingFaceTokenizer) -> None:
    ids = render(tokenizer, [{"role": "user", "content": END}], tokenize=True, return_dict=False)
    assert ids.count(tokenizer.eos_token_id) == 1


def test_chat_template__several_templates(tokenizer: HuggingFaceTokenizer) -> None:
    tokenizer.chat_template = {"default": "d", "tool_use": "t"}
    assert tokenizer.get_chat_template() == "d"
    assert tokenizer.get_chat_template(tools=[]) == "t"
    assert tokenizer.get_chat_template("tool_use") == "t"
    assert tokenizer.get_chat_template("{{ x }}") == "{{ x }}"
    tokenizer.chat_template = {"other": "o"}
    with pytest.raises(bpejit.OptionError, match="none is named 'default'"):
        tokenizer.get_chat_template()


def test_chat_template__is_saved(tokenizer: HuggingFaceTokenizer, tmp_path: Path) -> None:
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(tmp_path / "saved")
    assert bpejit.load(tmp_path / "saved").as_hf().chat_template == TEMPLATE


def test_missing_jinja(tokenizer: HuggingFaceTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(bpejit.UnsupportedError, match=r"pip install 'bpejit\[hf\]'"):
        tokenizer.apply_chat_template(MESSAGES, chat_template="{# not cached #}")


def test_add_tokens(tokenizer: HuggingFaceTokenizer, tmp_path: Path) -> None:
    unchanged = listed_tokenizer()
    count, text = len(tokenizer), "a<x> <|y|>"
    before = tokenizer.encode(text)
    assert tokenizer.add_tokens([]) == 0
    assert tokenizer.add_tokens(["<x>", "<x>", "", AddedToken("<|y|>", lstrip=True)]) == 2
    assert (len(tokenizer), tokenizer.vocab_size) == (count + 2, count)
    assert tokenizer.encode(text) == [97, count, count + 1]
    assert tokenizer.decode([97, count], skip_special_tokens=True) == "a<x>"
    assert unchanged.encode(text) == before
    assert tokenizer.added_tokens_encoder == {**unchanged.special_tokens, "<x>": count, "<|y|>": count + 1}
    assert tokenizer.added_tokens_decoder[count + 1] == AddedToken("<|y|>", lstrip=True)
    assert tokenizer.add_tokens("<x>") == 0
    assert tokenizer.add_tokens("<x>", special_tokens=True) == 1
    assert tokenizer.decode([97, count], skip_special_tokens=True) == "a"
    assert tokenizer.add_special_tokens({"pad_token": "<pad>", "extra_special_tokens": ["<z>"]}) == 2
    assert (tokenizer.pad_token_id, tokenizer.all_special_tokens[-1]) == (count + 2, "<z>")
    assert pickle.loads(pickle.dumps(tokenizer)).encode(text) == tokenizer.encode(text)
    tokenizer.save_pretrained(tmp_path / "saved")
    assert bpejit.load(tmp_path / "saved").encode(text) == tokenizer.encode(text)


def test_vocab_size__added_tokens_outside_vocabulary() -> None:
    content = hf.tokenizer_json(added=(hf.added_token("<a>"), hf.added_token("ab", special=False)))
    tokenizer = bpejit.Tokenizer.from_model(model_from_json(content)).as_hf()
    n_vocab = len(content["model"]["vocab"])
    assert (tokenizer.vocab_size, len(tokenizer)) == (n_vocab, n_vocab + 1)


def test_rows_of_unequal_length_as_arrays(tokenizer: HuggingFaceTokenizer) -> None:
    batch = tokenizer(["a", "b c d"], return_tensors="np", return_offsets_mapping=True)
    assert batch.input_ids.dtype == object
    assert [row.tolist() for row in batch.input_ids] == tokenizer(["a", "b c d"]).input_ids
    assert batch.offset_mapping[0].shape == (1, 2)


def test_transformers_is_not_imported() -> None:
    code = """
import sys, bpejit
ours = bpejit.Tokenizer({byte: bytes([byte]) for byte in range(256)}, [], ["<s>"]).as_hf(bos_token="<s>", add_bos_token=True)
assert ours("a").input_ids == [256, 97]
assert not {"transformers", "tokenizers", "torch"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=ENVIRONMENT, timeout=600)


def test_chat_names_are_in_the_vocabulary() -> None:
    assert set(NAMES.values()) <= set(CHAT)
