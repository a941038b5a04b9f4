"""Budgets on the page: where the amount of each is, by region, in grants and on its way."""

import re
from pathlib import Path

import httpx
import pytest
from support.paging import (
    ServedRegions,
    chromium,
    counter_url,
    expect,
    served_regions,
    watched_page,
)

pytestmark = pytest.mark.tools("browser", "playwright")
WAIT_SECONDS = 40.0


def ask(regions: ServedRegions, method: str, path: str, body: dict[str, object]) -> httpx.Response:
    """Ask the home region's service, which does it."""
    answer = httpx.request(method, f"{regions.home}{path}", json=body, timeout=WAIT_SECONDS)
    assert answer.is_success, answer.text
    return answer


def test_the_amount_of_each_budget_is_shown_by_region(tmp_path: Path) -> None:
    """Listed once it is merged, and on its counter's page; other counters have no such panel."""
    with served_regions(tmp_path, "--insecure") as regions, chromium() as browser:
        ask(regions, "PUT", "/v1/budgets/key%2F42", {"limit": "1000000"})
        ask(regions, "POST", "/v1/budgets/key%2F42/spends", {"amount": "1234.5"})
        regions.write("plain", "1")
        regions.wait_listed("key/42", "plain")
        with watched_page(browser) as tab:
            page = tab.go(f"{regions.home}/#/budgets")
            row = page.get_by_role("row").filter(has=page.get_by_role("link", name="key/42"))
            expect(row).to_contain_text("1,000,000")
            expect(row.get_by_role("img")).to_have_attribute(
                "aria-label", re.compile(r"^(Charged .*, )?Granted [\d,.]+, Free [\d,.]+$")
            )
            expect(page.get_by_role("link", name="plain")).to_have_count(0)
            page.get_by_role("searchbox").fill("pl")
            expect(page.get_by_text("No budget is listed.")).to_be_visible()
            page.get_by_role("searchbox").fill("key/")
            row.get_by_role("link").click()
            expect(page.get_by_role("heading", name="Budget", exact=True)).to_be_visible()
            by_region = page.get_by_role("region", name="By region")
            expect(by_region.get_by_role("row", name=re.compile("^us-east-1 "))).to_be_visible()
            expect(page.get_by_text("Nothing is on its way between regions.")).to_be_visible()
            tab.go(counter_url(regions.home, "plain"))
            expect(page.get_by_text("Closing balance")).to_be_visible()
            expect(page.get_by_role("heading", name="Budget", exact=True)).to_be_hidden()
            expect(page.get_by_role("button", name="Credit")).to_have_count(0)


def test_a_budget_that_takes_credits_is_credited(tmp_path: Path) -> None:
    """The form says that it is stored; the panel says what waits for other regions."""
    with served_regions(tmp_path, "--insecure") as regions, chromium() as browser:
        ask(regions, "PUT", "/v1/budgets/wallet%2Fann", {"limit": "0"})
        with watched_page(browser) as tab:
            page = tab.go(counter_url(regions.home, "wallet/ann"))
            form = page.locator("form").filter(has=page.get_by_role("button", name="Credit"))
            amount = form.get_by_label("Amount")
            amount.fill("-3")
            form.get_by_role("button").click()
            expect(page.get_by_text("must be above 0")).to_be_visible()
            amount.fill("1234.5")
            form.get_by_label("Note (optional)").fill("top-up 7")
            form.get_by_role("button").click()
            expect(page.get_by_text("Credited: 1,234.5, durable in us-east-1.")).to_be_visible()
            expect(page.locator("output.total")).to_have_text("1,234.5")
            expect(page.get_by_role("region", name="Statement")).to_contain_text("top-up 7")
            panel = page.locator("section").filter(
                has=page.get_by_role("heading", name="Budget", exact=True)
            )
            expect(panel.locator(".key.free")).to_contain_text("1,234.5")
            expect(panel.get_by_text("Credited, not spendable yet")).to_have_count(0)
            waits = {"waiting": "5"}
            page.route(
                "**/v1/budgets?*",
                lambda route: route.fulfill(
                    json={"budgets": [one | waits for one in route.fetch().json()["budgets"]]}
                ),
            )
            expect(panel.get_by_text("Credited, not spendable yet")).to_be_visible()
