"""Tests of the documentation: examples run, lists are complete, and links are valid."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pyarrow.parquet
import pytest
from conftest import DATA, ROOT, data_text
from helpers.cli import COMMANDS, ENVIRONMENT, MODULE, invoke, program

import bpejit
from bpejit.jit import cache
from bpejit.tokenfiles import format_names

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md")]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def shell(tmp_path):
    """Return a function that runs shell lines in a folder with the files that the examples expect."""
    work, tools = tmp_path / "work", tmp_path / "tools"
    work.mkdir()
    tools.mkdir()
    text = data_text("prose.txt")[:200_000]
    (work / "corpus.txt").write_bytes(text)
    (work / "corpus.txt.gz").write_bytes(gzip.compress(text))
    (work / "demo").mkdir()
    (work / "demo" / "texts.txt").write_bytes(b"".join(data_text(f"{name}.txt") for name in ("prose", "code", "cjk")))
    (work / "shards").mkdir()
    (work / "shards" / "one.txt").write_bytes(text)
    (tools / "bpejit").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {MODULE} "$@"\n', encoding="utf-8")
    (tools / "bpejit").chmod(0o755)
    environment = {**ENVIRONMENT, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}

    def run(script: str) -> str:
        done = subprocess.run(
            ["sh", "-euc", script], cwd=work, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    run.folder = work
    return run


def run_session(shell, monkeypatch, session: str) -> str:
    """Run the lines of an example, in this process if a line needs no shell, and return what they print.

    A line takes a tenth of the time of a new process.
    """
    monkeypatch.chdir(shell.folder)
    printed = []
    for line in session.splitlines():
        assert line.startswith("$ "), line
        command = line[2:]
        if command.startswith("bpejit ") and not re.search(r"[|<>;&$*?]", re.sub(r"\"[^\"$]*\"|'[^']*'", "", command)):
            result = invoke(*shlex.split(command)[1:])
            assert result.exit_code == 0, f"{command}\n{result.output}"
            printed.append(result.output)
        else:
            printed.append(shell(command))
    return "\n".join(printed)


@pytest.mark.compiled
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX shell")
def test_readme_on_the_command_line(shell, monkeypatch):
    (session,) = blocks(README, "console")
    lines = session.splitlines()
    assert all(line.startswith("$ bpejit ") for line in lines)
    assert len(lines) <= 10
    run_session(shell, monkeypatch, session)
    assert (shell.folder / "back.txt").read_bytes() == (shell.folder / "demo" / "texts.txt").read_bytes()
    assert (shell.folder / "small.tiktoken").exists()


def test_readme_is_short():
    assert len(README.split()) <= 1500


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX shell")
def test_page_of_large_corpora(shell):
    """Run the commands for one machine and for sixteen, with a stand-in for Slurm."""
    page = (ROOT / "docs" / "large-corpora.md").read_text(encoding="utf-8")
    one, sixteen = blocks(page, "sh")
    (making,) = blocks(page, "console")
    shell(making.removeprefix("$ "))
    tools = shell.folder.parent / "tools"
    (tools / "sbatch").write_text(
        '#!/bin/sh\nexport SLURM_ARRAY_TASK_COUNT=2\nfor i in 0 1; do SLURM_ARRAY_TASK_ID=$i sh -ec "$3" || exit 1; done\n',
        encoding="utf-8",
    )
    (tools / "sbatch").chmod(0o755)
    text = (shell.folder / "corpus.txt").read_text(encoding="utf-8") + "\n<|endoftext|>\n"
    for number in range(12):  # two numbers end like others
        (shell.folder / "corpus" / f"{number}.txt").write_text(text, encoding="utf-8")
    found, counted = [], []
    for lines in (one, sixteen):
        shell(lines.replace("--vocab-size 32000", "--vocab-size 300"))
        found.append({path.name: path.read_bytes() for path in shell.folder.glob("train-0*.bin")})
        counted.append((shell.folder / "corpus.counts").read_bytes())
        shell("rm -r tokenizer *.counts train*")
    assert [*found[0]] == [*found[1]] == ["train-00000.bin"]
    assert counted[0] == counted[1]


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX shell")
def test_page_of_corpora(shell, monkeypatch):
    page = (ROOT / "docs" / "corpora.md").read_text(encoding="utf-8")
    making, example = blocks(page, "python")
    monkeypatch.chdir(shell.folder)
    names: dict[str, object] = {}
    exec(compile(making, "docs/corpora.md", "exec"), names)
    for session in blocks(page, "console"):
        assert all(line.startswith("$ bpejit ") for line in session.splitlines())
        run_session(shell, monkeypatch, session)
    assert (shell.folder / "tokens.bin").stat().st_size > (shell.folder / "remote.bin").stat().st_size
    columns = pyarrow.parquet.read_table(shell.folder / "tokens.parquet").select(["id", "meta.url"])
    assert columns.to_pylist() == [{"id": number, "meta.url": f"file:{number}"} for number in range(names["number"] + 1)]
    assert names["number"] == 787
    exec(compile(example, "docs/corpora.md", "exec"), names)
    assert names["report"].documents == 200
    assert names["tokenizer"].vocab == names["same"].vocab


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX shell")
def test_page_of_jobs(shell, monkeypatch):
    page = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")
    for session in blocks(page, "console"):
        assert all(line.startswith("$ ") for line in session.splitlines())
        run_session(shell, monkeypatch, session)
    monkeypatch.chdir(shell.folder)
    (example,) = blocks(page, "python")
    exec(compile(example, "docs/jobs.md", "exec"), {})
    assert [path.name for path in sorted(shell.folder.glob("python-*.bin"))]


def run_python(page: str) -> list[dict[str, object]]:
    """Run the Python examples of a page, each on its own, and return their names."""
    found = []
    for example in blocks((ROOT / page).read_text(encoding="utf-8"), "python"):
        names: dict[str, object] = {}
        exec(compile(example, page, "exec"), names)
        found.append(names)
    return found


@pytest.mark.compiled
def test_readme_in_python(shell, monkeypatch):
    monkeypatch.chdir(shell.folder)
    (names,) = run_python("README.md")
    assert names["text"] == "hello"
    assert names["tokenizer"].decode(np.load("ids.npy").tolist()) == (shell.folder / "demo" / "texts.txt").read_bytes().decode()
    (example,) = blocks(README, "python")
    assert len(example.strip().splitlines()) <= 8


def words(line: str) -> str:
    return " ".join(line.split())


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX shell")
def test_tutorial(shell, monkeypatch, capsys):
    """Run all examples; what the page shows of the output is in it, but for the number of spaces."""
    pytest.importorskip("matplotlib")
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    sessions = "".join(blocks(page, "console"))
    assert all(line.startswith("$ ") for line in sessions.splitlines())
    printed = {words(line) for line in run_session(shell, monkeypatch, sessions).splitlines()}
    assert any("BitsSetInTheGivenRange│" in line for line in printed)  # the lines that differ most, as the page says
    shown = [words(line) for block in blocks(page, "text") for line in block.splitlines()]
    assert [line for line in shown if line not in printed] == []
    monkeypatch.chdir(shell.folder)
    (names,) = run_python("docs/tutorial.md")
    assert len(names["ids"]) == names["counts"].sum()
    assert "246 tokens do not occur" in capsys.readouterr().out
    assert "246 tokens do not occur" in page


@pytest.mark.compiled
def test_page_of_sessions(shell, monkeypatch):
    monkeypatch.chdir(shell.folder)
    names: dict[str, object] = {}
    for example in blocks((ROOT / "docs" / "sessions.md").read_text(encoding="utf-8"), "python"):
        exec(compile(example, "docs/sessions.md", "exec"), names)
    assert [answer.text[-8:] for answer in names["answers"]] == ["Answer 0", "Answer 1", "Answer 2"]


@pytest.mark.compiled
def test_page_of_counting(shell, monkeypatch):
    page = (ROOT / "docs" / "counting-tokens.md").read_text(encoding="utf-8")
    texts = [text + "<|endoftext|>" for text in ("one text", "another text")]
    (shell.folder / "corpus.txt").write_text("".join(texts * 20), encoding="utf-8")
    (shell.folder / "documents").mkdir()
    (shell.folder / "documents" / "0.jsonl").write_text('{"text": "one text"}\n', encoding="utf-8")
    monkeypatch.chdir(shell.folder)
    bpejit.train(["corpus.txt"], vocab_size=280, special_tokens=["<|endoftext|>"]).save("tokenizer", overwrite=True)
    run_session(shell, monkeypatch, "\n".join(blocks(page, "console")))
    names: dict[str, object] = {}
    for example in blocks(page, "python"):
        exec(compile(example, "docs/counting-tokens.md", "exec"), names)
    tokenizer = names["tokenizer"]
    assert names["counts"].tolist() == [len(tokenizer.encode(text)) for text in names["texts"]]
    assert names["was_cut"]
    assert len(names["ids"]) <= 8
    assert "last turn".endswith(names["end"][-3:])
    assert names["piece"].overlap


def test_page_of_python(shell, monkeypatch):
    monkeypatch.chdir(shell.folder)
    first, cs336 = run_python("docs/python.md")
    assert first["text"] == "hello"
    assert cs336["tokenizer"].decode(cs336["ids"]) == (shell.folder / "demo" / "texts.txt").read_bytes().decode()


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX shell")
def test_page_of_formats(shell, monkeypatch):
    (session,) = blocks((ROOT / "docs" / "formats.md").read_text(encoding="utf-8"), "console")
    run_session(shell, monkeypatch, session)
    monkeypatch.chdir(shell.folder)
    (names,) = run_python("docs/formats.md")
    text = (shell.folder / "corpus.txt").read_bytes().decode()[:10_000]
    ids = names["tokenizer"].encode(text)
    assert names["again"].encode(text) == ids
    assert names["encoding"].encode(text, allowed_special="all") == ids
    assert names["fast"](text).input_ids == ids


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX shell")
def test_examples_of_inspection(shell, monkeypatch):
    pytest.importorskip("matplotlib")
    page = (ROOT / "docs" / "inspection.md").read_text(encoding="utf-8")
    (session,) = blocks(page, "console")
    run_session(shell, monkeypatch, session)
    assert (shell.folder / "report.html").stat().st_size > 50_000
    monkeypatch.chdir(shell.folder)
    (example,) = blocks(page, "python")
    names: dict[str, object] = {}
    exec(compile(example, "docs/inspection.md", "exec"), names)
    assert "│" in repr(names["shown"])
    assert (shell.folder / "compression.svg").exists()


def test_page_on_training(tmp_path, monkeypatch):
    """Run the examples in this process, and compare what they print; a line of three dots stands for any lines."""
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "texts.txt").write_bytes(b"".join(data_text(f"{name}.txt") for name in ("prose", "code", "cjk")))
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "how-bpe-training-works.md").read_text(encoding="utf-8")
    for session in blocks(page, "console"):
        line, _, shown = session.removeprefix("$ ").partition("\n")
        result = invoke(*shlex.split(line)[1:])
        expected = re.escape(shown).replace(re.escape("...\n"), "(?:.*\n)+")
        assert re.fullmatch(expected, result.stdout), f"{line}\n{result.output}"


def test_pictures_are_used():
    used = set()
    for page in PAGES:
        links = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
        used |= {(page.parent / link).resolve() for link in links}
    assert used == set((ROOT / "docs" / "pictures").iterdir())


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX shell")
def test_examples_of_counts(shell, monkeypatch):
    page = (ROOT / "docs" / "counts.md").read_text(encoding="utf-8")
    for session in blocks(page, "console"):
        run_session(shell, monkeypatch, session)
    monkeypatch.chdir(shell.folder)
    names: dict[str, object] = {}
    for example in blocks(page, "python"):
        exec(compile(example, "docs/counts.md", "exec"), names)
    assert len(names["new"]) == 4500 - 4000
    counts = names["bpejit"].Counts
    assert counts.load("again.counts").table == counts.load("all.counts").table == counts.load("merged.counts").table
    sizes = {
        "sizes": 4000,
        "sizes-2000": 2000,
        "sizes-1000": 1000,
        "tok": 4000,
        "tok-2000": 2000,
        "tok-1000": 1000,
        "tok-500": 500,
        "tok-extended": 4500,
    }
    assert {name: names["bpejit"].load(name).model.vocab_size for name in sizes} == sizes


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX shell")
@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_examples_of_the_help(shell, name, monkeypatch):
    """Run the examples: in this process, which takes a tenth of the time of a new one, unless a line needs a shell."""
    monkeypatch.chdir(shell.folder)

    def run(line: str) -> None:
        if re.search(r"[|<>;$*?]", line):
            shell(line)
        else:
            result = invoke(*shlex.split(line)[1:])
            assert result.exit_code == 0, f"{line}\n{result.output}"

    if name.startswith("cache"):  # without the kernels of this version, the other tests would compile all of them again
        monkeypatch.setenv("BPEJIT_CACHE_DIR", str(shell.folder / "cache"))
        monkeypatch.setattr(cache, "_state", cache._State())
    command = COMMANDS[name] if name else program
    lines = command.help.partition("Example:\n")[2].strip().splitlines()
    assert lines
    if name.startswith(
        (
            "encode",
            "combine",
            "count-tokens",
            "decode",
            "export",
            "info",
            "show",
            "compare",
            "report",
            "split",
            "stats",
            "verify",
            "tokens",
            "extend",
            "shrink",
        )
    ):
        run("bpejit train corpus.txt --vocab-size 300 --quiet")
        shutil.copytree("tokenizer", "my-tokenizer")
        if name != "encode":
            run(f"bpejit encode corpus.txt --out tokens.bin --quiet {'--shard 0/1' if name == 'combine' else ''}")
    if name == "count":
        shutil.copy("corpus.txt", "more.txt")
    if name.startswith(("counts", "merge-counts")):
        run("bpejit count corpus.txt --out corpus.counts --quiet")
        (shell.folder / "more.txt").write_bytes((shell.folder / "corpus.txt").read_bytes()[100_000:])
        for other, text in (("one", "corpus.txt"), ("two", "more.txt")):
            run(f"bpejit count {text} --out {other}.counts --quiet")
        if name not in ("counts", "counts export"):
            run("bpejit counts export corpus.counts --out words.tsv --quiet")
    if name in ("subword encode", "subword decode"):
        run("bpejit subword train corpus.txt --vocab-size 300 --out vocab.subwords --quiet")
    if name == "subword decode":
        run("bpejit subword encode corpus.txt --vocab vocab.subwords --out ids.bin --append-eos --quiet")
    if name in ("", "combine", "datagen"):
        write_datagen_inputs(shell.folder)
    if name in ("combine", "datagen"):
        page = (ROOT / "docs" / "datagen.md").read_text(encoding="utf-8")
        (shell.folder / "translation.toml").write_text(blocks(page, "toml")[0], encoding="utf-8")
        (shell.folder / "problems.py").write_text(blocks(page, "python")[0].partition("\n\n\nreport")[0], encoding="utf-8")
        lines = [line.replace(" 0/8", " 0/1") for line in lines]
    if name == "combine":
        run("bpejit datagen translation.toml --data-dir data --shard 0/1 --quiet")
    for line in lines:
        assert re.search(rf"\bbpejit {name}", line)
        run(line.strip())


def write_datagen_inputs(folder):
    lines = [line for line in data_text("prose.txt")[:60_000].decode().split("\n") if line.strip()]
    half = len(lines) // 2
    for name, some in (("train", lines[:half]), ("dev", lines[half : half + 20])):
        (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in some), encoding="utf-8")
        (folder / f"{name}.de").write_text("".join(f"{line.upper()}\n" for line in some), encoding="utf-8")
    reviews = "".join(f"{line}\t{('neg', 'pos')[index % 2]}\n" for index, line in enumerate(lines))
    (folder / "reviews.tsv").write_text(reviews, encoding="utf-8")


@pytest.mark.compiled
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX shell")
def test_data_sets_page(shell, monkeypatch):
    page = (ROOT / "docs" / "datagen.md").read_text(encoding="utf-8")
    translation, reviews = blocks(page, "toml")
    (shell.folder / "translation.toml").write_text(translation, encoding="utf-8")
    (shell.folder / "reviews.toml").write_text(reviews, encoding="utf-8")
    for block in blocks(page, "console"):
        for line in block.splitlines():
            assert line.startswith("$ ")
            listed = run_session(shell, monkeypatch, line)
            if line.endswith("ls data"):
                assert "translation-train-00003-of-00004" in listed
                assert "vocab.translation.500.subwords" in listed
    (example,) = blocks(page, "python")
    monkeypatch.chdir(shell.folder)
    exec(compile(example, "docs/datagen.md", "exec"), {"__name__": "example"})
    assert (shell.folder / "data" / "reversal-dev-00000-of-00001").exists()


SHELL_EXAMPLES = {
    ("README.md", "console", 1): "tests/project/test_docs.py::test_readme_on_the_command_line",
    ("docs/large-corpora.md", "console", 1): "tests/project/test_docs.py::test_page_of_large_corpora",
    ("docs/tokenfiles.md", "console", 2): "tests/project/test_docs.py::test_token_file_examples",
    ("docs/large-corpora.md", "sh", 2): "tests/project/test_docs.py::test_page_of_large_corpora",
    ("docs/tutorial.md", "console", 8): "tests/project/test_docs.py::test_tutorial",
    ("docs/formats.md", "console", 1): "tests/project/test_docs.py::test_page_of_formats",
    ("docs/corpora.md", "console", 3): "tests/project/test_docs.py::test_page_of_corpora",
    ("docs/counts.md", "console", 6): "tests/project/test_docs.py::test_examples_of_counts",
    ("docs/counting-tokens.md", "console", 1): "tests/project/test_docs.py::test_page_of_counting",
    ("docs/datagen.md", "console", 4): "tests/project/test_docs.py::test_data_sets_page",
    ("docs/how-bpe-training-works.md", "console", 10): "tests/project/test_docs.py::test_page_on_training",
    ("docs/inspection.md", "console", 1): "tests/project/test_docs.py::test_examples_of_inspection",
    ("docs/jobs.md", "console", 3): "tests/project/test_docs.py::test_page_of_jobs",
    ("docs/recipes/datasets.md", "console", 3): "tests/project/test_recipes.py::test_recipe",
    ("docs/recipes/dataloader.md", "console", 1): "tests/project/test_recipes.py::test_recipe_for_data_loaders",
    ("docs/recipes/datatrove.md", "console", 1): "tests/project/test_recipes.py::test_recipe_for_datatrove",
    ("docs/recipes/grammars.md", "console", 1): "tests/project/test_recipes.py::test_recipe",
    ("docs/recipes/megatron.md", "console", 1): "tests/project/test_recipes.py::test_recipe",
    ("docs/recipes/superwords.md", "console", 4): "tests/project/test_recipes.py::test_recipe",
    ("docs/recipes/nanogpt.md", "console", 1): "tests/project/test_recipes.py::test_recipe_for_nanogpt",
    ("docs/recipes/server.md", "console", 1): "tests/project/test_recipes.py::test_recipe_for_servers",
    ("docs/subwords.md", "console", 5): "tests/t2t/test_subword_commands.py::test_examples_of_page_and_help",
    ("docs/clusters.md", "bash", 1): "tests/project/test_clusters_page.py::test_slurm",
    ("docs/clusters.md", "sh", 2): "tests/project/test_clusters_page.py::test_ray_job",
}
"""The tests that run the shell examples of each page: the page, the language of the blocks and their number."""

NOT_RUN = {
    "ray job submit": "needs the dashboard of a cluster; `test_ray_job` runs the script that it submits",
    "export AWS_ACCESS_KEY_ID": "needs an account; `tests/jobs/test_remote_outputs.py` writes to an S3 server",
    "pip install 'bpejit[data,s3]'": "needs an account; `tests/corpus/test_s3_inputs.py` reads from an S3 server",
}
"""The beginnings of shell examples that no test runs, and why."""


def test_every_shell_example_is_run_by_a_test():
    left_out = dict.fromkeys(NOT_RUN, 0)
    found = {}
    for page in PAGES:
        for language, block in re.findall(
            r"^```(sh|bash|console)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        ):
            beginning = next((text for text in NOT_RUN if block.startswith(text)), None)
            if beginning is None:
                key = (str(page.relative_to(ROOT)), language)
                found[key] = found.get(key, 0) + 1
            else:
                left_out[beginning] += 1
    assert {(*key, number) for key, number in found.items()} == set(SHELL_EXAMPLES)
    assert set(left_out.values()) == {1}
    for test in SHELL_EXAMPLES.values():
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), test


def test_page_of_commands_shows_every_command():
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"bpejit {name}" in page, name


def test_readme_shows_every_extra():
    extras = re.search(
        r"^\[project.optional-dependencies\]\n(.*?)^\[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE | re.DOTALL
    )
    names = {name for name in re.findall(r"^([\w-]+) = ", extras[1], re.MULTILINE) if not name.startswith("test")}
    names -= {"bench", "check", "docs", "release"}
    assert set(re.findall(r"^\| `([\w-]+)` \|", README, re.MULTILINE)) == names


def test_page_of_speed_has_benchmark_section():
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    assert len(re.findall(r"<!-- benchmarks: begin -->\n.*?<!-- benchmarks: end -->", page, re.DOTALL)) == 1
    assert "docs/pictures/speed.svg" in README


def test_first_page_lists_every_page():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = {line for block in blocks(index, r"\{toctree\}") for line in block.splitlines()}
    pages = {str(page.relative_to(ROOT / "docs").with_suffix("")) for page in (ROOT / "docs").rglob("*.md")}
    assert "recipes/*" in listed
    assert {page for page in pages if not page.startswith("recipes/")} - {"index"} <= listed


def test_reference_has_every_public_name():
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md")]
    found = re.findall(r"^\.\. auto\w+:: bpejit\.(\w+)$", "\n".join(pages), re.MULTILINE)
    assert sorted(found) == sorted(bpejit.__all__)


def test_reference_has_every_command():
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    found = re.findall(r"^## (.*)$|^\.\. click:: bpejit_cli\.(.*)\n   :prog: bpejit (.*)$", page, re.MULTILINE)
    app = importlib.import_module(f"{MODULE}.app")
    listed = []
    for heading, modules in app.COMMANDS.items():
        listed.append(heading)
        listed += [(name, module) for module, names in modules.items() for name in names]
    assert [heading or (name, location.partition(":")[0]) for heading, location, name in found] == listed
    for _, location, name in found:
        if name:
            module, _, function = location.partition(":")
            assert getattr(importlib.import_module(f"{MODULE}.{module}"), function) is app.program.get_command(None, name)


def test_make_targets_are_documented():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split()
    assert set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)) == set(phony)
    for target in set(phony) - {"help"}:
        assert re.search(rf"^{target}:.* ## \w", makefile, re.MULTILINE), target
        assert f"make {target}`" in contributing, target
    assert len(makefile.splitlines()) <= 110


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_are_valid(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_prose_is_plain(page):
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert not re.findall(r"\b(?:simply|just)\b", text, re.IGNORECASE)
    apart = re.compile(r"\||<|\d+\. ")  # tables, markers and numbered steps may have several sentences
    assert not [line for line in text.splitlines() if re.search(r"[a-z)]\. [A-Z]", line) and not apart.match(line)]


def test_data_matches_its_readme():
    page = (DATA / "README.md").read_text(encoding="utf-8")
    hashes = dict(reversed(line.split("  ")) for line in blocks(page, "")[0].splitlines())
    rows = re.findall(r"^\| (\S+\.\w+) \| ([\d,]+) \| (\S+) \|", page, re.MULTILINE)
    assert {name for name, _, _ in rows} == set(hashes)
    for name, size, documents in rows:
        data = data_text(name)
        assert f"{len(data):,}" == size
        assert hashlib.sha256(data).hexdigest() == hashes[name]
        if documents != "-":
            assert data.count(b"\n<|endoftext|>\n") == int(documents)
            data.decode("utf-8")
    listed = {name for name, _, _ in rows} | {"README.md", "LICENSE-Apache-2.0.txt"}
    assert {path.name for path in DATA.iterdir() if not path.name.startswith(".")} >= listed


def test_readme_code_generates_awkward_bytes(tmp_path, monkeypatch):
    (code,) = blocks((DATA / "README.md").read_text(encoding="utf-8"), "python")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "awkward.bin").read_bytes() == data_text("awkward.bin")
    with pytest.raises(UnicodeDecodeError):
        data_text("awkward.bin").decode("utf-8")


def test_import_order_is_documented_once():
    contract = re.search(r"^layers = \[\n(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.MULTILINE | re.DOTALL)
    assert contract is not None
    layers = re.findall(r'"([^"]+)"', contract[1])
    expected = "\n".join(layer.replace("bpejit.", "") for layer in layers)
    assert len(layers) > 10
    assert f"```\n{expected}\n```" in (ROOT / "ARCHITECTURE.md").read_text()


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/internals.md"])
def test_files_that_pages_name_exist(page):
    text = (ROOT / page).read_text()
    named = set(re.findall(r"`((?:[a-z0-9_]+/)+[a-z0-9_]+\.py)`", text))
    assert len(named) > 50
    assert [name for name in sorted(named) if not (ROOT / name).exists() and not (ROOT / "bpejit" / name).exists()] == []


@pytest.mark.compiled
def test_token_file_examples(shell, monkeypatch):
    monkeypatch.chdir(shell.folder)
    page = (ROOT / "docs" / "tokenfiles.md").read_text(encoding="utf-8")
    for line in "".join(blocks(page, "console")).splitlines():
        assert invoke(*shlex.split(line.removeprefix("$ bpejit "))).exit_code == 0, line
    ids = bpejit.load("tokenizer").encode_array((shell.folder / "demo" / "texts.txt").read_bytes())
    reading, several = blocks(page, "python")
    names: dict[str, object] = {}
    exec(compile(reading, "docs/tokenfiles.md", "exec"), names)
    assert len(names["tokens"]) == ids.size
    exec(compile(several, "docs/tokenfiles.md", "exec"), names)
    assert 0 < len(names["tokens"]) < ids.size


def test_token_file_page_lists_every_format():
    page = (ROOT / "docs" / "tokenfiles.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)`", page, re.MULTILINE) == list(format_names())
