"""The number of tokens of a corpus, from its counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from bpejit import arguments
from bpejit.arrays import Array, ByteStrings
from bpejit.counting.counts import Counts
from bpejit.counting.table_streams import even_blocks
from bpejit.encoding.encoder import Encoder
from bpejit.errors import CountsError, TokenizerFormatError
from bpejit.inspection.vocabulary_measures import compression_curve, merge_parts
from bpejit.model import Model, special_bytes
from bpejit.splitting.presets import pattern_source
from bpejit.tokenizer import Tokenizer


@arguments.explain_wrong_arguments
def tokens_by_size(counts: Counts, tokenizer: Tokenizer, vocab_sizes: Sequence[int]) -> list[int]:
    """Return the number of tokens of a corpus for smaller sizes of a tokenizer (see `Tokenizer.shrink`).

    Parameters
    ----------
    counts : Counts
        With the pattern and the special tokens of the tokenizer.
    tokenizer : Tokenizer
        Trained by bpejit, so that each merge makes another token.
    vocab_sizes : sequence of int
        Up to the size of the tokenizer.

    Returns
    -------
    list of int
        For each size, tokens without special tokens.

    Raises
    ------
    ArgumentTypeError, CountsError, TokenizerFormatError
    """
    counts = arguments.instance("counts", counts, Counts, "load them with `bpejit.Counts.load`")
    model = arguments.instance("tokenizer", tokenizer, Tokenizer, "load it with `bpejit.load`").model
    if model.ranked or len({left + right for left, right in model.merges}) < len(model.merges):
        raise TokenizerFormatError(
            "the tokens of the tokenizer cannot be counted by size: it has no list of merges that each make another token; "
            "expected a tokenizer trained by bpejit: encode with each size instead"
        )
    if not arguments.is_iterable(vocab_sizes):
        raise arguments.wrong_type("vocab_sizes", vocab_sizes, "a list of whole numbers", "give one")
    least, most = len(model.vocab) - len(model.merges), len(model.vocab)
    sizes = [
        arguments.whole_number(f"vocab_sizes[{number}]", size, least=least, most=most)
        for number, size in enumerate(vocab_sizes)
    ]
    return model_tokens_by_size(counts, model, sizes)[1]


def model_tokens_by_size(counts: Counts, model: Model, vocab_sizes: Sequence[int]) -> tuple[int, list[int]]:
    """Return the number of bytes of all pre-tokens of a corpus, and the number of its tokens for several sizes of a vocabulary.

    The corpus is encoded once, with the largest vocabulary (see `compression_curve`). The counts of the merges when they were
    learned do not give the result, since the overlapping pairs in a run like `aaa` all count there.

    The model has a list of merges, each of which makes another token. Special tokens do not count.

    Raises
    ------
    CountsError
        If the counts were made with another pattern, other special tokens or another version of Unicode.
    """
    check_same_pretokens(counts, model)
    numbers = np.zeros(model.vocab_size, np.int64)
    for ids, ends, weights in encoded_blocks(counts, model):
        np.add.at(numbers, ids, np.repeat(weights, np.diff(ends, prepend=0)))
    tokens: list[int] = compression_curve(model, merge_parts(model), numbers)[1].tolist()
    first = len(model.vocab) - len(model.merges)
    return tokens[0], [tokens[min(size - first, len(model.merges))] for size in vocab_sizes]


def encoded_blocks(counts: Counts, model: Model) -> Iterator[tuple[Array, Array, Array]]:
    """Yield the ids of the pre-tokens in blocks, the end of each pre-token among these ids, and its count."""
    encoder = Encoder(model)
    workspace = encoder.new_workspace()
    for block in even_blocks(counts.blocks()):
        yield *encoder.encode_strings(ByteStrings(block.pool, block.starts), workspace), block.counts


def check_same_pretokens(counts: Counts, model: Model) -> None:
    """Check that counts were made with the pattern, the version of Unicode and the special tokens of a model.

    Raises
    ------
    CountsError
    """
    pairs: Iterable[tuple[str, object, object]] = (
        ("pattern", pattern_source(counts.pattern), pattern_source(model.pattern)),
        ("unicode", counts.unicode, model.unicode or counts.unicode),
        ("special tokens", sorted(map(special_bytes, counts.special_tokens)), sorted(model.special_ids)),
    )
    for what, found, expected in pairs:
        if found != expected:
            raise CountsError(
                f"the counts were made with the {what} {found!r}; expected {expected!r}, as in the tokenizer: count again with "
                "it"
            )
