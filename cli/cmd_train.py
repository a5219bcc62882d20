"""`bpejit train`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

from bpejit.corpus.reading_options import ReadingOptions, Sampling
from bpejit.counting.count_options import Memory, PlanOptions, SplitSettings
from bpejit.options import chosen, declared
from bpejit.training.train_options import LearningOptions, ModelOptions, Saving

from .command_types import Count, command
from .counting_options import (
    dry_run_option,
    finish_plan,
    options_of_counting,
    repeated_inputs_option,
)
from .output_lines import write_message
from .progress import format_bytes, format_seconds, watch
from .reporting import is_quiet, report_options, wants_json, with_option_names, wrote
from .shared_options import (
    complete_path,
    declared_options,
    missing_input,
    out_option,
    overwrite_option,
    piped_input,
)

if TYPE_CHECKING:
    from bpejit.counting.counts import Counts
    from bpejit.model import Model
    from bpejit.training.counts_resume import CountsFile

    from .progress import Progress


@command()
@click.argument("inputs", metavar="INPUT...", nargs=-1, shell_complete=complete_path)
@click.option(
    "--vocab-size",
    type=Count(),
    required=True,
    metavar="N",
    help="Number of tokens, such as 32000 or 32k, including 256 bytes and the special tokens.",
)
@out_option("Folder to write the tokenizer to.", metavar="FOLDER", default="tokenizer", show_default=True)
@overwrite_option
@options_of_counting(ModelOptions)
@click.option(
    "--counts",
    "counts_paths",
    multiple=True,
    metavar="COUNTS",
    shell_complete=complete_path,
    help="Train from a file of `bpejit count` instead of INPUT; may be repeated.",
)
@repeated_inputs_option
@declared_options(Saving)
@dry_run_option
@report_options
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
    from bpejit.formats.folder_writing import check_folder
    from bpejit.training.corpus_tokens import model_tokens_by_size
    from bpejit.training.counts_resume import CountsFile
    from bpejit.training.train import (
        runs_parent,
        save_sizes,
        smaller_folders,
        train_model,
        train_model_from_counts,
        training_notes,
    )

    folders = smaller_folders(out, also)
    _check_sizes(folders, vocab_size, 0 if counts_paths else 256 + len(options["special_tokens"]))
    for folder in (out, *folders.values()):
        check_folder(folder, overwrite=overwrite)  # before hours of training
    contents = Contents(**chosen(ReadingOptions, options))
    read = list(counts_paths) or [source.path for source in find_weighted_sources(inputs, options["sources"], contents)]
    template = options["chat_template"]
    read += [] if template is None else [template.name]
    for folder in (out, *folders.values()):
        check_folder(folder, inputs=read, overwrite=overwrite)
    if dry_run:
        _show_plan(inputs, out, vocab_size, chosen(PlanOptions, options), resume=resume)
        return
    options["chat_template"] = None if template is None else _read_template(template)
    counts_file = CountsFile.beside(out, resume=resume)
    measured: list[tuple[int, list[int]]] = []
    text_sizes: list[tuple[int, int]] = []

    def count_tokens(counts: Counts, model: Model) -> None:
        measured.append(model_tokens_by_size(counts, model, [vocab_size, *folders]))

    with watch() as progress, _kept(counts_file):
        learned: dict[str, Any] = {
            "vocab_size": vocab_size,
            "progress": progress,
            "inspect_counts": count_tokens if folders else None,
            "inspect_sizes": lambda n_bytes, n_tokens: text_sizes.append((n_bytes, n_tokens)),
        }
        if counts_paths:
            first, *others = map(Counts.load, counts_paths)
            merged = first.merge(*others, allow_repeated_inputs=allow_repeated_inputs) if others else first
            work = {name: options[name] for name in ("workers", "engine")}
            model = train_model_from_counts(merged, **chosen(LearningOptions, options), **work, **learned)
        else:
            options["temporary_folder"] = options["temporary_folder"] or runs_parent(out, options["engine"])
            model = train_model(inputs, counts_file=counts_file, **options, **learned)
        unreadable = save_sizes(model, out, folders, overwrite=overwrite)
        counts_file.remove()
        seconds = progress.seconds
    notes = [with_option_names(note, click.get_current_context().command) for note in training_notes(model)]
    if unreadable:
        notes.append(f"other tools cannot read `{out}`: {unreadable}")
    sizes = [
        {"out": folder, "vocab_size": size, "tokens": number, "bytes_per_token": n_bytes / max(number, 1)}
        for n_bytes, n_tokens in measured
        for (size, folder), number in zip({vocab_size: out, **folders}.items(), n_tokens, strict=True)
    ]
    _report(progress, model, out, text_sizes[-1], sizes, notes, resumed=counts_file.resumes, seconds=seconds)


LEARNING_NOTE = (
    "learning merges needs memory for all distinct pre-tokens on this machine, and time that depends on their number, which is "
    "not known from a sample"
)

RESUME_NOTE = "counts of an earlier run are used if they exist, and then the text is not counted again"


def _report(
    progress: Progress,
    model: Model,
    out: str,
    size: tuple[int, int],
    sizes: list[dict[str, Any]],
    notes: list[str],
    *,
    resumed: bool,
    seconds: float,
) -> None:
    """Write the summary, and a line for each size. `size` is that of the text, in bytes and in tokens."""
    from bpejit.training.model_learning import SKIPPED_RECORDS

    read = format_bytes(model.training["bytes"])
    stages = ", ".join(stage.describe() for stage in progress.stages.values())
    bytes_per_token = size[0] / max(size[1], 1)
    progress.finish(
        f"trained {model.vocab_size:,} tokens on {read} in {format_seconds(seconds)}"
        + (f": {stages}" if stages else "")
        + f"; {bytes_per_token:.3f} bytes per token of this text; {wrote(out)}",
        notes=notes,
        out=out,
        vocab_size=model.vocab_size,
        merges=len(model.merges),
        special_tokens=dict(model.special_tokens),
        sha256=model.sha256,
        bytes=model.training["bytes"],
        pretokens=model.training["pretokens"],
        distinct_pretokens=model.training["distinct_pretokens"],
        tokens=size[1],
        bytes_per_token=bytes_per_token,
        skipped_records=sum(entry["count"] for entry in model.training.get(SKIPPED_RECORDS, ())),
        resumed=resumed,
        sizes=sizes,
        seconds=seconds,
    )
    if not wants_json():
        for row in sizes:
            progress.message(f"{row['vocab_size']:>9,} tokens: {row['bytes_per_token']:.3f} bytes per token, `{row['out']}`")


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
        if counts_file.path.exists() and not is_quiet():
            write_message(f"the counts are kept in `{counts_file.path}`; the same command with `--resume` continues from them")
        raise


def _check_sizes(folders: dict[int, str], vocab_size: int, least: int) -> None:
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
