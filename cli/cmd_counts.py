"""`bpejit counts`: commands that read counts files, and tab-separated text."""

from __future__ import annotations

from pathlib import Path

import click

from .command_types import Group, command
from .count_options import (
    DEFAULT_PATTERN,
    chosen_special_tokens,
    count_setting_options,
    counts_fields,
    counts_summary,
)
from .options import complete_path, out_option, overwrite_option
from .progress import format_seconds, watch
from .quoting import quoted
from .reporting import check_json_output, debug_option, report_options, wants_json, write_json, write_table, wrote

counts_argument = click.argument("path", metavar="COUNTS", shell_complete=complete_path)


@click.group(cls=Group)
@debug_option
def counts() -> None:
    """Show counts files, and convert from and to tab-separated text.

    \b
    Example:
        bpejit counts info corpus.counts
        bpejit counts export corpus.counts --out words.tsv
        bpejit counts import words.tsv --out again.counts
    """


@command("info")
@counts_argument
@click.option("--verify", is_flag=True, help="Read all of the file, and compare its SHA-256.")
@report_options
def describe_counts(*, path: str, verify: bool) -> None:
    """Show the settings, inputs and totals of a counts file.

    \b
    Example:
        bpejit counts info corpus.counts
        bpejit counts info corpus.counts --verify --json
    """
    import bpejit
    from bpejit.splitting.presets import pattern_source

    found = bpejit.Counts.load(path)
    if verify:
        for _ in found.blocks():
            pass
    fields = {
        "path": path,
        "file_bytes": Path(path).stat().st_size,
        "pattern": found.pattern if pattern_source(found.pattern) != found.pattern else None,
        "pattern_source": pattern_source(found.pattern),
        "unicode": found.unicode,
        "special_tokens": list(found.special_tokens),
        "normalize_newlines": found.normalize_newlines,
        **counts_fields(found),
        "inputs": list(found.inputs),
        "verified": verify,
    }
    if wants_json():
        write_json(**fields)
        return
    patterns = [found.pattern] if isinstance(found.pattern, str) else found.pattern
    write_table(
        [
            ("counts file", path),
            ("file size", f"{fields['file_bytes']:,} bytes{', verified' if verify else ''}"),
            ("pre-tokens", f"{found.n_pretokens:,}, {len(found):,} distinct"),
            ("text", f"{found.n_bytes:,} bytes of {len(found.inputs):,} input{'' if len(found.inputs) == 1 else 's'}"),
            ("pattern", ", then ".join(patterns)),
            ("unicode", found.unicode),
            ("special tokens", " ".join(quoted(token.encode("utf-8", "surrogateescape")) for token in found.special_tokens)),
            ("newlines", "normalized" if found.normalize_newlines else "unchanged"),
        ]
    )


@command("export")
@counts_argument
@out_option("File to write; - is standard output.", default="-", show_default=True)
@overwrite_option
@report_options
def export_counts(*, path: str, out: str, overwrite: bool) -> None:
    """Write counts as tab-separated text: a line `count<TAB>word` for each distinct pre-token.

    Lines are sorted by the bytes of the words. In a word, \\\\, \\t, \\n and \\r are a backslash, a tab and the ends of lines,
    and \\xNN is a byte that is not part of UTF-8, or another control character.

    \b
    Example:
        bpejit counts export corpus.counts --out words.tsv
        bpejit counts export corpus.counts | sort -rn | head
    """
    import bpejit
    from bpejit.storage.outputs import is_standard_output

    check_json_output(out)
    with watch() as progress:
        found = bpejit.Counts.load(path)
        found.to_tsv(out, overwrite=overwrite)
        seconds = progress.seconds
    summary = "" if is_standard_output(out) else f"exported {counts_summary(found)} in {format_seconds(seconds)}; {wrote(out)}"
    progress.finish(summary, out=out, **counts_fields(found), seconds=seconds)


@command("import")
@click.argument("path", metavar="TSV", shell_complete=complete_path)
@out_option("File to write the counts to.", required=True)
@overwrite_option
@count_setting_options
@report_options
def import_counts(
    *,
    path: str,
    out: str,
    overwrite: bool,
    pattern: str | None,
    special_tokens: tuple[str, ...],
    no_special_tokens: bool,
    normalize_newlines: bool,
    unicode: str | None,
) -> None:
    """Read tab-separated text that was counted elsewhere, a line `count<TAB>word` for each word, in any order.

    Words are escaped as in the output of `bpejit counts export`.
    The options say how the words were found. They become part of tokenizers that are trained from the counts.

    \b
    Example:
        bpejit counts import words.tsv --pattern gpt2 --out words.counts
    """
    import bpejit
    from bpejit.storage.outputs import check_outputs

    check_outputs([out], inputs=[path], overwrite=overwrite)
    with watch() as progress:
        found = bpejit.Counts.from_tsv(
            path,
            pattern=pattern or DEFAULT_PATTERN,
            special_tokens=chosen_special_tokens(special_tokens, no_special_tokens),
            normalize_newlines=normalize_newlines,
            unicode=unicode,
        )
        found.save(out, overwrite=overwrite)
        seconds = progress.seconds
    progress.finish(
        f"imported {counts_summary(found)} in {format_seconds(seconds)}; {wrote(out)}",
        out=out,
        **counts_fields(found),
        seconds=seconds,
    )


for _command in (describe_counts, export_counts, import_counts):
    counts.add_command(_command)
