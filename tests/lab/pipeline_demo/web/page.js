"use strict";
// Asks for the totals once a second and shows them; texts are only ever set as text.
const EVERY_MS = 1000;

const at = (id) => document.getElementById(id);
const view = {state: null, curves: {}, chosen: ""};

function element(name, attributes = {}, text = "") {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== "") made.textContent = text;
  return made;
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

function showPace(state) {
  const history = state.history ?? [];
  at("pace").hidden = history.length < 2;
  if (history.length < 2) return;
  const points = history.slice(1).map(([seconds, count], place) => {
    const [before, counted] = history[place];
    return [seconds, (count - counted) / Math.max(1e-9, seconds - before)];
  });
  const seconds = (value) => `${value.toFixed(0)} s`;
  chart(at("history"), [{kind: "region-0", points: [[points[0][0], 0], ...points]}], {height: 140, xText: seconds});
}

function showCurve(state, regions) {
  const one = state.totals.find((row) => row.category === view.chosen);
  const curve = view.curves[view.chosen] ?? [];
  const colour = (place) => `region-${place % REGION_COLOURS}`;
  const lines = regions.map((name, place) => ({
    kind: colour(place),
    points: curve.filter(([, shown]) => shown[name] != null).map(([seconds, shown]) => [seconds, Number(shown[name])]),
  }));
  if (one && curve.length > 1) {
    const ends = [curve[0][0], curve[curve.length - 1][0]];
    lines.push({kind: "truth", points: ends.map((seconds) => [seconds, Number(one.truth)])});
  }
  at("chosen").textContent = view.chosen ? `${view.chosen} over time` : "Over time";
  at("legend").replaceChildren(...regions.map((name, place) => {
    const part = element("span", {class: colour(place)});
    const value = one?.regions[name] == null ? "not read" : grouped(one.regions[name]);
    part.append(element("i"), element("b", {}, `${name}: ${value}`));
    return part;
  }));
  chart(at("curve"), lines);
}

function rowOf(one, regions) {
  const row = element("tr", {class: one.category === view.chosen ? "chosen" : ""});
  const cell = element("td");
  const name = element("button", {}, one.category);
  name.onclick = () => choose(one.category);
  cell.append(name);
  row.append(cell, trendCell(one), element("td", {"data-name": "true"}, grouped(one.truth)));
  for (const region of regions) {
    const shown = one.regions[region];
    const behind = shown != null && shown !== one.truth;
    const attributes = {"data-name": region, ...(behind ? {class: "behind"} : {})};
    row.append(element("td", attributes, shown == null ? "not read" : grouped(shown)));
  }
  return row;
}

function trendCell(one) {
  const cell = element("td");
  const points = (view.curves[one.category] ?? []).map(([seconds, shown]) => [seconds, Number(Object.values(shown)[0])]);
  cell.append(spark(points.filter(([, value]) => !Number.isNaN(value))));
  return cell;
}

function showTable(state, regions) {
  const head = element("tr");
  for (const name of ["category", "over time", "true", ...regions]) head.append(element("th", {scope: "col"}, name));
  at("table").tHead.replaceChildren(head);
  at("table").tBodies[0].replaceChildren(...state.totals.map((one) => rowOf(one, regions)));
}

function show() {
  const state = view.state;
  document.title = state.title;
  at("title").textContent = state.title;
  at("phase").textContent = [state.phase, state.cut].filter(Boolean).join("; ");
  at("phase").className = state.exact == null ? "" : state.exact ? "exact" : "wrong";
  if (!view.chosen && state.totals.length) view.chosen = state.totals[0].category;
  const regions = regionsOf(state);
  showFacts(state);
  showPace(state);
  showTable(state, regions);
  showCurve(state, regions);
}

async function askFor(path) {
  const answer = await fetch(path);
  return answer.json();
}

async function askForCurves() {
  const names = view.state.totals.map((one) => `category=${encodeURIComponent(one.category)}`);
  Object.assign(view.curves, await askFor(`curves.json?${names.join("&")}`));
  Object.assign(view.curves, await askFor(`curves.json?category=${encodeURIComponent(view.chosen)}`));
}

async function choose(category) {
  view.chosen = category;
  Object.assign(view.curves, await askFor(`curves.json?category=${encodeURIComponent(category)}`));
  show();
}

async function tick() {
  try {
    const state = await askFor("totals.json");
    if (state.totals) {
      view.state = state;
      show();
      await askForCurves();
      show();
    }
  } catch {
    if (!at("phase").textContent.endsWith("(ended)")) at("phase").textContent += " (ended)";
  }
  setTimeout(tick, EVERY_MS);
}

tick();
