"""Tests that encoded chunks have the ids and the ends of their documents, for ranges of text and for adjacent documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import data_text, small
from helpers.huggingface import added_token, tokenizer_json
from hypothesis import given, strategies as st

import bpejit
from bpejit.arrays import padded_text
from bpejit.corpus.chunks import Chunker
from bpejit.corpus.sources import find_sources
from bpejit.encoding.encoder import Encoder
from bpejit.encoding.workspace import MAX_DOCUMENTS
from bpejit.formats.huggingface_reading import model_from_json
from bpejit.formats.missing_parts import END_OF_TEXT as END
from bpejit.jobs.encode_job import EncodedChunk, encode_job, find_separator

FALLBACK = r"(?<=\s)\w+|\w+|\W"


@pytest.fixture(scope="module", params=["gpt2", FALLBACK], ids=["automaton", "regex"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bpejit.Tokenizer:
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_bytes(data_text("prose.txt")[: small(100_000, 2_000)])
    return bpejit.train(path, vocab_size=small(600, 270), pattern=request.param)


def encode_file(tokenizer: bpejit.Tokenizer, path: Path, chunk_bytes: int) -> list[EncodedChunk]:
    worker = encode_job(Encoder(tokenizer.model), "uint16").start()
    splitter = Encoder(tokenizer.model).splitter
    return [worker.run(chunk) for chunk in Chunker(splitter, chunk_bytes=chunk_bytes).chunks(find_sources(path))]


def documents_of(chunks: list[EncodedChunk]) -> list[list[int]]:
    """Return the ids of each document of consecutive chunks."""
    ids: list[int] = []
    ends: list[int] = []
    for chunk in chunks:
        ends += (chunk.ends + len(ids)).tolist()
        ids += chunk.ids.tolist()
    assert ends == sorted(ends)
    assert (ends[-1] if ends else 0) == len(ids)
    return [ids[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1000])
@pytest.mark.parametrize(
    "parts",
    [
        [],
        ["one"],
        ["one<|endoftext|>"],
        ["one<|endoftext|>", "two"],
        ["<|endoftext|>", "<|endoftext|>", "a b\n<|endoftext|>", "\n"],
    ],
)
def test_separators_and_the_end_of_the_file_end_documents(
    parts: list[str], chunk_bytes: int, tokenizer: bpejit.Tokenizer, tmp_path: Path
) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes("".join(parts).encode())
    found = documents_of(encode_file(tokenizer, path, chunk_bytes))
    assert found == [tokenizer.encode(part) for part in parts]


def test_separator_is_end_of_text_or_the_eos_token(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("some text to learn from")
    both = bpejit.train(path, vocab_size=258, special_tokens=["<|a|>", "<|endoftext|>"], eos_token="<|a|>")
    assert find_separator(both.model) == both.token_to_id("<|endoftext|>")
    eos = bpejit.train(path, vocab_size=258, special_tokens=["<|a|>", "<|b|>"], eos_token="<|b|>")
    assert find_separator(eos.model) == eos.token_to_id("<|b|>")
    assert find_separator(bpejit.train(path, vocab_size=257, special_tokens=[]).model) is None


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["z", "zz", "a"], ["a"]),
        (["a", "zz", "", "b"], ["a", "b"]),
        ([f"a{END}zz", f"zz{END}z"], [f"a{END}", END]),
        ([f"a{END}{'z' * 30}", f"b<|x|>{'z' * 30}", "z", "c"], [f"a{END}", "b<|x|>", "c"]),  # the last chunks have no ids
    ],
)
def test_texts_without_ids_have_no_document(texts: list[str], expected: list[str], tmp_path: Path) -> None:
    removed = {"type": "Replace", "pattern": {"String": "z"}, "content": ""}
    content = tokenizer_json(added=(added_token(END), added_token("<|x|>")), normalizer=removed)
    tokenizer = bpejit.Tokenizer.from_model(model_from_json(content))
    inputs = [tmp_path / f"{number}.txt" for number in range(len(texts))]
    for path, text in zip(inputs, texts, strict=True):
        path.write_text(text)
    for chunk_bytes in (1, 2, 1000):
        options: dict[str, Any] = {"overwrite": True, "chunk_bytes": chunk_bytes, "engine": "serial"}
        report = tokenizer.encode_files(inputs, tmp_path / "t.bin", document_index=True, **options)
        found = bpejit.open_tokens(tmp_path / "t.bin")
        documents = [found.document(number).tolist() for number in range(found.n_documents or 0)]
        assert documents == [tokenizer.encode(document) for document in expected]
        with (tmp_path / "stream").open("wb") as stream:
            streamed = tokenizer.encode_files(inputs, stream, append_token=END, **options)
        assert report.documents == streamed.documents == len(expected)
        assert np.fromfile(tmp_path / "stream", "<u2").tolist().count(tokenizer.special_tokens[END]) == len(expected)


texts = st.lists(
    st.lists(
        st.sampled_from(["word", " ", "\n", "it's", "123", "é", "日本語", "<|endoftext|>", "<|end", "\x00"]), max_size=8
    ).map("".join),
    max_size=12,
)


@given(documents=texts, specials=st.booleans())
def test_encode_block__equals_documents_alone(documents: list[str], specials: bool, tokenizer: bpejit.Tokenizer) -> None:
    encoder = tokenizer._codec.encoder
    with tokenizer._codec.workspace() as workspace:
        encoded = [document.encode() for document in documents]
        text, _ = padded_text(b"".join(encoded))
        stops = np.cumsum([len(data) for data in encoded], dtype=np.int64)
        ids, ends = encoder.encode_block(text, stops, workspace, specials=specials)
        found = [ids[start:end].tolist() for start, end in zip([0, *ends.tolist()], ends.tolist(), strict=False)]
    encode = tokenizer.encode if specials else tokenizer.encode_ordinary
    assert found == [list(encode(document)) for document in documents]


@pytest.mark.slow
def test_encode_block__more_documents_than_a_call_takes__and_long_ones(tokenizer: bpejit.Tokenizer) -> None:
    prose = data_text("prose.txt")
    documents = [prose[:500_000], *(prose[i : i + 20] for i in range(2 * MAX_DOCUMENTS)), b"", prose[:200_000]]
    text, _ = padded_text(b"".join(documents))
    stops = np.cumsum([len(data) for data in documents], dtype=np.int64)
    with tokenizer._codec.workspace() as workspace:
        ids, ends = tokenizer._codec.encoder.encode_block(text, stops, workspace)
        batch = tokenizer._codec.encode_batch(documents)
        assert ids.tolist() == batch.ids.tolist()
        assert ends.tolist() == batch.starts[1:].tolist()
