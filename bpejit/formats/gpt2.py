"""GPT-2's pair of files: `vocab.json`, a mapping from token text to id, and `merges.txt`, one merge per line in order.

Bytes are written as byte characters (see `bpejit.normalization.byte_characters`), special tokens as plain text. The files do
not contain the special tokens or the split pattern. These are known for the published pair, are read from the sidecar of a
pair that bpejit wrote (see `bpejit.formats.missing_parts`), or must be passed. Other tools always split by GPT-2's pattern. An
exported pair comes with `tokenizer_config.json`, from which `transformers.AutoTokenizer` reads the special tokens.

In a folder, tokens and settings beside the pair are read as `AutoTokenizer` of transformers 4.57 reads them: the class of the
tokenizer, which `tokenizer_config.json` or `config.json` names, says what the pair does not contain: the split pattern, the
special tokens where the settings lack them, and the tokens around each text.
"""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

from bpejit import arguments
from bpejit.errors import ArgumentTypeError, TokenizerFormatError, shorten, warn_user
from bpejit.formats.base import Given, TokenizerFormat, without_gz
from bpejit.formats.clip import CLASSES, added_tokens, model_from, word_content
from bpejit.formats.folder import TOKENIZER_FILE
from bpejit.formats.huggingface_writing import CONFIG_FILE, Component, byte_level, gpt2_config_json, pre_tokenizer_for
from bpejit.formats.missing_parts import GPT2_VOCAB, TOOLS_UNICODE, Known, no_pattern, read_sidecar, sidecar_json, sidecar_path
from bpejit.formats.settings_beside import (
    PATTERNS,
    SETTINGS_FILES,
    apply_settings,
    class_of,
    has_settings,
    pair_post_processor,
)
from bpejit.formats.tokenizer_files import (
    MERGES_FILE,
    TOKEN_BYTES_FILE,
    broken_line,
    check_gaps,
    distinct_fields,
    naming,
    plain_obstacle,
    read_json,
    read_merge_texts,
    refuse_obstacle,
    write_files,
)
from bpejit.model import Model, pattern_source, special_bytes
from bpejit.normalization.byte_characters import CHARACTERS, decode_byte_characters, decoded_or_none, encode_byte_characters
from bpejit.normalization.pipeline_config import added_token
from bpejit.splitting.presets import PRESETS, Pattern
from bpejit.storage.exchange import recover_description
from bpejit.storage.files import StrPath, parse_json, read_file
from bpejit.storage.outputs import check_output_folder, check_outputs, creating_folder
from bpejit.utf8 import has_surrogates

if TYPE_CHECKING:
    from typing_extensions import Unpack

VOCAB_FILE = "vocab.json"

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
    numbered: dict[tuple[bytes, bytes], int] = {}
    for (first, second), number in read_merge_texts(merges_path).items():
        try:
            numbered[decode_byte_characters(first), decode_byte_characters(second)] = number
        except ValueError as cause:  # noqa: PERF203 - the position is needed
            raise broken_line(merges_path, number, f"{first} {second}".encode(), "two tokens in byte characters") from cause
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
    with naming(vocab_path, merges_path):
        model = model_from_vocab(vocab, merges, listed, special_ids=special_ids, pattern=pattern, unicode=unicode)
    check_gaps(model, vocab_path, given=special_ids is not None)
    return model


def known_pair(vocab_path: StrPath, data: bytes) -> Known | None:
    """Return what a pair does not contain, from its sidecar or for the published pair; None if it is not known."""
    known = read_sidecar(vocab_path, data)
    return GPT2_VOCAB if known is None and hashlib.sha256(data).hexdigest() == GPT2_VOCAB.sha256 else known


def _read_vocab(path: StrPath, special_tokens: list[str], needed: set[bytes]) -> dict[int, bytes]:
    """Read a vocabulary. Text of byte characters is decoded to bytes; other text is a token that was added as plain text."""
    entries = read_json(path, what="vocabulary", hook=tuple)
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


def pair_obstacle(model: Model) -> str | None:
    """Return why other tools would give other ids, or None if they would not."""
    if (obstacle := plain_obstacle(model)) is not None:
        return obstacle
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


# ---- the format


class Gpt2Format(TokenizerFormat):
    """GPT-2's `vocab.json` and `merges.txt`."""

    name = "gpt2"
    expected = f"GPT-2's `{VOCAB_FILE}` with `{MERGES_FILE}` beside it"
    file_names = (VOCAB_FILE, MERGES_FILE, *SETTINGS_FILES)
    complete = False
    writable = True

    def find(self, folder: Path) -> list[Path]:
        """Return the vocabulary, unless the folder has a `tokenizer.json`, which is the same tokenizer in a newer format."""
        is_pair = (folder / MERGES_FILE).exists() and not (folder / TOKENIZER_FILE).exists()
        return super().find(folder) if is_pair else []

    def locate(self, file: Path) -> Path | None:
        """Return the vocabulary; raise TokenizerFormatError for the merges."""
        if without_gz(file).name == MERGES_FILE:
            raise TokenizerFormatError(f"`{file}` is one of two files; expected the other, `{VOCAB_FILE}`: pass its path")
        return super().locate(file)

    def recognizes(self, head: bytes, content: Any) -> bool:  # noqa: ARG002
        """Return True for an object that maps texts to ids."""
        return isinstance(content, dict) and bool(content) and all(type(value) is int for value in content.values())

    def read(self, path: Path, **given: Unpack[Given]) -> Model:
        """Return the model in a vocabulary and the merges beside it; a pattern is needed unless they are known."""
        known, data = _read_known(path)
        pattern, specials = given.get("pattern"), given.get("special_tokens")
        if known is None:
            vocab = parse_json(data, path, error=TokenizerFormatError, hook=distinct_fields)
            content = _other_content(path, vocab, **given)
            if content is not None:
                return model_from(content, path, given.get("unicode") or TOOLS_UNICODE)
            if pattern is None:
                raise no_pattern(path, "GPT-2's own file")
        found = known or Known("", {})
        specials = found.special_tokens if specials is None else specials
        return read_gpt2_pair(
            path,
            path.with_name(MERGES_FILE),
            specials,
            special_ids=specials if isinstance(specials, Mapping) else None,
            pattern=found.pattern if pattern is None else pattern,
            unicode=given.get("unicode") or found.unicode,
        )

    def read_folder(self, path: Path, **given: Unpack[Given]) -> Model:
        """Return the model in a pair with the tokens and settings beside it; without these if `special_tokens` are given."""
        if given.get("special_tokens") is not None or not has_settings(path.parent):
            return self.read(path, **given)
        from bpejit.formats.huggingface_reading import model_from_json  # not at the top: it takes 30 ms

        pattern = given.get("pattern")
        folder, class_name = path.parent, class_of(path.parent)
        known, data = _read_known(path)
        vocab = parse_json(data, path, error=TokenizerFormatError, hook=distinct_fields)
        unicode = given.get("unicode") or TOOLS_UNICODE
        words = word_content(path, vocab, class_name, pattern) if class_name in CLASSES or known is None else None
        if words is not None:
            content, config = apply_settings(words, folder, class_name or "GPT2Tokenizer")
            return model_from(content, path, unicode, config)
        chosen = pattern or (known.pattern if known is not None else None)
        found = PATTERNS.get(class_name or "GPT2Tokenizer", "gpt2")
        if chosen is None and class_name not in PATTERNS:
            return self.read(path, **given)  # says that the pattern is missing
        spellings = (PRESETS["gpt2"], PRESETS["r50k"]) if found == "gpt2" else (PRESETS[found],)
        if chosen is not None and pattern_source(chosen) not in spellings:
            warn_user(
                f"`{path}` is read with the pattern {shorten(chosen)}, without the tokens and settings beside it, which are "
                f"for the pattern {found}"
            )
            return self.read(path, **given)
        pair = _byte_content(vocab, read_merge_texts(path.with_name(MERGES_FILE)), pre_tokenizer_for(PRESETS[found]))
        pair["normalizer"] = {"type": "NFC"} if found == "qwen2" else None
        content, config = apply_settings(pair, folder, class_name or "GPT2Tokenizer")
        content["post_processor"] = pair_post_processor(content, config, class_name, folder)
        specials = sorted(known.special_tokens.items(), key=itemgetter(1)) if known is not None else ()
        as_known = {**pair, "added_tokens": [added_token(*token) for token in specials], "post_processor": None}
        if known is not None and pattern is None and content == as_known:
            return replace(self.read(path, **given), config=config)  # as it was before it was exported
        if chosen is None:
            warn_user(
                f"`{path}` does not contain a split pattern; it is read with the pattern {found}, since a file beside it "
                f"names the class {class_name}; pass `pattern=` for another"
            )
        if known is not None:
            unicode = given.get("unicode") or known.unicode or TOOLS_UNICODE
        try:
            return model_from_json(content, unicode=unicode, config=config)
        except TokenizerFormatError as error:
            self.read(path, pattern=found)  # raises an error of the two files alone
            raise TokenizerFormatError(f"`{path}`, with the settings beside it: {error}") from error

    def outputs(self, path: StrPath) -> list[Path]:
        """Return the paths of vocabulary, merges, configuration, sidecar and bytes of tokens in a folder."""
        folder = Path(path)
        vocab = folder / VOCAB_FILE
        return [vocab, folder / MERGES_FILE, folder / CONFIG_FILE, sidecar_path(vocab), folder / TOKEN_BYTES_FILE]

    def check_write(self, path: StrPath, *, inputs: Iterable[StrPath] = (), overwrite: bool = False) -> None:
        """Raise OutputError if the files cannot be written to a folder."""
        check_output_folder(path, [file.name for file in self.outputs(path)])
        check_outputs(self.outputs(path), inputs=inputs, overwrite=overwrite, folder=path)

    def write(self, model: Model, path: StrPath, *, legacy_merges: bool = False, overwrite: bool = False) -> None:  # noqa: ARG002
        """Write `vocab.json`, `merges.txt`, `tokenizer_config.json`, a sidecar and `token_bytes.npy` to a folder."""
        self.check_write(path, overwrite=overwrite)
        refuse_obstacle(pair_obstacle(model), "as GPT-2's pair of files")
        vocab_path, merges_path, config_path, sidecar, lengths_path = self.outputs(path)
        vocab, merges = pair_contents(model, vocab_path)
        contents = {merges_path: merges, vocab_path: vocab, config_path: gpt2_config_json(model)}
        with creating_folder(Path(path)):
            write_files(model, contents, lengths_path, (sidecar, sidecar_json(model, vocab)))


def _read_known(path: Path) -> tuple[Known | None, bytes]:
    """Return what is known about a pair, and the content of its vocabulary."""
    recover_description(sidecar_path(path), error=TokenizerFormatError)
    data = read_file(path, error=TokenizerFormatError, what="vocabulary")
    return known_pair(path, data), data


def _byte_content(vocab: dict[str, Any], merges: Iterable[tuple[str, str]], splitting: Component) -> dict[str, Any]:
    """Return the content of the `tokenizer.json` of a pair in byte characters."""
    model = {"type": "BPE", "vocab": vocab, "merges": [*map(list, merges)]}
    return {"pre_tokenizer": splitting, "decoder": byte_level(), "model": model}


def _other_content(path: Path, vocab: Any, **given: Unpack[Given]) -> dict[str, Any] | None:
    """Return the content of the `tokenizer.json` of a pair that marks the ends of words, or lacks bytes; None for others."""
    if not isinstance(vocab, dict) or any(type(number) is not int for number in vocab.values()):
        return None  # its reader says what is wrong
    pattern, specials = given.get("pattern"), given.get("special_tokens")
    content = word_content(path, vocab, None, pattern)
    if content is None:
        if pattern is None or vocab.keys() >= {*CHARACTERS}:
            return None
        merges = read_merge_texts(path.with_name(MERGES_FILE))
        if not all({left, right, left + right} <= vocab.keys() for left, right in merges):
            return None
        n_bytes = sum(decoded_or_none("".join(pair)) is not None for pair in merges)
        if 2 * n_bytes < len(merges) or not merges:
            raise TokenizerFormatError(
                f"`{path}` is a vocabulary of characters: {len(merges) - n_bytes} of {len(merges)} merges are not in byte "
                "characters; expected those of bytes, or a `tokenizer.json`, which tells how text is changed and split: "
                "convert it"
            )
        splitting = pre_tokenizer_for(pattern_source(pattern), unicode=given.get("unicode") or TOOLS_UNICODE)
        content = _byte_content(vocab, merges, splitting)
    if specials is not None:
        content["added_tokens"] = added_tokens(specials, {**vocab, **specials} if isinstance(specials, Mapping) else vocab)
    return content
