"""`bpejit train`, `bpejit extend` and `bpejit shrink`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

from bpejit.corpus.reading_options import ReadingOptions, Sampling
from bpejit.counting.count_options import Memory, PlanOptions, SplitSettings
from bpejit.options import chosen, declared
from bpejit.training.tie_rules import tie_rule_names
from bpejit.training.train_options import MergeLimits, ModelOptions, Saving

from . import shared_options as shared
from .command_types import command
from .progress import describe_stage, format_bytes, format_memory, format_seconds, watch
from .reporting import this_command, write_message, wrote

if TYPE_CHECKING:
    from bpejit.counting.counts import Counts
    from bpejit.model import Model
    from bpejit.training.counts_resume import CountsFile

    from .progress import Progress


@command()
@shared.path_argument("inputs", "INPUT...", nargs=-1)
@shared.count_option(
    "--vocab-size",
    least=None,
    required=True,
    text="Number of tokens, such as 32000 or 32k, including 256 bytes and the special tokens.",
)
@shared.out_option("Folder, also for Hugging Face.", metavar="FOLDER", default="tokenizer", show_default=True)
@shared.options_of_counting(ModelOptions)
@shared.path_option(
    *("--counts", "counts_paths"),
    multiple=True,
    metavar="COUNTS",
    help="Train from a file of `bpejit count`; may be repeated.",
)
@shared.repeated_inputs_option
@shared.declared_options(Saving)
@shared.dry_run_option
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

    \b
    Example:
        bpejit train corpus.txt --vocab-size 32k
        bpejit train corpus.txt --vocab-size 64k --pattern cl100k --out large
        bpejit train 'shards/*.txt' --vocab-size 50257 --out my-tokenizer
    """
    instead = options["sources"] or counts_paths
    inputs = shared.given_or_piped(inputs, instead=instead, other=", or give counts with `--counts`")
    _check_inputs(inputs or tuple(options["sources"] or ()), counts_paths)
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import find_weighted_sources
    from bpejit.counting.counts import Counts
    from bpejit.engines import peak_memory
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
        from bpejit.training.corpus_tokens import model_tokens_by_size

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
    bytes_per_token = n_bytes / max(n_tokens, 1)
    sizes = [
        {"out": folder, "vocab_size": size, "tokens": number, "bytes_per_token": n_read / max(number, 1)}
        for n_read, tokens in measured
        for (size, folder), number in zip(folders.items(), tokens, strict=True)
    ]
    notes = model.training
    memory, worker_memory = peak_memory()
    stages = ", ".join(describe_stage(stage) for stage in progress.stages.values())
    summary = f"trained {model.vocab_size:,} tokens on {format_bytes(notes['bytes'])} in {format_seconds(progress.seconds)}"
    _finish(
        *(progress, model, out, unreadable),
        summary=f"{summary}{f': {stages}' if stages else ''}; {bytes_per_token:.3f} bytes per token of this text",
        notes=training_notes(model),
        **{name: notes[name] for name in ("bytes", "pretokens", "distinct_pretokens")},
        tokens=n_tokens,
        bytes_per_token=bytes_per_token,
        peak_memory=memory,
        worker_memory=worker_memory,
        details=format_memory(memory, worker_memory),
        skipped_records=sum(entry["count"] for entry in notes.get("skipped_records", ())),
        superwords=notes.get("superwords"),
        resumed=outputs.counts_file.resumes,
        sizes=sizes,
    )
    for row in () if this_command().json else sizes:
        progress.message(f"{row['vocab_size']:>9,} tokens: {row['bytes_per_token']:.3f} bytes per token, `{row['out']}`")


def _finish(
    progress: Progress, model: Model, out: str, unreadable: str | None, summary: str, *, with_specials: bool = True, **more: Any
) -> None:
    """Report a tokenizer that was written, and why other tools cannot read it; `more` are notes, and fields for JSON."""
    notes = [*more.pop("notes", ()), *([f"other tools cannot read `{out}`: {unreadable}"] if unreadable else [])]
    named = {"out": out, "vocab_size": model.vocab_size, "merges": None if model.ranked else len(model.merges)}
    fields: dict[str, Any] = named | ({"special_tokens": model.special_tokens} if with_specials else {})
    progress.finish(f"{summary}; {wrote(out)}", notes=notes, **fields, sha256=model.sha256, **more)


def _show_plan(inputs: tuple[str, ...], out: str, vocab_size: int, counting: dict[str, Any], *, resume: bool) -> None:
    from bpejit.counting.count_corpus import plan_count

    from .cmd_count import finish_plan

    what = "memory for all distinct pre-tokens on this machine, and time that depends on their number"
    notes = [f"learning merges needs {what}, which is not known from a sample"]
    if resume:
        notes.append("counts of an earlier run are used if they exist, and then the text is not counted again")
    with watch() as progress:
        plan = plan_count(inputs, **counting)
    then = f", and write a tokenizer of {vocab_size:,} tokens"
    finish_plan(progress, plan, out, then=then, after="and then learning merges", notes=notes)


@contextmanager
def _kept(counts_file: CountsFile) -> Iterator[None]:
    """If the block fails after its text was counted, say how to continue."""
    try:
        yield
    except BaseException:
        if counts_file.path.exists() and not this_command().quiet:
            write_message(f"the counts are kept in `{counts_file.path}`; the same command with `--resume` continues from them")
        raise


def _check_sizes(folders: Iterable[int], vocab_size: int, least: int) -> None:
    """Raise a usage error for a size of `--also` that is not smaller than the vocabulary, or too small."""
    for size in folders:
        if size < least:
            raise click.BadParameter(f"{size} is less than {least}: 256 bytes and the special tokens", param_hint="--also")
        if size >= vocab_size:
            raise click.BadParameter(f"{size} is not smaller than --vocab-size {vocab_size}", param_hint="--also")


_OF_COUNTS = {"resume", "no_special_tokens", "superword_pattern"}.union(
    *map(declared, (SplitSettings, ReadingOptions, Sampling, Memory))
)
"""Options that counts files have instead of the command, or that only matter for counting."""


def _check_inputs(inputs: tuple[str, ...], counts_paths: tuple[str, ...]) -> None:
    """Raise a usage error if there are inputs and counts, or options that contradict counts."""
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


@command()
@shared.tokenizer_argument
@shared.path_argument("inputs", "INPUT...", nargs=-1)
@shared.count_option(
    "--vocab-size", least=None, required=True, text="Number of tokens of the new vocabulary, including those of TOKENIZER."
)
@shared.out_option("Folder to write the new tokenizer to.", metavar="FOLDER", required=True)
@shared.path_option("--counts", "counts_path", metavar="COUNTS", help="Extend from a file of `bpejit count` instead of INPUT.")
@shared.plain_option(
    "--tie-break",
    section="Algorithm",
    type=shared.LazyChoice("tie rule", tie_rule_names),
    metavar="NAME",
    help="Rule that chooses among equally frequent pairs.  [default: that of TOKENIZER, or greatest-bytes]",
)
@shared.declared_options(MergeLimits, max_token_bytes={"help": "Longest new token.  [default: unlimited]"})
@shared.input_options
@shared.pattern_options
@shared.declared_options(Memory)
@shared.engine_options
def extend(
    *,
    tokenizer: shared.TokenizerChoice,
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
    from bpejit.counting.counts import Counts
    from bpejit.formats.folder_writing import check_folder, save_folder
    from bpejit.storage.outputs import existing_parent
    from bpejit.training.extending import EXTENSIONS, extend as extend_tokenizer, extension_notes

    paths = [counts_path] if counts_path else [source.path for source in shared.read_sources(inputs, reading)]
    check_folder(out, inputs=[*paths, *tokenizer.files()], overwrite=overwrite)
    with watch() as progress:
        model = extend_tokenizer(
            tokenizer.load_lazily(),
            Counts.load(counts_path) if counts_path else inputs,
            temporary_folder=temporary_folder or existing_parent(out),
            **reading,
            **work,
            **options,
            progress=progress,
        ).model
        unreadable = save_folder(model, out, overwrite=overwrite)
    extension = model.training[EXTENSIONS][-1]
    first, n_new = extension["first_id"], extension["tokens"]
    notes = extension_notes(model)
    if extension["skipped_records"]:
        notes.append(f"skipped {extension['skipped_records']:,} records without a text")
    ids = f" with the ids {first:,} to {first + n_new - 1:,}" if n_new else ""
    _finish(
        *(progress, model, out, unreadable),
        summary=f"added {n_new:,} tokens{ids}, from {format_bytes(extension['bytes'])}, in {format_seconds(progress.seconds)}",
        notes=notes,
        with_specials=False,
        new_tokens=[{"id": number, "token": model.tokens[number]} for number in range(first, first + n_new)],
        **{name: extension[name] for name in ("bytes", "pretokens", "distinct_pretokens", "skipped_records")},
    )


@command()
@shared.tokenizer_argument
@shared.count_option("--vocab-size", least=None, required=True, text="Number of tokens that remain.")
@shared.out_option("Folder to write the new tokenizer to.", metavar="FOLDER", required=True)
@shared.pattern_options
def shrink(*, tokenizer: shared.TokenizerChoice, vocab_size: int, out: str, overwrite: bool) -> None:
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
        model = shrink_model(tokenizer.model(), vocab_size)
        unreadable = save_folder(model, out, overwrite=overwrite)
    _finish(progress, model, out, unreadable, f"kept {model.vocab_size:,} tokens")
