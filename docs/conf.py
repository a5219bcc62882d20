"""Settings of Sphinx. `make docs` builds the site in build/docs.

The source folder is the root of the repository: a relative link from one page to another works in the site and on a code host.
"""

from __future__ import annotations

import re
from typing import Any

import click
from bpejit_cli.reporting import BASICS, REPORTS
from docutils import nodes
from docutils.utils import unescape
from sphinx.application import Sphinx
from sphinx.domains.python import PyXRefRole

import bpejit

project = "bpejit"
release = version = bpejit.__version__
copyright = "the authors of bpejit, MIT license"  # noqa: A001

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "sphinx_click", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/**",
    "benchmarks/*.md",
    "tests/data/README.md",
]
exclude_patterns = [".*", "build", "dist", "demo", "**/__pycache__"]

myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
copybutton_prompt_text = "$ "

autodoc_typehints = "none"  # the docstrings give the types
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"
default_role = "name"  # the role below

html_theme = "furo"
html_title = "bpejit"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}
highlight_language = "none"  # of blocks that name none
smartquotes = False  # `--` in the help of commands
pygments_style = "github-light"
pygments_dark_style = "github-dark"


class NameRole(PyXRefRole):
    """Text in single backticks: code, and a link if it is a name of these pages, such as `Tokenizer.save`."""

    def result_nodes(self, document: nodes.document, env: Any, node: Any, is_ref: bool) -> tuple[list[Any], list[Any]]:
        """Look for names that cannot be words: those with a dot, an underscore or a capital letter."""
        text = unescape(self.text)
        if not re.fullmatch(r"\w[\w.]*[._A-Z][\w.]*|[A-Z]\w+", text):
            return [nodes.literal(text, text)], []
        node.update_all_atts({"refdomain": "py", "reftype": "obj", "optional": True}, replace=True)
        return [node], []


def unlinked(app: Sphinx, env: Any, node: nodes.Element, content: nodes.TextElement) -> nodes.Element | None:
    """Show a name of something that has no place on these pages as code."""
    return content if node.get("optional") else None


def mark_names(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Show the defaults of parameters, and the types that are returned and raised, as names in backticks are."""
    types = re.compile(rf"\s*(?:(?:{'|'.join(bpejit.__all__)})(?:, |$))+")
    lines[:] = [re.sub(r"(\w+)", r"`\1`", line) if types.fullmatch(line) else line for line in lines]
    lines[:] = [re.sub(r"^(\s*\w+(?:, \w+)* : .*?default )([^`]+)$", r"\1``\2``", line) for line in lines]


def escaped(text: str) -> str:
    """Write the text of a help page as reStructuredText: code in backticks, and nothing else that is markup."""
    parts = re.split(r"`([^`]+)`", " ".join(text.split()))
    return "".join(f"``{part}``" if odd % 2 else re.sub(r"([\\*|_`])", r"\\\1", part) for odd, part in enumerate(parts))


def write_description(app: Sphinx, ctx: click.Context, lines: list[str]) -> None:
    """Write the paragraphs of a help page, and its examples as code."""
    text, _, examples = "\n".join(lines).partition("| Example:\n")
    lines[:] = [line for paragraph in text.split("\n\n") for line in (escaped(paragraph), "")]
    if examples:
        lines += [".. code-block:: shell", "", *(line.removeprefix("| ") for line in examples.splitlines()), ""]


def write_options(app: Sphinx, ctx: click.Context, lines: list[str]) -> None:
    """Write the options of a command in the sections of its help, without those that all commands have."""
    sections: dict[str, list[str]] = {}
    for option in ctx.command.get_params(ctx):
        record = option.get_help_record(ctx) if isinstance(option, click.Option) else None
        section = getattr(option, "section", BASICS)
        if record and section != REPORTS and not set(option.opts) & {"--help", "--help-all"}:
            names, text = record
            sections.setdefault(section, []).extend([f".. option:: {names}", "", f"   {escaped(text)}", ""])
    lines.clear()
    for section, options in sections.items():
        lines += [*([f".. rubric:: {section}", "   :class: section", ""] if len(sections) > 1 else []), *options]


def write_nothing(app: Sphinx, ctx: click.Context, lines: list[str]) -> None:
    """Leave out the arguments, which the usage shows."""
    lines.clear()


def redirect(app: Sphinx, error: Exception | None) -> None:
    """Write a page at the top of the site that leads to the first page."""
    if error is None:
        page = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={0}"><a href="{0}">bpejit</a>\n'
        (app.outdir / "index.html").write_text(page.format(f"{root_doc}.html"), encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Add the role of single backticks, and what changes texts before they are read."""
    app.add_role("name", NameRole())
    app.connect("missing-reference", unlinked)
    app.connect("autodoc-process-docstring", mark_names, priority=400)  # before numpydoc
    app.connect("sphinx-click-process-description", write_description)
    app.connect("sphinx-click-process-options", write_options)
    app.connect("sphinx-click-process-arguments", write_nothing)
    app.connect("build-finished", redirect)
