"""Hugging Face's `tokenizer.json`, read exactly: a model made of it gives the ids that `tokenizers` gives.

Byte-level BPE is read, with the normalizers, pre-tokenizers, added tokens and post-processors named in
`bpejit.normalization`. Whatever else the file holds is refused by name and place, never passed over. Only `truncation` and
`padding` have no say: they cut and fill what a caller of `tokenizers` gets, and are no part of the tokenizer here. The ids
are those of `encode(text, add_special_tokens=False)`; what the post-processor adds is in `Model.template`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from bpejit.errors import TokenizerFormatError, shorten
from bpejit.formats.compressed import read_tokenizer_file
from bpejit.formats.huggingface import sections_text
from bpejit.formats.published import TOOLS_UNICODE
from bpejit.model import Model, special_bytes
from bpejit.normalization import Preparation, Preparer, TokenFlags
from bpejit.normalization.byte_characters import text_to_bytes
from bpejit.normalization.json_fields import Fields, canonical, refused, shown, unsupported
from bpejit.normalization.post_processor import make_template
from bpejit.normalization.pretokenizers import WHOLE, read_byte_level
from bpejit.normalization.record import FileSections
from bpejit.storage.files import StrPath, parse_json

FILE = "tokenizer.json"

_AGAIN = "correct the file, or get it again"


def read_tokenizer_json(path: StrPath, *, unicode: str = TOOLS_UNICODE) -> Model:
    """Read a `tokenizer.json`.

    Parameters
    ----------
    path : path
        The file, or a folder that has it.
    unicode : str
        The version of Unicode that its patterns follow; that of `tokenizers`.

    Raises
    ------
    TokenizerFormatError
        If the file is missing, broken, or says what bpejit cannot do exactly; the message names the place in the file.
    """
    file = Path(path)
    if file.is_dir():
        file = file / FILE
    data = read_tokenizer_file(file)
    if data.startswith(b"\xef\xbb\xbf"):
        raise TokenizerFormatError(f"`{file}` begins with a byte order mark; expected JSON in UTF-8 without one: remove it")
    try:
        return model_from_json(parse_json(data, file, error=TokenizerFormatError, hook=_distinct), unicode=unicode)
    except TokenizerFormatError as error:
        if str(error).startswith(f"`{file}`"):
            raise
        raise TokenizerFormatError(f"`{file}`: {error}") from error


def model_from_json(content: Any, *, unicode: str = TOOLS_UNICODE) -> Model:
    """Make a model of the parsed content of a `tokenizer.json`.

    Raises
    ------
    TokenizerFormatError
        As `read_tokenizer_json`.
    """
    top = Fields(content, "")
    version = top.take("version", str, default="1.0")
    if version != "1.0":
        raise refused("version", f"is {shorten(version)}; expected '1.0'", "get a tokenizer of that version")
    for ignored in ("truncation", "padding"):
        top.take(ignored, dict, type(None), default=None)
    components = {
        name: top.take(name, dict, type(None), default=None)
        for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    }
    added = top.take("added_tokens", list, default=[])
    fields = Fields(top.take("model", dict), "model")
    top.done()
    ignore_merges = _read_options(fields)
    vocab = _read_vocab(fields.take("vocab", dict))
    strings = _byte_strings(vocab)
    merges = _read_merges(fields.take("merges", list), vocab, strings)
    fields.done()
    numbers, flags = _read_added(added, vocab)
    _check_decoder(components["decoder"], "decoder")
    make_template(components["post_processor"])
    preparation = Preparation(canonical(components["normalizer"]), canonical(components["pre_tokenizer"]))
    preparer = Preparer(preparation, {text: flags.get(text, TokenFlags()) for text in numbers}, unicode=unicode)
    pattern = preparer.pattern or WHOLE
    return Model(
        tokens=_ordinary_tokens(vocab, strings, merges, numbers, keep=ignore_merges),
        merges=[(strings[left], strings[right]) for left, right in merges],
        special_tokens=numbers,
        pattern=pattern,
        ignore_merges=ignore_merges,
        preparation=None if preparer.is_plain else preparation,
        token_flags=flags,
        post_processor=canonical(components["post_processor"]),
        unicode=unicode,
        file_sections=FileSections(sections_text(content), pattern),
    )


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of a JSON object, in which no key may be repeated: tools differ in which of the values they take."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in fields if keys.count(key) > 1)
        raise TokenizerFormatError(
            f"the key {shorten(repeated)} is there twice in one object; expected it once: remove one of them"
        )
    return fields


def _read_options(fields: Fields) -> bool:
    """Check the settings of the model; return whether whole tokens go before merges."""
    kind = fields.take("type", str, default="BPE")
    if kind != "BPE":
        raise unsupported("model", kind, "BPE")
    dropout = fields.take("dropout", float, type(None), default=None)
    if dropout:
        raise refused("model.dropout", f"is {dropout}, so that ids are random; expected null or 0", "set it to null")
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        value = fields.take(key, str, type(None), default=None)
        if value:
            raise refused(f"model.{key}", f"is {shorten(value)}, which no byte-level tokenizer has; expected null", _AGAIN)
    # Without effect: they are for characters that are not in the vocabulary, and all bytes are.
    fields.take("unk_token", str, type(None), default=None)
    fields.take("fuse_unk", bool, default=False)
    fields.take("byte_fallback", bool, default=False)
    ignore_merges: bool = fields.take("ignore_merges", bool, default=False)
    return ignore_merges


def _read_vocab(vocab: dict[str, Any]) -> dict[str, int]:
    texts: dict[int, str] = {}
    for text, number in vocab.items():
        if type(number) is not int or not 0 <= number < 1 << 32:
            raise refused(
                "model.vocab", f"has the id {shown(number)} for {shorten(text)}; expected a whole number from 0", _AGAIN
            )
        if number in texts:
            raise refused(
                "model.vocab",
                f"has the id {number} for both {shorten(texts[number])} and {shorten(text)}; expected one",
                "renumber one",
            )
        texts[number] = text
    return vocab


def _byte_strings(texts: Iterable[str]) -> dict[str, bytes]:
    """Return what byte-level texts stand for; the others have no entry."""
    strings = {}
    for text in texts:
        try:
            strings[text] = text_to_bytes(text)
        except UnicodeEncodeError:  # noqa: PERF203 (`suppress` takes twice the time)
            continue
    return strings


def _read_merges(merges: list[Any], vocab: dict[str, int], strings: dict[str, bytes]) -> list[tuple[str, str]]:
    """Read the merges in either spelling; of a repeated pair the last place counts, as in `tokenizers`."""
    pairs: dict[tuple[str, str], None] = {}
    for number, merge in enumerate(merges):
        if isinstance(merge, str):
            if merge.startswith("#version"):
                continue
            parts: Any = merge.split(" ")
        else:
            parts = merge
        pair = tuple(parts) if isinstance(parts, list) else ()
        if len(pair) != 2 or type(pair[0]) is not str or type(pair[1]) is not str:
            raise _refused_merge(number, merge, "; expected two tokens, as a list or with a space between", _AGAIN)
        left, right = pair
        if left not in strings or right not in strings or left + right not in strings:
            part = next(part for part in (left, right, left + right) if part not in strings)
            if part in vocab:
                raise _refused_merge(number, merge, ", which is no byte-level text", "use a byte-level tokenizer")
            raise _refused_merge(number, merge, f", but {shorten(part)} is not in model.vocab; expected tokens of it", _AGAIN)
        pairs.pop(pair, None)
        pairs[pair] = None
    return list(pairs)


def _refused_merge(number: int, merge: Any, found: str, action: str) -> TokenizerFormatError:
    return refused(f"model.merges[{number}]", f"is {shown(merge)}{found}", action)


def _read_added(added: list[Any], vocab: dict[str, int]) -> tuple[dict[str, int], dict[str, TokenFlags]]:
    """Read the added tokens; return their ids, and the flags of those that are not plain."""
    numbers: dict[str, int] = {}
    flags: dict[str, TokenFlags] = {}
    for number, value in enumerate(added):
        place = f"added_tokens[{number}]"
        fields = Fields(value, place)
        token_id = fields.take("id", int)
        text = fields.take("content", str)
        found = TokenFlags(**{name: fields.take(name, bool) for name in TokenFlags().as_dict})
        fields.done()
        if not text or any("\ud800" <= character <= "\udfff" for character in text):
            raise refused(f"{place}.content", f"is {shorten(text)}; expected text that can be found", "remove the token")
        if text in numbers:
            raise refused(
                f"{place}.content", f"is {shorten(text)}, as that of an earlier token; expected each once", "remove one"
            )
        # `tokenizers` goes by the vocabulary and by the order of the list, whatever the file says.
        following = max([len(vocab), *(other + 1 for other in numbers.values() if other >= len(vocab))])
        expected = vocab.get(text, following)
        if token_id != expected:
            raise refused(
                f"{place}.id",
                f"is {shown(token_id)} for {shorten(text)}, but `tokenizers` gives it the id {expected}",
                "correct the file",
            )
        numbers[text] = token_id
        if found != TokenFlags():
            flags[text] = found
    return numbers, flags


def _ordinary_tokens(
    vocab: dict[str, int],
    strings: dict[str, bytes],
    merges: list[tuple[str, str]],
    added: dict[str, int],
    *,
    keep: bool,
) -> dict[int, bytes]:
    """Return the tokens that ordinary text may become; an added token is one only if a merge needs it, or `keep` is set."""
    needed = {*chain.from_iterable(merges), *map("".join, merges)}
    tokens: dict[int, bytes] = {}
    for text, number in vocab.items():
        wanted = text in needed or len(text) == 1
        token = strings.get(text)
        if token is None:
            if text not in added:
                raise refused(
                    "model.vocab",
                    f"has {shorten(text)}, neither byte-level text nor an added token",
                    "use a byte-level tokenizer",
                )
            continue
        if not token:
            raise refused("model.vocab", "has an empty token", "remove it")
        if text in added:
            plain = token == special_bytes(text)
            if wanted and not plain:
                raise refused(
                    "added_tokens",
                    f"have {shorten(text)}, which model.vocab has for the bytes {shorten(token)}",
                    "rename the added token",
                )
            if not (wanted or (keep and plain)):
                continue
        tokens[number] = token
    return tokens


def _check_decoder(value: Any, place: str) -> None:
    """Refuse a decoder that does more, or less, than to turn byte-level text back into bytes."""
    if value is None:
        raise refused(place, "is null; expected ByteLevel", "use a byte-level tokenizer")
    fields = Fields(value, place)
    kind = fields.kind("decoder")
    if kind == "Sequence":
        parts = fields.take("decoders", list)
        fields.done()
        if len(parts) != 1:
            raise refused(fields.inner("decoders"), f"has {len(parts)} decoders; expected ByteLevel alone", "use that alone")
        _check_decoder(parts[0], f"{fields.inner('decoders')}[0]")
        return
    if kind != "ByteLevel":
        raise unsupported(place, kind, "ByteLevel, Sequence")
    read_byte_level(fields)
    fields.done()
