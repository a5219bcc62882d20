"""`bpejit train`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TextIO

import click

from bpejit.training.tie_rules import tie_rule_names

from .command_types import command
from .count_options import DEFAULT_PATTERN, chosen_special_tokens, count_setting_options, memory_options
from .count_type import Count
from .option_names import with_option_names
from .options import LazyChoice, complete_path, engine_options, input_options, out_option, overwrite_option
from .progress import format_bytes, format_seconds, watch
from .reporting import report_options, wrote


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
@count_setting_options
@click.option("--special-tokens-first", is_flag=True, help="Assign the first ids to special tokens, instead of the last ones.")
@click.option(
    "--tie-break",
    type=LazyChoice("tie rule", tie_rule_names),
    default="greatest-bytes",
    show_default=True,
    metavar="NAME",
    help=f"Rule that chooses among equally frequent pairs: {', '.join(tie_rule_names())}.",
)
@click.option(
    "--min-frequency",
    type=Count(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Stop when no pair occurs at least this often.",
)
@click.option("--max-token-bytes", type=Count(1, is_size=True), metavar="N", help="Longest token.  [default: unlimited]")
@click.option("--bos-token", metavar="TEXT", help="Special token at the start of a text, for transformers; added if missing.")
@click.option("--eos-token", metavar="TEXT", help="Special token at the end of a text.  [default: <|endoftext|> if present]")
@click.option("--pad-token", metavar="TEXT", help="Special token for padding.")
@click.option("--model-max-length", type=Count(1), metavar="N", help="Longest input of the model in tokens, for transformers.")
@click.option(
    "--chat-template",
    metavar="FILE",
    type=click.File(encoding="utf-8"),
    shell_complete=complete_path,
    help="Jinja template that formats a conversation, for transformers.",
)
@input_options
@click.option(
    "--counts",
    "counts_paths",
    multiple=True,
    metavar="COUNTS",
    shell_complete=complete_path,
    help="Train from a file of `bpejit count` instead of INPUT; may be repeated.",
)
@memory_options
@engine_options
@report_options
def train(
    *,
    inputs: tuple[str, ...],
    vocab_size: int,
    out: str,
    overwrite: bool,
    pattern: str | None,
    special_tokens: tuple[str, ...],
    no_special_tokens: bool,
    special_tokens_first: bool,
    tie_break: str,
    min_frequency: int,
    max_token_bytes: int | None,
    normalize_newlines: bool,
    unicode: str | None,
    bos_token: str | None,
    eos_token: str | None,
    pad_token: str | None,
    model_max_length: int | None,
    chat_template: TextIO | None,
    reading: dict[str, Any],
    counts_paths: tuple[str, ...],
    max_memory: int | None,
    temporary_folder: str | None,
    workers: int | None,
    engine: str,
) -> None:
    """Train a tokenizer on text.

    INPUT is one or more files, folders, globs or URLs, or - for standard input.
    --counts trains from counts instead, with equal results.
    The folder is also a Hugging Face tokenizer.

    \b
    Example:
        bpejit train corpus.txt --vocab-size 32k
        bpejit train 'shards/*.txt' --vocab-size 50257 --pattern cl100k --out my-tokenizer
    """
    _check_inputs(inputs, counts_paths)
    special_tokens = chosen_special_tokens(special_tokens, no_special_tokens)
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import find_sources
    from bpejit.counts.counts import Counts
    from bpejit.formats.folder_writing import check_folder, save_folder
    from bpejit.training.model_learning import SKIPPED_RECORDS
    from bpejit.training.train import train_model, train_model_from_counts, training_notes
    from bpejit.warmup import compiling_meanwhile

    check_folder(out, overwrite=overwrite)  # before hours of training
    paths = list(counts_paths) or [source.path for source in find_sources(inputs, Contents(**reading))]
    check_folder(out, inputs=paths + ([] if chat_template is None else [chat_template.name]), overwrite=overwrite)
    template = None if chat_template is None else _read_template(chat_template)
    with watch() as progress, compiling_meanwhile("encoding"):
        learned: dict[str, Any] = {
            "vocab_size": vocab_size,
            "special_tokens_first": special_tokens_first,
            "tie_break": tie_break,
            "min_frequency": min_frequency,
            "max_token_bytes": max_token_bytes,
            "bos_token": bos_token,
            "eos_token": eos_token,
            "pad_token": pad_token,
            "model_max_length": model_max_length,
            "chat_template": template,
            "workers": workers,
            "engine": engine,
            "progress": progress,
        }
        if counts_paths:
            first, *others = map(Counts.load, counts_paths)
            model = train_model_from_counts(first.merge(*others) if others else first, **learned)
        else:
            model = train_model(
                inputs,
                special_tokens=special_tokens,
                pattern=pattern or DEFAULT_PATTERN,
                normalize_newlines=normalize_newlines,
                unicode=unicode,
                **reading,
                max_memory=max_memory,
                temporary_folder=temporary_folder or Path(out).absolute().parent,
                **learned,
            )
        unreadable = save_folder(model, out, overwrite=overwrite)
        seconds = progress.seconds
    read = format_bytes(model.training["bytes"])
    stages = ", ".join(stage.describe() for stage in progress.stages.values())
    notes = [with_option_names(note, click.get_current_context().command) for note in training_notes(model)]
    if unreadable:
        notes.append(f"other tools cannot read `{out}`: {unreadable}")
    progress.finish(
        f"trained {model.vocab_size:,} tokens on {read} in {format_seconds(seconds)}"
        + (f": {stages}" if stages else "")
        + f"; {wrote(out)}",
        notes=notes,
        out=out,
        vocab_size=model.vocab_size,
        merges=len(model.merges),
        special_tokens=dict(model.special_tokens),
        sha256=model.sha256,
        bytes=model.training["bytes"],
        pretokens=model.training["pretokens"],
        distinct_pretokens=model.training["distinct_pretokens"],
        skipped_records=sum(entry["count"] for entry in model.training.get(SKIPPED_RECORDS, ())),
        seconds=seconds,
    )


_OF_COUNTS = (
    "pattern",
    "special_tokens",
    "no_special_tokens",
    "normalize_newlines",
    "unicode",
    "input_format",
    "documents",
    "text_field",
    "text_column",
    "allow_special",
    "strict",
    "max_memory",
    "temporary_folder",
)
"""Options that counts files have instead of the command, or that only matter for counting."""


def _check_inputs(inputs: tuple[str, ...], counts_paths: tuple[str, ...]) -> None:
    """Raise a usage error unless there are either inputs or counts, and no options that contradict counts."""
    if not counts_paths and not inputs:
        raise click.UsageError("Missing argument 'INPUT...': give files, or counts with `--counts`")
    if not counts_paths:
        return
    if inputs:
        raise click.UsageError("INPUT and `--counts` cannot be combined: count INPUT with `bpejit count`, and give both counts")
    context = click.get_current_context()
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
