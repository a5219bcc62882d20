"""Train, encode and decode the texts of tests/data with the commands of bpejit, compare, and show what came out: `make demo`.

    .venv/bin/python .ci/demo.py

Everything is written to the folder `demo` of the checkout: `texts.txt`, `tokenizer`, `tokens.bin` and `back.txt`.
"""

from __future__ import annotations

import filecmp
import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
TEXTS = "prose.txt", "code.txt", "cjk.txt"
RUNS = 3
WIDTH = 76
"""Characters of a command in a line."""

JOBS = (
    "train demo/texts.txt --vocab-size 8192 --out demo/tokenizer",
    "encode demo/texts.txt --tokenizer demo/tokenizer --out demo/tokens.bin",
    "decode demo/tokens.bin --tokenizer demo/tokenizer --out demo/back.txt",
)

VIEWS = (
    ("A sentence in tokens:", 'show demo/tokenizer "A hole in the ground. 吾輩は猫である。"'),
    ("The merges of a word, with their ranks:", "show demo/tokenizer everything --merges"),
)

NEXT = (
    'show demo/tokenizer "any text of yours" --ids',
    "info demo/tokenizer",
    "stats demo/tokenizer demo/texts.txt",
    "tokens head demo/tokens.bin --tokenizer demo/tokenizer",
    "train demo/texts.txt --vocab-size 2000 --pattern o200k --out demo/small",
    "report demo/tokenizer demo/texts.txt --against demo/small --out demo/report.html",
    "explain --words hug=10,pug=5,pun=12,bun=4,hugs=5",
)
"""Commands to go on with. They work as they stand, in this order."""

console = Console(highlight=False, markup=False)


def command_name() -> str:
    """Return what starts the command of the environment in a shell whose folder is the checkout, such as `.venv/bin/bpejit`."""
    path = Path(sys.prefix, "bin", "bpejit")
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def as_typed(arguments: str) -> str:
    """Return a command for a shell, on two lines if one has no space for it."""
    typed = f"{command_name()} {arguments}"
    cut = typed.rfind(" --", 0, WIDTH)
    if len(typed) <= WIDTH or cut < 0:
        return typed
    return f"{typed[:cut]} \\\n     {typed[cut:]}"


def start(arguments: str, *options: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a command of bpejit in the checkout."""
    words = [sys.executable, "-m", "bpejit_cli", *shlex.split(arguments), *options]
    return subprocess.run(words, cwd=ROOT, text=True, check=False, **settings)


def announce(arguments: str) -> None:
    """Print a command, as it is typed."""
    console.print("\n$ " + as_typed(arguments), style="bold", soft_wrap=True)
    sys.stdout.flush()


def run(arguments: str) -> None:
    """Run a command that prints its result."""
    announce(arguments)
    status = start(arguments).returncode
    if status:
        raise SystemExit(status)


def run_job(arguments: str) -> None:
    """Run a command that reports a summary, and print that."""
    announce(arguments)
    done = start(arguments, "--log-json", stderr=subprocess.PIPE)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        raise SystemExit(done.returncode)
    for event in map(json.loads, done.stderr.splitlines()):
        if event["event"] != "progress":
            console.print(event["text"])


def best_rate(data: bytes, work: Callable[[], object]) -> float:
    """Return the megabytes per second of the fastest of several calls."""
    seconds = []
    for _ in range(RUNS):
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    return len(data) / 1e6 / min(seconds)


def print_rates() -> None:
    """Measure training, encoding and decoding in memory, in this process."""
    import bpejit

    texts = ROOT / "demo" / "texts.txt"
    data = texts.read_bytes()
    saved = ROOT / "demo" / "tokenizer"
    ids = bpejit.load(saved).encode_array(data)
    fresh = iter([bpejit.load(saved) for _ in range(RUNS)])  # which have no pre-tokens in their caches
    decoder = bpejit.load(saved)
    rates = (
        ("train", best_rate(data, lambda: bpejit.train([texts], vocab_size=8192)), "to 8,192 tokens"),
        ("encode", best_rate(data, lambda: next(fresh).encode_array(data)), "on one processor, nothing cached before"),
        ("decode", best_rate(data, lambda: decoder.decode_bytes(ids)), "on one processor"),
    )
    console.print(f"\nRates in memory, without compilation, best of {RUNS} runs on {len(data) / 1e6:.1f} MB of text")
    console.print("(above, opening and flushing files takes most of the time):")
    for name, rate, remark in rates:
        console.print(f"  {name:<8}{rate:>7,.0f} MB/s   {remark}")


def main() -> None:
    """Run the commands, and show the results."""
    folder = ROOT / "demo"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    data = b"".join((ROOT / "tests" / "data" / name).read_bytes() for name in TEXTS)
    (folder / "texts.txt").write_bytes(data)
    console.print(f"\ndemo/texts.txt is {len(data) / 1e6:.1f} MB of tests/data: stories, code, Chinese and Japanese.")
    run(JOBS[0])  # which compiles what training, encoding and decoding need, and shows a bar
    for job in JOBS[1:]:
        run_job(job)
    if not filecmp.cmp(folder / "texts.txt", folder / "back.txt", shallow=False):
        raise SystemExit("demo/back.txt differs from demo/texts.txt; expected equal bytes: please report this")
    console.print(f"\ndemo/back.txt equals demo/texts.txt byte for byte ({len(data):,} bytes).", style="green")
    for heading, view in VIEWS:
        console.print("\n" + heading, end="")
        run(view)
    print_rates()
    console.print("\nnext:")
    for arguments in NEXT:
        console.print("  " + as_typed(arguments), soft_wrap=True)


if __name__ == "__main__":
    main()
