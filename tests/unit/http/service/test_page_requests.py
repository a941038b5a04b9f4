"""The requests that the how-to of spending sends by curl are answered as it says."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import httpx
from support.serving import AWAY, HOME, Served, served

import ledger
from ledger.testing import MemoryGlobalTable

PAGE = Path(ledger.__file__).with_name("docs") / "howto/limit-spending.md"
PORTS = {8080: HOME, 8081: AWAY}


def commands(section: str, now: str) -> Iterator[list[str]]:
    """Yield the words of each curl command of a section."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    for block in re.findall(r"^```sh\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").replace("$NOW", now).splitlines():
            if line.startswith("curl "):
                yield shlex.split(line)[1:]


async def sent(words: list[str], services: dict[str, Served]) -> httpx.Response:
    """Send what a curl command would, to the service of its port."""
    headers, url, body, method = {}, httpx.URL(""), None, None
    given = iter(words)
    for word in given:
        match word:
            case "-H":
                name, _, value = next(given).partition(":")
                headers[name] = value.strip()
            case "-d":
                body = next(given)
            case "-X":
                method = next(given)
            case _:
                url = httpx.URL(word)
    http = services[PORTS[url.port or 0]].http
    chosen = method or ("GET" if body is None else "POST")
    path = url.raw_path.decode()
    return await http.request(chosen, path, content=body, headers=headers)


async def test_budgets_are_spent_as_the_page_says() -> None:
    """A limit, a spend, and the refusal in the other region."""
    table = MemoryGlobalTable([HOME, AWAY], budgets={"*": {}})
    async with served(table) as home, served(table, region=AWAY) as away:
        now = table.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        answers = []
        for words in commands("Over HTTP", now):
            answers.append(await sent(words, {HOME: home, AWAY: away}))
            table.replicate()
        assert [answer.status_code for answer in answers] == [201, 201, 409]
        refused = answers[-1].json()
        assert (refused["budget"], refused["wanted"]) == ("key/42", "4")
        assert {name: refused[name] for name in ("type", "here", "elsewhere")} == {
            "type": "/problems/budget-exceeded",
            "here": "3",
            "elsewhere": "0.5",
        }
