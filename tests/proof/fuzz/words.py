"""Command lines drawn from a seed: every command, its own options, values of all kinds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any, get_args

OPTIONS_MAX = 4
ARGUMENTS_MAX = 3
NAMED_SHARE = 0.6
"""Of the values: those that fit what the option is called."""

LONG = ("demo",)
LONG_SHARE = 0.8
"""Of the commands that run for a minute: those that are drawn once more."""
ODD_SHARE = 0.05
"""Of the command lines: those with a word that no command asked for."""
ANY = (
    "", "-", "--", "-1", "0", "1", "1e400", "NaN", "inf", "-inf", "9" * 60, "0.1", "a", "b/c",
    "café", "cafe\u0301", "a\u202eb", "\x1b[2K", "a\nb", "\udcff", "x" * 5_000, "~net", "[red]",
    "{}", "[]", "{", "null", "good.csv", "regions.yaml", "broken.yaml", "folder", "no/such", ".",
    "..", "/dev/null", "/dev/full", "/proc/self/mem", "2026-11-21", "2026-11-21T06:50Z",
    "9999-12-31T23:59Z", "us-east-1", "mars-1", "60s", "1,2", "a=b", "file:///", "http://[",
    "http://127.0.0.1:1", "s3://a/b", "http://127.0.0.1:99999", "%s", "on", "utf-16", "xml",
)  # fmt: skip
PATHS = (
    "good.csv", "bad.csv", "records.jsonl", "letters.dead", "regions.yaml", "new.out", "new.svg",
    "no/such/file", ".", "folder", "/dev/null", "/dev/full", "/proc/self/mem", "-", "", "x" * 300,
)  # fmt: skip
NUMBERS = ("0", "1", "2", "100", "-1", "0.5", "1e400", "nan", "inf", "9" * 40, "", "a")
TIMES = ("2026-11-21", "2026-11-21T06:50Z", "0001-01-01T00:00Z", "9999-12-31T23:59Z", "yesterday")
NAMES = ("a", "shop", "café", "cafe\u0301", "a\x1b[2K", "~net", "", "x" * 1_025, "a\u202eb", "[a]")
REGIONS = ("us-east-1", "eu-west-1", "mars-1", "", "us-east-1,eu-west-1")
DURATIONS = ("0", "1s", "60s", "-1s", "soon", "", "1e400", "999999d", "nan")
_NAMED = (
    "counter",
    "counters",
    "name",
    "names",
    "prefix",
    "key",
    "note",
    "token",
    "entries",
    "owner",
)
_TIMED = ("at", "after", "before", "since", "until", "effective")
BY_NAME: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("region", "regions", "source", "target", "lost"), REGIONS),
    **dict.fromkeys(_NAMED, NAMES),
    **dict.fromkeys(_TIMED, TIMES),
    **dict.fromkeys(("every", "wait", "lag", "jitter", "seconds", "expires"), DURATIONS),
    **dict.fromkeys(("change", "counted", "amount", "limit", "actual", "most"), NUMBERS),
    **dict.fromkeys(("output", "write_config", "file", "files", "lanes", "dead"), PATHS),
    "config": ("regions.yaml", "broken.yaml", "password.yaml", "", "good.csv", "/proc/self/mem"),
    "command": ("true", "false", "no-such-command", ""),
    "confirm": ("ledger", "other", ""),
    "data": ("state", "good.csv", ""),
}
PIPELINE = {
    "LEDGER_PIPELINE__FIELDS": '{"id": "id", "version": "version", "value": "value"}',
    "LEDGER_PIPELINE__CATEGORIES": '["risk/{id}"]',
}
ENVIRONMENTS: Sequence[Mapping[str, str]] = (
    *[{}] * 6,
    *[PIPELINE] * 4,
    {"LEDGER_REGION": "eu-west-1"},
    {"LEDGER_REGION": ""},
    {"AWS_REGION": "eu-west-1"},
    {"LEDGER_SETTEL": "5"},
    {"LEDGER_CONFIG": ""},
    {"LEDGER_CONFIG": "broken.yaml"},
    {"LEDGER_CACHE": "{"},
    {"LEDGER_SETTLE": "1e400"},
    {"LEDGER_REGIONS": '{"a": 1}'},
    {"AWS_PROFILE": "absent"},
    {"AWS_CA_BUNDLE": "no/such"},
    {"HTTP_PROXY": "http://u:hunter2@["},
    {"AWS_CONFIG_FILE": "good.csv"},
    {"TZ": "no/such"},
    {"HOME": "/dev/null"},
)
ENCODINGS = ("utf-8", "utf-8", "ascii", "cp1252")
OUTPUTS = ("file", "file", "file", "full", "closed")
"""Where standard output goes: a file, a full disk, a pipe that nobody reads."""


@dataclass(frozen=True, slots=True)
class Case:
    """A command line, and what it is run under."""

    number: int
    words: tuple[str, ...]
    environment: Mapping[str, str]
    encoding: str
    output: str

    @property
    def wants_json(self) -> bool:
        """Whether each line of its output has to be JSON."""
        return "--json" in self.words and not {*self.words} & {*LONG, "--"}


def drawn(number: int, commands: Sequence[tuple[tuple[str, ...], Any]], seed: int) -> Case:
    """Return the case of a number: the same for the same seed."""
    random = Random(f"{seed} {number}")  # noqa: S311 (repeatable)
    path, command = random.choice(commands)
    if path[-1] in LONG and random.random() < LONG_SHARE:
        path, command = random.choice(commands)
    words = [*path, *_arguments(command, random)]
    if random.random() < ODD_SHARE:
        words.insert(random.randint(1, len(words)), random.choice(ANY))
    return Case(
        number,
        tuple(words),
        random.choice(ENVIRONMENTS),
        random.choice(ENCODINGS),
        random.choice(OUTPUTS),
    )


def _arguments(command: Any, random: Random) -> Iterator[str]:
    options = [param for param in command.params if param.opts[0].startswith("-")]
    for each in command.params:
        if each not in options:
            most = ARGUMENTS_MAX if each.nargs == -1 else 1
            count = 0 if random.random() < ODD_SHARE else random.randint(1, most)
            yield from (_value(each, random) for _ in range(count))
    for each in random.sample(options, min(len(options), random.randrange(OPTIONS_MAX + 1))):
        name = random.choice([*each.opts, *each.secondary_opts])
        if name in {"--help", "-h", "--install-completion", "--show-completion"}:
            continue
        yield name
        if not each.is_flag:
            yield _value(each, random)


def _value(parameter: Any, random: Random) -> str:
    kind = parameter.type_descriptor.annotation
    fitting = _choices(kind) or BY_NAME.get(str(parameter.name)) or _of_kind(kind)
    return str(random.choice([*fitting] if random.random() < NAMED_SHARE else ANY))


def _choices(kind: Any) -> Sequence[str]:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(member.value) for member in kind]
    return [arg for arg in get_args(kind) if isinstance(arg, str)]


def _of_kind(kind: Any) -> Sequence[str]:
    name = str(kind)
    if "int" in name or "float" in name:
        return NUMBERS
    return PATHS if "Path" in name else ANY
