"""The prose of a page, held to the limits of its kind: `python tests/support/prose.py PAGE...`.

The page's path says its kind. A page raises one limit in its first five lines, with a reason:
`<!-- prose: words=600 because restoring has two ways that stand side by side -->`. The rules count
words: they refuse bad prose, and cannot tell good prose.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (".github", "compactor", "deploy", "ledger", "tests")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a kind of page may have; `what`, `one`, `it` and `you` are counted in 1,000 words."""

    words: float
    long_share: float = 0.05
    what: float = 4
    one: float = 3
    it: float = 22
    you: float = 0
    """At least this: a page that tells a reader what to do speaks to that reader."""
    line: float = 130


GENERATED = Limits(words=inf, what=inf, one=inf, it=inf, line=inf)
"""A page that a program makes: the texts that the program collects have rules of their own."""

KINDS = (
    (r"README\.md", Limits(650, you=3)),
    (r"ledger/docs/start/.*", Limits(1_000, you=8)),
    (r"ledger/docs/howto/.*", Limits(500, you=8)),
    (r"ledger/docs/internals/README\.md", Limits(3_000)),
    (r"ledger/docs/reference/(commands|settings|errors|metrics|http)\.md", GENERATED),
    (r"tests/proof/README\.md", Limits(800)),
    (r"tests/proof/RESULTS\.md", GENERATED),
    (r"deploy/runbooks/.*", Limits(450, you=3)),
    (r"deploy/README\.md", Limits(3_000, you=3)),
    (r"deploy/permissions\.md", Limits(1_200, you=3)),
    (r"\.github/SECURITY\.md", Limits(2_000)),
    (r"\.github/CONTRIBUTING\.md", Limits(800, you=3)),
    (r"CHANGELOG\.md", Limits(1_000)),
    (r".*", Limits(2_500)),
)
"""The first pattern that fits the whole path has the limits."""

RIDDLES = {
    r"\bas used\b": "say how",
    r"\bthe same, for more\b": "write the row out",
    r"\bearlier releases?\b|\brelease before\b": "there was no release",
    r"\bthe design (?:has|asks|puts|leaves|suggests)\b": "state the decision",
    r"\ban adversary\b": "name the test that shows it",
    r"\b(?:is|are) taken for\b": "say `treated as`",
    r"\bcomes? to (?:more|less)\b": "say `is above` or `is below`",
    r"\bto be done\b": "name who does it",
}
"""Phrases that hide who does what, each with what to write in its place."""

PRONOUN_ONE = re.compile(
    r"\b(?:the|this|that|each|every|any|another|which|no|own|new|old|first|last|next|other|earlier"
    r"|later|former|lone|smaller|larger) ones?\b"
    r"|\bone(?= (?:that|which|who|whose|is|was|has|had|alone|by|to)\b|[.,;:)])|\bones\b",
    re.IGNORECASE,
)
"""The pronoun ("the one", "each one that", "ones"), not the numeral of "one region"."""

SENTENCE_END = re.compile(r"(?<=[.!?:])\s+|\n\n+|\n(?=[-*\d])")
FENCED = re.compile(r"```.*?```", re.DOTALL)
RAISED = re.compile(r"<!-- prose: (\w+)=([\d.]+) because ((?:\S+ ){3,}\S+) -->")
RAISED_WITHIN_LINES = 5
SENTENCE_WORDS_MIN = 4
LONG_WORDS = 35
ROW_MAX = 220
"""Characters of a row of a table; `Thresholds.line` are those of other lines."""
SLACK = 3
"""Hits that a page of any length may have: of a phrase counted in 1,000 words."""


def pages() -> list[str]:
    """Return the path of every page of the repository."""
    found = [*ROOT.glob("*.md"), *(page for one in FOLDERS for page in (ROOT / one).rglob("*.md"))]
    return sorted(page.relative_to(ROOT).as_posix() for page in found)


def limits_of(path: str) -> Limits:
    """Return the limits of the kind that a path says."""
    return next(limits for pattern, limits in KINDS if re.fullmatch(pattern, path))


def faults(path: str, text: str) -> list[str]:
    """Return what is wrong with a page: nothing if it keeps the limits of its kind."""
    own = limits_of(path)
    raised = RAISED.findall("\n".join(text.split("\n")[:RAISED_WITHIN_LINES]))
    if not raised:
        return [said for _, said in _breaches(text, own)]
    if len(raised) > 1 or raised[0][0] not in Limits.__slots__:
        return [f"a page raises one limit, of {', '.join(Limits.__slots__)}"]
    ((name, value, _),) = raised
    if name not in dict(_breaches(text, own)):
        return [f"{name} is within its limit of {getattr(own, name):g}: do not raise it"]
    return [said for _, said in _breaches(text, replace(own, **{name: float(value)}))]


def _breaches(text: str, limits: Limits) -> Iterator[tuple[str, str]]:
    # Each with the name of its limit; a phrase that is refused has none.
    prose = plain(text)
    yield from _counts(words(prose), prose, limits)
    sizes = [len(words(sentence)) for sentence in _sentences(prose)] or [0]
    long = sum(size > LONG_WORDS for size in sizes) / len(sizes)
    if long > limits.long_share:
        yield "long_share", f"{long:.0%} of sentences have over {LONG_WORDS} words"
    lines = FENCED.sub("", text).split("\n")
    row_max = max(ROW_MAX, limits.line)
    wide = [one for one in lines if len(one) > (row_max if one.startswith("|") else limits.line)]
    if wide:
        yield "line", f"{len(wide)} lines are too long, first {wide[0][:60]!r}"
    for pattern, advice in RIDDLES.items():
        for hit in re.findall(pattern, prose, re.IGNORECASE):
            yield "", f"{hit!r}: {advice}"


def _counts(found: Sequence[str], prose: str, limits: Limits) -> Iterator[tuple[str, str]]:
    if len(found) > limits.words:
        yield "words", f"{len(found)} words, {limits.words:g} allowed"
    hits = {
        "what": found.count("what"),
        "one": len(PRONOUN_ONE.findall(prose)),
        "it": found.count("it") + found.count("its"),
    }
    for name, count in hits.items():
        allowed = getattr(limits, name) * len(found) / 1000 + SLACK
        if count > allowed:
            yield name, f"{name!r} {count} times, {int(allowed)} allowed"
    spoken = found.count("you") + found.count("your")
    if spoken < limits.you * len(found) / 1000:
        yield "you", f"'you' {spoken} times: speak to the reader"


def plain(text: str) -> str:
    """Return the running text and the cells of tables: no code, headings, pictures or addresses."""
    lines = [
        re.sub(r"^\s*\|?[-| :]+\|?$", "", line)
        for line in FENCED.sub("", text).split("\n")
        if not line.lstrip().startswith(("#", "<", "![", "[!")) and not line.startswith("    ")
    ]
    linked = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", "\n".join(lines))
    return re.sub(r"`[^`]*`", "X", linked)


def _sentences(prose: str) -> list[str]:
    # A table's row is no sentence.
    running = (line for line in prose.split("\n") if not line.lstrip().startswith("|"))
    parts = SENTENCE_END.split("\n".join(running))
    return [part for part in parts if len(words(part)) >= SENTENCE_WORDS_MIN]


def words(prose: str) -> list[str]:
    """Return the words of a text in small letters."""
    return re.findall(r"[a-z']+", prose.lower())


def main(paths: Sequence[str]) -> int:
    """Print the faults of pages, and how many words each has; return 1 if there is a fault."""
    failed = False
    for path in paths:
        page = Path(path).resolve()
        text = page.read_text(encoding="utf-8")
        said = faults(page.relative_to(ROOT).as_posix(), text)
        failed = failed or bool(said)
        print(f"{path}: {len(words(plain(text)))} words", *said, sep="\n  ")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
