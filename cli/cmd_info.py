"""`bpejit info`, and reports on token files."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpejit.errors import BpejitError, TokenizerFormatError, shorten
from bpejit.options import AUTO

from . import shared_options as shared
from .command_types import command
from .progress import counted, format_bytes, watch
from .reporting import named, write_report
from .text_output import quoted

if TYPE_CHECKING:
    from bpejit.model import Model


def token_file_rows(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what `describe_tokens` returns as names and values."""
    path, size, n_tokens = fields["path"], fields["file_bytes"], fields["tokens"]
    yield ("file" if n_tokens is None else "token file"), named(path, "")
    yield "file size", f"{size:,} bytes" + (f" in {fields['files']:,} files" if fields["files"] > 1 else "")
    if n_tokens is None:
        yield "kind", f"not known: it is not a tokenizer, and there is no `{path}.json`; give `--dtype` for a token file"
        yield "tokens", f"{size // 2:,} if they are uint16, {size // 4:,} if they are uint32"
        return
    yield "format", fields["format"]
    yield "dtype", fields["dtype"]
    yield "tokens", f"{n_tokens:,}"
    if fields["documents"] is not None:
        mean = f", {n_tokens / fields['documents']:,.1f} tokens on average" if fields["documents"] else ""
        yield "documents", f"{fields['documents']:,}{mean}"
    if fields["bytes_read"] is not None:
        ratio = f", {fields['bytes_read'] / n_tokens:.2f} per token" if n_tokens else ""
        yield "text", f"{fields['bytes_read']:,} bytes{ratio}"
    if fields["vocab_size"] is not None:
        yield "vocab size", f"{fields['vocab_size']:,}"
    if fields["tokenizer_sha256"] is not None:
        yield "tokenizer", fields["tokenizer_sha256"]
        unknown = "not in the description" if fields["files"] == 1 else "one for each file"
        yield "ids sha256", (fields["ids_sha256"] or unknown) + (", verified" if fields["verified"] else "")
    yield "first ids", " ".join(map(str, fields["first_ids"]))


def wrote_token_file(out: object, token_format: str, dtype: str) -> str:
    """Return the end of a summary: the files of a token file without its description, their format, size and dtype."""
    from bpejit.storage.outputs import is_device, is_standard_output
    from bpejit.tokenfiles import load_format
    from bpejit.tokenfiles.description import description_path

    path = str(out)
    if is_standard_output(path):
        return f"wrote to standard output ({token_format}, {dtype})"
    files = [] if is_device(path) else list(map(Path, load_format(token_format).files(path)))
    found = [file for file in files if file != description_path(files[0]) and file.is_file()]
    names = ", ".join(f"`{file}`" for file in found) or f"`{path}`"  # a URL or a device
    size = f", {format_bytes(sum(file.stat().st_size for file in found))}" if found else ""
    return f"wrote {names} ({token_format}{size}, {dtype})"


SHOWN = 5  # tokens, merges or inputs in a line
SHOWN_SPECIAL_TOKENS = 20  # in a line
LONGEST_TOKEN = 60  # characters of a token in a line
LONGEST_RUN = 8  # equal characters, such as spaces, that are shown one by one
HEAD_BYTES = 4096  # that are checked for text in a file of unknown format


@command()
@shared.path_argument("tokenizer_path", "TOKENIZER|TOKENS")
@shared.flag("--verify", help="Compare all ids of a token file with the hash in its description.")
@shared.read_dtype_option
@shared.token_format_option()
@shared.pattern_options
def info(*, tokenizer: shared.TokenizerChoice, verify: bool, dtype: str | None, token_format: str) -> None:
    """Describe a tokenizer or a token file.

    \b
    Example:
        bpejit info tokenizer
        bpejit info tokens.bin
        bpejit info tokens.bin --verify
    """
    path = tokenizer.path
    if not path.startswith("hf:") and not Path(path).exists():
        from bpejit.formats.missing_parts import explain_name

        raise BpejitError(explain_name(path) or f"there is no `{path}`; expected a tokenizer or a token file: check the path")
    if _is_token_file(path, dtype, token_format, verify=verify):
        from bpejit.tokenfiles.opening import describe_tokens

        with watch() as progress:
            fields = describe_tokens(path, dtype=dtype, format=token_format, verify=verify, progress=progress)
        write_report(fields, lambda: token_file_rows(fields))
        return
    model = tokenizer.load().model
    described = _tokenizer_fields(model, path)
    write_report(described, lambda: _tokenizer_rows(model, described))


def _is_token_file(path: str, dtype: str | None, token_format: str, *, verify: bool) -> bool:
    """Return True if a path is read as a token file: by an option, by its format, or since it is nothing else."""
    from bpejit.formats.any_format import recognize
    from bpejit.tokenfiles.opening import recognized_format

    if path.startswith("hf:") or Path(path).is_dir():
        if verify:
            raise BpejitError(
                f"`{path}` is a tokenizer; expected a token file, whose ids `--verify` compares with a hash: leave it out"
            )
        return False
    if dtype is not None or token_format != AUTO or verify or recognized_format(path) is not None:
        return True
    try:
        recognize(path)
    except TokenizerFormatError:
        if Path(path).suffix == ".json":
            raise
        if _is_text(path):
            raise BpejitError(
                f"`{path}` is neither a tokenizer nor a token file: it contains text, and there is no description "
                f"`{path}.json`; expected a tokenizer or a token file: encode the text with "
                "`bpejit encode`, or give `--dtype` for a token file of another tool"
            ) from None
        return True
    return False


def _is_text(path: str) -> bool:
    """Return True if a file begins with UTF-8 text without control characters, which token files hardly ever do."""
    with Path(path).open("rb") as file:
        head = file.read(HEAD_BYTES)
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)  # incremental, since the last character may be incomplete
    except UnicodeDecodeError:
        return False
    return bool(text) and all(character >= " " or character in "\t\n\v\f\r\x1b" for character in text)


def _tokenizer_fields(model: Model, path: str) -> dict[str, Any]:
    """Return the fields of the report on a tokenizer."""
    from bpejit.encoding.encoder_tables import first_superword
    from bpejit.splitting import compile_pattern

    pattern = compile_pattern(model.pattern, unicode=model.unicode)
    pipeline = model.pipeline
    return {
        "kind": "tokenizer",
        "path": path,
        "vocab_size": model.vocab_size,
        "merges": None if model.ranked else len(model.merges),
        "special_tokens": dict(model.special_tokens),
        "pattern": model.pattern,
        "pattern_reason": pattern.reason,
        "pattern_runs_in": "regex" if pattern.kind == "regex" else "automaton",
        "unicode": model.unicode,
        "normalizer": None if pipeline is None else pipeline.normalizer,
        "pre_tokenizer": None if pipeline is None else pipeline.pre_tokenizer,
        "symbols": _describe_symbols(model),
        "tie_break": model.tie_break,
        "first_superword": first_superword(model),
        "longest_tokens": sorted(model.tokens.values(), key=lambda token: (-len(token), token))[:SHOWN],
        "training": dict(model.training),
        "sha256": model.sha256,
    }


def _describe_symbols(model: Model) -> dict[str, Any] | None:
    """Return what pre-tokens begin as, if not as a token for each byte."""
    symbols = model.symbols
    if symbols is None:
        return None
    return {
        "characters": symbols.characters,
        "byte_fallback": bool(symbols.byte_ids),
        "unknown_token": None if symbols.unknown is None else model.vocab[symbols.unknown].decode("utf-8", "replace"),
        "word_end": symbols.word_end or None,
        "space": symbols.space or None,
    }


def _tokenizer_rows(model: Model, fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    from bpejit.splitting.unicode_versions import installed_unicode

    yield "tokenizer", fields["path"]
    merges = "merged by rank" if model.ranked else f"{len(model.merges):,} merges"
    yield "vocab size", f"{model.vocab_size:,} ({merges}, {counted(len(model.special_tokens), 'special token')})"
    yield "special tokens", _show_special_tokens(model) or "none"
    reason = fields["pattern_reason"]
    how = f"runs in the regex package: {reason}" if fields["pattern_runs_in"] == "regex" else "runs as a compiled automaton"
    shown = model.pattern if isinstance(model.pattern, str) else ", then ".join(model.pattern)
    yield "split pattern", f"{shown} ({how})"
    yield "unicode", model.unicode or f"{installed_unicode()}, as in the installed regex package"
    if model.pipeline is not None:
        steps = (re.sub(r"[\w+/=]{100,}", "...", step) for step in model.pipeline)  # a map of characters in base64
        yield "pipeline", "normalizer {}, pre-tokenizer {}".format(*steps)
    if (symbols := fields["symbols"]) is not None:
        parts = ["characters" if symbols["characters"] else "bytes, and tokens that no text becomes"]
        if not symbols["characters"] and model.symbols_obstacle is not None:
            parts = ["bytes, not all of them"]
        parts += ["bytes as a fallback"] * symbols["byte_fallback"]
        parts += [f"{name.replace('_', ' ')} {value}" for name, value in symbols.items() if isinstance(value, str)]
        yield "symbols", ", ".join(parts)
    yield "tie rule", model.tie_break or "not known"
    if (first := fields["first_superword"]) is not None:
        yield "superwords", f"merges {first + 1:,} to {len(model.merges):,} join words; words are encoded before, by the others"
    elif "superwords" in model.training:
        yield "superwords", "encoded by all merges at once, since they cannot be divided into those within and across words"
    yield "longest tokens", ", ".join(f"{_show(token)} ({len(token)} bytes)" for token in fields["longest_tokens"])
    ranks = range(len(model.merges))
    for name, some in (("first merges", ranks[:SHOWN]), ("last merges", ranks[SHOWN:][-SHOWN:])):
        if some:
            yield name, ", ".join(_show_merge(model, rank) for rank in some)
    notes = dict(model.training)
    if "inputs" in notes:
        yield "inputs", _show_note(notes.pop("inputs"))
    rest = _describe_notes(notes)
    if rest:
        yield "training", rest
    yield "sha256", model.sha256


def _show_merge(model: Model, rank: int) -> str:
    left, right = model.merges[rank]
    return _show(left + right) + (f" x {model.merge_counts[rank]:,}" if model.merge_counts is not None else "")


def _describe_note(name: str, value: Any) -> str:
    """Return a training note in plain words: `7 distinct pre-tokens`, `minimum frequency 1`."""
    if name == "normalize_newlines":
        return "newlines normalized" if value else "newlines kept"
    words = name.replace("_", " ").replace("pretokens", "pre-tokens").replace("min ", "minimum ").replace("max ", "maximum ")
    counted = name in ("bytes", "pretokens", "distinct_pretokens", "skipped_records")
    return f"{_show_note(value)} {words}" if counted else f"{words} {_show_note(value)}"


def _describe_notes(notes: Mapping[str, Any]) -> str:
    return ", ".join(_describe_note(name, value) for name, value in notes.items() if value is not None)


def _show_note(value: Any) -> str:
    """Return a training note as text."""
    if isinstance(value, dict):
        size = value.get("bytes")
        named = f"{value.get('path')}" + (f" ({size:,} bytes)" if isinstance(size, int) else "")
        return named if "path" in value else f"({_describe_notes(value)})"
    if isinstance(value, list):
        more = [f"and {len(value) - SHOWN} more"] if len(value) > SHOWN else []
        return ", ".join([*map(_show_note, value[:SHOWN]), *more])
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def _show(token: bytes) -> str:
    """Return a token in quotes, as text if it is valid UTF-8 and otherwise as bytes, shortened if it is long."""
    if len(token) > LONGEST_RUN and len(set(token)) == 1:
        return f"{_show(token[:1])} x {len(token):,}"
    try:
        return shorten(token.decode("utf-8"), LONGEST_TOKEN)
    except UnicodeDecodeError:
        return shorten(token, LONGEST_TOKEN)


def _show_special_tokens(model: Model) -> str:
    from bpejit.model import special_bytes

    tokens = list(model.special_tokens.items())
    shown = []
    for text, token_id in tokens[:SHOWN_SPECIAL_TOKENS]:
        token = quoted(special_bytes(text))
        shown.append(f"{token if len(token) <= LONGEST_TOKEN else shorten(text, LONGEST_TOKEN)} = {token_id}")
    if len(tokens) > SHOWN_SPECIAL_TOKENS:
        shown.append(f"and {len(tokens) - SHOWN_SPECIAL_TOKENS:,} more")
    return ", ".join(shown)
