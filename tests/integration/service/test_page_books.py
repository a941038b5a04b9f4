"""Books on the page: balances by asset, transfers with legs and metadata, and nothing as markup."""

import re
from pathlib import Path
from typing import Any

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
BOOK = "book/shop"
MARKUP = "<img src=x onerror=alert(1)>"


def transfer(regions: ServedRegions, *legs: tuple[str, str, str], **body: Any) -> None:
    """Move amounts between accounts, at home."""
    named = [dict(zip(("account", "asset", "amount"), leg, strict=True)) for leg in legs]
    path = f"{regions.home}/v1/books/book%2Fshop/transfers"
    answer = httpx.post(path, json={"legs": named, **body}, timeout=30)
    assert answer.is_success, answer.text


def test_a_book_shows_balances_and_transfers(tmp_path: Path) -> None:
    """By asset, with the sum, which is 0; a transfer is taken back on its page."""
    with served_regions(tmp_path, "--insecure") as regions, chromium() as browser:
        metadata = {"order": "17", MARKUP: MARKUP}
        sale = ("cash", "EUR", "-1234.50"), ("customer/alice", "EUR", "1234.5")
        transfer(regions, *sale, note="first", metadata=metadata)
        transfer(regions, ("fee", "USD", "0.05"), (MARKUP, "USD", "-0.05"))
        with watched_page(browser) as tab:
            page = tab.go(counter_url(regions.home, BOOK))
            of_euros = page.get_by_role("region", name="Balances in EUR")
            expect(of_euros.get_by_role("row", name=re.compile("^cash"))).to_contain_text(
                "\N{MINUS SIGN}1,234.5"
            )
            expect(of_euros.get_by_role("row", name=re.compile("^Sum of all"))).to_contain_text("0")
            of_dollars = page.get_by_role("region", name="Balances in USD")
            expect(of_dollars).to_contain_text(MARKUP)
            statement = page.get_by_role("region", name="Statement")
            line = statement.get_by_role("row").filter(has_text="first")
            expect(line).to_contain_text("+1,234.5 EUR customer/alice")
            expect(line).to_contain_text(re.compile(r"order\s*17"))
            expect(line).to_contain_text(MARKUP)
            expect(page.locator("main img")).to_have_count(0)
            expect(page.get_by_role("heading", name="Write a change")).to_have_count(0)
            page.get_by_role("searchbox").fill("customer/")
            expect(of_euros.get_by_role("row", name=re.compile("^cash"))).to_have_count(0)
            expect(of_euros).to_contain_text("Sum of these accounts")
            expect(of_dollars).to_have_count(0)
            page.get_by_role("searchbox").fill("")
            line.get_by_role("button").click()
            page.get_by_role("button", name="Reverse the transfer").click()
            expect(statement.get_by_text("reversal", exact=True)).to_be_visible()
            expect(of_euros).to_have_count(0)
            expect(of_dollars).to_be_visible()


def test_metadata_of_a_plain_entry_is_text(tmp_path: Path) -> None:
    """On the statement of its counter."""
    with served_regions(tmp_path, "--insecure") as regions, chromium() as browser:
        regions.write("stock", "3", metadata={"order": MARKUP})
        with watched_page(browser) as tab:
            page = tab.go(counter_url(regions.home, "stock"))
            expect(page.get_by_role("region", name="Statement")).to_contain_text(MARKUP)
            expect(page.get_by_text("Closing balance")).to_be_visible()
            expect(page.locator("main img")).to_have_count(0)
