// A counter's statement: opening balance, entries with the balance after each, closing balance.

import {shown as amountText} from "./amounts.js";
import {untilAnswered} from "./api.js";
import {legsList, metadataList} from "./books.js";
import {breakable, element, row, section, stateLine, table, userText} from "./dom.js";
import {ENTRIES_MAX, entriesOnly, mergedText, statementSince} from "./entries.js";
import {entryTimeText, zoneText} from "./times.js";

const ROWS = 50;
const DAY_MS = 24 * 3600e3;
const SPANS = [["24 hours", 1], ["7 days", 7], ["30 days", 30], ["a year", 365], ["all", null]];

// `onReverse` is asked to take an entry back; null where that cannot be done from here. Where the
// total cannot be read there are no balances, and all entries: `isCounted` is false. Of a book each
// line has what was moved.
export function statementPanel(counter, {signal, onReverse, onLoaded, onFailed = () => {}, isCounted = true, ofBook = false}) {
  const place = element("div", {}, stateLine("Loading entries…"));
  const choice = {days: isCounted ? 30 : null, newestFirst: true, page: 0};
  let found = null;
  const span = element("select", {id: "span", change: () => {
    choice.days = SPANS[span.selectedIndex][1];
    choice.page = 0;
    load();
  }}, SPANS.map(([name, days]) => element("option", {selected: days === choice.days}, name)));
  const order = element("select", {id: "order", change: () => {
    choice.newestFirst = order.selectedIndex === 0;
    choice.page = 0;
    render();
  }}, element("option", {}, "newest first"), element("option", {}, "oldest first"));
  const tools = element("div", {class: "toolbar"},
    element("label", {for: "span"}, "Last"), span, element("label", {for: "order"}, "Order"), order);
  const panel = section("Statement", tools, place);

  async function load() {
    const since = choice.days === null ? null : new Date(Date.now() - choice.days * DAY_MS).toISOString();
    try {
      found = await untilAnswered(signal, () => (isCounted ? statementSince : entriesOnly)(counter, since, {signal}));
    } catch (error) {
      if (!signal.aborted && !onFailed(error)) place.replaceChildren(stateLine(error.message, {failed: true}));
      return;
    }
    render();
    onLoaded(found);
  }

  function render() {
    if (found === null) return;
    const reversed = new Set(found.lines.map(({entry}) => entry.reverses).filter(Boolean));
    const ordered = choice.newestFirst ? found.lines.toReversed() : found.lines;
    const pages = Math.max(1, Math.ceil(ordered.length / ROWS));
    choice.page = Math.min(choice.page, pages - 1);
    const shown = ordered.slice(choice.page * ROWS, (choice.page + 1) * ROWS);
    const rows = shown.map((line) => lineRow(line, reversed.has(line.entry.id)));
    if (isCounted && !ofBook) addEdges(rows, pages);
    const amounts = ofBook ? [["Moved"]] : [["Change", true], ["Balance", true]];
    const columns = [[`Time, ${zoneText()}`], ...amounts, ["Note"], ["Region"], [""]];
    place.replaceChildren(table("Statement", columns, rows, "stacked"), pager(pages), notes());
  }

  function addEdges(rows, pages) {
    const opening = edgeRow("Opening balance", found.opening), closing = edgeRow("Closing balance", found.closing);
    const [top, end] = choice.newestFirst ? [closing, opening] : [opening, closing];
    if (choice.page === 0) rows.unshift(top);
    if (choice.page === pages - 1) rows.push(end);
  }

  function lineRow({entry, balance}, isReversed) {
    const details = [
      entry.note != null && userText(entry.note, {class: "entry-note"}),
      entry.reverses && element("span", {class: "tag"}, "reversal"),
      isReversed && element("span", {class: "tag"}, "reversed"),
      entry.count > 1 && element("span", {class: "tag"}, `${entry.count.toLocaleString("en")} combined`),
      entry.effective && element("span", {class: "tag"}, `effective ${entry.effective}`),
      entry.metadata && metadataList(entry.metadata),
    ];
    const mayReverse = onReverse && !isReversed && !entry.reverses;
    const button = mayReverse && element("button", {type: "button", class: "quiet", click: () => onReverse(entry)},
      "Reverse", element("span", {class: "hidden"}, ofBook ? " transfer" : ` ${amountText(entry.change, {signed: true})}`));
    const amounts = ofBook ? [[legsList(entry.legs ?? []), "moved"]] : [
      [breakable(amountText(entry.change, {signed: true})), entry.change.startsWith("-") ? "number down" : "number"],
      [isCounted ? breakable(amountText(balance)) : "\u2013", "number"],
    ];
    return row([
      [element("span", {title: entry.id}, entryTimeText(entry.id) ?? userText(entry.id)), "time"],
      ...amounts,
      [details.some(Boolean) ? element("div", {class: "details"}, details.filter(Boolean)) : "", "notes"],
      [entry.region ?? "", "note region"],
      [button || "", "action"],
    ], {"data-entry": entry.id});
  }

  const edgeRow = (name, value) => row([[name, "time"], "", [breakable(amountText(value)), "number"], "", "", ""], {class: "edge"});

  function pager(pages) {
    if (pages === 1) return "";
    const turn = (by) => () => {
      choice.page += by;
      render();
      panel.querySelector(".pager button:not(:disabled)")?.focus();
    };
    return element("div", {class: "toolbar pager"},
      element("button", {type: "button", disabled: choice.page === 0, click: turn(-1)}, "Previous"),
      element("span", {role: "status"}, `Page ${choice.page + 1} of ${pages}`),
      element("button", {type: "button", disabled: choice.page === pages - 1, click: turn(1)}, "Next"));
  }

  function notes() {
    const parts = ofBook ? ["Each transfer is shown with all that it moved."] : [isCounted
      ? "Balances are counted back from the total that was read with the entries."
      : "Without the total there are no balances."];
    if (found.older) parts.unshift(mergedText(found, ofBook));
    else if (found.lines.length === 0) parts.unshift("No entries in this time.");
    if (found.isCut) parts.push(`Only the last ${ENTRIES_MAX.toLocaleString("en")} entries are shown.`);
    if (choice.days === null && !found.older && found.total?.additions && !ofBook) {
      parts.push("The opening balance is what pipelines added.");
    }
    return element("p", {class: "note"}, parts.join(" "));
  }

  return {panel, load};
}
