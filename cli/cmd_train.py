"""`bpejit train`."""

from __future__ import annotations

from typing import TextIO

import click

from bpejit.training.tie_rules import tie_rule_names

from .command_types import command
from .count_type import Count
from .option_names import with_option_names
from .options import (
    PATTERNS,
    LazyChoice,
    complete_path,
    complete_pattern,
    engine_options,
    input_argument,
    input_format_option,
    out_option,
    overwrite_option,
    unicode_option,
)
from .progress import format_bytes, format_seconds, watch
from .reporting import report_options, wrote

DEFAULT_SPECIAL_TOKEN = "<|endoftext|>"


@command()
@input_argument
@click.option(
    "--vocab-size",
    type=Count(),
    required=True,
    metavar="N",
    help="Number of tokens, such as 32000 or 32k, including 256 bytes and the special tokens.",
)
@out_option("Folder to write the tokenizer to.", metavar="FOLDER", default="tokenizer", show_default=True)
@overwrite_option
@click.option(
    "--pattern",
    default="gpt2",
    show_default=True,
    metavar="NAME|REGEX",
    shell_complete=complete_pattern,
    help=f"Split pattern: {', '.join(PATTERNS)}, or a regular expression.",
)
@click.option(
    "--special-token",
    "special_tokens",
    multiple=True,
    metavar="TEXT",
    help=f"Text that becomes a single token, excluded from training; may be repeated.  [default: {DEFAULT_SPECIAL_TOKEN}]",
)
@click.option("--no-special-tokens", is_flag=True, help="Train without special tokens.")
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
@click.option("--normalize-newlines", is_flag=True, help="Convert \\r\\n and \\r to \\n.")
@unicode_option("that of the regex package")
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
@input_format_option
@engine_options
@report_options
def train(
    *,
    inputs: tuple[str, ...],
    vocab_size: int,
    out: str,
    overwrite: bool,
    pattern: str,
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
    input_format: str,
    workers: int | None,
    engine: str,
) -> None:
    """Train a tokenizer on text.

    INPUT is one or more files or globs, or - for standard input.
    The folder is also a Hugging Face tokenizer.

    \b
    Example:
        bpejit train corpus.txt --vocab-size 32k
        bpejit train 'shards/*.txt' --vocab-size 50257 --pattern cl100k --out my-tokenizer
    """
    if no_special_tokens and special_tokens:
        raise click.UsageError("`--no-special-tokens` and `--special-token` cannot be combined: leave one out")
    if not special_tokens and not no_special_tokens:
        special_tokens = (DEFAULT_SPECIAL_TOKEN,)
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import find_sources
    from bpejit.formats.folder_writing import check_folder, save_folder
    from bpejit.training.train import train_model, training_notes
    from bpejit.warmup import compiling_meanwhile

    check_folder(out, overwrite=overwrite)  # before hours of training
    paths = [source.path for source in find_sources(inputs, Contents(input_format))]
    check_folder(out, inputs=paths + ([] if chat_template is None else [chat_template.name]), overwrite=overwrite)
    template = None if chat_template is None else _read_template(chat_template)
    with watch() as progress, compiling_meanwhile("encoding"):
        model = train_model(
            inputs,
            vocab_size=vocab_size,
            special_tokens=special_tokens,
            special_tokens_first=special_tokens_first,
            pattern=pattern,
            tie_break=tie_break,
            min_frequency=min_frequency,
            max_token_bytes=max_token_bytes,
            normalize_newlines=normalize_newlines,
            unicode=unicode,
            bos_token=bos_token,
            eos_token=eos_token,
            pad_token=pad_token,
            model_max_length=model_max_length,
            chat_template=template,
            input_format=input_format,
            workers=workers,
            engine=engine,
            progress=progress,
        )
        unreadable = save_folder(model, out, overwrite=overwrite)
        seconds = progress.seconds
    stages = ", ".join(stage.describe() for stage in progress.stages.values())
    read = max((stage.done for stage in progress.stages.values() if stage.unit == "bytes"), default=0)
    notes = [with_option_names(note, click.get_current_context().command) for note in training_notes(model)]
    if unreadable:
        notes.append(f"other tools cannot read `{out}`: {unreadable}")
    progress.finish(
        f"trained {model.vocab_size:,} tokens on {format_bytes(read)} in {format_seconds(seconds)}"
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
        seconds=seconds,
    )


def _read_template(file: TextIO) -> str:
    try:
        return file.read()
    except UnicodeDecodeError as cause:
        raise click.BadParameter(f"`{file.name}` is not UTF-8 at byte {cause.start}", param_hint="--chat-template") from cause
