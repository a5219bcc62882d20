"""GPT-2's pair of files: `vocab.json`, token text -> id, and `merges.txt`, one merge a line in order.

Bytes are written as `bpejit.normalization.byte_characters` describes; a special token is written as its plain text. The pair
says neither which tokens are special nor how text is split: that is known for the published pair, stands in the sidecar
of one that bpejit wrote (see `bpejit.formats.sidecar`), or has to be said. Other tools split by GPT-2's pattern,
whatever the pair. `tokenizer_config.json` beside an exported pair tells `transformers.AutoTokenizer` which tokens are special.
"""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, SupportsIndex

from bpejit import arguments
from bpejit.errors import ArgumentTypeError, TokenizerFormatError, shorten
from bpejit.formats.huggingface import CONFIG_FILE, gpt2_config_json
from bpejit.formats.published import GPT2_VOCAB, TOOLS_UNICODE, Published
from bpejit.formats.sidecar import Sidecar, read_sidecar, recover_files, sidecar_json, sidecar_path
from bpejit.model import Model, pattern_source, special_bytes
from bpejit.normalization.byte_characters import bytes_to_text, text_to_bytes
from bpejit.splitting.presets import PRESETS, Pattern
from bpejit.storage.files import StrPath, parse_json, read_file, replacing_all
from bpejit.storage.outputs import check_outputs

VOCAB_FILE = "vocab.json"

MERGES_FILE = "merges.txt"

VERSION_LINE = "#version: 0.2"
"""The first line of GPT-2's merges file; only a first line is a comment, since `#` is also the text of a byte."""


def model_from_vocab(
    vocab: Mapping[int, bytes],
    merges: Iterable[Sequence[bytes]],
    special_tokens: Iterable[str] | None = None,
    *,
    pattern: Pattern = "gpt2",
    unicode: str | None = None,
) -> Model:
    """Make a model from a vocabulary that mixes ordinary and special tokens.

    Parameters
    ----------
    vocab : dict of int to bytes
        Not modified.
    merges : iterable of (bytes, bytes)
        In order of rank.
    special_tokens : iterable of str, optional
        One whose bytes are in the vocabulary keeps its id; the others get the ids after the largest, in order. Repeated
        ones count once.
    pattern : str or tuple of str
        Name of a preset, a regular expression, or a sequence of these.
    unicode : str, optional
        The version of Unicode that the pattern follows; by default that of the `regex` package.

    Raises
    ------
    TypeError
        If an argument is not of these types: most often text where bytes are wanted.
    TokenizerFormatError
        If vocabulary and merges do not make a tokenizer.
    """
    if not isinstance(vocab, Mapping):
        raise arguments.wrong_type("vocab", vocab, "a dict of int to bytes", "give one, or read files with `from_files`")
    if isinstance(merges, (str, bytes)) or not isinstance(merges, Iterable):
        raise arguments.wrong_type("merges", merges, "a list of pairs of bytes", "give one, or read files with `from_files`")
    tokens = {_checked_id(token_id, token): bytes(token) for token_id, token in vocab.items()}
    pairs = [_checked_pair(rank, pair) for rank, pair in enumerate(merges)]
    if isinstance(special_tokens, (str, bytes)) or not isinstance(special_tokens, (Iterable, type(None))):
        raise arguments.wrong_type("special_tokens", special_tokens, "a list of str", f"give [{shorten(special_tokens)}]")
    specials: dict[str, int] = {}
    if special_tokens is not None:
        ids = {token: token_id for token_id, token in tokens.items()}
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
                specials[text] = following
                following += 1
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
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(isinstance(part, bytes) for part in pair):
        raise ArgumentTypeError(f"merge {rank + 1} is {shorten(pair)}; expected a pair of bytes")
    return pair[0], pair[1]


def read_gpt2_pair(
    vocab_path: StrPath,
    merges_path: StrPath,
    special_tokens: Iterable[str] | None = None,
    *,
    pattern: Pattern = "gpt2",
    unicode: str | None = None,
) -> Model:
    """Read `vocab.json` and `merges.txt`.

    Parameters
    ----------
    vocab_path, merges_path : path
    special_tokens : iterable of str, optional
        The files do not say which tokens are special. One that the vocabulary lacks is appended to it.
    pattern : str or tuple of str
        Name of a preset, a regular expression, or a sequence of these; the files do not say it either.
    unicode : str, optional
        The version of Unicode that the pattern follows; by default that of the `regex` package.

    Raises
    ------
    TokenizerFormatError
        If a file is missing or broken, or the two do not belong together; the message names file and place.
    """
    listed = list(special_tokens or ())
    numbered = _read_merges(merges_path)
    merges = list(numbered)
    vocab = _read_vocab(vocab_path, listed, _needed_by_merges(merges))
    known = set(vocab.values())
    for (left, right), number in numbered.items():
        for part in (left, right, left + right):
            if part not in known:
                raise TokenizerFormatError(
                    f"`{merges_path}`, line {number} joins {shorten(left)} and {shorten(right)}, but {shorten(part)} is "
                    f"not in `{vocab_path}`; expected two files of one tokenizer: check that they belong together"
                )
    try:
        return model_from_vocab(vocab, merges, listed, pattern=pattern, unicode=unicode)
    except TokenizerFormatError as error:
        raise TokenizerFormatError(f"`{vocab_path}` and `{merges_path}`: {error}") from error


def load_gpt2_pair(
    vocab_path: StrPath,
    *,
    pattern: Pattern | None = None,
    special_tokens: Mapping[str, int] | Iterable[str] | None = None,
    unicode: str | None = None,
) -> Model:
    """Read `vocab.json`, and `merges.txt` in the same folder.

    Parameters
    ----------
    vocab_path : path
    pattern : str or tuple of str, optional
        Must be given unless the pair is the published one, or bpejit wrote it.
    special_tokens : dict of str to int, or list of str, optional
        In place of those that are known. One that the vocabulary lacks is appended to it, if no id is given.
    unicode : str, optional
        The version of Unicode that the pattern follows; by default that which the sidecar says, or that of other tools.

    Raises
    ------
    TokenizerFormatError
        If a file is missing or broken, the pattern is not known, or a special token has another id in the vocabulary.
    """
    recover_files(vocab_path)
    data = read_file(vocab_path, error=TokenizerFormatError, what="vocabulary")
    known: Sidecar | Published | None = read_sidecar(vocab_path, data)
    if known is None and hashlib.sha256(data).hexdigest() == GPT2_VOCAB.sha256:
        known = GPT2_VOCAB
    if known is None and pattern is None:
        raise TokenizerFormatError(
            f"`{vocab_path}` does not say how text is split; expected GPT-2's own file, or one that bpejit wrote, with its "
            "sidecar: say `pattern=` (a preset's name or a regular expression), and `special_tokens=` if there are any"
        )
    if known is not None:
        pattern = known.pattern if pattern is None else pattern
        special_tokens = known.special_tokens if special_tokens is None else special_tokens
    assert pattern is not None
    unicode = unicode or (known.unicode if known is not None else TOOLS_UNICODE)
    merges_path = Path(vocab_path).with_name(MERGES_FILE)
    model = read_gpt2_pair(vocab_path, merges_path, special_tokens, pattern=pattern, unicode=unicode)
    if not isinstance(special_tokens, Mapping):
        return model
    specials = dict(special_tokens)
    for text, token_id in model.special_tokens.items():
        if token_id != specials[text] and special_bytes(text) in read_gpt2_pair(vocab_path, merges_path).ids:
            raise TokenizerFormatError(
                f"`{vocab_path}` has the token {shorten(text)} with id {token_id}, not {specials[text]}; "
                "expected the ids of the vocabulary: correct `special_tokens=`"
            )
    try:
        return replace(model, special_tokens=specials)
    except TokenizerFormatError as error:
        raise TokenizerFormatError(f"`{vocab_path}`, with the special tokens given for it: {error}") from error


def _read_vocab(path: StrPath, special_tokens: list[str], needed: set[bytes]) -> dict[int, bytes]:
    """Read a vocabulary. Text that can stand for bytes does so; other text was added to the vocabulary as it stands."""
    entries = parse_json(
        read_file(path, error=TokenizerFormatError, what="vocabulary"), path, error=TokenizerFormatError, hook=tuple
    )
    # An object arrives as a tuple of pairs, so that repeated keys are seen.
    if not isinstance(entries, tuple):
        raise TokenizerFormatError(f"`{path}` holds no JSON object; expected token text -> id: check that it is a vocabulary")
    # A special token such as `<é>` looks like bytes as well. It is meant as it stands if no merge needs those bytes, and
    # if it is not there in the form that stands for its own bytes.
    present = {text for text, _ in entries}
    plain = {
        text
        for text in special_tokens
        if len(text) > 1 and text in present and bytes_to_text(special_bytes(text)) not in present
    } - {bytes_to_text(token) for token in needed}
    vocab: dict[int, bytes] = {}
    texts: dict[bytes, str] = {}
    for text, token_id in entries:
        if type(token_id) is not int:
            raise TokenizerFormatError(
                f"`{path}`: the token {shorten(text)} has the id {shorten(token_id)}; expected a whole number"
            )
        try:
            token = special_bytes(text) if text in plain else text_to_bytes(text)
        except UnicodeEncodeError:
            token = special_bytes(text)
        if token_id in vocab:
            raise TokenizerFormatError(
                f"`{path}`: the tokens {shorten(texts[vocab[token_id]])} and {shorten(text)} both have the id {token_id}; "
                "expected one token for each id: remove or renumber one"
            )
        if token in texts:
            raise TokenizerFormatError(
                f"`{path}`: the tokens {shorten(texts[token])} and {shorten(text)} both mean the bytes {shorten(token)}; "
                "expected each only once: remove one"
            )
        vocab[token_id] = token
        texts[token] = text
    return vocab


def _read_merges(path: StrPath) -> dict[tuple[bytes, bytes], int]:
    """Read the pairs in order, each with the number of its line."""
    data = read_file(path, error=TokenizerFormatError, what="merges file")
    lines = data.split(b"\n")
    while lines and not lines[-1].rstrip(b"\r"):
        lines.pop()
    numbers: dict[tuple[bytes, bytes], int] = {}
    for number, line in enumerate(lines, start=1):
        if number == 1 and line.startswith(b"#version"):
            continue
        try:
            left, right = line.removesuffix(b"\r").decode("utf-8").split(" ")
            pair = text_to_bytes(left), text_to_bytes(right)
        except ValueError as cause:
            raise _broken_line(path, number, line, "two tokens with one space between them") from cause
        if not left or not right:
            raise _broken_line(path, number, line, "two tokens with one space between them")
        if pair in numbers:
            raise _broken_line(path, number, line, f"each pair only once (this one is in line {numbers[pair]})")
        numbers[pair] = number
    return numbers


def _broken_line(path: StrPath, number: int, line: bytes, expected: str) -> TokenizerFormatError:
    shown = shorten(line.decode("utf-8", "backslashreplace"))
    return TokenizerFormatError(
        f"`{path}`, line {number} is broken: {shown}; expected {expected}: correct the line or get the file again"
    )


def write_gpt2_pair(model: Model, vocab_path: StrPath, merges_path: StrPath, *, overwrite: bool = False) -> None:
    """Write `vocab.json` and `merges.txt`; `read_gpt2_pair` with the same special tokens and pattern gives `model` back.

    Raises
    ------
    TokenizerFormatError
        If the format cannot say what the model is.
    OutputError
        If a file cannot be written, or exists and `overwrite` is false; both are then as they were.
    """
    check_outputs([vocab_path, merges_path], overwrite=overwrite)
    vocab, merges = _pair(model, vocab_path)
    with replacing_all([merges_path, vocab_path]) as (merges_file, vocab_file):
        merges_file.write(merges)
        vocab_file.write(vocab)


def gpt2_files(folder: StrPath) -> list[Path]:
    """Return the files that `save_gpt2_pair` writes: vocabulary, merges, configuration and sidecar."""
    vocab_path = Path(folder) / VOCAB_FILE
    return [vocab_path, Path(folder) / MERGES_FILE, Path(folder) / CONFIG_FILE, sidecar_path(vocab_path)]


def save_gpt2_pair(model: Model, folder: StrPath, *, overwrite: bool = False) -> None:
    """Write `vocab.json`, `merges.txt`, `tokenizer_config.json` and a sidecar to a folder that exists.

    Raises
    ------
    TokenizerFormatError
        If the format cannot say what the model is, or other tools would read it with other ids.
    OutputError
        If a file cannot be written, or exists and `overwrite` is false. What was there is unchanged.
    """
    vocab_path, merges_path, config_path, sidecar = gpt2_files(folder)
    obstacle = _obstacle(model)
    if obstacle:
        raise TokenizerFormatError(
            f"the tokenizer cannot be written as GPT-2's pair of files: {obstacle}; expected one to which other tools give "
            "equal ids: save it in another format"
        )
    check_outputs(gpt2_files(folder), overwrite=overwrite, folder=folder)
    vocab, merges = _pair(model, vocab_path, must_be_plain=True)
    targets = [merges_path, vocab_path, config_path, sidecar]
    with replacing_all(targets) as (merges_file, vocab_file, config_file, sidecar_file):
        merges_file.write(merges)
        vocab_file.write(vocab)
        config_file.write(gpt2_config_json(model))
        sidecar_file.write(sidecar_json(model, vocab))


def _obstacle(model: Model) -> str | None:
    """Return why those who read the pair would give other ids; None if they would not."""
    if model.preparation is not None:
        return "it changes text before it splits it, or cuts it in steps (see `Model.preparation`)"
    # `r50k` is another spelling, which splits alike.
    if pattern_source(model.pattern) not in (PRESETS["gpt2"], PRESETS["r50k"]):
        return "it does not split by the pattern `gpt2`, which is what readers of the pair take"
    if model.ranked or model.ignore_merges:
        from bpejit.formats.ranks import recover_merges  # it loads kernels

        _, unreachable = recover_merges(model.tokens)
        if unreachable:
            token = shorten(unreachable[0])
            return f"it leaves whole tokens whole, such as {token}, which merges do not make; the pair cannot say that"
    return None


def _pair(model: Model, vocab_path: StrPath, *, must_be_plain: bool = False) -> tuple[bytes, bytes]:
    """Return the content of the two files; with `must_be_plain`, each special token must stand in the vocabulary as it is."""
    merge_list = model.merges
    if model.ranked:
        from bpejit.formats.ranks import as_merge_list  # it loads kernels

        merge_list = as_merge_list(model)
    texts = {token_id: bytes_to_text(token) for token_id, token in model.tokens.items()}
    taken = set(texts.values())
    for text, token_id in model.special_tokens.items():
        if token_id in texts:
            continue
        written = bytes_to_text(special_bytes(text))
        if written in taken:
            raise TokenizerFormatError(
                f"the special token {shorten(text)} with id {token_id} cannot be written to `{vocab_path}`: an ordinary "
                "token has the same text, and the format has one id for each text: save a folder (`save_folder`) instead"
            )
        taken.add(written)
        texts[token_id] = text if _is_plain(text) or (len(text) > 1 and text not in taken and _is_utf8(text)) else written
        taken.add(texts[token_id])
    for text, token_id in model.special_tokens.items() if must_be_plain else ():
        if texts[token_id] != text:
            raise TokenizerFormatError(
                f"the special token {shorten(text)} cannot be written to `{vocab_path}` as it is, because it is a single "
                "character, not valid UTF-8, or written like another token; expected a text of its own, by which other tools "
                "find it: save the tokenizer in another format"
            )
    lines = (f"{json.dumps(texts[token_id], ensure_ascii=False)}: {token_id}" for token_id in sorted(texts))
    vocab = "{" + ", ".join(lines) + "}"
    merges = "".join(f"{bytes_to_text(left)} {bytes_to_text(right)}\n" for left, right in merge_list)
    return vocab.encode(), f"{VERSION_LINE}\n{merges}".encode()


def _is_plain(text: str) -> bool:
    """Whether a special token's text, written as it stands, can be read as nothing else."""
    if not _is_utf8(text):
        return False
    try:
        text_to_bytes(text)
    except UnicodeEncodeError:
        return True
    return False


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
