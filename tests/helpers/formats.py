"""Random models for the tests of formats."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from bpejit.formats.base import load_format
from bpejit.model import Model

read_tiktoken = load_format("tiktoken").read
write_tiktoken = load_format("tiktoken").write
read_tekken = load_format("tekken").read
load_gpt2_pair = load_format("gpt2").read
save_gpt2_pair = load_format("gpt2").write

SPECIAL_TEXT = st.one_of(
    st.sampled_from(
        ["<|endoftext|>", "<|end", "<a>", "<a><b>", "a><b", "[INST]", " <x> ", "é", "<é>", "Ġ", "Ġt", "\n\n", "日本", "🙂"]
    ),
    st.text(min_size=1, max_size=5),
)
"""Special tokens that overlap or look like byte characters, and others."""

TEXT = st.lists(
    st.one_of(
        st.sampled_from(
            ["the", " the", " then", "don't", "  \n ", "12345", "é", "日本語", "🙂", "\u00a0", "\u2028x", "Ǆa", "\t"]
        ),
        SPECIAL_TEXT,
        st.text(max_size=10),
    ),
    max_size=12,
).map("".join)


@st.composite
def models(draw: st.DrawFn, *, pattern: str | None = None, reachable: bool = False) -> Model:
    """Draw a model of a few merges, with ids in any order and with gaps.

    Parameters
    ----------
    pattern : str, optional
    reachable : bool
        If true, every ordinary token is produced by a merge; a hand-made model may have others.
    """
    tokens = [bytes([byte]) for byte in range(256)]
    merges: list[tuple[bytes, bytes]] = []
    frequent = list(range(10)) + [tokens.index(bytes([byte])) for byte in b" taeonhis<>|'\xc3\xa9\xe6\x97\xa5"]
    for _ in range(draw(st.integers(0, 25))):
        pick = st.one_of(st.sampled_from(frequent), st.integers(0, len(tokens) - 1))
        pair = tokens[draw(pick)], tokens[draw(pick)]
        if pair not in merges and pair[0] + pair[1] not in tokens:
            merges.append(pair)
            tokens.append(pair[0] + pair[1])
            frequent.append(len(tokens) - 1)
    specials = draw(st.lists(SPECIAL_TEXT, max_size=5, unique=True))
    if not reachable:
        extra = draw(st.lists(st.binary(min_size=2, max_size=6), max_size=3, unique=True))
        tokens += [token for token in extra if token not in tokens]
    ids = draw(id_layouts(len(tokens), len(specials)))
    by_id = dict(zip(ids, tokens, strict=False))
    # Some special tokens are ordinary tokens as well.
    known = {token: token_id for token_id, token in by_id.items()}
    special_ids = {}
    for text, token_id in zip(specials, ids[len(tokens) :], strict=True):
        shared = known.get(text.encode())
        special_ids[text] = token_id if shared is None or draw(st.booleans()) else shared
    return Model(
        tokens=by_id,
        merges=merges,
        special_tokens=special_ids,
        pattern=pattern
        or draw(
            st.sampled_from(
                ["gpt2", "cl100k", "llama3", "qwen2", "o200k", "starcoder", r"\p{L}+|\s+|.", (r"\p{N}", r"\s+|\S+")]
            )
        ),
        tie_break=draw(st.sampled_from([None, "greatest-bytes", "hf"])),
        unicode=draw(st.sampled_from([None, "15.0", "16.0"])),
        merge_counts=draw(st.sampled_from([None, [2**40 - rank for rank in range(len(merges))]])),
        training=draw(st.sampled_from([{}, {"inputs": [{"path": "a\udc80.txt", "bytes": 3}], "note": "é", "none": None}])),
    )


@st.composite
def id_layouts(draw: st.DrawFn, n_tokens: int, n_specials: int) -> list[int]:
    """Draw an id for each token, then for each special token."""
    layout = draw(st.sampled_from(["specials last", "specials first", "gaps", "shuffled"]))
    total = n_tokens + n_specials
    ids = list(range(total))
    if layout == "specials first":
        return ids[n_specials:] + ids[:n_specials]
    if layout == "gaps":
        step = draw(st.integers(2, 500))
        return [token_id * 3 for token_id in ids[:n_tokens]] + [3 * total + step * token_id for token_id in range(n_specials)]
    if layout == "shuffled":
        draw(st.randoms(use_true_random=False)).shuffle(ids)
    return ids


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return a copy of nested dicts and lists with one value replaced, or removed if `new` is `...`."""
    copy = value.copy()
    key, *rest = path
    if rest:
        copy[key] = changed(value[key], tuple(rest), new)
    elif new is ...:
        del copy[key]
    else:
        copy[key] = new
    return copy


BYTES = {byte: bytes([byte]) for byte in range(256)}

RANKED = Model(BYTES | {256: b"ab", 257: b"abc"}, [], {"<|endoftext|>": 300}, ranked=True)

PAIR = Model(BYTES | {256: b"ab"}, [(b"a", b"b")], {"<|endoftext|>": 257})

PATTERN = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def tekken(
    *, special_tokens: list[str] | None, n_specials: int, longer: list[bytes], unused: int, version: str
) -> dict[str, Any]:
    """Return the content of a tekken.json, as in mistral-common."""
    tokens = [*(bytes([byte]) for byte in range(256)), *longer, *(b"unused%d" % number for number in range(unused))]
    vocab = [
        {
            "rank": rank,
            "token_bytes": base64.b64encode(token).decode(),
            "token_str": token.decode() if token.isascii() else None,
        }
        for rank, token in enumerate(tokens)
    ]
    content: dict[str, Any] = {
        "config": {
            "pattern": PATTERN,
            "num_vocab_tokens": len(tokens),
            "default_vocab_size": n_specials + 256 + len(longer),
            "default_num_special_tokens": n_specials,
            "version": version,
        },
        "vocab": vocab,
    }
    if special_tokens is not None:
        content["special_tokens"] = [
            {"rank": rank, "token_str": text, "is_control": True} for rank, text in enumerate(special_tokens)
        ]
    return content


NEWER = tekken(special_tokens=["<unk>", "<s>", "</s>"], n_specials=5, longer=[b" a", b" ab", b"xyz"], unused=3, version="v11")

OLDER = tekken(special_tokens=None, n_specials=1000, longer=[b" a", b" ab"], unused=3, version="v3")


@st.composite
def grown_models(draw: st.DrawFn) -> Model:
    """Draw ranked models whose longer tokens combine shorter ones, roughly in the order of training."""
    tokens = [b"a", b"b", b" "]
    for left, right in draw(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=16)):
        token = tokens[left % len(tokens)] + tokens[right % len(tokens)]
        if len(token) <= 12 and token not in tokens:
            tokens.append(token)
    longer = tokens[3:]
    order = draw(st.sampled_from(["made", "shuffled", "long first", "two exchanged"]))
    if order == "shuffled":
        longer = draw(st.permutations(longer))
    elif order == "long first":
        longer.sort(key=len, reverse=True)
    elif order == "two exchanged" and longer:
        i, j = draw(st.integers(0, len(longer) - 1)), draw(st.integers(0, len(longer) - 1))
        longer[i], longer[j] = longer[j], longer[i]
    return Model(BYTES | dict(enumerate(longer, start=256)), [], pattern=r"[\s\S]+", ranked=True)


def hugging_face(folder: Path) -> Callable[[str], list[int]]:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids
