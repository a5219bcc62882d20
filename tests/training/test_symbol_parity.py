"""Training on symbols: merges and ids are those of Hugging Face's trainer with the corresponding components.

That trainer gives the marked characters, such as `n</w>`, ids in the order of a hash table, which differs between runs, and
ids decide between equally frequent pairs. So it gets them as special tokens here, in the order of bpejit, which is that of
code points; a test without them compares with the twin in the order of the run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import twins
from conftest import data_text, examples, read_shared, small
from hypothesis import assume, example, given, strategies as st

import bpejit
from bpejit.encoding.decoding_rules import file_texts
from bpejit.model import Model
from bpejit.normalization.byte_characters import CHARACTERS, encode_byte_characters
from bpejit.normalization.symbols import byte_text
from bpejit.splitting import PRESETS

tokenizers = pytest.importorskip("tokenizers")

SUFFIX = "</w>"
BYTE_TEXTS = [byte_text(byte) for byte in range(256)]
SPACE = "▁"

KINDS: dict[str, dict[str, Any]] = {
    "characters": {"symbols": "characters"},
    "unknown": {"symbols": "characters", "unk_token": "<unk>"},
    "word end": {"symbols": "characters", "word_end": SUFFIX},
    "bytes with word end": {"word_end": SUFFIX},
    "metaspace": {"symbols": "characters", "metaspace": True},
    "llama": {"symbols": "characters", "metaspace": True, "prefix_space": True, "byte_fallback": True},
}


class Learned(NamedTuple):
    """The ids of the texts of all tokens, and the merges."""

    vocab: dict[str, int]
    merges: list[tuple[str, ...]]


def pre_tokenizer(options: dict[str, Any]) -> Any:
    """Return the pre-tokenizer of Hugging Face for options of bpejit."""
    steps = tokenizers.pre_tokenizers
    if options.get("metaspace"):
        return steps.Metaspace(prepend_scheme="always" if options.get("prefix_space") else "never")
    found = [steps.Split(tokenizers.Regex(str(PRESETS["gpt2"])), "isolated")]
    if "word_end" in options:
        found.append(steps.WhitespaceSplit())
    if "symbols" not in options:
        found.append(steps.ByteLevel(add_prefix_space=False, use_regex=False))
    return steps.Sequence(found)


def hugging_face(texts: Iterable[str], vocab_size: int, specials: Sequence[str], options: dict[str, Any]) -> Learned:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer(options)
    limits = {"limit_alphabet": options.get("limit_alphabet"), "end_of_word_suffix": options.get("word_end")}
    if "max_token_characters" in options:
        limits["max_token_length"] = options["max_token_characters"] + 1
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(specials),
        min_frequency=options.get("min_frequency", 0),
        show_progress=False,
        **{name: value for name, value in limits.items() if value is not None},
    )
    tokenizer.train_from_iterator(texts, trainer)
    found = json.loads(tokenizer.to_str())["model"]
    return Learned(found["vocab"], list(map(tuple, found["merges"])))


def marked_symbols(texts: Iterable[str], options: dict[str, Any]) -> list[str]:
    """Return the symbols of words with a suffix, in the order of bpejit; none for other options."""
    if "word_end" not in options:
        return []
    if "symbols" not in options:
        plain = sorted(CHARACTERS)
        return [*plain, *(one + SUFFIX for one in plain)]
    words = [word for text in texts for word, _ in pre_tokenizer(options).pre_tokenize_str(text)]
    plain = sorted(set("".join(words)))
    return [*plain, *(one + SUFFIX for one in sorted({word[-1] for word in words}))]


def in_file(model: Model) -> Learned:
    """Return what the `tokenizer.json` of a model has."""
    texts = file_texts(model)
    by_token = {token: texts[number] for number, token in model.tokens.items()}
    if model.symbols is not None and not model.symbols.characters:  # the suffix is written as it is
        mark = encode_byte_characters(SUFFIX.encode())
        ended = {token: text.removesuffix(mark) + SUFFIX for token, text in by_token.items() if text.endswith(mark)}
        by_token |= {token: text for token, text in ended.items() if text != SUFFIX}
        texts |= {model.ids[token]: text for token, text in by_token.items()}
    merges = [(by_token[left], by_token[right]) for left, right in model.merges]
    return Learned({text: number for number, text in texts.items()}, merges)


def ours(texts: Iterable[str], vocab_size: int, **options: Any) -> Learned:
    given_specials = [] if options.get("unk_token") else ["<s>"]
    settings: dict[str, Any] = {"tie_break": "hf", "special_tokens_first": True, "special_tokens": given_specials, **options}
    model = bpejit.train_from_iterator(iter(texts), vocab_size=vocab_size, unicode="16.0", **settings).model
    return in_file(model)


def both(texts: Sequence[str], n_merges: int, options: dict[str, Any]) -> tuple[Learned, Learned]:
    """Return what bpejit and Hugging Face's trainer learn with `n_merges` more tokens than there are before merging."""
    symbols = marked_symbols(texts, options)
    specials = [options.get("unk_token", "<s>"), *(BYTE_TEXTS if options.get("byte_fallback") else []), *symbols]
    n_first = len(hugging_face(texts, 0, specials, options).vocab)
    theirs = hugging_face(texts, n_first + n_merges, specials, options)
    return ours(texts, n_first + n_merges, **options), theirs


words = st.text("aab é你好日\n'", min_size=1, max_size=6)
texts = st.lists(st.lists(words, min_size=1, max_size=12).map(" ".join), min_size=1, max_size=4)


@pytest.mark.filterwarnings("ignore:nothing was left to merge")
@pytest.mark.parametrize("kind", KINDS)
@examples(0.6)
@given(texts=texts, n_merges=st.integers(0, 30), least=st.integers(1, 2), longest=st.sampled_from([None, 2, 3]))
@example(["a  b ▁c ▁", "▁"], 10, 1, None)
@example(["aaaa aaa aa aaaaa", "ab" * 9], 10, 1, 3)
def test_random_texts(kind: str, texts: list[str], n_merges: int, least: int, longest: int | None) -> None:
    options = KINDS[kind] | {"min_frequency": least}
    if longest is not None and "symbols" in options:
        options["max_token_characters"] = longest
    assume("word_end" not in options or any(text.strip() for text in texts))
    found, expected = both(texts, n_merges, options)
    assert found == expected


@pytest.mark.filterwarnings("ignore:nothing was left to merge")
@pytest.mark.parametrize("kind", ["characters", "unknown", "metaspace", "llama"])
@examples(0.4)
@given(texts=texts, limit=st.integers(1, 9), n_merges=st.integers(0, 30))
@example(["ab你c ab你c a你b ba", "a b c a b c"], 3, 10)
def test_characters_that_are_left_out(kind: str, texts: list[str], limit: int, n_merges: int) -> None:
    """Their neighbors are adjacent, as in Hugging Face's trainer."""
    options = KINDS[kind] | {"limit_alphabet": limit}
    pieces = [piece for text in texts for piece, _ in pre_tokenizer(options).pre_tokenize_str(text)]
    counts = [count for _, count in Counter("".join(pieces)).most_common()]
    assume(len(counts) <= limit or counts[limit - 1] > counts[limit])  # it chooses among equally frequent ones at random
    found, expected = both(texts, n_merges, options)
    assert found == expected


@pytest.mark.filterwarnings("ignore:nothing was left to merge")
@examples(0.5)
@given(texts=texts, n_merges=st.integers(0, 30))
def test_the_order_of_marked_characters(texts: list[str], n_merges: int) -> None:
    options = KINDS["word end"]
    assume(any(text.strip() for text in texts))
    counted = Counter(piece for text in texts for piece, _ in pre_tokenizer(options).pre_tokenize_str(text))
    first = hugging_face(texts, 0, [], options).vocab
    found = hugging_face(texts, len(first) + n_merges, [], options)
    order = sorted(found.vocab, key=found.vocab.__getitem__)[: len(first)]
    alphabet, marked = ([one for one in order if one.endswith(SUFFIX) == marks] for marks in (False, True))
    assert order == [*sorted(alphabet), *marked]
    expected = [one.removesuffix(SUFFIX) for one in marked]
    learned = twins.symbols.learn_symbol_merges(list(counted.items()), alphabet, expected, SUFFIX, n_merges)
    assert [(left, right) for left, right, _ in learned] == found.merges
    again = twins.symbols.learn_symbol_merges(list(counted.items()), alphabet, sorted(expected), SUFFIX, n_merges)
    assert [(left, right) for left, right, _ in again] == ours(texts, len(first) + n_merges + 1, **options).merges


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("name", ["english", pytest.param("multilingual", marks=pytest.mark.parity)])
@pytest.mark.parametrize("kind", KINDS)
def test_corpora(kind: str, name: str) -> None:
    text = read_shared(f"corpora/{name}.txt")[: 5_000_000 if name == "multilingual" else 2_000_000].decode("utf-8", "ignore")
    found, expected = both(text.split("<|endoftext|>"), 8_000, KINDS[kind])
    assert found == expected


@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_the_repository(kind: str) -> None:
    data = b"".join(data_text(name)[: small(100_000, 500)] for name in ("prose.txt", "cjk.txt", "code.txt"))
    found, expected = both([data.decode("utf-8", "ignore")], small(500, 20), KINDS[kind])
    assert found == expected


@pytest.fixture(scope="module", params=KINDS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bpejit.Tokenizer]:
    """Return a folder, and the tokenizer that was saved to it."""
    folder = tmp_path_factory.mktemp("saved") / "tokenizer"
    text = b"".join(data_text(name)[: small(30_000, 500)] for name in ("prose.txt", "cjk.txt")).decode("utf-8", "ignore")
    options = KINDS[request.param]
    if "symbols" in options:
        options = options | {"limit_alphabet": 300} | ({"unk_token": "<unk>"} if "word_end" in options else {})
    return folder, bpejit.train_from_iterator([text], vocab_size=1200, unicode="16.0", out=folder, **options)


@given(texts, st.booleans())
@example(["Hello <s> the <unk> world  \n\n x 龘 \U0001f600", "", " "], True)
@example(["", " ", "\n\n"], False)
def test_saved_files_have_the_same_ids_there(saved: tuple[Path, bpejit.Tokenizer], texts: list[str], special: bool) -> None:
    folder, trained = saved
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    loaded = bpejit.load(folder)
    assert loaded.model == trained.model
    for text in texts:
        given_text = f"{text}<|endoftext|>{text}" if special else text
        ids = trained.encode(given_text, allowed_special="all")
        assert ids == loaded.encode(given_text, allowed_special="all")
        assert ids == theirs.encode(given_text, add_special_tokens=False).ids
        assert trained.decode(ids) == theirs.decode(ids, skip_special_tokens=False)
