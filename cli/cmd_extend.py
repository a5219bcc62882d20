"""`bpejit extend` and `bpejit shrink`."""

from __future__ import annotations

from typing import Any

import click

from bpejit.counting.count_options import Memory
from bpejit.training.tie_rules import tie_rule_names
from bpejit.training.train_options import MergeLimits

from .command_types import command
from .progress import format_bytes, format_seconds, watch
from .reporting import wrote
from .shared_options import (
    LazyChoice,
    TokenizerChoice,
    count_option,
    declared_options,
    engine_options,
    input_options,
    out_option,
    path_argument,
    path_option,
    pattern_options,
    tokenizer_argument,
)


@command()
@tokenizer_argument
@path_argument("inputs", "INPUT...", nargs=-1)
@count_option(
    "--vocab-size", least=None, required=True, text="Number of tokens of the new vocabulary, including those of TOKENIZER."
)
@out_option("Folder to write the new tokenizer to.", metavar="FOLDER", required=True)
@path_option("--counts", "counts_path", metavar="COUNTS", help="Extend from a file of `bpejit count` instead of INPUT.")
@click.option(
    "--tie-break",
    type=LazyChoice("tie rule", tie_rule_names),
    metavar="NAME",
    help="Rule that chooses among equally frequent pairs.  [default: that of TOKENIZER, or greatest-bytes]",
)
@declared_options(MergeLimits, max_token_bytes={"help": "Longest new token.  [default: unlimited]"})
@input_options
@pattern_options
@declared_options(Memory)
@engine_options
def extend(
    *,
    tokenizer: TokenizerChoice,
    inputs: tuple[str, ...],
    out: str,
    overwrite: bool,
    counts_path: str | None,
    reading: dict[str, Any],
    temporary_folder: str | None,
    work: dict[str, Any],
    **options: Any,
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
    from bpejit.storage.outputs import existing_parent
    from bpejit.training.extending import EXTENSIONS, extend_model, extension_notes

    paths = [counts_path] if counts_path else [source.path for source in find_sources(inputs, Contents(**reading))]
    check_folder(out, inputs=[*paths, *tokenizer.files()], overwrite=overwrite)
    with watch() as progress:
        model = extend_model(
            tokenizer.load().model,
            Counts.load(counts_path) if counts_path else inputs,
            temporary_folder=temporary_folder or existing_parent(out),
            **reading,
            **work,
            **options,
            progress=progress,
        )
        unreadable = save_folder(model, out, overwrite=overwrite)
    extension = model.training[EXTENSIONS][-1]
    first, n_new = extension["first_id"], extension["tokens"]
    notes = extension_notes(model)
    if extension["skipped_records"]:
        notes.append(f"skipped {extension['skipped_records']:,} records without a text")
    ids = f" with the ids {first:,} to {first + n_new - 1:,}" if n_new else ""
    progress.finish(
        f"added {n_new:,} tokens{ids}, from {format_bytes(extension['bytes'])}, in {format_seconds(progress.seconds)}; "
        f"{wrote(out)}",
        notes=[*notes, *unreadable_notes(out, unreadable)],
        out=out,
        vocab_size=model.vocab_size,
        merges=len(model.merges),
        sha256=model.sha256,
        new_tokens=[{"id": number, "token": model.tokens[number]} for number in range(first, first + n_new)],
        **{name: extension[name] for name in ("bytes", "pretokens", "distinct_pretokens", "skipped_records")},
    )


def unreadable_notes(out: str, reason: str | None) -> list[str]:
    """Return a note that other tools cannot read a tokenizer, if there is a reason."""
    return [f"other tools cannot read `{out}`: {reason}"] if reason else []


@command()
@tokenizer_argument
@count_option("--vocab-size", least=None, required=True, text="Number of tokens that remain.")
@out_option("Folder to write the new tokenizer to.", metavar="FOLDER", required=True)
@pattern_options
def shrink(*, tokenizer: TokenizerChoice, vocab_size: int, out: str, overwrite: bool) -> None:
    """Write a smaller tokenizer, with the first merges only.

    For a tokenizer of `bpejit train`, the result is that of training with this size.
    Special tokens follow the ordinary ones if they did before, so their ids change.

    \b
    Example:
        bpejit shrink tokenizer --vocab-size 280 --out small
    """
    from bpejit.formats.folder_writing import check_folder, save_folder
    from bpejit.shrinking import shrink_model

    check_folder(out, inputs=tokenizer.files(), overwrite=overwrite)
    with watch() as progress:
        model = shrink_model(tokenizer.load().model, vocab_size)
        unreadable = save_folder(model, out, overwrite=overwrite)
    progress.finish(
        f"kept {model.vocab_size:,} tokens; {wrote(out)}",
        notes=unreadable_notes(out, unreadable),
        out=out,
        vocab_size=model.vocab_size,
        merges=None if model.ranked else len(model.merges),
        special_tokens=dict(model.special_tokens),
        sha256=model.sha256,
    )
