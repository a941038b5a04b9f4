// One counter: its total, live, as every region shows it; curve, statement, writing and reversing.

import {shown as amountText} from "./amounts.js";
import {NoAnswer, counterPath, follow, get, isOfCounter, pause, repeat, untilAnswered} from "./api.js";
import {balancesPanel} from "./books.js";
import {budgetPanel} from "./budgets.js";
import {curvePanel} from "./curve.js";
import {breakable, element, facts, mark, message, row, section, stateLine, table, userText} from "./dom.js";
import {isBook, takesCredits} from "./patterns.js";
import {statementPanel} from "./statement.js";
import {clockText, clockZoneText, durationText, zoneText} from "./times.js";
import {flash} from "./totals.js";
import {confirmReversal, creditPanel, writePanel} from "./writing.js";

const TICK_MS = 1000, REGIONS_MS = 3000, SETTLE_MS = 400, RETRY_MS = 2000;

export async function counterView(main, asked) {
  const {session, argument: counter, signal} = asked;
  const may = (scope) => session.scopes.includes(scope);
  const isHome = session.region === session.home, ofBook = isBook(counter, session);
  const value = element("output", {class: "total", "aria-live": "polite", "aria-label": "Total"}, "…");
  const details = element("div");
  const heading = element("h1", {class: "counter-name"}, userText(counter));
  const cannotReverse = may("reverse") && !isHome &&
    element("p", {class: "note"}, `Entries are reversed in the home region, ${session.home}: open the page of its service.`);
  let total = null, statement = null, reload = null;

  while (total === null) {
    try {
      total = await untilAnswered(signal, () => get(counterPath(counter), [["max_age", 0]], {signal}));
    } catch (error) {
      if (signal.aborted || error.status === 401) return;
      if (isOfCounter(error)) return showUncounted(error);
      main.replaceChildren(back(), heading, stateLine(error.message, {failed: true}));
      if (!error.fields?.retryable) return;
      await pause(RETRY_MS, signal);
    }
  }

  // The total of a book is 0 everywhere, at each time: it has balances instead.
  const regions = may("admin") && !ofBook ? regionsPanel(counter, signal) : null;
  const curve = ofBook ? null : curvePanel(counter, {signal, statement: () => statement});
  const balances = ofBook ? balancesPanel(counter, {signal}) : null;
  const entries = statementPanel(counter, {
    signal,
    ofBook,
    onReverse: may("reverse") && isHome ? reverse : null,
    onLoaded: (found) => {
      statement = found;
      take(found.total);
      curve?.load();
    },
    onFailed: reopened,
  });
  const write = may("write") && !ofBook && writePanel(counter, {onWritten: () => refresh()});
  const credit = may("write") && takesCredits(counter, session) && creditPanel(counter, {onWritten: () => refresh()});
  const summary = element("section", {class: "panel summary", "aria-label": ofBook ? "Book" : "Total"}, ofBook ? "" : value, details);
  main.replaceChildren(back(), heading,
    element("div", {class: "columns"}, summary, regions?.panel ?? "", credit || "", write || ""),
    ofBook ? "" : budgetPanel(counter, {session, signal}), balances?.panel ?? curve.panel, entries.panel, cannotReverse || "");

  function take(found) {
    total = found;
    const text = amountText(found.value);
    if (value.textContent !== "…" && value.textContent !== text) flash(value);
    if (value.textContent !== text) value.replaceChildren(breakable(text));
    curve?.take(found);
    describe();
  }

  function describe() {
    const age = Math.max(0, (Date.now() - Date.parse(total.as_of)) / 1000);
    const window = (Date.parse(total.ended) - Date.parse(total.as_of)) / 1000;
    details.replaceChildren(
      total.known ? "" : element("p", {class: "note"}, `${total.region} has no change of this counter. Check its id, or write its first change.`),
      facts([
        ["Region", total.region],
        ["As of", clockZoneText(total.as_of)],
        ["Unchanged for", durationText(Math.floor(age) || 1)],
        ["Read took", durationText(window)],
        ["Entries, not merged", total.entries.toLocaleString("en")],
        ["Entries, merged", total.merged.toLocaleString("en")],
        ["Added by pipelines", total.additions ? `${total.additions.toLocaleString("en")} times` : null],
      ]));
  }

  function refresh() {
    clearTimeout(reload);
    reload = setTimeout(() => {
      if (signal.aborted) return;
      entries.load();
      balances?.load();
      regions?.load();
    }, SETTLE_MS);
  }

  function reverse(entry) {
    confirmReversal(counter, entry, session, {onWritten: total === null ? asked.reopen : refresh});
  }

  // A total that can no longer be read, or can again, makes another view.
  function reopened(error) {
    if (isOfCounter(error)) asked.reopen();
    return isOfCounter(error);
  }

  function showUncounted(error) {
    const entries = statementPanel(counter, {signal, ofBook, onReverse: may("reverse") && isHome ? reverse : null, onLoaded: () => {}, isCounted: false});
    main.replaceChildren(back(), heading,
      element("section", {class: "panel", "aria-label": "Total"}, stateLine(error.message, {failed: true})),
      entries.panel, cannotReverse || "");
    entries.load();
    follow([counter], {signal, onTotal: asked.reopen});
  }

  take(total);
  entries.load();
  balances?.load();
  follow([counter], {signal, onBroken: asked.reopen, onTotal: (found) => {
    const isNew = found.value !== total.value || found.entries !== total.entries || found.merged !== total.merged;
    take(found);
    if (isNew) refresh();
  }});
  repeat(TICK_MS, signal, async () => describe());
}

const back = () => element("p", {class: "back"}, element("a", {href: "#/"}, "← Totals"));

function comparison(regions) {
  const read = regions.filter((each) => each.totals);
  if (new Set(read.map((each) => each.totals[0].value)).size > 1) return mark("warning", "differ: changes are on their way");
  if (read.length === regions.length) return mark("ok", "all the same");
  return mark("unknown", `not all read: ${read.length} of ${regions.length}`);
}

// What every region shows of the counter: they differ while replication is under way.
function regionsPanel(counter, signal) {
  const place = element("div", {}, stateLine("Reading every region…"));
  const panel = section("In every region", place);

  async function load() {
    try {
      const found = await get("/v1/fleet/totals", [["id", counter]], {signal});
      const rows = Object.entries(found.regions).flatMap(([region, shown]) => shown.failed
        ? [row([[region, "region"], [mark("unknown", "not read"), "number"], ""]), element("tr", {}, element("td", {colspan: 3, class: "note"}, message(shown.failed)))]
        : [row([[region, "region"], [breakable(amountText(shown.totals[0].value)), "number"], [clockText(shown.totals[0].as_of), "number note"]])]);
      place.replaceChildren(
        table("Total in every region", [["Region"], ["Total", true], [`Read, ${zoneText()}`, true]], rows),
        element("p", {}, comparison(Object.values(found.regions))));
    } catch (error) {
      // Without an answer the whole page says so; what was shown before stays.
      if (!signal.aborted && !(error instanceof NoAnswer)) place.replaceChildren(stateLine(error.message, {failed: true}));
    }
  }

  load();
  repeat(REGIONS_MS, signal, load);
  return {panel, load};
}
