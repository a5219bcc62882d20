"""What a notebook shows, run in a kernel of Jupyter."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.compiled]

pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

PREPARATION = """
import bpejit
tokenizer = bpejit.train_from_iterator(["some words to count, and some more"] * 9, vocab_size=270)
texts = lambda: iter(["some words"])
"""


def run(*cells):
    """Return the kinds of the outputs of each cell: the types of data, or the names of streams."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (PREPARATION, *cells)])
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    return [
        [kind for output in cell["outputs"] for kind in output.get("data", {output.get("name"): ""})]
        for cell in book["cells"][1:]
    ]


@pytest.mark.parametrize("magic", ["", "%matplotlib inline"])
def test_plots_are_shown_once(magic):
    last, assigned, several, given, closed, saved, left = run(
        f"{magic}\ntokenizer.plot_lengths()",
        "axes = tokenizer.plot_frequencies(texts())\naxes.set_title('Words');",
        "tokenizer.plot_lengths(); tokenizer.plot_compression(texts());",
        "from matplotlib import pyplot\nfigure, both = pyplot.subplots(2)\ntokenizer.plot_lengths(ax=both[0]);",
        "tokenizer.plot_lengths(); pyplot.show()",
        "axes = tokenizer.plot_lengths()\naxes.figure.savefig(__import__('io').BytesIO())\npyplot.close(axes.figure)",
        "print(pyplot.get_fignums() or 'none')",
    )
    assert last == ["text/plain", "text/plain", "image/png"]  # the axes as text, and the figure
    for shown in (assigned, given, closed):
        assert shown == ["text/plain", "image/png"]
    assert several == 2 * ["text/plain", "image/png"]
    assert saved == []
    assert left == ["stdout"]


def test_progress_is_one_display_that_is_updated():
    trained, counted, quiet = run(
        "tokenizer = bpejit.train_from_iterator(['some words'] * 999, vocab_size=265, progress=True)",
        "counts = bpejit.count(iter(['some words'] * 999), progress=True)",
        "bpejit.count(iter(['some words']), progress=False);",
    )
    assert trained == counted == ["text/plain", "text/html"]
    assert quiet == []


def test_results_are_shown_as_html():
    shown = run(
        "bpejit.stats(tokenizer, texts(), against=tokenizer)",
        "bpejit.compare(tokenizer, tokenizer, texts())",
        "bpejit.report(tokenizer, texts())",
        "tokenizer.show('some words')",
    )
    assert shown == 4 * [["text/plain", "text/html"]]
