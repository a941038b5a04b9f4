"""Debian's Prometheus on a configuration of its own, and what it answers."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml
from support.dashboards import ALERTS
from support.killing import Running, running
from support.needs import program

SCRAPE_SECONDS = 1
READY = "Server is ready to receive web requests"
_LISTENS = re.compile(r'msg="Listening on" address=(\S+)')
_HOLDS = re.compile(r"^ +for: .*\n", re.MULTILINE)


class Prometheus:
    """A server that runs, asked over its HTTP API."""

    def __init__(self, url: str, process: Running) -> None:
        self.process = process
        self._http = httpx.Client(base_url=f"{url}/api/v1/")

    def now(self, expression: str) -> list[float]:
        """Return the values of an expression now; none if it gives none."""
        found = self._get("query", query=expression)
        return [float(one["value"][1]) for one in found["result"]]

    def range(
        self, expression: str, *, start: float, end: float, step: float
    ) -> list[tuple[dict[str, str], list[tuple[float, float]]]]:
        """Return each series of an expression, its labels and its values by time."""
        found = self._get("query_range", query=expression, start=start, end=end, step=step)
        return [
            (one["metric"], [(float(at), float(value)) for at, value in one["values"]])
            for one in found["result"]
        ]

    def fired(self) -> set[str]:
        """Return the alerts that fired at any time."""
        expression = 'max_over_time(ALERTS{alertstate="firing"}[1h])'
        found = self._get("query", query=expression)["result"]
        return {one["metric"]["alertname"] for one in found}

    def close(self) -> None:
        """Let its connections go."""
        self._http.close()

    def _get(self, path: str, **parameters: Any) -> dict[str, Any]:
        answer = self._http.get(path, params=parameters)
        assert answer.status_code == 200, f"{parameters}: {answer.text}"
        found: dict[str, Any] = answer.json()["data"]
        return found


@asynccontextmanager
async def prometheus(
    folder: Path, targets: Mapping[str, Sequence[str]], *, tokens: Mapping[str, Path]
) -> AsyncIterator[Prometheus]:
    """Run it until the block ends on the targets (`host:port`) of each job, each second.

    Our alerts are loaded without the time for which they have to hold. `tokens` are files, by job.
    """
    rules = _HOLDS.sub("", ALERTS.read_text(encoding="utf-8"))
    (folder / "alerts.yaml").write_text(rules, encoding="utf-8")
    every = f"{SCRAPE_SECONDS}s"
    jobs = [
        {
            "job_name": job,
            "static_configs": [{"targets": list(places)}],
            **({"authorization": {"credentials_file": str(tokens[job])}} if job in tokens else {}),
        }
        for job, places in targets.items()
    ]
    settings = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": ["alerts.yaml"],
        "scrape_configs": jobs,
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    words = [
        program("prometheus"),
        "--config.file=prometheus.yml",
        f"--storage.tsdb.path={folder / 'series'}",
        "--web.listen-address=127.0.0.1:0",
    ]
    async with running(words, folder, "prometheus.log") as process:
        await process.says(READY)
        listens = _LISTENS.search(process.said())
        assert listens, process.said()
        server = Prometheus(f"http://{listens[1]}", process)
        try:
            yield server
        finally:
            server.close()
