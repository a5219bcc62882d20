"""The signatures and the documentation of `train`, `train_model` and `train_bpe`."""

from __future__ import annotations

import inspect
import pydoc
import re
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import bpejit
from bpejit.corpus.chunks import Chunker
from bpejit.errors import CorpusError, OptionError
from bpejit.training.train import train, train_bpe, train_model

SAVING = {"out", "also", "resume", "overwrite"}
"""The parameters of `train` that do not affect the model."""


def test_signatures_are_equal_except_for_the_result() -> None:
    parameters, others = (inspect.signature(function).parameters for function in (train, train_model))
    own = [name for name in others if name not in parameters]
    assert own == ["counts_file", "inspect_counts", "inspect_sizes"]  # for the command
    same = [parameter for parameter in others.values() if parameter.name not in own]
    same[0] = same[0].replace(annotation=parameters["inputs"].annotation)  # `train_model` takes counts as well
    assert [parameter for parameter in parameters.values() if parameter.name not in SAVING] == same
    assert parameters.keys() > SAVING
    assert get_type_hints(train)["return"] is bpejit.Tokenizer
    assert get_type_hints(train_model)["return"] is bpejit.Model


def test_help_shows_the_type_of_the_result() -> None:
    for function, result in ((bpejit.train, "Tokenizer"), (train_model, "Model")):
        page = pydoc.render_doc(function, renderer=pydoc.plaintext)
        assert f"-> '{result}'\n" in page
        assert re.search(rf"Returns\n +-------\n +{result}\n", page)


def test_docstring_lists_every_parameter() -> None:
    documented = re.findall(r"^([a-z_, ]+) : ", inspect.getdoc(train) or "", re.MULTILINE)
    names = [name for entry in documented for name in entry.split(", ")]
    expected = list(inspect.signature(train).parameters)
    assert [name for name in names if name in expected] == expected


def test_every_parameter_reaches_train_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}

    def record(inputs: object, **options: object) -> None:
        seen.update(options, inputs=inputs)
        raise InterruptedError

    monkeypatch.setattr("bpejit.training.train.train_model", record)
    given = {name: object() for name in inspect.signature(train).parameters if name not in SAVING}
    with pytest.raises(InterruptedError):
        train(**given)  # type: ignore[arg-type]
    assert callable(seen.pop("inspect_sizes"))  # what `training` of the tokenizer has
    assert seen == given


def test_defaults_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(train_model).parameters.items()
        if parameter.default is not parameter.empty and name not in ("counts_file", "inspect_counts", "inspect_sizes")
    }
    seen: dict[str, object] = {}

    def record(inputs: object, **options: object) -> None:
        seen.update(options)
        raise InterruptedError

    monkeypatch.setattr("bpejit.training.train.train_model", record)
    with pytest.raises(InterruptedError):
        train("corpus.txt", vocab_size=300)
    del seen["vocab_size"], seen["inspect_sizes"]
    assert seen == defaults


def test_train_bpe_has_the_interface_of_the_course() -> None:
    parameters = inspect.signature(train_bpe).parameters
    assert list(parameters)[:3] == ["input_path", "vocab_size", "special_tokens"]
    assert parameters["options"].kind is inspect.Parameter.VAR_KEYWORD


@pytest.mark.parametrize("num_chunks", [1, 3, 50])
def test_train_bpe_divides_its_file_into_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_chunks: int) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes(b"low lower lowest <|endoftext|> newer new\n" * 200)
    expected = train_bpe(path, 280, ["<|endoftext|>"])
    found: list[object] = []
    chunks = Chunker.chunks

    def record(self: Chunker, sources: Any) -> Any:
        for chunk in chunks(self, sources):
            found.append(chunk)
            yield chunk

    monkeypatch.setattr(Chunker, "chunks", record)
    assert train_bpe(path, 280, ["<|endoftext|>"], num_chunks=num_chunks) == expected
    assert num_chunks * 0.8 <= len(found) <= num_chunks


def test_train_bpe_with_a_wrong_number_of_chunks(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes(b"low lower lowest")
    with pytest.raises(OptionError, match="num_chunks is 0; expected a whole number from 1 up"):
        train_bpe(path, 260, [], num_chunks=0)
    with pytest.raises(CorpusError, match="No such file"):
        train_bpe(tmp_path / "missing", 260, [], num_chunks=2)
