"""Make the pictures of docs/inspection.md: run the commands on the texts of tests/data, and take screenshots with Chromium.

    python .ci/pictures.py docs/pictures

It needs chromium, chromedriver, and fonts with Chinese and Arabic characters (Debian: chromium, chromium-driver, fonts-noto-cjk
and fonts-noto-core).
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.text import Text

import bpejit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from helpers.browser import chromium, resize, use_dark_mode  # noqa: E402

TERMINAL = (
    "<body style='margin:0;background:#fff'><div id=shot style='display:inline-block;padding:10px 14px;background:#fff'>"
    '<pre style=\'margin:0;font:14px/1.45 "Noto Sans Mono","Noto Sans Mono CJK SC",monospace\'>{}</pre></div>'
)


def run(*arguments: str, folder: Path) -> str:
    """Run a command and return what it prints, with colors."""
    command = [sys.executable, "-m", "bpejit", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


def terminal(*commands: tuple[str, ...], folder: Path, lines: int = 60) -> str:
    """Return a page that shows commands and their output as a terminal does."""
    console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for number, command in enumerate(commands):
        shown = " ".join(f'"{part}"' if " " in part or part == "" else part for part in command)
        if number:
            console.print()
        console.print(Text(f"$ bpejit {shown.replace(' --color always', '')}", "bold"), soft_wrap=True)
        output = run(*command, folder=folder).splitlines()
        console.print(Text.from_ansi("\n".join(output[:lines])), soft_wrap=True)
    return TERMINAL.format(console.export_html(inline_styles=True, code_format="{code}"))


def main(out: Path) -> None:
    """Write all pictures to a folder."""
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, chromium(1000, 900) as driver:
        folder = Path(name)
        texts = {"english.txt": "prose.txt", "code.txt": "code.txt", "chinese.txt": "cjk.txt"}
        for copy, source in texts.items():
            (folder / copy).write_bytes((ROOT / "tests" / "data" / source).read_bytes())
        for size, tokenizer in ((8192, "tokenizer"), (2048, "small")):
            bpejit.train([folder / text for text in texts], vocab_size=size, pattern="cl100k").save(folder / tokenizer)

        def save(picture: str, *, element: str | None = None) -> None:
            found = driver.find_element("css selector", element) if element else driver
            data = found.screenshot_as_png if element else driver.get_screenshot_as_png()
            image = Image.open(io.BytesIO(data)).convert("RGB").quantize(96, dither=Image.Dither.NONE)
            image.save(out / picture, optimize=True)

        def show(page: str, picture: str) -> None:
            path = folder / "page.html"
            path.write_text(f"<!DOCTYPE html><meta charset=utf-8>{page}", encoding="utf-8")
            driver.get(path.as_uri())
            save(picture, element="#shot")

        always = ("--color", "always")
        sentence = "Tokenizers differ: naïve 中文字 العربية<|endoftext|>"
        show(
            terminal(
                ("show", "tokenizer", sentence, *always),
                ("show", "tokenizer", " cafés", "--ids", "--bytes", "--offsets", *always),
                ("show", "tokenizer", " remember", "--merges", *always),
                folder=folder,
            ),
            "show.png",
        )
        stats = ("stats", "tokenizer", *texts, "--scripts", "--against", "small", "--count", "4")
        show(terminal(stats, folder=folder, lines=24), "stats.png")
        compare = ("compare", "tokenizer", "small", "english.txt", "chinese.txt", "--count", "4", "--texts", "2", *always)
        show(terminal(compare, folder=folder), "compare.png")
        shown = bpejit.load(folder / "tokenizer").show("In notebooks, tokens look like this.\n自然语言 too.")
        paths = {str(folder / text): text.removesuffix(".txt") for text in texts}
        figures = bpejit.stats(
            folder / "tokenizer", list(paths), against=folder / "small", labels=paths, names=["new", "small"]
        )
        cells = f"{shown._repr_html_()}<hr>{figures._repr_html_()}"
        style = "display:inline-block;padding:10px 14px;font:14px sans-serif"
        show(f"<div id=shot style='{style}'>{cells}</div>", "notebook.png")

        bpejit.train([folder / "english.txt"], vocab_size=8192, pattern="cl100k").save(folder / "english")
        names = ("--name", "mixed-8k", "--name", "english-8k")
        run("report", "tokenizer", *texts, "--against", "english", *names, "--out", "report.html", folder=folder)
        resize(driver, 1000, 780)
        driver.get((folder / "report.html").as_uri())
        time.sleep(1)
        # The picture has the head, two charts and a sample.
        others = (
            "nav, h2, details, section:not(#plots, #samples), figure:not(#chart-compression, #chart-scripts), "
            "#samples > :not(.each:nth-of-type(3))"
        )
        driver.execute_script(f"document.querySelectorAll('{others}').forEach(one => one.remove())")
        style = (
            "main { margin-top: 16px; } #samples { padding-top: 12px; } footer { display: none; } "
            ".sample { max-height: calc(5lh + 10px); padding-bottom: 0; overflow: hidden; }"
        )
        driver.execute_script(f"document.querySelector('style').append('{style}')")
        save("report.png", element="body")
        driver.refresh()
        use_dark_mode(driver, True)
        time.sleep(1)
        driver.find_element("css selector", "#search").send_keys("work")
        time.sleep(0.5)
        driver.find_element("css selector", ".row").click()
        driver.execute_script("document.querySelector('#tokens').scrollIntoView()")
        save("report-tokens.png")
        use_dark_mode(driver, False)
        axes = bpejit.load(folder / "tokenizer").plot_compression([folder / text for text in texts])
        axes.figure.savefig(out / "compression.png", dpi=110)
    for picture in sorted(out.iterdir()):
        print(f"{picture.name:<20} {picture.stat().st_size:>8,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
