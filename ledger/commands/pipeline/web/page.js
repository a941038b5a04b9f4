"use strict";
// Asks for the totals once a second and draws them; texts are only ever set as text.
const EVERY_MS = 1000;
const WIDTH = 900;
const ROW = 16;
const GAP = 12;
const LABEL = 150;
const HEIGHT = 140;

const at = (id) => document.getElementById(id);

function element(name, attributes = {}, text = "") {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== "") made.textContent = text;
  return made;
}

function drawn(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== "") made.textContent = text;
  return made;
}

// Amounts are exact decimals as texts, each in one way: only the length of a bar may be rounded.
function grouped(amount) {
  const [, sign, whole, rest] = /^(-?)(\d+)(.*)$/.exec(amount);
  return sign + whole.replace(/\B(?=(\d{3})+$)/g, ",") + rest;
}

function regionsOf(state) {
  const names = new Set();
  for (const one of state.totals) for (const name of Object.keys(one.regions)) names.add(name);
  return [...names];
}

function showFacts(state) {
  const facts = [["in the totals", state.counted], ["sent", state.sent], ["of", state.messages],
    ["a second", state.per_second]];
  for (const [name, seconds] of Object.entries(state.latency ?? {})) {
    facts.push([`latency ${name}`, `${seconds.toFixed(2)} s`]);
  }
  at("facts").replaceChildren(...facts.filter(([, value]) => value != null).map(([name, value]) => {
    const pair = element("div");
    const shown = typeof value === "number" ? value.toLocaleString("en") : value;
    pair.append(element("dt", {}, name), element("dd", {}, shown));
    return pair;
  }));
}

function showLegend(state, regions) {
  const parts = regions.map((name, place) => {
    const part = element("span");
    part.append(element("i", {class: `region-${place}`}), name);
    return part;
  });
  if (state.totals.some((one) => one.truth != null)) {
    const part = element("span");
    part.append(element("i", {class: "truth"}), "true, of all that was sent");
    parts.push(part);
  }
  at("legend").replaceChildren(...parts);
}

function showBars(state, regions) {
  const values = state.totals.flatMap((one) => [one.truth, ...Object.values(one.regions)]);
  const most = Math.max(1e-9, ...values.filter((one) => one != null).map((one) => Math.abs(Number(one))));
  const middle = LABEL + (WIDTH - LABEL) / 2;
  const scale = (WIDTH - LABEL) / 2 / most;
  const each = regions.length * ROW + GAP;
  const svg = at("totals");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${Math.max(1, state.totals.length) * each}`);
  const bar = (amount, y, height, kind) => {
    const length = Number(amount) * scale;
    return drawn("rect", {x: Math.min(middle, middle + length), y, width: Math.abs(length), height, class: kind});
  };
  const shapes = [drawn("line", {x1: middle, x2: middle, y1: 0, y2: state.totals.length * each, class: "axis"})];
  state.totals.forEach((one, row) => {
    const top = row * each;
    shapes.push(drawn("text", {x: 0, y: top + (regions.length * ROW) / 2 + 4}, one.category));
    regions.forEach((name, place) => {
      if (one.regions[name] != null) {
        shapes.push(bar(one.regions[name], top + place * ROW + 2, ROW - 4, `region-${place}`));
      }
    });
    if (one.truth != null) shapes.push(bar(one.truth, top, regions.length * ROW, "truth"));
  });
  svg.replaceChildren(...shapes);
}

function showHistory(state) {
  const history = state.history ?? [];
  at("pace").hidden = history.length < 2;
  if (history.length < 2) return;
  const rates = history.slice(1).map(([seconds, count], place) => {
    const [before, counted] = history[place];
    return [seconds, (count - counted) / Math.max(1e-9, seconds - before)];
  });
  const first = history[0][0];
  const span = Math.max(1e-9, history[history.length - 1][0] - first);
  const most = Math.max(1, ...rates.map(([, rate]) => rate));
  const points = rates.map(([seconds, rate]) =>
    `${((seconds - first) / span) * WIDTH},${HEIGHT - (rate / most) * (HEIGHT - 20)}`);
  const svg = at("history");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.replaceChildren(
    drawn("line", {x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT, class: "axis"}),
    drawn("polyline", {points: points.join(" "), class: "line"}),
    drawn("text", {x: 4, y: 12}, `up to ${Math.round(most).toLocaleString("en")}`),
  );
}

function showTable(state, regions) {
  const head = element("tr");
  const hasTruth = state.totals.some((one) => one.truth != null);
  for (const name of ["category", ...(hasTruth ? ["true"] : []), ...regions]) {
    head.append(element("th", {}, name));
  }
  const rows = state.totals.map((one) => {
    const row = element("tr");
    row.append(element("td", {}, one.category));
    if (hasTruth) row.append(element("td", {}, grouped(one.truth)));
    for (const name of regions) {
      const shown = one.regions[name];
      const behind = hasTruth && shown != null && shown !== one.truth;
      row.append(element("td", behind ? {class: "behind"} : {}, shown == null ? "" : grouped(shown)));
    }
    return row;
  });
  at("table").tHead.replaceChildren(head);
  at("table").tBodies[0].replaceChildren(...rows);
}

function show(state) {
  document.title = state.title;
  at("title").textContent = state.title;
  at("phase").textContent = [state.phase, state.cut].filter(Boolean).join("; ");
  at("phase").className = state.exact == null ? "" : state.exact ? "exact" : "wrong";
  const regions = regionsOf(state);
  showFacts(state);
  showLegend(state, regions);
  showBars(state, regions);
  showHistory(state);
  showTable(state, regions);
}

async function tick() {
  try {
    const answer = await fetch("totals.json");
    const state = await answer.json();
    if (state.totals) show(state);
  } catch {
    if (!at("phase").textContent.endsWith("(ended)")) at("phase").textContent += " (ended)";
  }
  setTimeout(tick, EVERY_MS);
}

tick();
