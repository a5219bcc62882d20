"""`bpejit subword train`, `encode` and `decode`, and `bpejit datagen`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bpejit.corpus.reading_options import ReadingOptions

from . import cmd_encode as jobs, shared_options as shared
from .cmd_info import wrote_token_file
from .command_types import Group, command
from .progress import Progress, describe_stage, format_bytes, format_rate, format_seconds, telling_what_is_kept, watch
from .reporting import check_json_output, fields_of, wrote

if TYPE_CHECKING:
    from bpejit.t2t.datagen.problems import GenerationReport


def _record_formats() -> tuple[str, ...]:
    from bpejit.t2t.record_formats.registry import record_format_names

    return record_format_names()


@command()
@shared.path_argument("problem", "PROBLEM")
@shared.path_option(
    "--data-dir",
    metavar="FOLDER",
    required=True,
    help="Folder for the vocabularies and the shards, or a URL such as s3://bucket/data.",
)
@shared.flag("--overwrite", help="Replace a data set that exists. Vocabularies that exist are always used.")
@shared.path_option("--tmp-dir", metavar="FOLDER", help="Folder that a Python class may use.  [default: temporary]")
@click.option(
    *("--format", "record_format"),
    type=shared.LazyChoice("format", _record_formats),
    default="tfrecord",
    show_default=True,
    metavar="NAME",
    help="Format of the shards: tfrecord, jsonl or parquet.",
)
@shared.count_option("--seed", least=0, default=0, text="Selects the order of the examples.")
@shared.flag("--strict", help="Stop at a malformed or empty sample, instead of skipping it.")
@shared.count_option(
    "--max-memory",
    least=1 << 20,
    is_size=True,
    default="1G",
    text="Memory of all workers for shuffling.",
    section="Large corpora",
)
@shared.shard_option("Generate only part I of N, from 0 to N - 1")
@shared.count_option("--task-id", least=0, metavar="I", text="I of --shard I/N, with --num-tasks.", section="Large corpora")
@shared.count_option("--num-tasks", text="N of --shard I/N, with --task-id.", section="Large corpora")
@shared.resume_option
@shared.dry_run_option
@shared.cluster_engine_options
def datagen(
    *,
    problem: str,
    data_dir: str,
    record_format: str,
    shard: str | None,
    task_id: int | None,
    num_tasks: int | None,
    work: dict[str, Any],
    **options: Any,
) -> None:
    """Generate training data: shards of encoded, shuffled examples.

    PROBLEM is a TOML file that describes the samples and their encoding, or MODULE:CLASS for a Python class.
    A vocabulary that does not exist in the folder of the data is built from a sample of the training set.
    A run that was interrupted or killed continues with --resume.

    \b
    Example:
        bpejit datagen translation.toml --data-dir data
        bpejit datagen translation.toml --data-dir parts --shard 0/8 --resume
        bpejit datagen problems.py:Reversal --data-dir data
    """
    if (task_id is None) != (num_tasks is None) or (task_id is not None and shard is not None):
        raise click.UsageError(
            "`--task-id` and `--num-tasks` stand for `--shard I/N`; expected both of them, or `--shard`, or none: correct the "
            "command"
        )
    if task_id is not None:
        shard = f"{task_id}/{num_tasks}"
    from bpejit.t2t.datagen.problems import generate_data, load_problem

    with watch() as progress:
        loaded = load_problem(problem)
        out = f"{data_dir.rstrip('/') or '/'}/{loaded.dataset_filename()}"
        with telling_what_is_kept(progress, out):
            report = generate_data(loaded, data_dir, format=record_format, shard=shard, **options, **work, progress=progress)
    fields = {
        "data_dir": data_dir,
        **jobs.dataset_fields(report),
        "vocabularies": report.vocabularies,
        "dry_run": options["dry_run"],
    }
    if options["dry_run"]:
        progress.finish(_describe_plan(report, out, options["max_memory"]), **fields)
        return
    progress.finish(
        _summary(report, progress, out), details=jobs.describe_dataset(report), notes=jobs.dataset_notes(report), **fields
    )


def _summary(report: GenerationReport, progress: Progress, out: str) -> str:
    files = f"{len(report.paths):,} files, described by `{report.manifest}`"
    examples = f"{report.examples:,} examples with {report.ids:,} ids"
    if not progress.stages:  # nothing was left to do
        return f"{examples} in {files}"
    what = f"part {report.part}, " if report.part and report.missing_parts else ""
    new = jobs.describe_new(report, report.stages.get("vocabulary", 0.0))
    text = f"generated {what}{examples} from {format_bytes(report.bytes)}{new}; "
    if report.missing_parts:
        return jobs.describe_missing(report, text, out)
    return f"{text}wrote {files}" if report.paths else f"{text}all parts are complete, and another process joins them"


def _describe_plan(report: GenerationReport, out: str, max_memory: int) -> str:
    built = ", ".join(f"`{path}`" for path in report.new_vocabularies)
    first = f"would build {built}, and " if built else "would "
    expected = ""
    if report.examples:
        expected = (
            f"; expected: {report.examples:,} examples with {report.ids:,} ids in {format_seconds(report.seconds)}, and then "
            f"shuffling with at most {format_bytes(max_memory)} of memory"
        )
    elif built:
        expected = "; the time can be estimated when the vocabulary exists"
    task = f"; memory of a task: {format_bytes(report.worker_memory)}" if report.examples and report.cluster else ""
    return f"{first}generate `{out}` from {format_bytes(report.bytes)} in {jobs.describe_units(report)}{expected}{task}"


vocab_option = shared.path_option(
    "--vocab", required=True, metavar="FILE", help="Vocabulary written by `bpejit subword train`."
)

reading_options = shared.declared_options(ReadingOptions, into="reading", without=("documents", "allow_special"))


@click.group(cls=Group)
def subword() -> None:
    """Train and use Tensor2Tensor's subword vocabularies.

    \b
    Example:
        bpejit subword train corpus.txt --vocab-size 8192 --out vocab.subwords
        bpejit subword encode corpus.txt --vocab vocab.subwords --out ids.bin
        bpejit subword decode ids.bin --vocab vocab.subwords --out back.txt
    """


@subword.command()
@shared.input_argument
@shared.count_option("--vocab-size", required=True, text="Number of subtokens, within about 1 %.")
@shared.path_option("-o", "--out", metavar="FILE", required=True, help="Vocabulary to write, such as vocab.subwords.")
@shared.count_option("--max-subtoken-length", text="Subtokens have fewer characters than this.")
@shared.count_option(
    "--byte-budget",
    is_size=True,
    text="Sample larger files: every n-th line, up to this many bytes per file, such as 500M or 1G.",
)
@shared.repeated_option(
    "--reserved", metavar="TEXT", help="Text that gets one of the first ids, after <pad> and <EOS>; may be repeated."
)
@reading_options
@shared.overwrite_option
def train(
    *, inputs: tuple[str, ...], vocab_size: int, out: str, reading: dict[str, Any], overwrite: bool, **options: Any
) -> None:
    """Build a subword vocabulary from text with one sentence per line.

    INPUT is one or more files, folders, globs or URLs, or - for standard input, as for `bpejit encode`; the texts of records
    have one sentence per line as well.
    Files named *.tsv have lines with a word, a tab and a count.

    \b
    Example:
        bpejit subword train corpus.txt --vocab-size 8192 --out vocab.subwords
        bpejit subword train 'shards/*.txt' --vocab-size 32k --out large.subwords
    """
    from bpejit.corpus.contents import Contents
    from bpejit.storage.files import check_writable
    from bpejit.storage.outputs import check_outputs, is_standard_output
    from bpejit.t2t.subword_files import train_vocabulary

    contents = Contents(strip_bom=True, **reading)
    with watch() as progress:
        read = [source.path for source in shared.read_sources(inputs, reading)]
        check_outputs([out], inputs=read, overwrite=overwrite)
        if not is_standard_output(out):
            check_writable(out)  # before an hour of counting
        encoder = train_vocabulary(inputs, vocab_size, **options, contents=contents, progress=progress)
        encoder.store_to_file(out, overwrite=overwrite)
    stages = ", ".join(describe_stage(stage) for stage in progress.stages.values())
    n_bytes = progress.stages["count"].done
    progress.finish(
        f"trained {encoder.vocab_size:,} subtokens on {format_bytes(n_bytes)} in {format_seconds(progress.seconds)}: {stages}; "
        f"{wrote(out)}",
        notes=[*shared.bom_notes(contents.marked, stripped=True), *shared.skipped_notes(contents.skipped)],
        out=out,
        vocab_size=encoder.vocab_size,
        sha256=encoder.sha256,
        bytes=n_bytes,
    )


@subword.command()
@shared.input_argument
@vocab_option
@shared.out_option("Token file to write, such as ids.bin, or - for standard output.", required=True)
@shared.flag("--append-eos", help="Write the id of <EOS>, 1, after each line, so that decode restores the lines.")
@shared.token_format_option(shared.WRITTEN)
@reading_options
@shared.strip_bom_option
def encode(
    *,
    inputs: tuple[str, ...],
    vocab: str,
    out: str,
    token_format: str,
    reading: dict[str, Any],
    strip_bom: bool,
    **options: Any,
) -> None:
    """Encode text with one sentence per line into a file of ids.

    INPUT is one or more files, folders, globs or URLs, or - for standard input, as for `bpejit encode`; the texts of records
    have one sentence per line as well.
    The file has no header; FILE.json next to it contains dtype, counts and the hash of the vocabulary.

    \b
    Example:
        bpejit subword encode corpus.txt --vocab vocab.subwords --out ids.bin
    """
    check_json_output(out)
    from bpejit.corpus.contents import Contents
    from bpejit.t2t.subword_files import encode_file
    from bpejit.t2t.subword_text_encoder import SubwordTextEncoder

    contents = Contents(strip_bom=strip_bom, **reading)
    with watch() as progress:
        encoder = SubwordTextEncoder(vocab)
        options |= {"format": token_format, "contents": contents, "progress": progress}
        report = encode_file(encoder, inputs, out, **options)
    seconds = progress.stages["encode"].seconds
    ratio = f" ({report.bytes / report.tokens:.2f} bytes per id)" if report.tokens else ""
    progress.finish(
        f"encoded {report.lines:,} lines, {format_bytes(report.bytes)}, into {report.tokens:,} ids{ratio} in "
        f"{format_seconds(seconds)} ({format_rate(report.bytes, seconds, 'bytes')}); "
        f"{wrote_token_file(out, report.format, report.dtype)}",
        notes=[*shared.bom_notes(contents.marked, stripped=strip_bom), *shared.skipped_notes(contents.skipped)],
        out=out,
        **fields_of(report, "lines", "tokens", "bytes", "dtype", "format"),
        tokenizer_sha256=encoder.sha256,
        seconds=seconds,
    )


@subword.command()
@shared.tokens_argument("tokens")
@vocab_option
@shared.out_option("File to write the text to.  [default: standard output]")
@shared.read_dtype_option
@shared.token_format_option()
def decode(*, tokens: shared.Paths, vocab: str, out: str | None, overwrite: bool, dtype: str | None, token_format: str) -> None:
    """Decode token files into text, with a line for each <EOS>.

    TOKENS are token files, as for bpejit decode, or - for ids from standard input, which need --dtype.
    Ids encoded without --append-eos become one line.

    \b
    Example:
        bpejit subword decode ids.bin --vocab vocab.subwords --out back.txt
    """
    target = "-" if out is None else out
    check_json_output(target)
    from bpejit.t2t.subword_files import decode_file
    from bpejit.t2t.subword_text_encoder import SubwordTextEncoder

    with watch() as progress:
        encoder = SubwordTextEncoder(vocab)
        written = decode_file(encoder, tokens, target, dtype=dtype, format=token_format, overwrite=overwrite, progress=progress)
    jobs.finish_decoding(progress, tokens, target, written, progress.stages["decode"].seconds)
