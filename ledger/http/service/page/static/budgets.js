// Budgets: where the amount of each is, by region, in open grants, and on its way between regions.

import {add, isPositive, negated, shown as amountText, sum} from "./amounts.js";
import {NoAnswer, get, pause, repeat, untilAnswered} from "./api.js";
import {breakable, element, facts, mark, row, section, stateLine, table, userText} from "./dom.js";
import {clockText} from "./times.js";

const REFRESH_MS = 3000, TYPING_MS = 250, LIST_MS = 10000;
const READ_MAX = 300, READ_AT_ONCE = 100;
const WINDOW = "@";
const PARTS = [["charged", "Charged"], ["granted", "Granted"], ["free", "Free"]];
const STRANDED = ["stranded", "Stranded"];  // of what is granted, and of lost regions
const OF_REGION = [["free", "Free"], ["granted", "Granted"], ["charged", "Charged"], ["in_flight", "Incoming"], ["owed", "Owed"]];
const BAR = 1000;  // parts of a bar that is drawn

// Return the budgets of these counters; those that have none are left out.
async function read(counters, signal) {
  const budgets = [];
  for (let at = 0; at < counters.length; at += READ_AT_ONCE) {
    const found = await get("/v1/budgets", counters.slice(at, at + READ_AT_ONCE).map((counter) => ["id", counter]), {signal});
    budgets.push(...found.budgets);
  }
  return budgets;
}

// A counter may itself be a budget's, or that of a window of one.
const candidates = (counter) => counter.includes(WINDOW) ? [counter, counter.slice(0, counter.lastIndexOf(WINDOW))] : [counter];

// The panel of a counter that has a budget; without one it stays hidden.
export function budgetPanel(counter, {session, signal}) {
  const place = element("div");
  const panel = section("Budget", place);
  panel.hidden = true;

  async function load() {
    try {
      const budgets = await read(candidates(counter), signal);
      const found = budgets.find((one) => one.counter === counter) ?? budgets[0];
      panel.hidden = found === undefined;
      if (found) place.replaceChildren(...(found.counter === counter || found.budget === counter ? whole(found, counter) : [ended(found)]));
    } catch (error) {
      if (!signal.aborted && !(error instanceof NoAnswer) && !panel.hidden) place.replaceChildren(stateLine(error.message, {failed: true}));
    }
  }

  if (session.budgets.length) {
    load();
    repeat(REFRESH_MS, signal, load);
  }
  return panel;
}

const ended = (found) => element("p", {}, "A window of the budget ", link(found.budget), ". The one that runs is ", link(found.counter), ".");
const link = (counter) => element("a", {href: `#/counter/${encodeURIComponent(counter)}`}, userText(counter));

function whole(found, counter) {
  const lowered = found.target !== found.limit && element("p", {}, mark("warning", `the limit goes to ${amountText(found.target)}`));
  const window = found.counter !== counter && element("p", {}, "The window that runs is ", link(found.counter), ".");
  const over = found.grants.filter((one) => one.over).length;
  return [
    window || "", lowered || "", bar(found),
    element("div", {class: "columns"}, facts([["Limit", breakable(amountText(found.limit))], ...[...PARTS, STRANDED].map(([name, title]) => [title, breakable(amountText(found[name])), `key ${name}`]), ["Credited, not spendable yet", isPositive(found.waiting) ? breakable(amountText(found.waiting)) : null]]), byRegion(found.regions)),
    moves(found.in_flight),
    element("p", {class: "note"}, found.grants.length === 1 ? "1 open grant" : `${found.grants.length.toLocaleString("en")} open grants`,
      over ? `, of which ${over.toLocaleString("en")} past their time wait to be closed by their entries.` : ".",
      " What open grants were spent of is known once they are closed."),
  ];
}

// The parts of a limit as a bar. What is in none of them lies in a lost region. Shares are drawn alone: they need not be exact.
function bar(found) {
  const rest = add(found.limit, negated(sum(PARTS.map(([name]) => found[name]))));
  const parts = [...PARTS.map(([name, title]) => [name, title, found[name]]), ["lost", "In lost regions", rest]].filter(([, , amount]) => isPositive(amount));
  const all = sum(parts.map(([, , amount]) => amount));
  const drawn = parts.map(([name, title, amount]) => {
    const part = element("span", {class: name, title: `${title}: ${amountText(amount)}`});
    part.style.flexGrow = String(Math.ceil(BAR * Number(amount) / Number(all)));
    return part;
  });
  const text = parts.map(([, title, amount]) => `${title} ${amountText(amount)}`).join(", ");
  return element("div", {class: "shares", role: "img", "aria-label": text || "nothing"}, drawn);
}

function byRegion(regions) {
  const rows = regions.map((one) => row([
    [element("span", {}, one.region, one.lost && element("span", {}, " ", mark("problem", "lost"))), "region"],
    ...OF_REGION.map(([name]) => [breakable(amountText(one[name])), "number"]),
  ]));
  return table("By region", [["Region"], ...OF_REGION.map(([, title]) => [title, true])], rows);
}

function moves(found) {
  if (!found.length) return element("p", {class: "note"}, "Nothing is on its way between regions.");
  return element("ul", {class: "moves"}, found.map((one) => element("li", {}, `${one.giver} → ${one.taker}: `, breakable(amountText(one.amount)))));
}

export function budgetsView(main, {session, signal}) {
  const search = element("input", {
    type: "search", id: "search", autocomplete: "off", spellcheck: "false", maxlength: "1024", value: session.prefixes.includes("") ? "" : session.prefixes[0],
    placeholder: "Prefix, such as key/", input: () => typed(),
  });
  const status = element("p", {class: "note", role: "status"});
  const place = element("div", {}, stateLine("Reading budgets…"));
  main.replaceChildren(element("h1", {}, "Budgets"),
    element("form", {class: "toolbar", role: "search", submit: (event) => event.preventDefault()},
      element("label", {for: "search", class: "hidden"}, "Search budgets by prefix"), search),
    status, place);
  let typing = null;

  function typed() {
    typing?.abort();
    typing = new AbortController();
    const mine = AbortSignal.any([signal, typing.signal]);
    pause(TYPING_MS, mine).then(() => mine.aborted || load(mine));
  }

  async function load(asking = signal) {
    const prefix = search.value;
    try {
      const listed = await untilAnswered(asking, () => get("/v1/counters", [["prefix", prefix], ["limit", READ_MAX]], {signal: asking}));
      const names = [...new Set(listed.counters.flatMap((one) => candidates(one.counter)).filter((name) => name.startsWith(prefix)))];
      const budgets = await untilAnswered(asking, () => read(names, asking));
      if (!asking.aborted && prefix === search.value) render(budgets, listed.next !== null);
    } catch (error) {
      if (asking.aborted || error.status === 401) return;
      status.textContent = "";
      place.replaceChildren(stateLine(error.message, {failed: true}));
    }
  }

  function render(budgets, isCut) {
    status.textContent = `${budgets.length.toLocaleString("en")} ${budgets.length === 1 ? "budget" : "budgets"}${isCut ? ` among the first ${READ_MAX} counters; type more of the prefix to see others` : ""}, ` +
      `as ${session.region} shows them, read ${clockText(Date.now())}. Budgets that nothing was merged of are not in the index: open them by their counter's id.`;
    if (!budgets.length) return place.replaceChildren(stateLine("No budget is listed."));
    const rows = budgets.map((one) => row([
      [link(one.budget), "region"], [breakable(amountText(one.limit)), "number"],
      ...[...PARTS, STRANDED].map(([name]) => [breakable(amountText(one[name])), "number"]), [bar(one), "bar"],
    ]));
    place.replaceChildren(section("In each region", byRegion(summed(budgets))),
      section("Each", table("Budgets", [["Budget"], ["Limit", true], ...[...PARTS, STRANDED].map(([, title]) => [title, true]), ["Shares"]], rows)));
  }

  load();
  repeat(LIST_MS, signal, load);
}

// The sums of all budgets by region.
function summed(budgets) {
  const regions = new Map();
  for (const one of budgets.flatMap((budget) => budget.regions)) {
    const had = regions.get(one.region);
    regions.set(one.region, {
      region: one.region, lost: one.lost || Boolean(had?.lost),
      ...Object.fromEntries(OF_REGION.map(([name]) => [name, add(had?.[name] ?? "0", one[name])])),
    });
  }
  return [...regions.values()].sort((one, other) => one.region < other.region ? -1 : 1);
}
