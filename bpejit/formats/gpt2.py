"""GPT-2's pair of files: `vocab.json`, a mapping from token text to id, and `merges.txt`, one merge per line in order.

Bytes are written as byte characters (see `bpejit.normalization.byte_characters`), special tokens as plain text. The files do
not contain the special tokens or the split pattern. These are known for the published pair, are read from the sidecar of a
pair that bpejit wrote (see `bpejit.formats.missing_parts`), or must be passed. Other tools always split by GPT-2's pattern. An
exported pair comes with `tokenizer_config.json`, from which `transformers.AutoTokenizer` reads the special tokens.
"""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, SupportsIndex

from bpejit import arguments
from bpejit.errors import ArgumentTypeError, TokenizerFormatError, shorten
from bpejit.formats.missing_parts import GPT2_VOCAB, Known, read_sidecar
from bpejit.formats.tokenizer_files import broken_line, check_gaps
from bpejit.model import Model, pattern_source, special_bytes
from bpejit.normalization.byte_characters import CHARACTERS, decode_byte_characters, decoded_or_none, encode_byte_characters
from bpejit.splitting.presets import PRESETS, Pattern
from bpejit.storage.files import StrPath, parse_json, read_file
from bpejit.utf8 import has_surrogates

VOCAB_FILE = "vocab.json"

MERGES_FILE = "merges.txt"

VERSION_LINE = "#version: 0.2"
"""The first line of GPT-2's merges file. Other lines cannot be comments, since `#` is also a byte character."""


def model_from_vocab(
    vocab: Mapping[int, bytes],
    merges: Iterable[Sequence[bytes]],
    special_tokens: Iterable[str] | None = None,
    *,
    special_ids: Mapping[str, int] | None = None,
    pattern: Pattern = "gpt2",
    unicode: str | None = None,
) -> Model:
    """Create a model from a vocabulary of ordinary and special tokens.

    Parameters
    ----------
    vocab : dict of int to bytes
        Not modified.
    merges : iterable of (bytes, bytes)
        In order of rank.
    special_tokens : iterable of str, optional
        Tokens whose bytes are in the vocabulary keep their ids. The others get the ids after the largest one, in order.
        Duplicates are ignored.
    special_ids : dict of str to int, optional
        The ids of the special tokens, if they are known.
    pattern : str or tuple of str
        Name of a preset, a regular expression, or a sequence of these.
    unicode : str, optional
        The version of Unicode that the pattern follows; by default the version of the `regex` package.

    Raises
    ------
    TypeError
        If an argument has the wrong type, such as text instead of bytes.
    TokenizerFormatError
        If vocabulary and merges are not a valid tokenizer, or a special token has another id in the vocabulary.
    """
    if not isinstance(vocab, Mapping):
        raise arguments.wrong_type("vocab", vocab, "a dict of int to bytes", "give one, or read files with `from_files`")
    if not arguments.is_iterable(merges):
        raise arguments.wrong_type("merges", merges, "a list of pairs of bytes", "give one, or read files with `from_files`")
    tokens = {_checked_id(token_id, token): bytes(token) for token_id, token in vocab.items()}
    pairs = [_checked_pair(rank, pair) for rank, pair in enumerate(merges)]
    if special_tokens is not None and not arguments.is_iterable(special_tokens):
        raise arguments.wrong_type("special_tokens", special_tokens, "a list of str", f"give [{shorten(special_tokens)}]")
    specials: dict[str, int] = {}
    if special_tokens is not None:
        ids = {token: token_id for token_id, token in tokens.items()}
        given = special_ids or {}
        needed = _needed_by_merges(pairs)
        following = max(tokens, default=-1) + 1
        for text in special_tokens:
            if not isinstance(text, str):
                raise ArgumentTypeError(f"the special token {shorten(text)} is a {type(text).__name__}; expected a str")
            if text in specials:
                continue
            token = special_bytes(text)
            token_id = ids.get(token)
            if token_id is None:
                specials[text] = given.get(text, following)
                following += 1
            elif given.get(text, token_id) != token_id:
                raise TokenizerFormatError(
                    f"the vocabulary has the token {shorten(text)} with id {token_id}, not {given[text]}; expected the ids of "
                    "the vocabulary: correct `special_tokens=`"
                )
            else:
                specials[text] = token_id
                if len(token) > 1 and token not in needed:
                    del tokens[token_id]
    return Model(tokens=tokens, merges=pairs, special_tokens=specials, pattern=pattern, unicode=unicode)


def _needed_by_merges(merges: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    return set(chain.from_iterable((left, right, left + right) for left, right in merges))


def _checked_id(token_id: SupportsIndex, token: Any) -> int:
    if not isinstance(token, (bytes, bytearray)):
        raise ArgumentTypeError(
            f"token {shorten(token_id)} of the vocabulary is {arguments.described(token)}; "
            "expected a dict of int to bytes (`read_gpt2_pair` reads vocabulary files)"
        )
    try:
        return operator.index(token_id)
    except TypeError:
        raise ArgumentTypeError(
            f"the vocabulary has the id {arguments.described(token_id)}; expected a dict of int to bytes"
        ) from None


def _checked_pair(rank: int, pair: Sequence[bytes]) -> tuple[bytes, bytes]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(isinstance(token, bytes) for token in pair):
        raise ArgumentTypeError(f"merge {rank + 1} is {shorten(pair)}; expected a pair of bytes")
    return pair[0], pair[1]


def read_gpt2_pair(
    vocab_path: StrPath,
    merges_path: StrPath,
    special_tokens: Iterable[str] | None = None,
    *,
    special_ids: Mapping[str, int] | None = None,
    pattern: Pattern = "gpt2",
    unicode: str | None = None,
) -> Model:
    """Read `vocab.json` and `merges.txt`.

    Special tokens that are not in the vocabulary are appended to it. The parameters are those of `model_from_vocab`.

    Raises
    ------
    TokenizerFormatError
        If a file is missing or broken, or the merges do not match the vocabulary. The message names file and position.
    """
    listed = list(special_tokens or ())
    numbered = read_merges(merges_path)
    merges = list(numbered)
    vocab = _read_vocab(vocab_path, listed, _needed_by_merges(merges))
    known = set(vocab.values())
    for (left, right), number in numbered.items():
        for token in (left, right, left + right):
            if token not in known:
                raise TokenizerFormatError(
                    f"`{merges_path}`, line {number} joins {shorten(left)} and {shorten(right)}, but {shorten(token)} is "
                    f"not in `{vocab_path}`; expected two files of one tokenizer: check that they belong together"
                )
    try:
        model = model_from_vocab(vocab, merges, listed, special_ids=special_ids, pattern=pattern, unicode=unicode)
    except TokenizerFormatError as error:
        raise TokenizerFormatError(f"`{vocab_path}` and `{merges_path}`: {error}") from error
    check_gaps(model, vocab_path, given=special_ids is not None)
    return model


def known_pair(vocab_path: StrPath, data: bytes) -> Known | None:
    """Return what a pair does not contain, from its sidecar or for the published pair; None if it is not known."""
    known = read_sidecar(vocab_path, data)
    return GPT2_VOCAB if known is None and hashlib.sha256(data).hexdigest() == GPT2_VOCAB.sha256 else known


def _read_vocab(path: StrPath, special_tokens: list[str], needed: set[bytes]) -> dict[int, bytes]:
    """Read a vocabulary. Text of byte characters is decoded to bytes; other text is a token that was added as plain text."""
    entries = parse_json(
        read_file(path, error=TokenizerFormatError, what="vocabulary"), path, error=TokenizerFormatError, hook=tuple
    )
    # An object is parsed to a tuple of pairs, so that duplicate keys are found.
    if not isinstance(entries, tuple):
        raise TokenizerFormatError(f"`{path}` is not a JSON object; expected token text -> id: check that it is a vocabulary")
    # A special token such as `<é>` consists of byte characters, too. It is plain text if no merge needs the bytes that it
    # would decode to, and if its own bytes are not also in the vocabulary.
    present = {text for text, _ in entries}
    plain = {
        text
        for text in special_tokens
        if len(text) > 1 and text in present and encode_byte_characters(special_bytes(text)) not in present
    } - {encode_byte_characters(token) for token in needed}
    vocab: dict[int, bytes] = {}
    texts: dict[bytes, str] = {}
    for text, token_id in entries:
        if type(token_id) is not int:
            raise TokenizerFormatError(
                f"`{path}`: the token {shorten(text)} has the id {shorten(token_id)}; expected a whole number"
            )
        decoded = None if text in plain else decoded_or_none(text)
        token = special_bytes(text) if decoded is None else decoded
        if token_id in vocab:
            raise TokenizerFormatError(
                f"`{path}`: the tokens {shorten(texts[vocab[token_id]])} and {shorten(text)} both have the id {token_id}; "
                "expected one token for each id: remove or renumber one"
            )
        if token in texts:
            raise TokenizerFormatError(
                f"`{path}`: the tokens {shorten(texts[token])} and {shorten(text)} both represent the bytes {shorten(token)}; "
                "expected one token for these bytes: remove one"
            )
        vocab[token_id] = token
        texts[token] = text
    return vocab


def read_merges(path: StrPath) -> dict[tuple[bytes, bytes], int]:
    """Return the pairs in order, with the line number of each."""
    numbers: dict[tuple[bytes, bytes], int] = {}
    for (left, right), number in read_merge_texts(path).items():
        try:
            numbers[decode_byte_characters(left), decode_byte_characters(right)] = number
        except ValueError as cause:  # noqa: PERF203 (the position is needed)
            raise broken_line(path, number, f"{left} {right}".encode(), "two tokens in byte characters") from cause
    return numbers


def read_merge_texts(path: StrPath) -> dict[tuple[str, str], int]:
    """Return the pairs in order as they are written, with the line number of each."""
    data = read_file(path, error=TokenizerFormatError, what="merges file")
    lines = data.split(b"\n")
    while lines and not lines[-1].rstrip(b"\r"):
        lines.pop()
    numbers: dict[tuple[str, str], int] = {}
    for number, line in enumerate(lines, start=1):
        if number == 1 and line.startswith(b"#version"):
            continue
        try:
            left, right = line.removesuffix(b"\r").decode("utf-8").split(" ")
        except ValueError as cause:
            raise broken_line(path, number, line, "two tokens with one space between them") from cause
        if not left or not right:
            raise broken_line(path, number, line, "two tokens with one space between them")
        if (left, right) in numbers:
            raise broken_line(path, number, line, f"each pair only once (this one is in line {numbers[left, right]})")
        numbers[left, right] = number
    return numbers


def pair_obstacle(model: Model) -> str | None:
    """Return why other tools would give other ids, or None if they would not."""
    if model.symbols_obstacle is not None:
        return model.symbols_obstacle
    if model.pipeline is not None:
        return "it normalizes text, or splits it in several steps (see `Model.pipeline`)"
    # `r50k` is another spelling of the same pattern.
    if pattern_source(model.pattern) not in (PRESETS["gpt2"], PRESETS["r50k"]):
        return "it does not split by the pattern `gpt2`, the one that readers of these files use"
    if model.ranked or model.ignore_merges:
        from bpejit.formats.ranked_merges import recover_merges  # not at the top: it loads kernels

        _, unreachable = recover_merges(model.tokens)
        if unreachable:
            token = shorten(unreachable[0])
            return f"it keeps whole tokens that no merges form, such as {token}, which these files cannot represent"
    return None


def pair_contents(model: Model, vocab_path: StrPath) -> tuple[bytes, bytes]:
    """Return the content of the two files; raise TokenizerFormatError unless every special token is written as plain text."""
    merge_list = model.merges
    if model.ranked:
        from bpejit.formats.ranked_merges import as_merge_list  # not at the top: it loads kernels

        merge_list = as_merge_list(model)
    texts = {token_id: encode_byte_characters(token) for token_id, token in model.tokens.items()}
    taken = set(texts.values())
    for text, token_id in model.special_tokens.items():
        forms = {text, encode_byte_characters(special_bytes(text))}
        if token_id in texts:
            is_plain = texts[token_id] == text
        else:
            is_plain = not (has_surrogates(text) or (len(text) == 1 and text in CHARACTERS) or forms & taken)
        if not is_plain:
            raise TokenizerFormatError(
                f"the special token {shorten(text)} cannot be written to `{vocab_path}` as plain text, because it is a "
                "single character, not valid UTF-8, or written like another token; expected a unique text, by which other "
                "tools find it: save the tokenizer in another format"
            )
        texts[token_id] = text
        taken |= forms
    vocab = json.dumps({texts[token_id]: token_id for token_id in sorted(texts)}, ensure_ascii=False)
    merges = "".join(f"{encode_byte_characters(left)} {encode_byte_characters(right)}\n" for left, right in merge_list)
    return vocab.encode(), f"{VERSION_LINE}\n{merges}".encode()
