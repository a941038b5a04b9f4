// The curve of a counter by hour or day: from the sums that the table keeps, or else its entries. What
// pipelines add is in neither, so it is drawn as the page has seen it.

import {add, shown as amountText} from "./amounts.js";
import {counterPath, get, untilAnswered} from "./api.js";
import {drawChart} from "./chart.js";
import {element, section, stateLine} from "./dom.js";
import {mergedText, periodsOf} from "./entries.js";
import {clockText, entryTimeText, fullText, timeOf, zoneText} from "./times.js";

const HOUR_MS = 3600e3, DAY_MS = 24 * HOUR_MS;
const KINDS = [["hour", "By hour"], ["day", "By day"], ["entry", "Each entry"], ["live", "Live"]];
const PERIODS_MIN = 3;      // of fewer, the entries themselves tell more
const SEEN_MAX = 500;       // points of the live curve: once it has them, the older half is thinned
const SPANS = {hour: 72 * HOUR_MS, day: 62 * DAY_MS};

// `statement` gives the statement that is shown, where the table keeps no sums.
export function curvePanel(counter, {signal, statement}) {
  const place = element("div", {class: "chart"});
  const note = element("p", {class: "note"});
  const choice = {by: "hour", isChosen: false};
  const buttons = KINDS.map(([by, name]) => element("button", {type: "button", "data-by": by, click: () => {
    choice.isChosen = true;
    choose(by);
    load();
  }}, name));
  const panel = section("Over time", element("div", {class: "toolbar", role: "group", "aria-label": "Period"}, buttons), place, note);
  let found = null, seen = [];
  choose("hour");

  function choose(by) {
    choice.by = by;
    for (const each of buttons) each.setAttribute("aria-pressed", String(each.dataset.by === by));
  }

  // Note a total as it was read.
  function take(total) {
    const x = Date.parse(total.as_of), text = amountText(total.value);
    if (x < (seen.at(-1)?.x ?? 0)) return;
    seen.push({x, y: Number(total.value), text, label: `${clockText(total.as_of)}: ${text}`});
    if (seen.length > SEEN_MAX) seen = seen.filter((_, place) => place % 2 === 0 || place > SEEN_MAX / 2);
    if (choice.by === "live") drawSeen();
    else if (!choice.isChosen && total.additions > 0 && total.entries + total.merged === 0) {
      choose("live");
      load();
    }
  }

  async function load() {
    const by = choice.by;
    if (by === "live") {
      note.textContent = "The total as this page has read it, since it was opened.";
      return drawSeen();
    }
    if (by === "entry") {
      note.textContent = "The balance after each entry of the statement below.";
      return drawEntries();
    }
    const since = new Date(Date.now() - SPANS[by]).toISOString();
    try {
      const query = [["by", by], ["since", since]];
      found = await untilAnswered(signal, () => get(counterPath(counter, "/periods"), query, {signal}));
      note.textContent = `Sums by ${by} of ${found.zone}, as the table keeps them: they contain merged entries. Times are ${zoneText()}.`;
    } catch (error) {
      if (signal.aborted) return;
      if (error.status !== 400) return place.replaceChildren(stateLine(error.message, {failed: true}));
      const known = statement();
      if (known === null) return;
      found = periodsOf(known, by, timeOf);
      note.textContent = `The table keeps no sums by ${by} of this counter: drawn from the entries of the statement below.`;
    }
    if (by !== choice.by) return;
    const isSparse = withoutLeadingZeros(found.periods).length < PERIODS_MIN;
    if (!choice.isChosen && isSparse && (statement()?.lines.length ?? 0) > 1) {
      choose("entry");
      return load();
    }
    draw();
  }

  function drawSeen() {
    const last = seen.at(-1);
    if (!last) return;
    const points = [...seen, {...last, x: Math.max(Date.now(), last.x)}];
    drawChart(place, {points, label: `Total since the page was opened, now ${last.text}`});
  }

  function drawEntries() {
    const known = statement();
    if (known === null) return;
    const lines = known.lines.filter(({entry}) => timeOf(entry.id) !== null);
    if (lines.length === 0) return place.replaceChildren(stateLine(mergedText(known) || "No entries in this time."));
    const points = lines.map(({entry, balance}) => ({
      x: timeOf(entry.id), y: Number(balance),
      label: `${entryTimeText(entry.id)}: ${amountText(entry.change, {signed: true})}, then ${amountText(balance)}`,
    }));
    points.unshift({x: points[0].x, y: Number(known.opening), label: `before: ${amountText(known.opening)}`});
    drawChart(place, {points, label: `Balance after each of ${lines.length} entries, up to ${amountText(known.closing)}`});
  }

  function draw() {
    const periods = withoutLeadingZeros(found.periods);
    if (periods.length === 0) return place.replaceChildren(stateLine("No changes in this time."));
    let balance = found.opening;
    const points = [{x: Date.parse(periods[0].start), y: Number(balance), label: `${fullText(periods[0].start)}: ${amountText(balance)}`}];
    const bars = periods.map((one) => {
      balance = add(balance, one.value);
      const end = Math.min(Date.parse(one.end), Math.max(Date.now(), Date.parse(one.start) + 1));
      points.push({x: Date.parse(one.start), y: Number(balance), label: `by ${fullText(end)}: ${amountText(balance)}`});
      return {from: Date.parse(one.start), to: end, y: Number(one.value),
        label: `${fullText(one.start)}: ${amountText(one.value, {signed: true})}`};
    });
    drawChart(place, {
      points, bars,
      label: `Balance and changes by ${choice.by}, from ${amountText(found.opening)} to ${amountText(balance)}`,
    });
  }

  const drawn = {entry: drawEntries, live: drawSeen};
  const resized = new ResizeObserver(() => drawn[choice.by] ? drawn[choice.by]() : found && draw());
  resized.observe(panel);
  signal.addEventListener("abort", () => resized.disconnect(), {once: true});
  return {panel, load, take};
}

function withoutLeadingZeros(periods) {
  const first = periods.findIndex((one) => Number(one.value) !== 0);
  return first < 0 ? [] : periods.slice(Math.max(0, first - 1));
}
