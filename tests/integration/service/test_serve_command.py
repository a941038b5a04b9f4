"""`ledger serve` and `ledger token`, run as a user runs them."""

import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep

import httpx
import pytest
from support.commands import command_line, environment, run_command, started

from ledger.http import service

START_SECONDS_MAX = 60.0
REPLICATED_SECONDS_MAX = 30.0
_SERVED = re.compile(r"(\S+) is served at (http\S+)")


@contextmanager
def serving(
    folder: Path, *arguments: str
) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """Run `ledger serve --local`; yield the process, and the URL of each region."""
    words = command_line("ledger", "serve", "--local", "--port", "0", *arguments)
    with subprocess.Popen(
        words, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment(folder)
    ) as process:
        try:
            urls: dict[str, str] = {}
            assert process.stderr is not None
            for line in process.stderr:
                if found := _SERVED.search(line):
                    urls[found[1]] = found[2]
                if len(urls) == 2:
                    break
            yield process, urls
        finally:
            process.kill()


def eventually(url: str, value: str, headers: dict[str, str]) -> bool:
    """Return whether a total comes to be shown."""
    end = monotonic() + REPLICATED_SECONDS_MAX
    while monotonic() < end:
        answer = httpx.get(url, params={"max_age": 0}, headers=headers)
        if answer.json()["value"] == value:
            return True
    return False


@pytest.mark.slow
def test_what_is_written_in_one_region_is_read_in_the_other(tmp_path: Path) -> None:
    """With a token, until that is revoked; SIGTERM ends it in order."""
    made = run_command(
        "ledger", "token", "create", "shop", "--scope", "read", "--scope", "write", folder=tmp_path
    )
    headers = {"Authorization": f"Bearer {made.out.strip()}"}
    with serving(tmp_path, "--tokens", "tokens.json", "--drain", "0s") as (process, urls):
        home, away = (urls[region] for region in ("us-east-1", "eu-west-1"))
        written = httpx.post(
            f"{home}/v1/counters/stock/entries", json={"change": "2.50"}, headers=headers
        )
        assert written.status_code == 201
        assert httpx.get(f"{home}/v1/counters/stock").status_code == 401
        assert eventually(f"{away}/v1/counters/stock", "2.5", headers)
        run_command("ledger", "token", "revoke", "shop", folder=tmp_path)
        while httpx.get(f"{home}/v1/session", headers=headers).status_code != 401:
            sleep(0.1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(START_SECONDS_MAX) == 0


@pytest.mark.slow
def test_a_stream_of_events_ends_when_the_service_does(tmp_path: Path) -> None:
    """It does not hold up the exit."""
    with serving(tmp_path, "--insecure", "--drain", "0s") as (process, urls):
        url = f"{urls['us-east-1']}/v1/live"
        assert httpx.get(url, headers={"host": "attacker.test"}).status_code == 421
        with httpx.stream("GET", url, params={"id": "stock"}, timeout=60) as stream:
            lines = stream.iter_lines()
            assert "event: total" in (next(lines), next(lines), next(lines))
            process.send_signal(signal.SIGTERM)
            list(lines)
        assert process.wait(START_SECONDS_MAX) == 0


PAGE = Path(service.__file__).parents[2] / "docs/howto/serve-over-http.md"


def page_lines() -> list[list[str]]:
    """Return the words of each command of the set-up with a process for each region."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition("## Run it as in production")
    block = section.partition("```sh\n")[2].partition("```")[0]
    return [shlex.split(line) for line in block.splitlines()]


@pytest.mark.slow
def test_the_page_s_processes_serve_one_table(tmp_path: Path) -> None:
    """As they stand, but for the ports; a counter of one region is listed in the other."""
    up, create, merge, *services = page_lines()
    with ExitStack() as stack:
        stack.enter_context(started(tmp_path, up, "Ctrl-C stops it"))
        made = run_command(*create, folder=tmp_path)
        assert (made.status, "in force" in made.out) == (0, True), made.errors
        stack.enter_context(started(tmp_path, merge, "leading"))
        lines = [
            stack.enter_context(started(tmp_path, [*words[:-1], "0"], "is served at"))
            for words in services
        ]
        home, away = (line.split()[-1] for line in lines)
        answer = httpx.post(f"{home}/v1/counters/stock/entries", json={"change": "2.50"})
        assert answer.status_code == 201
        assert eventually(f"{away}/v1/counters/stock", "2.5", {})
        assert httpx.get(f"{away}/v1/counters").status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give --tokens FILE"),
        (("--insecure", "--host", "192.0.2.1"), "is for a loopback address"),
        (("--insecure", "--tokens", "t.json"), "leave out --tokens"),
        (("--insecure", "--local", "--region", "us-east-1"), "makes its own table"),
        (("--insecure", "--tls-key", "key.pem"), "needs both"),
        (("--insecure", "--drain", "soon"), "such as 250ms"),
    ],
)
def test_a_command_line_that_would_serve_wrongly_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    """In one line, with status 2."""
    ran = run_command("ledger", "serve", *arguments, folder=tmp_path)
    assert (ran.status, ran.errors.count("\n")) == (2, 1)
    assert message in ran.errors


def test_a_file_of_tokens_that_is_missing_is_named(tmp_path: Path) -> None:
    """With status 1."""
    ran = run_command("ledger", "serve", "--tokens", "none.json", folder=tmp_path)
    assert (ran.status, ran.errors) == (
        1,
        "error: none.json cannot be read: No such file or directory\n",
    )


@pytest.mark.slow
def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    """The second service says so and ends."""
    with serving(tmp_path, "--insecure") as (_, urls):
        port = urls["us-east-1"].rpartition(":")[2]
        ran = run_command(
            "ledger", "serve", "--local", "--insecure", "--port", port, folder=tmp_path
        )
        assert ran.status == 1
        assert "cannot listen on 127.0.0.1 port" in ran.errors  # this one, or the next


@pytest.mark.slow
def test_tokens_are_made_listed_rotated_and_revoked(tmp_path: Path) -> None:
    """Each is shown once; the list has no secret."""

    def token(*arguments: str) -> str:
        ran = run_command("ledger", "token", *arguments, folder=tmp_path)
        assert ran.status == 0, ran.errors
        return ran.out.strip()

    first = token("create", "shop", "--scope", "read", "--prefix", "shop/", "--expires", "90d")
    second = token("rotate", "shop", "--overlap", "1h")
    assert first != second
    listed = token("list", "--json")
    assert listed.count('"state": "valid"') == 2
    assert first.rpartition("_")[2] not in listed
    assert "shop/" in token("list")
    assert token("revoke", "shop") == "shop: 2 revoked"
    assert token("revoke", "shop") == "shop had no valid token"


@pytest.mark.slow
def test_a_second_token_of_a_name_is_refused(tmp_path: Path) -> None:
    """It would be one that nobody rotates."""
    for status in (0, 2):
        made = ("create", "a", "--scope", "read", "--prefix", "key/*")
        ran = run_command("ledger", "token", *made, folder=tmp_path)
        assert ran.status == status
        assert "a prefix is not a pattern: 'key/*' matches" in ran.errors
    assert "'a' has a valid token" in ran.errors
