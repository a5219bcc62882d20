"""`bpejit export`."""

from __future__ import annotations

import click

from .options import debug_option, overwrite_option, pattern_options, quiet_option, read_tokenizer

FORMATS = ("hf", "tiktoken", "gpt2")


@click.command()
@click.argument("tokenizer", metavar="TOKENIZER")
@click.option("--to", "form", type=click.Choice(FORMATS), required=True, help="The format to write.")
@click.option("--out", required=True, metavar="PATH", help="Where to write: a folder, or for tiktoken a file NAME.tiktoken.")
@overwrite_option
@click.option("--legacy-merges", is_flag=True, help='For hf: write merges as "a b", for readers that know no pairs.')
@pattern_options
@quiet_option
@debug_option
def export(
    *,
    tokenizer: str,
    form: str,
    out: str,
    overwrite: bool,
    legacy_merges: bool,
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

    \b
    Example:
        bpejit export tokenizer --to hf --out for-transformers
        bpejit export tokenizer --to tiktoken --out mine.tiktoken
    """
    from bpejit.formats.export import check_save
    from bpejit.formats.recognise import tokenizer_files

    check_save(out, format=form, inputs=tokenizer_files(tokenizer), overwrite=overwrite)
    loaded = read_tokenizer(tokenizer, pattern, special_tokens, unicode)
    loaded.save(out, format=form, legacy_merges=legacy_merges, overwrite=overwrite)
    if not quiet:
        click.echo(f"wrote `{out}` for {form}", err=True)
        for line in _usage(form, out):
            click.echo(line, err=True)


def _usage(form: str, out: str) -> list[str]:
    """Return the lines of Python that load what was written."""
    if form in ("hf", "gpt2"):
        load = f"tokenizer = AutoTokenizer.from_pretrained({out!r})"
        return ["in Python:", "  from transformers import AutoTokenizer", f"  {load}"]
    from bpejit.formats.tiktoken import module_path

    module = module_path(out)
    return [f"in Python, from the folder `{module.parent}`:", f"  from {module.stem} import encoding"]
