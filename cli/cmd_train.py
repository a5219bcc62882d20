"""`bpejit train`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

from bpejit.corpus.reading_options import ReadingOptions, Sampling
from bpejit.counting.count_options import Memory, PlanOptions, SplitSettings
from bpejit.options import chosen, declared
from bpejit.training.train_options import ModelOptions, Saving

from .cmd_count import finish_plan, options_of_counting, repeated_inputs_option
from .cmd_extend import unreadable_notes
from .command_types import command
from .progress import format_bytes, format_seconds, watch
from .reporting import current, write_message, wrote
from .shared_options import (
    count_option,
    declared_options,
    dry_run_option,
    missing_input,
    out_option,
    path_argument,
    path_option,
    piped_input,
)

if TYPE_CHECKING:
    from bpejit.counting.counts import Counts
    from bpejit.model import Model
    from bpejit.training.counts_resume import CountsFile


@command()
@path_argument("inputs", "INPUT...", nargs=-1)
@count_option(
    "--vocab-size",
    least=None,
    required=True,
    text="Number of tokens, such as 32000 or 32k, including 256 bytes and the special tokens.",
)
@out_option("Folder to write the tokenizer to.", metavar="FOLDER", default="tokenizer", show_default=True)
@options_of_counting(ModelOptions)
@path_option(
    *("--counts", "counts_paths"),
    multiple=True,
    metavar="COUNTS",
    help="Train from a file of `bpejit count` instead of INPUT; may be repeated.",
)
@repeated_inputs_option
@declared_options(Saving)
@dry_run_option
def train(
    *,
    inputs: tuple[str, ...],
    vocab_size: int,
    out: str,
    overwrite: bool,
    options: dict[str, Any],
    counts_paths: tuple[str, ...],
    allow_repeated_inputs: bool,
    also: tuple[int, ...],
    resume: bool,
    dry_run: bool,
) -> None:
    """Train a tokenizer on text.

    INPUT is one or more files, folders, globs or URLs, or - for standard input.
    --counts trains from counts instead, with equal results.
    The folder is also a Hugging Face tokenizer.
    Counts that took long are kept in OUT.partial.counts until the tokenizer is written.

    \b
    Example:
        bpejit train corpus.txt --vocab-size 32k
        bpejit train 'shards/*.txt' --vocab-size 50257 --pattern cl100k --out my-tokenizer
    """
    if not (inputs or options["sources"] or counts_paths):
        inputs = piped_input()
    _check_inputs(inputs or tuple(options["sources"] or ()), counts_paths)
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import find_weighted_sources
    from bpejit.counting.counts import Counts
    from bpejit.training.corpus_tokens import model_tokens_by_size
    from bpejit.training.train import TrainingOutputs, training_notes

    outputs = TrainingOutputs.of(out, also, resume=resume, overwrite=overwrite)
    _check_sizes(outputs.smaller, vocab_size, 0 if counts_paths else 256 + len(options["special_tokens"]))
    outputs.check()
    contents = Contents(**chosen(ReadingOptions, options))
    read = list(counts_paths) or [source.path for source in find_weighted_sources(inputs, options["sources"], contents)]
    template = options["chat_template"]
    outputs.check([*read, *([] if template is None else [template.name])])
    if dry_run:
        _show_plan(inputs, out, vocab_size, chosen(PlanOptions, options), resume=resume)
        return
    options["chat_template"] = None if template is None else _read_template(template)
    folders = {vocab_size: out, **outputs.smaller}
    measured: list[tuple[int, list[int]]] = []
    text_sizes: list[tuple[int, int]] = []

    def count_tokens(counts: Counts, model: Model) -> None:
        measured.append(model_tokens_by_size(counts, model, list(folders)))

    with watch() as progress, _kept(outputs.counts_file):
        counts = None
        if counts_paths:
            first, *others = map(Counts.load, counts_paths)
            counts = first.merge(*others, allow_repeated_inputs=allow_repeated_inputs) if others else first
        model, unreadable = outputs.train(
            inputs if counts is None else counts,
            vocab_size=vocab_size,
            inspect_counts=count_tokens if also else None,
            inspect_sizes=lambda n_bytes, n_tokens: text_sizes.append((n_bytes, n_tokens)),
            **options | {"progress": progress},
        )
    n_bytes, n_tokens = text_sizes[-1]
    sizes = [
        {"out": folder, "vocab_size": size, "tokens": number, "bytes_per_token": n_read / max(number, 1)}
        for n_read, tokens in measured
        for (size, folder), number in zip(folders.items(), tokens, strict=True)
    ]
    stages = ", ".join(stage.describe() for stage in progress.stages.values())
    bytes_per_token = n_bytes / max(n_tokens, 1)
    notes = model.training
    progress.finish(
        f"trained {model.vocab_size:,} tokens on {format_bytes(notes['bytes'])} in {format_seconds(progress.seconds)}"
        + (f": {stages}" if stages else "")
        + f"; {bytes_per_token:.3f} bytes per token of this text; {wrote(out)}",
        notes=[*training_notes(model), *unreadable_notes(out, unreadable)],
        out=out,
        vocab_size=model.vocab_size,
        merges=len(model.merges),
        special_tokens=dict(model.special_tokens),
        sha256=model.sha256,
        **{name: notes[name] for name in ("bytes", "pretokens", "distinct_pretokens")},
        tokens=n_tokens,
        bytes_per_token=bytes_per_token,
        skipped_records=sum(entry["count"] for entry in notes.get("skipped_records", ())),
        resumed=outputs.counts_file.resumes,
        sizes=sizes,
    )
    for row in () if current().json else sizes:
        progress.message(f"{row['vocab_size']:>9,} tokens: {row['bytes_per_token']:.3f} bytes per token, `{row['out']}`")


LEARNING_NOTE = (
    "learning merges needs memory for all distinct pre-tokens on this machine, and time that depends on their number, which is "
    "not known from a sample"
)

RESUME_NOTE = "counts of an earlier run are used if they exist, and then the text is not counted again"


def _show_plan(inputs: tuple[str, ...], out: str, vocab_size: int, counting: dict[str, Any], *, resume: bool) -> None:
    from bpejit.counting.count_plan import plan_count

    with watch() as progress:
        plan = plan_count(inputs, **counting)
    finish_plan(
        progress,
        plan,
        out,
        then=f", and write a tokenizer of {vocab_size:,} tokens",
        after="and then learning merges",
        notes=(LEARNING_NOTE, *((RESUME_NOTE,) if resume else ())),
    )


@contextmanager
def _kept(counts_file: CountsFile) -> Iterator[None]:
    """If the block fails after its text was counted, say how to continue."""
    try:
        yield
    except BaseException:
        if counts_file.path.exists() and not current().quiet:
            write_message(f"the counts are kept in `{counts_file.path}`; the same command with `--resume` continues from them")
        raise


def _check_sizes(folders: Iterable[int], vocab_size: int, least: int) -> None:
    """Raise a usage error for a size of `--also` that is not smaller than the vocabulary, or too small."""
    for size in folders:
        if size < least:
            raise click.BadParameter(f"{size} is less than {least}: 256 bytes and the special tokens", param_hint="--also")
        if size >= vocab_size:
            raise click.BadParameter(f"{size} is not smaller than --vocab-size {vocab_size}", param_hint="--also")


_OF_COUNTS = {"resume", "no_special_tokens"}.union(*map(declared, (SplitSettings, ReadingOptions, Sampling, Memory)))
"""Options that counts files have instead of the command, or that only matter for counting."""


def _check_inputs(inputs: tuple[str, ...], counts_paths: tuple[str, ...]) -> None:
    """Raise a usage error unless there are either inputs or counts, and no options that contradict counts."""
    if not counts_paths and not inputs:
        raise missing_input(click.get_current_context(), ", or give counts with `--counts`")
    if not counts_paths:
        return
    if inputs:
        raise click.UsageError("INPUT and `--counts` cannot be combined: count INPUT with `bpejit count`, and give both counts")
    context = click.get_current_context()
    if context.params["dry_run"]:
        raise click.UsageError(
            "`--dry-run` and `--counts` cannot be combined: a plan is one of counting; `bpejit counts info` shows the number "
            "of distinct pre-tokens, on which learning merges depends"
        )
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in _OF_COUNTS and source is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"`{parameter.opts[0]}` and `--counts` cannot be combined: the counts were made with their own settings: "
                "leave it out, or count again with `bpejit count`"
            )


def _read_template(file: TextIO) -> str:
    try:
        return file.read()
    except UnicodeDecodeError as cause:
        raise click.BadParameter(f"`{file.name}` is not UTF-8 at byte {cause.start}", param_hint="--chat-template") from cause
