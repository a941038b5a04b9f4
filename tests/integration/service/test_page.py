"""The page at `/` in a browser: what people do on it, how it looks, and what it must not run."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal, localcontext
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from support.paging import (
    LOW_CONTRAST,
    PHONE,
    ServedRegions,
    Watched,
    chromium,
    counter_url,
    expect,
    served_regions,
    watched_page,
)

from ledger.http.service.access.token_file import create_token
from ledger.http.service.access.tokens import SCOPES, checked_grant
from ledger.runtime.clock import SystemClock, system_random

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.tools("browser", "playwright")

TOO_FINE = f"0.{'0' * 37}1"
DYNAMODB_SAID = (
    "us-east-1, table ledger: DynamoDB had an internal error (InternalServerError: on request):"
    " try again"
)
SHOP = {"shop/berlin/mugs": "12.5", "shop/berlin/posters": "-3", "shop/rome/mugs": "1200"}
HOSTILE = (
    "<img src=x onerror=window.ran=1>",
    '"><script>window.ran=1</script>',
    "'onmouseover='window.ran=1",
    "{{7*7}}${7*7}<%= 7*7 %>",
    "javascript:window.ran=1",
    "</title><svg onload=window.ran=1>",
    "__proto__",
    "a%2fb?x=1#y&z",
)


@pytest.fixture(scope="module")
def regions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedRegions]:
    """Two regions of a local table, without tokens, with some counters."""
    with served_regions(tmp_path_factory.mktemp("serve"), "--insecure") as served:
        for counter, change in SHOP.items():
            served.write(counter, change, note="first")
        for counter, change in (("over/fine", "7"), ("over/flow", "1006"), ("over/flow", TOO_FINE)):
            served.write(counter, change)
        served.wait_listed(*SHOP, "over/fine", "over/flow")
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """A browser without a window."""
    with chromium() as started:
        yield started


@pytest.fixture
def tab(browser: "Browser") -> Iterator[Watched]:
    """A tab of a desk's size; at the end its console has said nothing unexpected."""
    with watched_page(browser) as watched:
        yield watched


def test_totals_are_a_tree_with_sums_and_are_searched_by_prefix(
    regions: ServedRegions, tab: Watched
) -> None:
    """Groups have the sums of what is below them, fold, and a prefix narrows the list."""
    page = tab.go(regions.home)
    group = page.get_by_role("row", name=re.compile(r"^shop. "))
    expect(group).to_contain_text("1,209.5")
    expect(group).to_contain_text("of those listed")
    expect(page.get_by_text(re.compile(r"The index is as of \d.* UTC, .* ago"))).to_be_visible()
    expect(page.get_by_role("row", name=re.compile(r"^berlin. "))).to_contain_text("9.5")
    group.get_by_role("button").click()
    expect(page.get_by_role("link", name="posters")).to_have_count(0)
    page.get_by_role("searchbox").fill("shop/rome")
    expect(page.get_by_role("link", name="shop/rome/mugs")).to_be_visible()
    expect(page.get_by_text("1 counter", exact=True)).to_be_visible()
    page.get_by_role("searchbox").fill("nothing/here")
    expect(page.get_by_text("No counter in the index begins with")).to_be_visible()
    page.get_by_role("searchbox").press("Enter")
    expect(page.get_by_role("heading", name="nothing/here")).to_be_visible()
    expect(page.get_by_text("us-east-1 has no change of this counter")).to_be_visible()


def test_a_total_that_cannot_be_read_hides_no_other(regions: ServedRegions, tab: Watched) -> None:
    """Its row says so; its own view shows its entries, so that the wrong one can be reversed."""
    page = tab.go(regions.home)
    page.get_by_role("searchbox").fill("over/")
    broken = page.get_by_role("row", name=re.compile("^flow "))
    expect(broken).to_contain_text("not read")
    expect(broken).to_contain_text("beyond 38 digits")
    expect(page.get_by_role("row", name=re.compile("^fine "))).to_contain_text("7")
    expect(page.get_by_role("row", name=re.compile("^over. "))).to_contain_text("without 1")
    page.get_by_role("link", name="flow", exact=True).click()
    expect(page.get_by_text("must have at most 38 digits")).to_be_visible()
    expect(page.get_by_text("Closing balance")).to_have_count(0)
    page.get_by_role("button", name=f"Reverse +{TOO_FINE}").click()
    page.get_by_role("dialog").get_by_role("button", name="Reverse").click()
    expect(page.locator("output.total")).to_have_text("1,006")
    expect(page.get_by_text("Closing balance")).to_be_visible()


def test_a_change_of_another_region_shows_by_itself(regions: ServedRegions, tab: Watched) -> None:
    """The list and its sums, and a counter's view with its statement, follow what arrives."""
    regions.write("live/a", "1")
    regions.write("live/b", "2")
    regions.wait_listed("live/a", "live/b")
    page = tab.go(regions.home)
    page.get_by_role("searchbox").fill("live/")
    expect(page.get_by_role("row", name=re.compile(r"^live. "))).to_contain_text("3")
    regions.write("live/a", "40", away=True)
    expect(page.get_by_role("row", name=re.compile(r"^a "))).to_contain_text("41")
    expect(page.get_by_role("row", name=re.compile(r"^live. "))).to_contain_text("43")
    page.get_by_role("link", name="a", exact=True).click()
    expect(page.locator("output.total")).to_have_text("41")
    regions.write("live/a", "0.5", away=True, note="from afar")
    expect(page.locator("output.total")).to_have_text("41.5")
    expect(page.get_by_role("row", name=re.compile("from afar"))).to_contain_text("eu-west-1")


def test_a_change_is_written_with_a_note(regions: ServedRegions, tab: Watched) -> None:
    """It is in the total, in the statement with its balance, and in every region."""
    regions.write("writing", "10")
    page = tab.go(counter_url(regions.home, "writing"))
    page.get_by_label("Amount").fill("1,5")
    page.get_by_role("button", name="Write").click()
    assert page.evaluate("document.getElementById('change').validationMessage")
    page.get_by_label("Amount").fill("-2.25")
    page.get_by_label("Note (optional)").fill("by hand")
    page.get_by_role("button", name="Write").click()
    expect(page.get_by_text("Written: \u22122.25, durable in us-east-1.")).to_be_visible()
    line = page.get_by_role("row", name=re.compile("by hand"))
    expect(line).to_contain_text("\u22122.25")
    expect(line).to_contain_text("7.75")
    expect(line.locator("td.time")).to_have_text(re.compile(r":\d\d\.\d{3}$"))
    expect(page.locator(".summary")).to_contain_text(re.compile(r"As of[\d:]+ UTC"))
    expect(page.get_by_role("row", name=re.compile("Closing balance"))).to_contain_text("7.75")
    expect(page.get_by_role("row", name=re.compile("Opening balance"))).to_contain_text("0")
    everywhere = page.get_by_role("region", name="Total in every region")
    expect(everywhere.get_by_role("row", name=re.compile("eu-west-1"))).to_contain_text("7.75")
    assert regions.total("writing") == "7.75"


def test_a_write_without_an_answer_is_sent_again_and_counts_once(
    regions: ServedRegions, tab: Watched
) -> None:
    """The key stays the same, so the second try finds what the first one wrote."""
    tab.expected = (*tab.expected, re.compile("Failed to load resource"))
    keys = list[str]()

    def lose_the_first_answer(route: "Route") -> None:
        keys.append(route.request.headers["idempotency-key"])
        answer = route.fetch()
        if len(keys) == 1:
            route.abort("connectionreset")
        else:
            route.fulfill(response=answer)

    page = tab.go(counter_url(regions.home, "lost-answer"))
    page.route(
        "**/entries",
        lambda route: (
            lose_the_first_answer(route) if route.request.method == "POST" else route.continue_()
        ),
    )
    page.get_by_label("Amount").fill("5")
    page.get_by_role("button", name="Write").click()
    expect(page.get_by_text("it may have been written or not")).to_be_visible()
    page.get_by_role("button", name="Write again").click()
    expect(page.get_by_text("Written: +5")).to_be_visible()
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert regions.total("lost-answer") == "5"


def test_an_entry_is_reversed_only_after_confirmation(regions: ServedRegions, tab: Watched) -> None:
    """Cancel and Escape write nothing; confirmed, the opposite is written once, with the reason."""
    regions.write("reversing", "30", note="keep")
    regions.write("reversing", "12.5", note="mistake")
    page = tab.go(counter_url(regions.home, "reversing"))
    line = page.get_by_role("row", name=re.compile("mistake"))
    line.get_by_role("button", name="Reverse").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("+12.5")
    expect(dialog).to_contain_text("\u221212.5 in us-east-1, as the reversal of this entry")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    line.get_by_role("button", name="Reverse").click()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert regions.total("reversing") == "42.5"
    line.get_by_role("button", name="Reverse").click()
    dialog.get_by_label("Reason (optional)").fill("typed twice")
    dialog.get_by_role("button", name="Reverse +12.5").click()
    expect(dialog).to_have_count(0)
    expect(page.locator("output.total")).to_have_text("30")
    written = page.get_by_role("row", name=re.compile("typed twice"))
    expect(written).to_contain_text("reversal")
    expect(line.get_by_role("button")).to_have_count(0)
    expect(line).to_contain_text("reversed")
    assert regions.total("reversing") == "30"


def test_what_was_merged_or_not_read_is_said(regions: ServedRegions, tab: Watched) -> None:
    """Merged entries are the opening balance; regions are the same only if each was read."""
    regions.write("merged", "5")
    page = tab.page

    def merged(route: "Route") -> None:
        if "/entries" in route.request.url:
            route.fulfill(json={"entries": [], "next": None})
        else:
            route.fulfill(json=route.fetch().json() | {"entries": 0, "merged": 41})

    def not_read(route: "Route") -> None:
        fields = route.fetch().json()
        fields["regions"]["eu-west-1"] = {"failed": DYNAMODB_SAID}
        route.fulfill(json=fields)

    page.route(re.compile(r"/v1/counters/merged(\?|/entries)"), merged)
    page.route("**/v1/fleet/totals?*", not_read)
    tab.go(counter_url(regions.home, "merged"))
    text = "41 older entries are merged: their sum is the opening balance"
    expect(page.get_by_text(text)).to_be_visible()
    page.get_by_role("button", name="Each entry").click()
    expect(page.locator(".chart")).to_contain_text(text)
    expect(page.get_by_text("not all read: 1 of 2")).to_be_visible()
    expect(page.get_by_text("all the same")).to_have_count(0)


def test_changes_that_share_an_item_hide_no_merged_entry(
    regions: ServedRegions, tab: Watched
) -> None:
    """The total counts their item once, so what was merged before is not said by their number."""
    regions.write("shared", "5")

    def shared(route: "Route") -> None:
        fields = route.fetch().json()
        if "/entries" in route.request.url:
            fields["entries"] = [
                {**entry, "id": f"{entry['id']}.00{place}"}
                for entry in fields["entries"]
                for place in range(3)
            ]
        else:
            fields |= {"entries": 1, "merged": 41}
        route.fulfill(json=fields)

    tab.page.route(re.compile(r"/v1/counters/shared(\?|/entries)"), shared)
    tab.go(counter_url(regions.home, "shared"))
    text = "41 older entries are merged: their sum is the opening balance"
    expect(tab.page.get_by_text(text)).to_be_visible()


def test_away_from_home_nothing_is_reversed(regions: ServedRegions, tab: Watched) -> None:
    """The page of another region says where to go."""
    regions.write("far", "1", away=True)
    page = tab.go(counter_url(regions.away, "far"))
    expect(page.get_by_text("Entries are reversed in the home region, us-east-1")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile(r"\+1"))).to_be_visible()
    expect(page.get_by_role("button", name="Reverse")).to_have_count(0)


def test_a_long_statement_has_pages_and_a_curve(regions: ServedRegions, tab: Watched) -> None:
    """Balances run through all pages, in both orders; the curve is by hour, day or entry."""
    path = f"{regions.home}/v1/entries"
    changes = [{"counter": "long", "change": str(number)} for number in range(1, 121)]
    httpx.post(path, json={"entries": changes}, timeout=30).raise_for_status()
    page = tab.go(counter_url(regions.home, "long"))
    expect(page.get_by_text("Page 1 of 3")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("Closing balance"))).to_contain_text("7,260")
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Page 3 of 3")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("Opening balance"))).to_contain_text("0")
    page.get_by_label("Order").select_option("oldest first")
    expect(page.get_by_text("Page 1 of 3")).to_be_visible()
    rows = page.get_by_role("region", name="Statement").get_by_role("row").all_inner_texts()
    assert rows[1].startswith("Opening balance")
    for name in ("By hour", "By day", "Each entry"):
        page.get_by_role("button", name=name).click()
        expect(page.get_by_role("button", name=name, pressed=True)).to_be_visible()
        expect(page.locator(".chart path.line")).to_have_attribute("d", re.compile("^M[^L]*$"))
        assert "NaN" not in page.locator(".chart").inner_html()


def test_regions_are_compared_in_the_list(regions: ServedRegions, tab: Watched) -> None:
    """A column for each region shows what it has of each counter."""
    page = tab.go(regions.home)
    page.get_by_role("searchbox").fill("shop/rome")
    page.get_by_role("button", name="Compare regions").click()
    row = page.get_by_role("row", name=re.compile("shop.rome.mugs"))
    expect(row.locator('td[data-region="eu-west-1"]')).to_have_text("1,200")


def test_everything_is_done_by_keyboard(regions: ServedRegions, tab: Watched) -> None:
    """Search, open, write and reverse without a pointer; focus is visible and goes back."""
    regions.write("keys/one", "7", note="first")
    regions.wait_listed("keys/one")
    page = tab.go(f"{regions.home}/#/fleet")
    expect(page.get_by_role("heading", name="Findings")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    to(page, "Totals")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Totals")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("/")
    expect(page.get_by_role("searchbox")).to_have_value("")
    page.keyboard.type("keys/")
    expect(page.get_by_role("link", name="keys/one")).to_be_visible()
    to(page, "keys/one")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.locator("output.total")).to_have_text("7")
    expect(page.get_by_role("button", name="Reverse")).to_be_visible()
    page.get_by_label("Amount").focus()
    page.keyboard.type("3")
    page.keyboard.press("Enter")
    expect(page.locator("output.total")).to_have_text("10")
    expect(page.get_by_role("button", name=re.compile("Reverse"))).to_have_count(2)
    to(page, "Reverse +3")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Reverse +3")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("output.total")).to_have_text("7")


def to(page: "Page", name: str, *, steps_max: int = 60) -> None:
    """Press Tab until what has this name has the focus."""
    for _ in range(steps_max):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == name:
            return
    raise AssertionError(f"{name} is not reached by Tab")


def test_the_fleet_is_shown_and_each_pair_measured(regions: ServedRegions, tab: Watched) -> None:
    """Regions, leaders, backlog and contract; the lag of all pairs once it was asked for."""
    page = tab.go(f"{regions.home}/#/fleet")
    table = page.get_by_role("region", name="Regions")
    expect(table.get_by_role("row", name=re.compile("us-east-1"))).to_contain_text("active")
    expect(table.get_by_role("row", name=re.compile("eu-west-1"))).to_contain_text("active")
    expect(page.get_by_text("64 of 64")).to_be_visible()
    for name in ("Backlog", "Hot counters", "Requests of this instance", "Contract"):
        expect(page.get_by_role("heading", name=name)).to_be_visible()
    page.get_by_role("button", name="Measure every pair").click()
    lags = page.get_by_role("region", name="Replication lag, from row to column")
    expect(page.get_by_text("Measured at")).to_be_visible()
    expect(lags.get_by_role("row", name=re.compile("^eu-west-1"))).to_contain_text(
        re.compile(r"\d m?s|over 5 s")
    )
    expect(page.get_by_text("not measured")).to_have_count(0)
    page.get_by_role("link", name="Pipelines").click()
    expect(page.get_by_text("No pipeline has counted records")).to_be_visible()


def test_what_cannot_be_read_is_named(regions: ServedRegions, tab: Watched) -> None:
    """A part of the fleet that failed says why, and hides no other part."""
    page = tab.page

    def with_failures(route: "Route") -> None:
        fields = route.fetch().json()
        fields["regions"][0]["table"] = {"failed": DYNAMODB_SAID}
        fields["regions"][1]["table"] = {"failed": "eu-west-1: no answer within 5 s"}
        fields["compactor"] = fields["merging"] = {"failed": "home cannot be read"}
        fields["hot"] = {"failed": "throttled"}
        fields["pipelines"] = {"failed": "no lanes read"}
        fields["findings"].append(
            {
                "check": "table",
                "region": "eu-west-1",
                "state": "problem",
                "what": "gone",
                "do": "look at `ledger table status`",
            }
        )
        route.fulfill(json=fields)

    page.route("**/v1/fleet", with_failures)
    tab.go(f"{regions.home}/#/fleet")
    for text in ("no answer within 5 s", "home cannot be read", "throttled", "gone"):
        expect(page.get_by_text(text).first).to_be_visible()
    expect(page.get_by_role("heading", name="Contract")).to_be_visible()
    expect(
        page.get_by_text("us-east-1: DynamoDB had an internal error. Try again.")
    ).to_be_visible()
    expect(page.get_by_text("on request")).to_be_hidden()
    expect(page.locator("code", has_text="ledger table status")).to_be_visible()
    expect(page.get_by_text("table not read", exact=True)).to_be_visible()
    page.get_by_role("link", name="Pipelines").click()
    expect(page.get_by_text("no lanes read")).to_be_visible()


def test_lanes_of_pipelines_are_shown(regions: ServedRegions, tab: Watched) -> None:
    """With what waits, when each wrote last, and the task that is under way."""
    page = tab.page
    lane = {
        "lane": "us-east-1/trades", "position": "000120", "is_open": True, "is_closed": False,
        "waiting": 3, "wrote": "2026-11-24T10:00:00+00:00", "failed": "",
    }  # fmt: skip
    broken = lane | {"lane": "eu-west-1/<b>", "failed": "damaged"}
    shown = {
        "name": "risk",
        "lanes": [lane, broken],
        "tasks": {"us-east-1": "audit"},
        "is_cut": False,
    }

    def with_lanes(route: "Route") -> None:
        slow, fast = (
            {"counter": name, "rate": rate, "units": 1, "shards": 1}
            for name, rate in (("slow", 0.1), ("fast", 3))
        )
        hot = {"looked_at": 2, "counters": [fast, slow]}
        route.fulfill(json=route.fetch().json() | {"pipelines": [shown], "hot": hot})

    page.route("**/v1/fleet", with_lanes)
    tab.go(f"{regions.home}/#/pipelines")
    row = page.get_by_role("row", name=re.compile("us-east-1.trades"))
    expect(row).to_contain_text("batch under way")
    expect(row).to_contain_text("120")
    expect(page.get_by_text("is under way in us-east-1")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("eu-west-1.<b>"))).to_contain_text("damaged")
    page.get_by_role("link", name="Fleet").click()
    expect(page.get_by_role("link", name="fast")).to_be_visible()
    expect(page.get_by_role("link", name="slow")).to_have_count(0)


def test_what_pipelines_add_is_a_live_curve(regions: ServedRegions, tab: Watched) -> None:
    """It has no entries and no sums by period, so the curve is what the page has read."""
    page = tab.page
    values = ["5", "1000"]

    def total(now: str) -> dict[str, object]:
        url = f"{regions.home}/v1/counters/piped?max_age=0"
        found: dict[str, object] = httpx.get(url).json()
        return found | {"known": True, "value": now, "additions": 7}

    def with_additions(route: "Route") -> None:
        route.fulfill(json=total(values[0]))

    def event(route: "Route") -> None:
        body = f"event: total\ndata: {json.dumps(total(values[-1]))}\n\n"
        route.fulfill(body=body, content_type="text/event-stream")

    page.route(re.compile(r"/v1/counters/piped\?"), with_additions)
    page.route("**/v1/live?*", event)
    tab.go(counter_url(regions.home, "piped"))
    expect(page.get_by_text("7 times")).to_be_visible()
    expect(page.get_by_role("button", name="Live")).to_have_attribute("aria-pressed", "true")
    expect(
        page.get_by_role("img", name="Total since the page was opened, now 1,000")
    ).to_be_visible()
    page.get_by_role("button", name="By day").click()
    expect(page.get_by_text("No changes in this time.")).to_be_visible()


VIEWS = ("#/", "#/counter/shop%2Fberlin%2Fmugs", "#/budgets", "#/fleet", "#/pipelines")


def opened(watched: Watched, base: str, view: str) -> "Page":
    """Go to a view and wait until it has loaded."""
    page = watched.go(f"{base}/{view}")
    expect(page.locator("main h1")).to_be_visible()
    expect(page.locator("main .state", has_text=re.compile("…$"))).to_have_count(0)
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(regions: ServedRegions, browser: "Browser", scheme: str) -> None:
    """Every text node of every view, the dialog and the sign-in, in both schemes (WCAG AA)."""
    with watched_page(browser, scheme=scheme) as watched:
        for view in VIEWS:
            page = opened(watched, regions.home, view)
            assert enough_contrast(page, 10) == [], view
        page = opened(watched, regions.home, VIEWS[1])
        page.get_by_role("button", name="Reverse").first.click()
        assert enough_contrast(page, 40) == []
        page.keyboard.press("Escape")
        page.route("**/v1/session", lambda route: route.fulfill(status=401, json={"status": 401}))
        watched.go(regions.home)
        expect(page.get_by_label("Access token")).to_be_visible()
        assert enough_contrast(page, 5) == []


def enough_contrast(page: "Page", least: int) -> list[str]:
    """Return the texts with too little contrast, once there are some to be looked at."""
    seen, low = page.evaluate(LOW_CONTRAST)
    assert seen >= least
    return list(low)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_everything_without_scrolling_sideways(
    regions: ServedRegions, browser: "Browser", scheme: str
) -> None:
    """Wide tables scroll by themselves; long names and notes are broken; buttons can be hit."""
    name = "phone/" + "verylongname" * 12
    regions.write(name, "1" * 38, note="word" * 60)
    with watched_page(browser, size=PHONE, scheme=scheme) as watched:
        for view in (*VIEWS, counter_url("", name).removeprefix("/")):
            page = opened(watched, regions.home, view)
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0], view
            cut = "[...document.querySelectorAll('.listing .scroll, .stacked')]"
            assert page.evaluate(f"{cut}.every((one) => one.scrollWidth <= one.clientWidth)"), view
            expect(page.locator(".keys:visible")).to_have_count(0)
        page.get_by_role("button", name="Reverse").first.click()
        box = page.get_by_role("dialog").bounding_box()
        assert box is not None
        assert box["width"] <= PHONE[0]
        small = page.evaluate(
            "[...document.querySelectorAll('button, select, nav a')].filter((one) =>"
            " one.checkVisibility() && one.getBoundingClientRect().height < 24).length"
        )
        assert small == 0, "WCAG 2.2, 2.5.8: at least 24 pixels"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_and_notes_are_text(regions: ServedRegions, tab: Watched, text: str) -> None:
    """They are shown letter by letter, open their own counter, and run nothing."""
    counter = f"hostile/{text}"
    regions.write(counter, "2", note=text)
    page = tab.go(regions.home)
    page.get_by_role("searchbox").fill(counter)
    page.get_by_role("searchbox").press("Enter")
    expect(page.locator("h1")).to_have_text(counter)
    expect(page.locator("output.total")).to_have_text("2")
    note = page.locator(".entry-note")
    expect(note).to_have_text(text)
    page.get_by_role("button", name="Reverse").click()
    expect(page.get_by_role("dialog")).to_contain_text(text)
    page.keyboard.press("Escape")
    assert page.evaluate("window.ran") is None
    assert page.locator("main img, main script, main svg[onload]").count() == 0


def test_characters_that_mislead_are_shown_by_their_codes(
    regions: ServedRegions, tab: Watched
) -> None:
    """A note cannot turn the direction of the text, or hide a part of it."""
    regions.write("bidi", "1", note="invoice\u202efdp.exe\u200b!")
    page = tab.go(counter_url(regions.home, "bidi"))
    expect(page.locator(".entry-note")).to_have_text("invoiceU+202Efdp.exeU+200B!")


def test_hostile_lists_are_text(regions: ServedRegions, tab: Watched) -> None:
    """Even names that the service would refuse, as an index that somebody edited could hold."""
    page = tab.page
    names = [f"x/{text}" for text in HOSTILE] + ["constructor", "x/\u202egnp", "__proto__/a", "//"]
    listed = [
        {
            "counter": name,
            "value": "1",
            "count": 1,
            "as_of": "2026-11-24T10:00:00+00:00",
            "exact": True,
        }
        for name in sorted(names)
    ]
    page.route(
        "**/v1/counters?*", lambda route: route.fulfill(json={"counters": listed, "next": None})
    )
    tab.go(regions.home)
    expect(page.get_by_text(f"{len(names)} counters")).to_be_visible()
    for text in HOSTILE:
        expect(page.get_by_role("link", name=text, exact=True)).to_be_visible()
    expect(page.get_by_text("U+202E")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("^x. "))).to_contain_text("9")
    assert page.evaluate("window.ran") is None


def test_nothing_is_asked_of_another_place(regions: ServedRegions, tab: Watched) -> None:
    """All requests of all views go to the service itself."""
    asked = set[str]()
    tab.page.on("request", lambda request: asked.add(request.url))
    for view in VIEWS:
        opened(tab, regions.home, view)
    assert {url for url in asked if not url.startswith((regions.home, "about:"))} == set()


def test_a_table_without_an_index_says_so(regions: ServedRegions, tab: Watched) -> None:
    """Counters can still be opened by their ids."""
    page = tab.page
    page.route("**/v1/counters?*", lambda route: route.fulfill(json={"counters": [], "next": None}))
    tab.go(regions.home)
    expect(page.get_by_text("To begin, enter an id above")).to_be_visible()
    detail = "counters that begin with '' are not indexed: the contract's index has nothing"
    problem = {"type": "/problems/state-conflict", "title": "-", "status": 409, "detail": detail}
    page.route("**/v1/counters?*", lambda route: route.fulfill(status=409, json=problem))
    page.route(
        "**/v1/session",
        lambda route: route.fulfill(json=route.fetch().json() | {"index": []}),
    )
    tab.go(regions.home)
    expect(page.get_by_text("This table keeps no index")).to_be_visible()
    page.get_by_role("searchbox").fill("shop/rome/mugs")
    page.get_by_role("button", name="Open by id").click()
    expect(page.locator("output.total")).to_have_text("1,200")


def test_an_outage_is_shown_and_passes(regions: ServedRegions, tab: Watched) -> None:
    """While the service does not answer the page says so; then it goes on by itself."""
    tab.expected = (*tab.expected, re.compile("Failed to load resource: (net::ERR_|.* 503)"))
    page = tab.go(counter_url(regions.home, "shop/rome/mugs"))
    expect(page.locator("output.total")).to_have_text("1,200")
    page.route("**/v1/**", lambda route: route.abort("connectionrefused"))
    expect(page.get_by_role("alert").filter(has_text="does not answer")).to_be_visible()
    expect(page.get_by_text("no answer", exact=True)).to_be_visible()
    page.unroute_all()
    expect(page.get_by_text("connected")).to_be_visible()
    down = {"type": "/problems/unreachable", "status": 503, "detail": DYNAMODB_SAID}
    page.route(
        re.compile("/v1/|/readyz"), lambda route: route.fulfill(status=down["status"], json=down)
    )
    expect(page.get_by_role("alert").filter(has_text="cannot read the table")).to_be_visible()
    expect(page.get_by_text("table not read", exact=True)).to_be_visible()
    page.unroute_all()
    expect(page.get_by_text("connected")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_text("Closing balance")).to_be_visible()
    page.get_by_role("link", name="Totals", exact=True).click()
    expect(page.get_by_role("link", name="rome/mugs")).to_be_visible()


def test_amounts_are_added_and_shown_exactly(regions: ServedRegions, tab: Watched) -> None:
    """As Python's Decimal does it, up to 38 digits."""
    page = tab.go(regions.home)
    cases = [
        ("0.1", "0.2"), ("-5", "5"), ("9" * 38, "1"), ("1e-30", "-1e-31"), ("1.50", "0.5"),
        ("-0.0000001", "123456789012345678901234567890"), ("1E+5", "0"), ("-12.5", "-0.5"),
    ]  # fmt: skip
    script = (
        "async (cases) => { const m = await import('/page/amounts.js');"
        " return cases.map(([one, other]) => m.add(one, other)); }"
    )
    found = page.evaluate(script, [list(case) for case in cases])
    for (one, other), text in zip(cases, found, strict=True):
        with localcontext() as exact:
            exact.prec = 80
            assert Decimal(text) == Decimal(one) + Decimal(other)
        assert "e" not in text.lower()
    shown = page.evaluate(
        "async () => { const m = await import('/page/amounts.js');"
        " return [m.shown('-1234567.5'), m.shown('3', {signed: true}), m.negated('-0.5')]; }"
    )
    assert shown == ["\u22121,234,567.5", "+3", "0.5"]


def test_axes_and_columns_have_round_and_aligned_numbers(
    regions: ServedRegions, tab: Watched
) -> None:
    """At most 4 digits on an axis, times that people count in, points of decimals in one line."""
    page = tab.go(regions.home)
    script = """async () => {
        const {valueText, timeTicks} = await import('/page/ticks.js');
        const {breakable, row, table} = await import('/page/dom.js');
        const start = Date.UTC(2026, 10, 25, 18, 17, 3);
        const times = (span) => timeTicks(start, start + span, 4).map(([, text]) => text);
        const shown = table('t', [['n', true]], ['1.2', '-19', '96.95'].map((one) =>
            row([[one.replace('-', '\u2212'), 'number']])));
        return {
            values: [0, -1500, 2.5e7, 1e28, 2e-7].map(valueText),
            times: [500, 90e3, 99 * 60e3, 30 * 3600e3, 6 * 86400e3, 400 * 86400e3].map(times),
            pads: [...shown.querySelectorAll('td')].map((cell) => cell.dataset.pad ?? ''),
            parts: [...breakable('12,345,678,901,234,567.1234567').childNodes]
                .map((one) => one.textContent).filter(Boolean),
        };
    }"""
    found = page.evaluate(script)
    assert found["values"] == [
        "0", "\u22121.5K", "25M", "1\u00d710\u00b2\u2078", "2\u00d710\u207b\u2077",
    ]  # fmt: skip
    assert found["times"] == [
        ["18:17:03.0", "18:17:03.2", "18:17:03.4"],
        ["18:17:30", "18:18:00", "18:18:30"],
        ["18:30", "19:00", "19:30"],
        ["26 Nov", "12:00", "27 Nov"],
        ["27 Nov", "29 Nov", "01 Dec"],
        ["Jan 2027", "Jul 2027"],
    ]
    assert found["pads"] == ["0", ".00", ""]
    assert found["parts"] == ["12,", "345,", "678,", "901,", "234,", "567", ".123", "456", "7"]


def token_of(file: Path, name: str, *scopes: str, prefixes: tuple[str, ...] = ()) -> str:
    """Return a new token of a file."""
    grant = checked_grant(name, scopes, prefixes)
    return create_token(
        file, grant, now=SystemClock().now(), randomness=system_random(), expires=None
    )


def test_a_token_decides_what_the_page_offers(tmp_path: Path, tab: Watched) -> None:
    """Without one it asks for it; a reader's offers nothing else; a wrong one is refused."""
    tokens = tmp_path / "tokens.json"
    reader = token_of(tokens, "reader", "read", prefixes=("shop/",))
    operator = token_of(tokens, "operator", *SCOPES)
    with served_regions(tmp_path, "--tokens", str(tokens)) as served:
        page = tab.go(served.home)
        expect(page.get_by_label("Access token")).to_be_focused()
        for part in ("nav", "#connection"):
            expect(page.locator(part)).to_be_hidden()
        page.get_by_label("Access token").fill("ldg_000000000000_" + "x" * 43)
        page.keyboard.press("Enter")
        expect(page.get_by_text("The token is not valid")).to_be_visible()
        page.get_by_label("Access token").fill(operator)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Totals")).to_be_visible()
        page.get_by_role("searchbox").fill("shop/x")
        page.get_by_role("searchbox").press("Enter")
        page.get_by_label("Amount").fill("4")
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Reverse +4")).to_be_visible()
        assert operator not in page.url
        assert page.evaluate("localStorage.length + document.cookie.length") == 0
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("Access token").fill(reader)
        page.keyboard.press("Enter")
        expect(page.locator("output.total")).to_have_text("4")
        expect(page.get_by_text("Closing balance")).to_be_visible()
        for name in ("Write a change", "In every region"):
            expect(page.get_by_role("heading", name=name)).to_have_count(0)
        expect(page.get_by_role("button", name=re.compile("Reverse"))).to_have_count(0)
        page.get_by_role("link", name="Totals", exact=True).click()
        expect(page.get_by_role("searchbox")).to_have_value("shop/")
        expect(page.get_by_role("link", name="shop/x")).to_be_visible()
        expect(page.get_by_role("navigation").get_by_role("link")).to_have_text(
            ["Totals", "Budgets"]
        )
        page.evaluate("location.hash = '#/fleet'")
        expect(page.get_by_text("This needs a token with the scope admin.")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Access token")).to_be_visible()
        assert page.evaluate("sessionStorage.getItem('ledger-token')") is None
