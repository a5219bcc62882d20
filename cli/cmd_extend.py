"""`bpejit extend` and `bpejit shrink`."""

from __future__ import annotations

from typing import Any

import click

from bpejit.training.tie_rules import tie_rule_names

from .command_types import Count, command
from .counting_options import memory_options
from .progress import format_bytes, format_seconds, watch
from .reporting import json_text, report_options, with_option_names, wrote
from .shared_options import (
    LazyChoice,
    complete_path,
    engine_options,
    input_options,
    out_option,
    overwrite_option,
    pattern_options,
    read_tokenizer,
)

tokenizer_argument = click.argument("tokenizer", metavar="TOKENIZER", shell_complete=complete_path)


@command()
@tokenizer_argument
@click.argument("inputs", metavar="INPUT...", nargs=-1, shell_complete=complete_path)
@click.option(
    "--vocab-size",
    type=Count(),
    required=True,
    metavar="N",
    help="Number of tokens of the new vocabulary, including those of TOKENIZER.",
)
@out_option("Folder to write the new tokenizer to.", metavar="FOLDER", required=True)
@overwrite_option
@click.option(
    "--counts",
    "counts_path",
    metavar="COUNTS",
    shell_complete=complete_path,
    help="Extend from a file of `bpejit count` instead of INPUT.",
)
@click.option(
    "--tie-break",
    type=LazyChoice("tie rule", tie_rule_names),
    metavar="NAME",
    help="Rule that chooses among equally frequent pairs.  [default: that of TOKENIZER, or greatest-bytes]",
)
@click.option(
    "--min-frequency",
    type=Count(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Stop when no pair occurs at least this often.",
)
@click.option("--max-token-bytes", type=Count(1, is_size=True), metavar="N", help="Longest new token.  [default: unlimited]")
@input_options
@pattern_options
@memory_options
@engine_options
@report_options
def extend(
    *,
    tokenizer: str,
    inputs: tuple[str, ...],
    vocab_size: int,
    out: str,
    overwrite: bool,
    counts_path: str | None,
    tie_break: str | None,
    min_frequency: int,
    max_token_bytes: int | None,
    reading: dict[str, Any],
    pattern: str | None,
    special_tokens: dict[str, int] | None,
    unicode: str | None,
    max_memory: int | None,
    temporary_folder: str | None,
    workers: int | None,
    engine: str,
) -> None:
    """Add tokens to a tokenizer: go on merging over new text.

    No id of TOKENIZER changes, and the new tokens follow its last id, special tokens included.
    Tokenizers that merging cannot continue are refused with the reason, such as those that merge by rank.

    \b
    Example:
        bpejit extend tokenizer corpus.txt --vocab-size 32k --out extended
    """
    if bool(inputs) == (counts_path is not None):
        raise click.UsageError(
            "expected either INPUT or `--counts`: name a file, as in `bpejit extend tokenizer corpus.txt --vocab-size 32k "
            "--out extended`, or a file of `bpejit count`"
        )
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import find_sources
    from bpejit.counting.counts import Counts
    from bpejit.formats.folder_writing import check_folder, save_folder
    from bpejit.formats.recognize import tokenizer_files
    from bpejit.storage.outputs import existing_parent
    from bpejit.training.extending import EXTENSIONS, extend_model, extension_notes

    paths = [counts_path] if counts_path else [source.path for source in find_sources(inputs, Contents(**reading))]
    check_folder(out, inputs=[*paths, *tokenizer_files(tokenizer)], overwrite=overwrite)
    with watch() as progress:
        before = read_tokenizer(tokenizer, pattern, special_tokens, unicode).model
        model = extend_model(
            before,
            Counts.load(counts_path) if counts_path else inputs,
            vocab_size=vocab_size,
            tie_break=tie_break,
            min_frequency=min_frequency,
            max_token_bytes=max_token_bytes,
            **reading,
            workers=workers,
            engine=engine,
            max_memory=max_memory,
            temporary_folder=temporary_folder or existing_parent(out),
            progress=progress,
        )
        unreadable = save_folder(model, out, overwrite=overwrite)
        seconds = progress.seconds
    extension = model.training[EXTENSIONS][-1]
    first, n_new = extension["first_id"], extension["tokens"]
    notes = [with_option_names(note, click.get_current_context().command) for note in extension_notes(model)]
    if extension["skipped_records"]:
        notes.append(f"skipped {extension['skipped_records']:,} records without a text")
    if unreadable:
        notes.append(f"other tools cannot read `{out}`: {unreadable}")
    new: list[dict[str, Any]] = [
        {"id": number, "token": json_text(model.tokens[number])} for number in range(first, first + n_new)
    ]
    ids = f" with the ids {first:,} to {first + n_new - 1:,}" if n_new else ""
    progress.finish(
        f"added {n_new:,} tokens{ids}, from {format_bytes(extension['bytes'])}, in {format_seconds(seconds)}; {wrote(out)}",
        notes=notes,
        out=out,
        vocab_size=model.vocab_size,
        merges=len(model.merges),
        sha256=model.sha256,
        new_tokens=new,
        bytes=extension["bytes"],
        pretokens=extension["pretokens"],
        distinct_pretokens=extension["distinct_pretokens"],
        skipped_records=extension["skipped_records"],
        seconds=seconds,
    )


@command()
@tokenizer_argument
@click.option("--vocab-size", type=Count(), required=True, metavar="N", help="Number of tokens that remain.")
@out_option("Folder to write the new tokenizer to.", metavar="FOLDER", required=True)
@overwrite_option
@pattern_options
@report_options
def shrink(
    *,
    tokenizer: str,
    vocab_size: int,
    out: str,
    overwrite: bool,
    pattern: str | None,
    special_tokens: dict[str, int] | None,
    unicode: str | None,
) -> None:
    """Write a smaller tokenizer, with the first merges only.

    For a tokenizer of `bpejit train`, the result is that of training with this size.
    Special tokens follow the ordinary ones if they did before, so their ids change.

    \b
    Example:
        bpejit shrink tokenizer --vocab-size 280 --out small
    """
    from bpejit.formats.folder_writing import check_folder, save_folder
    from bpejit.formats.recognize import tokenizer_files
    from bpejit.shrinking import shrink_model

    check_folder(out, inputs=tokenizer_files(tokenizer), overwrite=overwrite)
    with watch() as progress:
        model = shrink_model(read_tokenizer(tokenizer, pattern, special_tokens, unicode).model, vocab_size)
        unreadable = save_folder(model, out, overwrite=overwrite)
        seconds = progress.seconds
    progress.finish(
        f"kept {model.vocab_size:,} tokens; {wrote(out)}",
        notes=[f"other tools cannot read `{out}`: {unreadable}"] if unreadable else [],
        out=out,
        vocab_size=model.vocab_size,
        merges=None if model.ranked else len(model.merges),
        special_tokens=dict(model.special_tokens),
        sha256=model.sha256,
        seconds=seconds,
    )
