import re
import subprocess
from pathlib import Path

import pytest
from support.needs import program

ROOT = Path(__file__).parents[3]
DOCKERFILE = ROOT / "deploy" / "container" / "Dockerfile"


def instructions() -> list[tuple[str, str]]:
    """Give every instruction with its arguments on one line."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    parts = (line.split(maxsplit=1) for line in lines if line.strip())
    return [(name, " ".join(rest.split())) for name, rest in parts]


def stages() -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """Give each stage's base and instructions by its name."""
    found: dict[str, tuple[str, list[tuple[str, str]]]] = {}
    name = ""
    for word, rest in instructions():
        if word == "FROM":
            base, _, name = rest.split()
            found[name] = (base, [])
        elif name:
            found[name][1].append((word, rest))
    return found


def line_of(name: str) -> list[str]:
    """Give a stage and those that it grows from."""
    base = stages()[name][0]
    return [name, *(line_of(base) if base in stages() else [])]


@pytest.mark.tools("hadolint")
def test_hadolint_finds_nothing() -> None:
    """The Dockerfile keeps the rules of its linter."""
    result = subprocess.run(
        [program("hadolint"), str(DOCKERFILE)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_base_is_named_by_version() -> None:
    """Every stage grows from one slim base with a version: no `latest`, no tag left out."""
    [base] = [rest for word, rest in instructions() if word == "ARG"]
    assert re.fullmatch(r"BASE=python:3\.\d+-slim-[a-z]+", base)
    assert {base for base, _ in stages().values()} - set(stages()) == {"${BASE}"}


@pytest.mark.parametrize("target", ["commands", "lambda"])
def test_an_image_runs_as_a_user_without_rights(target: str) -> None:
    """Both images set a numeric user that is not root, and nothing changes it afterwards."""
    users = [
        rest for stage in line_of(target) for word, rest in stages()[stage][1] if word == "USER"
    ]
    assert users == ["10001:10001"]


@pytest.mark.parametrize("target", ["commands", "lambda"])
def test_an_image_holds_no_build_tools(target: str) -> None:
    """What is built stays behind in its stage: an image only copies, and runs nothing."""
    assert not {"build", "build-lambda"} & set(line_of(target))
    words = {word for stage in line_of(target) for word, _ in stages()[stage][1]}
    assert words <= {"ENV", "COPY", "WORKDIR", "USER", "ENTRYPOINT", "CMD"}


def test_nothing_is_fetched_but_by_pip() -> None:
    """No ADD (which can fetch URLs), and no download beside the package manager."""
    assert "ADD" not in {word for word, _ in instructions()}
    runs = " ".join(rest for word, rest in instructions() if word == "RUN")
    assert not re.search(r"curl|wget|apt-get|https?://", runs)


def test_of_extras_those_of_service_and_webhooks_are_installed() -> None:
    """The image has what `ledger serve` and `ledger webhook` need, and nothing for tests."""
    runs = " ".join(rest for word, rest in instructions() if word == "RUN")
    assert re.findall(r"\[[a-z,]+\]", runs) == ["[client,service]"]


def test_the_default_image_serves_both_commands() -> None:
    """The last stage, built without --target, has no entrypoint, so any command can be given."""
    assert list(stages())[-1] == "commands"
    words = [word for stage in line_of("commands") for word, _ in stages()[stage][1]]
    assert "ENTRYPOINT" not in words
    assert ("CMD", '["compactor", "run", "--once"]') in stages()["commands"][1]


def test_the_build_is_sent_what_the_dockerfile_copies() -> None:
    """.dockerignore shuts everything out, and lets in each file that the Dockerfile copies."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    allowed = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {
        source
        for word, rest in instructions()
        if word == "COPY" and "--from" not in rest
        for source in [part for part in rest.split()[:-1] if not part.startswith("--")]
    }
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)
