"""`bpejit train`."""

from __future__ import annotations

from typing import TextIO

import click

from .option_names import with_option_names
from .options import (
    PATTERNS,
    TIE_RULES,
    debug_option,
    input_argument,
    input_format_option,
    overwrite_option,
    quiet_option,
    spread_options,
    unicode_option,
)
from .progress import format_bytes, format_seconds, watch

DEFAULT_SPECIAL_TOKEN = "<|endoftext|>"


@click.command()
@input_argument
@click.option("--vocab-size", type=int, required=True, metavar="N", help="Tokens in all: 256 bytes, merges and special tokens.")
@click.option("--out", default="tokenizer", show_default=True, metavar="FOLDER", help="Where the tokenizer is written.")
@overwrite_option
@click.option(
    "--pattern",
    default="gpt2",
    show_default=True,
    metavar="NAME|REGEX",
    help=f"The split pattern: {', '.join(PATTERNS)}, or a regular expression.",
)
@click.option(
    "--special-token",
    "special_tokens",
    multiple=True,
    metavar="TEXT",
    help=f"A text that is one token and that nothing merges across; may be repeated.  [default: {DEFAULT_SPECIAL_TOKEN}]",
)
@click.option("--no-special-tokens", is_flag=True, help="Train without any special token.")
@click.option("--special-tokens-first", is_flag=True, help="Give special tokens the ids from 0, instead of the last ones.")
@click.option(
    "--tie-break",
    type=click.Choice(TIE_RULES),
    default="greatest-bytes",
    show_default=True,
    help="Which of several equally frequent pairs is merged first.",
)
@click.option(
    "--min-frequency",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Stop when no pair occurs this often.",
)
@click.option("--max-token-bytes", type=click.IntRange(min=1), metavar="N", help="Make no token longer than this.")
@click.option("--normalize-newlines", is_flag=True, help="Read \\r\\n and \\r as \\n.")
@unicode_option("the one that the regex package has")
@click.option("--bos-token", metavar="TEXT", help="The special token that begins a text, for transformers; added if need be.")
@click.option("--eos-token", metavar="TEXT", help="The one that ends a text.  [default: <|endoftext|> if it is one]")
@click.option("--pad-token", metavar="TEXT", help="The one that fills up shorter rows.")
@click.option(
    "--model-max-length", type=click.IntRange(min=1), metavar="N", help="The longest text of the model, for transformers."
)
@click.option(
    "--chat-template",
    metavar="FILE",
    type=click.File(encoding="utf-8"),
    help="A Jinja template that makes the text of a conversation, for transformers.",
)
@input_format_option
@spread_options
@quiet_option
@debug_option
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
    quiet: bool,
) -> None:
    """Learn a vocabulary from text.

    INPUT is files, globs, or - for standard input.
    The folder that is written is a Hugging Face tokenizer as well.

    \b
    Example:
        bpejit train corpus.txt --vocab-size 32000
        bpejit train 'shards/*.txt' --vocab-size 50257 --pattern cl100k --out my-tokenizer
    """
    if no_special_tokens and special_tokens:
        raise click.UsageError("`--no-special-tokens` and `--special-token` exclude each other: leave one out")
    if not special_tokens and not no_special_tokens:
        special_tokens = (DEFAULT_SPECIAL_TOKEN,)
    from bpejit.corpus.contents import Contents
    from bpejit.corpus.sources import find_sources
    from bpejit.formats.folder import check_folder, save_folder
    from bpejit.training.train import train_model, training_notes
    from bpejit.warmup import compiling_meanwhile

    check_folder(out, overwrite=overwrite)  # not after hours of training
    paths = [source.path for source in find_sources(inputs, Contents(input_format))]
    check_folder(out, inputs=paths + ([] if chat_template is None else [chat_template.name]), overwrite=overwrite)
    template = None if chat_template is None else _read_template(chat_template)
    with watch(quiet=quiet) as progress, compiling_meanwhile("encoding"):
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
    progress.say(
        f"trained {model.vocab_size:,} tokens on {format_bytes(read)} in {format_seconds(seconds)}"
        + (f": {stages}" if stages else "")
        + f"; wrote `{out}`"
    )
    for note in training_notes(model):
        progress.say(f"note: {with_option_names(note, click.get_current_context().command)}")
    if unreadable:
        progress.say(f"note: other tools cannot read `{out}`: {unreadable}")


def _read_template(file: TextIO) -> str:
    try:
        return file.read()
    except UnicodeDecodeError as cause:
        raise click.BadParameter(f"`{file.name}` is not UTF-8 at byte {cause.start}", param_hint="--chat-template") from cause
