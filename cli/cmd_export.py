"""`bpejit export`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .options import debug_option, overwrite_option, pattern_options, quiet_option, read_tokenizer

if TYPE_CHECKING:
    from bpejit.tokenizer import Tokenizer

FORMATS = ("hf", "tiktoken", "gpt2")


@click.command()
@click.argument("tokenizer", metavar="TOKENIZER")
@click.option("--to", "form", type=click.Choice(FORMATS), help="The format to write.")
@click.option("--out", metavar="PATH", help="Where to write: a folder, or for tiktoken a file NAME.tiktoken.")
@overwrite_option
@click.option("--legacy-merges", is_flag=True, help='For hf: write merges as "a b", for readers that know no pairs.')
@click.option("--check", is_flag=True, help="Have the other tools that are installed read the file, and compare ids.")
@pattern_options
@quiet_option
@debug_option
def export(
    *,
    tokenizer: str,
    form: str | None,
    out: str | None,
    overwrite: bool,
    legacy_merges: bool,
    check: bool,
    pattern: str | None,
    special_tokens: dict[str, int] | None,
    unicode: str | None,
    quiet: bool,
) -> None:
    """Write a tokenizer in the format of another tool, with equal ids.

    TOKENIZER is a folder that bpejit wrote, Hugging Face's tokenizer.json, a file NAME.tiktoken, tekken.json,
    GPT-2's vocab.json with merges.txt beside it, a folder with one of these, or hf:ORGANISATION/NAME.
    What the format cannot say, or the tool would read otherwise, is refused with the reason.
    llama.cpp knows split patterns by a hash of what they do: it refuses a tokenizer with a pattern of your own.
    --check without --to and --out checks TOKENIZER as it is; the exit code is 1 if a reader gives other ids.

    \b
    Example:
        bpejit export tokenizer --to hf --out for-transformers
        bpejit export tokenizer --to tiktoken --out mine.tiktoken
        bpejit export tokenizer --check
    """
    if (form is None) != (out is None) or not (form or check):
        raise click.UsageError("--to and --out belong together; expected both, or --check alone: give both")
    if form is None or out is None:
        _check(read_tokenizer(tokenizer, pattern, special_tokens, unicode), tokenizer)
        return
    from bpejit.formats.export import check_save
    from bpejit.formats.recognise import tokenizer_files

    check_save(out, format=form, inputs=tokenizer_files(tokenizer), overwrite=overwrite)
    loaded = read_tokenizer(tokenizer, pattern, special_tokens, unicode)
    loaded.save(out, format=form, legacy_merges=legacy_merges, overwrite=overwrite)
    if not quiet:
        click.echo(f"wrote `{out}` for {form}", err=True)
        for line in (*_usage(form, out), *_notes(form, loaded)):
            click.echo(line, err=True)
    if check:
        _check(loaded, out)


def _usage(form: str, out: str) -> list[str]:
    """Return the lines of Python that load what was written."""
    if form in ("hf", "gpt2"):
        load = f"tokenizer = AutoTokenizer.from_pretrained({out!r})"
        return ["in Python:", "  from transformers import AutoTokenizer", f"  {load}"]
    from bpejit.formats.tiktoken import module_path

    module = module_path(out)
    return [f"in Python, from the folder `{module.parent}`:", f"  from {module.stem} import encoding"]


def _notes(form: str, tokenizer: Tokenizer) -> list[str]:
    if form != "hf":
        return []
    from bpejit.formats.readers import note

    found = note(tokenizer.model)
    return [f"note: {found}"] if found else []


def _check(tokenizer: Tokenizer, path: str) -> None:
    """Print what other tools make of a file; exit with 1 if one gives other ids."""
    from bpejit.verification.acceptance import check_readers

    meanings = {"equal": "reads it with equal ids", "different": "GIVES OTHER IDS", "refused": "refuses it"}
    different = False
    for found in check_readers(tokenizer, path):
        different |= found.status == "different"
        meaning = meanings.get(found.status, "is not installed")
        detail = f": {_shortened(found.detail)}" if found.status in ("different", "refused") else ""
        click.echo(f"{found.reader:<16}{found.version:<12}{meaning}{detail}")
    if different:
        raise click.exceptions.Exit(1)


def _shortened(text: str) -> str:
    return text if len(text) <= 160 else text[:157] + "..."
