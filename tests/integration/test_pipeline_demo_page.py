"""The demo's page of live totals: as it is served, and as a browser shows it."""

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from lab.pipeline_demo.options import PipelineDemoOptions
from lab.pipeline_demo.page import serve_page
from lab.pipeline_demo.report import SHOWN, PipelineDemoProgress
from support.browsers import dom_of
from support.ledgers import AWAY, HOME

from ledger.core.errors import LedgerError
from ledger.demo.harness.totals import ShownTotals
from ledger.testing.clock import ManualClock

RIGHT, BEHIND = Decimal("1234567.5"), Decimal(-20)


def demo_snapshot() -> dict[str, Any]:
    """Return what the demo publishes, one category of a region behind the truth."""
    progress = PipelineDemoProgress(
        PipelineDemoOptions(messages=1000), phase="sending <all>", sent=900, counted=800
    )
    progress.seconds = 4.0
    progress.history.extend([(1.0, 100), (2.0, 400), (4.0, 800)])
    progress.latencies.add(0.25, 800)
    expected = {name: Decimal(0) for name in SHOWN} | {"risk/Delta": RIGHT, "risk/Rho": BEHIND}
    behind = expected | {"risk/Rho": Decimal(7)}
    progress.totals = [
        ShownTotals(HOME, expected, expected),
        ShownTotals(AWAY, behind, expected),
    ]
    return progress.snapshot()


def got(url: str) -> tuple[str, str, str]:
    """Return what is at a place, its type and its policy."""
    with urlopen(url, timeout=10) as answer:  # noqa: S310 (our own page)
        kind, policy = answer.headers["Content-Type"], answer.headers["Content-Security-Policy"]
        return answer.read().decode(), kind, policy


def test_the_page_its_parts_and_the_totals_are_served() -> None:
    """All that the page names is there, nothing is from elsewhere, the JSON is the latest."""
    with serve_page(0) as page:
        assert got(f"{page.url}totals.json")[0] == "{}"
        page.publish(demo_snapshot())
        text, kind, policy = got(f"{page.url}totals.json?again")
        assert kind == "application/json"
        assert json.loads(text) == json.loads(json.dumps(demo_snapshot()))
        html, kind, policy = got(page.url)
        assert kind.startswith("text/html")
        assert policy.startswith("default-src 'none'")
        named = re.findall(r'(?:src|href)="([^"]+)"', html)
        assert {"page.css", "page.js", "charts.js"} < set(named)
        for name in set(named) - {"data:,"}:
            assert got(page.url + name)[0]
        script = got(f"{page.url}page.js")[0]
        assert "innerHTML" not in script
        assert "//" not in re.sub(r"//www\.w3\.org|// .*", "", html + script)
        ids = set(re.findall(r'at\("(\w+)"\)', script))
        assert ids <= set(re.findall(r'id="(\w+)"', html))
        for missing in ("other", "../page.py", "page.html"):
            with pytest.raises(HTTPError, match="404"):
                got(page.url + missing)
        port = int(page.url.split(":")[-1].strip("/"))
        with pytest.raises(LedgerError, match="cannot be served"), serve_page(port):
            pass


@pytest.mark.tools("browser")
def test_a_browser_shows_totals_beside_the_truth(tmp_path: Path) -> None:
    """Numbers whole, a curve for each region and the truth, the pace, and what is behind marked."""
    clock = ManualClock()
    with serve_page(0, clock) as page:
        page.publish(demo_snapshot())
        clock.pass_by(60)
        page.publish(demo_snapshot())
        shown = dom_of(page.url, tmp_path)
    assert "sending &lt;all&gt;" in shown
    assert shown.count("1,234,567.5</td>") == 3
    assert 'id="chosen">risk/Delta over time<' in shown
    assert re.findall(r'class="behind">([^<]*)</td>', shown) == ["7"]
    assert len(re.findall(r'<polyline points="[0-9., ]+" class="region-[01]"', shown)) == 3
    assert len(re.findall(r'<polyline points="[0-9., ]+" class="truth"', shown)) == 1
    assert "<dd>0.25 s</dd>" in shown
    assert "NaN" not in shown
