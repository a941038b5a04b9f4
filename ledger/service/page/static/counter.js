// One counter: its total, live, as every region shows it; curve, statement, writing and reversing.

import {shown as amountText} from "./amounts.js";
import {NoAnswer, counterPath, follow, get, repeat, untilAnswered} from "./api.js";
import {curvePanel} from "./curve.js";
import {element, facts, mark, row, section, stateLine, table, userText} from "./dom.js";
import {statementPanel} from "./statement.js";
import {clockText, durationText} from "./times.js";
import {flash} from "./totals.js";
import {confirmReversal, writePanel} from "./writing.js";

const TICK_MS = 1000, REGIONS_MS = 3000, SETTLE_MS = 400;

export async function counterView(main, {session, argument: counter, signal}) {
  const may = (scope) => session.scopes.includes(scope);
  const isHome = session.region === session.home;
  const value = element("output", {class: "total", "aria-live": "polite", "aria-label": "Total"}, "…");
  const details = element("div");
  const heading = element("h1", {class: "counter-name"}, userText(counter));
  const regions = may("admin") ? regionsPanel(counter, signal) : null;
  let total = null, statement = null, reload = null;

  try {
    total = await untilAnswered(signal, () => get(counterPath(counter), [["max_age", 0]], {signal}));
  } catch (error) {
    if (!signal.aborted && error.status !== 401) {
      main.replaceChildren(back(), heading, stateLine(error.message, {failed: true}));
    }
    return;
  }

  const curve = curvePanel(counter, {signal, statement: () => statement});
  const entries = statementPanel(counter, {
    signal,
    onReverse: may("reverse") && isHome ? reverse : null,
    onLoaded: (found) => {
      statement = found;
      take(found.total);
      curve.load();
    },
  });
  const write = may("write") && writePanel(counter, {onWritten: () => refresh()});
  const cannotReverse = may("reverse") && !isHome &&
    element("p", {class: "note"}, `Entries are reversed in the home region, ${session.home}: open the page of its service.`);
  const summary = element("section", {class: "panel summary", "aria-label": "Total"}, value, details);
  main.replaceChildren(back(), heading,
    element("div", {class: "columns"}, summary, regions?.panel ?? "", write || ""),
    curve.panel, entries.panel, cannotReverse || "");

  function take(found) {
    total = found;
    const text = amountText(found.value);
    if (value.textContent !== "…" && value.textContent !== text) flash(value);
    value.textContent = text;
    curve.take(found);
    describe();
  }

  function describe() {
    const age = Math.max(0, (Date.now() - Date.parse(total.as_of)) / 1000);
    const window = (Date.parse(total.ended) - Date.parse(total.as_of)) / 1000;
    details.replaceChildren(
      total.known ? "" : element("p", {class: "note"}, `${total.region} has no change of this counter. Check its id, or write its first change.`),
      facts([
        ["Region", total.region],
        ["As of", clockText(total.as_of)],
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
      regions?.load();
    }, SETTLE_MS);
  }

  function reverse(entry) {
    confirmReversal(counter, entry, session, {onWritten: () => refresh()});
  }

  take(total);
  entries.load();
  follow([counter], (found) => {
    const isNew = found.value !== total.value || found.entries !== total.entries || found.merged !== total.merged;
    take(found);
    if (isNew) refresh();
  }, signal);
  repeat(TICK_MS, signal, async () => describe());
}

const back = () => element("p", {class: "back"}, element("a", {href: "#/"}, "← Totals"));

// What every region shows of the counter: they differ while replication is under way.
function regionsPanel(counter, signal) {
  const place = element("div", {}, stateLine("Reading every region…"));
  const panel = section("In every region", place);

  async function load() {
    try {
      const found = await get("/v1/fleet/totals", [["id", counter]], {signal});
      const values = Object.values(found.regions).map((each) => each.totals?.[0].value).filter((each) => each != null);
      const isSame = new Set(values).size <= 1;
      const rows = Object.entries(found.regions).map(([region, shown]) => shown.failed
        ? row([region, [mark("unknown", "not read"), "number"], [shown.failed, "note"]])
        : row([region, [amountText(shown.totals[0].value), "number"], [clockText(shown.totals[0].as_of), "number note"]]));
      place.replaceChildren(
        table("Total in every region", [["Region"], ["Total", true], ["Read", true]], rows),
        element("p", {}, isSame ? mark("ok", "all the same") : mark("warning", "differ: changes are on their way")));
    } catch (error) {
      // Without an answer the whole page says so; what was shown before stays.
      if (!signal.aborted && !(error instanceof NoAnswer)) place.replaceChildren(stateLine(error.message, {failed: true}));
    }
  }

  load();
  repeat(REGIONS_MS, signal, load);
  return {panel, load};
}
