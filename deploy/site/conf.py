"""The site of the documentation: every page where it lies, and a reference made from the code.

    .venv/bin/sphinx-build -W --keep-going -c deploy/site . build/site

The folder of sources is the repository itself, so that pages and their links need no copy. Sphinx
reads this module by its name; the names in lower case are its settings.
"""

from importlib import import_module
from inspect import isclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
# Before autodoc does: with `TYPE_CHECKING` on, pydantic cannot make some of its models.
import_module("ledger.http.client")

project = html_title = "Ledger"
html_show_copyright = False
html_show_sphinx = False

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = ["*.md", "**/*.md", "deploy/site/modules/*.rst"]
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
autodoc_default_options = {
    "members": True,
    "inherited-members": "object, BaseModel, BaseException, Exception, ImportError, ValueError",
    "exclude-members": "model_config, model_post_init",
}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True

SECTIONS = {
    "Start": ["ledger/docs/start/README.md"],
    "How to": ["ledger/docs/howto/README.md"],
    "Reference": ["ledger/docs/reference/README.md", "deploy/site/modules/*.rst"],
    "Operate": ["deploy/README.md", "deploy/runbooks/README.md"],
    "Internals": ["ledger/docs/internals/README.md"],
    "Project": ["tests/*/**/README.md", "tests/proof/RESULTS.md", ".github/*.md", "CHANGELOG.md"],
}
"""The pages beside the front page, by heading. A page that is in none of them fails the build."""


def complete(_app: "Sphinx", page: str, source: list[str]) -> None:
    """Add tables of contents to the front page, and to a README with other pages beside it."""
    if page == root_doc:
        for title, patterns in SECTIONS.items():
            found = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
            source[0] += _contents(found, f":caption: {title}")
    elif page.endswith("/README"):
        beside = [path for path in (ROOT / page).parent.glob("*.md") if path.stem != "README"]
        source[0] += _contents(sorted(beside, key=lambda path: source[0].find(f"({path.name})")))


def _contents(pages: list[Path], *options: str) -> str:
    if not pages:
        return ""
    names = [f"/{path.relative_to(ROOT).with_suffix('')}" for path in pages]
    return "\n".join(["", "```{toctree}", ":hidden:", *options, "", *names, "```", ""])


def shorten(
    _app: "Sphinx",
    _kind: str,
    _name: str,
    value: object,
    _options: object,
    arguments: str | None,
    _: object,
) -> tuple[str, str] | None:
    """Leave out the arguments of a class that its users do not make by itself."""
    made = isclass(value) and (hasattr(value, "open") or issubclass(value, BaseModel | Exception))
    return ("", "") if arguments and made else None


def setup(app: "Sphinx") -> None:
    """Have pages completed when they are read."""
    app.connect("source-read", complete)
    app.connect("autodoc-process-signature", shorten)
