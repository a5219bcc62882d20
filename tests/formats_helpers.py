"""Random models, for what reads and writes them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from bpejit.model import Model

SPECIAL_TEXT = st.one_of(
    st.sampled_from(
        ["<|endoftext|>", "<|end", "<a>", "<a><b>", "a><b", "[INST]", " <x> ", "é", "<é>", "Ġ", "Ġt", "\n\n", "日本", "🙂"]
    ),
    st.text(min_size=1, max_size=5),
)
"""Special tokens that overlap, that look like byte characters, and others."""

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
        Leave out what only a model made by hand has: ordinary tokens that no merge makes.
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
    """Return a copy of nested dicts and lists in which one value is another, or missing if `new` is `...`."""
    copy = value.copy()
    key, *rest = path
    if rest:
        copy[key] = changed(value[key], tuple(rest), new)
    elif new is ...:
        del copy[key]
    else:
        copy[key] = new
    return copy
