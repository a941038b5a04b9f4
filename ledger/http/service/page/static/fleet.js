// The fleet: regions, lag per pair, leaders, backlog with its trend, hot counters, errors.

import {NoAnswer, get, post, repeat, tell} from "./api.js";
import {drawChart} from "./chart.js";
import {element, facts, mark, message, row, section, stateLine, table, userText} from "./dom.js";
import {clockText, clockZoneText, durationText, fullText, zoneText} from "./times.js";

const REFRESH_MS = 10000;
const LAG_USUAL = 5;
const SLICES = 64;
const HOT_FROM = 1;  // changes a second
const DURATIONS = new Set(["settle", "retry_horizon", "signature_lifetime", "clock_skew", "observation_delay", "read_deadline", "contract_life"]);
const WRONG = new Set(["problem", "warning", "unknown"]);

export async function fleetView(main, {session, signal}) {
  if (!session.scopes.includes("admin")) {
    main.replaceChildren(element("h1", {}, "Fleet"), stateLine("This needs a token with the scope admin.", {failed: true}));
    return;
  }
  let found = null;
  const place = element("div", {class: "fleet"}, stateLine("Reading every region…"));
  const status = element("p", {class: "note", role: "status"});
  main.replaceChildren(element("h1", {}, "Fleet"), status, place);

  async function load() {
    try {
      take(await get("/v1/fleet", [], {signal}));
    } catch (error) {
      if (signal.aborted || error.status === 401) return;
      if (error instanceof NoAnswer) return;
      if (found === null) place.replaceChildren(stateLine(error.message, {failed: true}));
      else status.textContent = `Not read again: ${error.message}. Shown as of ${clockZoneText(found.at)}.`;
    }
  }

  function take(answer) {
    found = answer;
    tell(found.regions.some((one) => one.region === found.region && one.table.failed) ? "failing" : "online");
    status.textContent = `Table ${found.table}, as of ${clockZoneText(found.at)}, by this machine. A look holds for 10 seconds.`;
    render();
  }

  function render() {
    const measuring = place.querySelector("#measure")?.disabled;
    const chart = element("div", {class: "chart"});
    place.replaceChildren(
      errors(found), regions(found), lags(found, measure), leaders(found), merging(found, chart),
      hot(found), requests(found), contract(found));
    if (measuring) place.querySelector("#measure").disabled = true;
    drawTrend(chart, found.trend);
  }

  async function measure(event) {
    event.target.disabled = true;
    event.target.textContent = "Measuring…";
    try {
      const answer = await post("/v1/fleet/probe", {});
      if (!signal.aborted) take(answer);
      place.querySelector("#measure").disabled = false;
      place.querySelector("#measure").focus();
    } catch (error) {
      event.target.replaceWith(stateLine(error.message, {failed: true}));
    }
  }

  await load();
  repeat(REFRESH_MS, signal, load);
  const resized = new ResizeObserver(() => found && drawTrend(place.querySelector(".chart"), found.trend));
  resized.observe(place);
  signal.addEventListener("abort", () => resized.disconnect(), {once: true});
}

function errors(found) {
  const wrong = found.findings.filter((one) => WRONG.has(one.state));
  const order = ["problem", "warning", "unknown"];
  wrong.sort((one, other) => order.indexOf(one.state) - order.indexOf(other.state));
  const rows = wrong.map((one) => row([
    mark(one.state), one.check, [one.region || "all", "region"],
    [element("div", {}, element("div", {}, message(one.what)), one.do && element("div", {class: "note"}, message(adviceOf(one)))), "text"],
  ]));
  const good = found.findings.length - wrong.length;
  const summary = element("p", {}, mark("ok", `${good} checks passed`));
  return element("section", {class: "panel wide"}, element("h2", {}, "Findings"),
    rows.length ? table("Findings", [["State"], ["Check"], ["Region"], ["What, and what to do"]], rows, "stacked") : "", summary);
}

// The doctor's advice is for its command line; here a button does the same.
function adviceOf(one) {
  return one.check === "lag" && one.state === "unknown" ? "Use \u201cMeasure every pair\u201d below." : one.do;
}

function regions(found) {
  const leases = found.compactor.regions ?? {};
  const rows = found.regions.map((one) => row([
    element("span", {}, one.region, one.home && element("span", {class: "tag"}, "home"), one.region === found.region && element("span", {class: "tag"}, "here")),
    one.table.failed ? [element("span", {}, mark("problem", "not read"), " ", message(one.table.failed)), "text"] : mark(one.table.status === "ACTIVE" ? "ok" : "warning", one.table.status.toLowerCase()),
    clockOffset(one.clock),
    [one.contract?.failed ? mark("problem", "not read") : one.contract ? `${one.contract.revision}${one.contract.pending ? ", pending" : ""}` : "none", "number"],
    leases[one.region]?.error ? mark("unknown", "not read") : userText(leases[one.region]?.leader ?? "none"),
    [Object.values(one.throttled).reduce((all, each) => all + each, 0).toLocaleString("en"), "number"],
  ]));
  const columns = [["Region"], ["Table"], ["This clock is", true], ["Contract", true], ["Leader shown"], ["Throttled", true]];
  return element("section", {class: "panel wide"}, element("h2", {}, "Regions"), table("Regions", columns, rows));
}

function clockOffset(clock) {
  if (!clock) return [mark("unknown", "not known"), "number"];
  const state = Math.abs(clock.seconds) > clock.skew_max && (clock.least > clock.skew_max || clock.most < -clock.skew_max) ? "problem" : "ok";
  const where = clock.least <= 0 && clock.most >= 0 ? "right" : clock.seconds > 0 ? "ahead" : "behind";
  const title = `between ${clock.least.toFixed(2)} and ${clock.most.toFixed(2)} s; allowed: ${clock.skew_max} s`;
  const exact = `±${Math.max(Math.abs(clock.least), Math.abs(clock.most)).toFixed(2)} s`;
  return [element("span", {title}, mark(state, where === "right" ? exact : `${Math.abs(clock.seconds).toFixed(2)} s ${where}`)), "number"];
}

function lags(found, measure) {
  const names = found.regions.map((one) => one.region);
  const of = (source, target) => found.lags.find((one) => one.source === source && one.target === target);
  const rows = names.map((source) => element("tr", {}, element("th", {scope: "row"}, source), names.map((target) => {
    if (source === target) return element("td", {class: "number note"}, "–");
    const one = of(source, target);
    if (!one) return element("td", {class: "number note"}, "not measured");
    if (one.failed) return element("td", {class: "number", title: one.failed}, mark("unknown", "failed"));
    if (one.seconds === null) return element("td", {class: "number"}, mark("problem", "over 5 s"));
    return element("td", {class: "number"}, one.seconds > LAG_USUAL ? mark("warning", durationText(one.seconds)) : durationText(one.seconds));
  })));
  const when = found.lags_at ? `Measured at ${clockZoneText(found.lags_at)} by an item in each region.` : "From the home region, as the compactor's last pass measured it.";
  return section("Replication lag",
    table("Replication lag, from row to column", [["From \\ to"], ...names.map((name) => [name, true])], rows),
    element("div", {class: "toolbar"}, element("button", {type: "button", id: "measure", click: measure}, "Measure every pair"),
      element("span", {class: "note"}, `${when} Measuring writes an item in each region and deletes it.`)));
}

function leaders(found) {
  if (found.compactor.failed) return section("Leaders", stateLine(found.compactor.failed, {failed: true}));
  const led = Object.entries(found.compactor.led);
  const rows = led.map(([owner, slices]) => row([
    owner ? userText(owner) : mark("warning", "no leader"),
    [element("meter", {min: 0, max: SLICES, value: slices, "aria-label": `${slices} of ${SLICES} slices`}), "bar"],
    [`${slices} of ${SLICES}`, "number"],
  ]));
  const passes = found.compactor.passes.map((one) => row([
    userText(one.owner ?? one.member),
    one.error ? [element("span", {}, mark("unknown", "not read"), " ", message(one.error)), "text"] : mark(one.outcome === "done" ? "ok" : one.outcome === "partial" ? "warning" : "problem", one.outcome),
    [one.error ? "" : `${durationText(one.age_seconds)} ago`, "number"],
    [one.error ? "" : one.report.merged.toLocaleString("en"), "number"],
    [one.error ? "" : one.report.deleted.toLocaleString("en"), "number"],
  ]));
  return section("Leaders and passes",
    rows.length ? table("Leaders", [["Process"], ["Share"], ["Slices", true]], rows) : stateLine("No compactor leads."),
    passes.length ? table("Passes", [["Process"], ["Last pass"], ["Ended", true], ["Merged", true], ["Deleted", true]], passes) : stateLine("No pass is recorded."));
}

function merging(found, chart) {
  const one = found.merging;
  if (one.failed) return section("Backlog", stateLine(one.failed, {failed: true}));
  const last = found.trend.at(-1);
  return section("Backlog", facts([
    ["Entries to merge", last ? last.backlog.toLocaleString("en") : "not known"],
    ["Trend", one.has_passes ? one.falls_behind ? mark("problem", "falls behind") : mark("ok", "keeps up") : mark("unknown", "no pass")],
    ["Late by", durationText(one.late_seconds)],
    ["Oldest at the last search", one.search_oldest ? `${fullText(one.search_oldest)} ${zoneText(one.search_oldest)}` : "none"],
    ["Last success", one.success_age === null ? "never" : `${durationText(one.success_age)} ago`],
    ["Waits for", one.waits ? userText(one.waits) : null],
    ["Damage", one.damage ? userText(one.damage) : null],
  ]), chart);
}

function drawTrend(place, trend) {
  if (!place) return;
  if (trend.length < 2) {
    place.replaceChildren(element("p", {class: "note"}, "The trend is drawn from the second pass on that this instance sees."));
    return;
  }
  const points = trend.map((one) => ({x: Date.parse(one.at), y: one.backlog, label: `${clockText(one.at)}: ${one.backlog.toLocaleString("en")}`}));
  drawChart(place, {points, label: "Entries to merge when each pass began", height: 150, fromZero: true, whole: true});
}

function hot(found) {
  if (found.hot.failed) return section("Hot counters", stateLine(found.hot.failed, {failed: true}));
  const rows = found.hot.counters.filter((one) => one.rate >= HOT_FROM).map((one) => row([
    element("a", {href: `#/counter/${encodeURIComponent(one.counter)}`}, userText(one.counter)),
    [one.rate.toFixed(1), "number"], [one.units.toFixed(0), "number"], [String(one.shards), "number"],
  ]));
  return section("Hot counters", element("p", {class: "note"}, `With ${HOT_FROM} change a second or more.`), rows.length
    ? table("Hot counters", [["Counter"], ["Changes/s", true], ["Units/s", true], ["Shards", true]], rows)
    : stateLine(`None among ${found.hot.looked_at} collections that the newest hints name.`));
}

function requests(found) {
  const rows = Object.entries(found.requests).map(([status, count]) => row([
    status.startsWith("5") ? mark("problem", status) : status.startsWith("4") ? mark("warning", status) : mark("ok", status),
    [count.toLocaleString("en"), "number"],
  ]));
  return section("Requests of this instance", table("Requests by status", [["Status"], ["Since its start", true]], rows));
}

function contract(found) {
  const one = found.contract;
  if (one === null) return section("Contract", stateLine("The table has no contract.", {failed: true}));
  if (one.failed) return section("Contract", stateLine(one.failed, {failed: true}));
  const text = (value) => Array.isArray(value) ? value.join(", ") : typeof value === "object" && value !== null ? Object.keys(value).join(", ") : String(value ?? "");
  const terms = Object.entries(one.terms).filter(([, value]) => text(value) !== "");
  return section("Contract", facts([
    ["Revision", element("span", {}, String(one.revision), " ", mark(one.pending ? "warning" : "ok", one.pending ? "pending" : "in force"))],
    ...terms.map(([name, value]) => [name.replaceAll("_", " "), DURATIONS.has(name) ? durationText(value) : userText(text(value))]),
  ]));
}
