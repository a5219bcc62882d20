"""Comparison of accelerated tokenizers of `transformers` with the same tokenizers as they are."""

from __future__ import annotations

import copy
import inspect
import json
import os
import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, data_text, examples, small as small_size
from helpers import acceleration, huggingface as hf
from hypothesis import given, strategies as st

import bpejit

END = "<|endoftext|>"

_TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [
        {"SpecialToken": {"id": "<s>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": END, "type_id": 0}},
        {"Sequence": {"id": "B", "type_id": 1}},
        {"SpecialToken": {"id": END, "type_id": 1}},
    ],
    "special_tokens": {text: {"id": text, "ids": [ids], "tokens": [text]} for text, ids in (("<s>", 400), (END, 401))},
}

_ADDED = (
    *(hf.added_token("<s>"), hf.added_token(END)),
    *(hf.added_token("<mask>", lstrip=True), hf.added_token("as", special=False, normalized=True, single_word=True)),
)

FILES = {
    "plain": hf.tokenizer_json(),
    "template": hf.tokenizer_json(added=_ADDED, post_processor=_TEMPLATE),
    "roberta": hf.tokenizer_json(
        added=_ADDED,
        pre_tokenizer={**hf.GPT2_LEVEL, "add_prefix_space": True},
        post_processor={
            "type": "RobertaProcessing",
            "sep": [END, 401],
            "cls": ["<s>", 400],
            "trim_offsets": True,
            "add_prefix_space": True,
        },
    ),
    "normalized": hf.tokenizer_json(added=_ADDED, normalizer={"type": "NFC"}, post_processor={**hf.GPT2_LEVEL}),
}

OTHERS = os.environ.get("BPEJIT_TOKENIZERS", "")
"""A folder of files `*.json`, of which each is compared as well."""


@pytest.fixture(scope="module")
def transformers() -> Any:
    """Import the package, without its warnings about optional packages; skip the test if it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("transformers")


@pytest.fixture(autouse=True, scope="module")
def _unpatched() -> Any:
    yield
    bpejit.unpatch_transformers()


def load(transformers: Any, text: str, **options: Any) -> Any:
    from tokenizers import Tokenizer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(text), **options)


NAMES = {"bos_token": "<s>", "eos_token": END, "pad_token": END}

Pair = tuple[Any, Any]


@pytest.fixture(scope="module", params=sorted(FILES))
def both(request: pytest.FixtureRequest, transformers: Any) -> Pair:
    """Return a tokenizer as it is, and an accelerated one."""
    text = json.dumps(FILES[request.param])
    options = {} if request.param == "plain" else NAMES
    return load(transformers, text, **options), bpejit.accelerate(load(transformers, text, **options))


@examples(2)
@given(data=st.data())
def test_matrix(data: st.DataObject, both: Pair) -> None:
    acceleration.compare(data, *both, encodings=True)


@pytest.mark.parametrize("path", sorted(map(str, Path(OTHERS).glob("*.json"))) if OTHERS else [])
def test_matrix__files(path: str, transformers: Any) -> None:
    text = Path(path).read_text(encoding="utf-8")
    try:
        theirs = load(transformers, text)
        ours = bpejit.accelerate(load(transformers, text))
    except Exception as error:
        pytest.skip(f"not accelerated: {str(error)[:150]}")
    for one in (theirs, ours):
        one.pad_token = one.convert_ids_to_tokens(0)

    @given(data=st.data())
    def matrix(data: st.DataObject) -> None:
        acceleration.compare(data, theirs, ours, encodings=len(text) < 6_000_000)

    matrix()
    print("report", Path(path).stem, bpejit.acceleration_report(ours)._asdict())


def small(transformers: Any, name: str = "template") -> Any:
    return load(transformers, json.dumps(FILES[name]), **NAMES)


def test_it_stays_the_same_object(transformers: Any) -> None:
    theirs, ours = small(transformers), small(transformers)
    before = pickle.dumps(ours), dict(vars(ours)), type(ours)
    assert bpejit.accelerate(ours) is ours
    assert (pickle.dumps(ours), vars(ours), type(ours)) == before
    assert ours("Hello", "world") == theirs("Hello", "world")
    assert pickle.dumps(ours) == pickle.dumps(theirs)
    assert list(inspect.signature(ours._encode_plus).parameters)[:2] == ["text", "text_pair"]
    assert bpejit.acceleration_report(ours).calls == 1
    for copied in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert copied("Hello") == theirs("Hello")
        assert bpejit.acceleration_report(copied).refused == "the tokenizer is not accelerated"


def test_pickles_need_no_bpejit(transformers: Any, tmp_path: Path) -> None:
    ours = bpejit.accelerate(small(transformers))
    batch = ours(["Hello", "a b"])
    (tmp_path / "pickles").write_bytes(pickle.dumps((ours, batch)))
    code = (
        "import pickle, sys; sys.modules['bpejit'] = None; tokenizer, batch = pickle.load(open('pickles', 'rb')); "
        "print([tokenizer(['Hello', 'a b']) == batch, batch.tokens(1)])"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert found.strip() == str([True, batch.tokens(1)])


def add_to_backend(one: Any) -> None:
    one.backend_tokenizer.add_special_tokens(["or"])


def replace_model(one: Any) -> None:
    from tokenizers import models

    vocab = one.backend_tokenizer.model.vocab if hasattr(one.backend_tokenizer.model, "vocab") else one.get_vocab()
    one.backend_tokenizer.model = models.BPE({text: ids for text, ids in vocab.items() if ids < 400}, [])


def set_bos(one: Any) -> None:
    from tokenizers import processors

    one.backend_tokenizer.post_processor = processors.TemplateProcessing("$A <s>", "$A $B <s>", [("<s>", 400)])


def set_prefix(one: Any) -> None:
    one.backend_tokenizer.pre_tokenizer.add_prefix_space = True


def drop_out(one: Any) -> None:
    one.backend_tokenizer.model.dropout = 1.0


CHANGES: dict[str, Callable[[Any], Any]] = {
    "add_tokens": lambda one: one.add_tokens(["wor", " a"]),
    "a token of the vocabulary": lambda one: one.add_tokens(["sa"]),
    "add_special_tokens": lambda one: one.add_special_tokens({"pad_token": "<pad>", "sep_token": "<|sep|>"}),
    "backend": add_to_backend,
    "model": replace_model,
    "template": set_bos,
    "prefix": set_prefix,
    "dropout": drop_out,
    "pad_token": lambda one: setattr(one, "pad_token", "<s>"),
    "side": lambda one: setattr(one, "padding_side", "left"),
    "another backend": lambda one: setattr(one, "_tokenizer", type(one._tokenizer).from_str(json.dumps(FILES["roberta"]))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_after_acceleration(change: str, transformers: Any) -> None:
    theirs, ours = small(transformers), bpejit.accelerate(small(transformers))
    texts = ["Hello as a world<pad>", "1sab-", "or<s> word<|sep|>"]
    before = ours(texts, padding=True)
    assert before == theirs(texts, padding=True)
    for one in (theirs, ours):
        CHANGES[change](one)
    after = ours(texts, padding=True)
    assert after == theirs(texts, padding=True) != before
    report = bpejit.acceleration_report(ours)
    assert (report.calls, sum(report.original.values())) == ((1, 1) if change == "dropout" else (2, 0))
    # Encodings of batches made before the change are those of that time.
    assert [one.ids for one in before.encodings] != [one.ids for one in after.encodings]


def test_attributes_of_every_call(transformers: Any) -> None:
    theirs, ours = small(transformers), bpejit.accelerate(small(transformers))
    chat = [{"role": "user", "content": "Hello <s>"}]
    for one in (theirs, ours):
        one.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    assert ours.apply_chat_template(chat) == theirs.apply_chat_template(chat)
    assert ours.num_special_tokens_to_add(pair=True) == theirs.num_special_tokens_to_add(pair=True)
    rows = [ours(text) for text in ("Hello", "a b c")]
    assert (
        ours.pad(rows, return_tensors="np")["input_ids"].tolist() == theirs.pad(rows, return_tensors="np")["input_ids"].tolist()
    )
    assert ours.decode(rows[0]["input_ids"]) == theirs.decode(rows[0]["input_ids"])


def test_lists_are_independent(transformers: Any) -> None:
    ours = bpejit.accelerate(small(transformers))
    batch = ours(["Hello", "Hello"])
    batch["attention_mask"][0][0] = 7
    batch["input_ids"][0][0] = 7
    assert batch["attention_mask"][1][0] == 1
    assert batch["input_ids"][1][0] != 7
    assert ours("Hello")["attention_mask"][0] == 1


def test_decode_stream(transformers: Any) -> None:
    from tokenizers.decoders import DecodeStream

    ours = bpejit.accelerate(small(transformers))
    stream = DecodeStream(skip_special_tokens=True)
    parts = [stream.step(ours.backend_tokenizer, number) for number in ours("Hé as")["input_ids"]]
    assert "".join(part for part in parts if part) == "Hé as"


def test_threads(transformers: Any) -> None:
    theirs, ours = small(transformers), bpejit.accelerate(small(transformers))
    options = [{}, {"truncation": True, "max_length": 3}, {"padding": "max_length", "max_length": 9, "truncation": True}]
    expected = [theirs(["Hello world", "as"], return_offsets_mapping=True, **one) for one in options]
    encodings = [[part.tokens for part in one.encodings] for one in expected]

    def work(index: int) -> Any:
        batch = ours(["Hello world", "as"], return_offsets_mapping=True, **options[index % 3])
        return batch, [part.tokens for part in batch.encodings]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(60))) == [*zip(expected, encodings, strict=True)] * 20
    assert bpejit.acceleration_report(ours).calls == 60


def test_special_tokens_that_are_split_hide_others(transformers: Any) -> None:
    text = json.dumps(hf.tokenizer_json(added=(hf.added_token("<a-b>"), hf.added_token("-b", special=False))))
    theirs, ours = load(transformers, text), bpejit.accelerate(load(transformers, text))
    for one in ("a-b", "<a-b> -b", "-b<a"):
        assert ours(one, split_special_tokens=True) == theirs(one, split_special_tokens=True), one
    assert bpejit.acceleration_report(ours).original == {"texts or lengths that raise UnsupportedError": 1}


def test_report(transformers: Any) -> None:
    ours = bpejit.accelerate(small(transformers))
    ours(["a", "b"])
    ours("a", "b").word_ids()
    ours(["a"], is_split_into_words=True)
    ours("a b", max_length=3, stride=1, truncation=True)
    ours("a b", max_length=3, truncation=True, return_overflowing_tokens=True)
    ours.tokenize("a")
    report = bpejit.acceleration_report(ours)
    assert (report.calls, report.texts, report.encodings, report.refused) == (2, 3, 1, None)
    assert report.original == {
        "the option is_split_into_words": 1,
        "the option stride": 1,
        "the option return_overflowing_tokens": 1,
        "tokenize": 1,
    }
    assert str(report).splitlines() == [
        "bpejit: 2 calls with 3 texts",
        "the original, for the encodings of these: 1 calls",
        *(f"the original, for {reason}: 1 calls" for reason in report.original),
    ]


def test_what_is_refused(transformers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tokenizers import Tokenizer, models

    words = transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, unk_token="a")))
    with pytest.raises(bpejit.UnsupportedError, match="WordLevel"):
        bpejit.accelerate(words)
    with pytest.raises(bpejit.UnsupportedError, match="expected a fast tokenizer of transformers"):
        bpejit.accelerate("gpt2")

    class Own(transformers.PreTrainedTokenizerFast):  # type: ignore[misc, name-defined]
        def _encode_plus(self, *args: Any, **options: Any) -> Any:
            return 3

    class Calling(transformers.PreTrainedTokenizerFast):  # type: ignore[misc, name-defined]
        def _encode_plus(self, *args: Any, **options: Any) -> Any:
            return super()._encode_plus(*args, **options)

    backend = Tokenizer.from_str(json.dumps(FILES["plain"]))
    with pytest.raises(bpejit.UnsupportedError, match="the class Own has a method `_encode_plus` of its own"):
        bpejit.accelerate(Own(tokenizer_object=backend))
    calling = bpejit.accelerate(Calling(tokenizer_object=backend))
    calling("Hello")
    assert bpejit.acceleration_report(calling).calls == 1
    for version in ("4.56.2", "5.25.0"):
        monkeypatch.setattr(transformers, "__version__", version)
        for function in (bpejit.patch_transformers, lambda: bpejit.accelerate(words)):
            with pytest.raises(bpejit.UnsupportedError, match=re.escape(f"has the version {version}; expected 4.57 to 5.24")):
                function()


def test_patching_every_tokenizer(transformers: Any) -> None:
    from tokenizers import Tokenizer, models

    bpejit.unpatch_transformers()
    original = (
        vars(transformers.PreTrainedTokenizerFast)["_encode_plus"],
        vars(Tokenizer)["add_tokens"],
        vars(Tokenizer)["model"],
    )
    early = small(transformers)
    expected = early(["Hello", "<s>"])
    bpejit.patch_transformers()
    bpejit.patch_transformers()
    late = pickle.loads(pickle.dumps(early))
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, unk_token="a")))
    assert early(["Hello", "<s>"]) == late(["Hello", "<s>"]) == expected
    assert words("a")["input_ids"] == [0]
    assert [bpejit.acceleration_report(one).calls for one in (early, late, words)] == [1, 1, 0]
    assert "WordLevel" in str(bpejit.acceleration_report(words).refused)
    bpejit.unpatch_transformers()
    assert original == (
        vars(transformers.PreTrainedTokenizerFast)["_encode_plus"],
        vars(Tokenizer)["add_tokens"],
        vars(Tokenizer)["model"],
    )
    assert early(["Hello", "<s>"]) == expected
    assert [part.ids for part in expected.encodings] == expected["input_ids"]


@pytest.mark.filterwarnings("ignore")  # of dill
def test_data_sets(transformers: Any) -> None:
    datasets = pytest.importorskip("datasets")
    from datasets.fingerprint import Hasher

    theirs, ours = small(transformers), small(transformers)
    assert Hasher.hash(ours) == Hasher.hash(bpejit.accelerate(ours)) == Hasher.hash(theirs)
    rows = datasets.Dataset.from_dict({"text": ["Hello", "a b <s>", ""] * 5})
    kept = [
        rows.map(lambda row, one=one: one(row["text"], truncation=True, max_length=4), batched=True, batch_size=4)
        for one in (theirs, ours)
    ]
    assert kept[0].to_list() == kept[1].to_list()
    assert kept[0].features == kept[1].features
    assert bpejit.acceleration_report(ours).calls == 4
    assert Hasher.hash(ours) == Hasher.hash(theirs)


def test_collator(transformers: Any) -> None:
    pytest.importorskip("torch")
    collators = [
        transformers.DataCollatorWithPadding(one) for one in (small(transformers), bpejit.accelerate(small(transformers)))
    ]
    found = [collator([collator.tokenizer("Hello"), collator.tokenizer("a b c")]) for collator in collators]
    assert {name: tensor.tolist() for name, tensor in found[0].items()} == {
        name: tensor.tolist() for name, tensor in found[1].items()
    }
    tensors = [collator.tokenizer(["Hello", "a b"], padding=True, return_tensors="pt") for collator in collators]
    assert all(
        (tensors[0][name] == tensors[1][name]).all() and tensors[1][name].dtype == tensors[0][name].dtype for name in tensors[0]
    )


def test_page(transformers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "texts.txt").write_bytes(data_text("prose.txt")[: small_size(100_000, 20_000)])
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "transformers.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(code, "docs/transformers.md", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.*)", page)
