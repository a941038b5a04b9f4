"""The site of the documentation: every page where it lies, and a reference made from the code.

    .venv/bin/sphinx-build -W --keep-going -c deploy/site . build/site

The folder of sources is the repository itself, so that pages and their links need no copy. Sphinx
reads this module by its name; the names in lower case are its settings.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import listing  # noqa: E402 (beside this file)

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = html_title = "Ledger"
html_show_copyright = False
html_show_sphinx = False

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = ["*.md", "**/*.md", "deploy/site/reference/*.rst"]
exclude_patterns = [
    *(".venv", ".engines", ".git", "build", "dist", "mutants", "node_modules"),
    *(".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".import_linter_cache"),
]

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_additional_pages = {"index": "index.html"}  # leads to README.html
templates_path = ["templates"]
pygments_style = "tango"
pygments_dark_style = "github-dark"

myst_heading_anchors = 4
default_role = "code"  # as docstrings use backticks
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True

SECTIONS = {
    "Start": [
        "ledger/docs/start/README",
        *(f"ledger/docs/start/{name}" for name in ("counter", "budget", "pipeline", "words")),
    ],
    "How to": ["ledger/docs/howto/README", "ledger/docs/howto/*"],
    "Rules": [
        *(f"ledger/{name}/README" for name in ("session", "reads", "watches")),
        "ledger/reads/*/README",
        "ledger/http/*/README",
        "ledger/primitives/*/README",
    ],
    "Running it": [
        "deploy/README",
        "deploy/permissions",
        "deploy/runbooks/README",
        ".github/SECURITY",
    ],
    "Reference": [
        "ledger/docs/reference/*",
        *(
            f"deploy/site/reference/{name}"
            for name in (
                *("ledger", "values", "settings", "errors"),
                *("client", "testing", "compactor", "http"),
            )
        ),
    ],
    "Inside": [
        "ledger/docs/internals/*",
        "ledger/ARCHITECTURE",
        "tests/lab/*/README",
        "tests/*/README",
        ".github/CONTRIBUTING",
        "CHANGELOG",
    ],
}
"""The pages beside the front page, by heading. A page that is in none of them fails the build."""
RUNBOOKS = "deploy/runbooks/README"
REFERENCE = "deploy/site/reference/"


def complete(_app: "Sphinx", page: str, source: list[str]) -> None:
    """Add to a page what is not written in it: tables of contents, the names of the code."""
    if page == "README":
        source[0] += "".join(_contents(pages, title) for title, pages in SECTIONS.items())
    elif page == RUNBOOKS:
        source[0] += _contents(["deploy/runbooks/*"])
    elif page.startswith(REFERENCE):
        source[0] += "\n" + listing.content(page.removeprefix(REFERENCE))


def _contents(pages: list[str], title: str = "") -> str:
    options = [":hidden:", ":glob:", *([f":caption: {title}"] if title else [])]
    return "\n".join(["", "```{toctree}", *options, "", *(f"/{page}" for page in pages), "```", ""])


def shorten(
    _app: "Sphinx",
    kind: str,
    _name: str,
    value: object,
    _options: object,
    arguments: str | None,
    _: object,
) -> tuple[str, str] | None:
    """Leave out the arguments of a class that its users do not make by itself."""
    return ("", "") if kind == "class" and arguments and not listing.is_called(value) else None


def setup(app: "Sphinx") -> None:
    """Have pages completed when they are read."""
    app.connect("source-read", complete)
    app.connect("autodoc-process-signature", shorten)
