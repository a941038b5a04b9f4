"use strict";
// Asks for the totals once a second and shows them as a tree; texts are only ever set as text.
const EVERY_MS = 1000;
const ROWS = 60;
const FOLDED_OVER = 40;

const at = (id) => document.getElementById(id);
const view = {state: null, curves: {}, chosen: "", search: "", open: null, rows: ROWS};

function element(name, attributes = {}, text = "") {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== "") made.textContent = text;
  return made;
}

function regionsOf(state) {
  const names = new Set(state.names ?? []);
  for (const one of state.totals) for (const name of Object.keys(one.regions)) names.add(name);
  return [...names];
}

// kind/* is all that begins so, in any place * is any text; without * a part of the name is enough.
function matcher(search) {
  const text = search.trim().toLowerCase();
  if (!text.includes("*")) return (name) => name.toLowerCase().includes(text);
  const parts = text.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  const pattern = new RegExp(`^${parts.join(".*")}$`);
  return (name) => pattern.test(name.toLowerCase());
}

// Every sum stands before what lies below it; one that is folded hides that, unless it is searched.
function rowsShown(state) {
  const sums = state.sums ?? [];
  if (view.open === null) {
    view.open = new Set(state.totals.length > FOLDED_OVER ? [] : sums.map((one) => one.category));
  }
  const key = (one) => one.category.replaceAll("/", "\u0001");
  const all = [...state.totals, ...sums].map((one) => [key(one), one]);
  all.sort(([one], [other]) => (one < other ? -1 : 1));
  const rows = all.map(([, one]) => one);
  const known = new Set(sums.map((one) => one.category));
  const above = (name) => pathsOf(name).filter((path) => known.has(path) && path !== name);
  if (view.search) return rows.filter((one) => matcher(view.search)(one.category)).map((one) => [one, 0]);
  const shown = rows.filter((one) => above(one.category).every((path) => view.open.has(path)));
  return shown.map((one) => [one, above(one.category).length]);
}

function pathsOf(name) {
  const found = [];
  for (let place = name.indexOf("/"); place >= 0; place = name.indexOf("/", place + 1)) {
    found.push(name.slice(0, place + 1));
  }
  return found;
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
  const one = [...state.totals, ...(state.sums ?? [])].find((row) => row.category === view.chosen);
  const curve = view.curves[view.chosen] ?? [];
  const colour = (place) => `region-${place % REGION_COLOURS}`;
  const lines = regions.map((name, place) => ({
    kind: colour(place),
    points: curve.filter(([, shown]) => shown[name] != null).map(([seconds, shown]) => [seconds, Number(shown[name])]),
  }));
  if (one?.truth != null && curve.length > 1) {
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

function nameCell(one, depth) {
  const cell = element("td");
  cell.style.paddingLeft = `${0.2 + depth * 1.2}rem`;
  const fold = element(one.below ? "button" : "span", {class: "fold"});
  if (one.below) {
    fold.textContent = view.open.has(one.category) ? "▾" : "▸";
    fold.setAttribute("aria-label", `fold ${one.category}`);
    fold.onclick = () => {
      if (!view.open.delete(one.category)) view.open.add(one.category);
      show();
    };
  }
  const name = element("button", {}, one.category);
  name.onclick = () => choose(one.category);
  cell.append(fold, name);
  if (one.below) cell.append(element("small", {}, `sum of ${one.below.toLocaleString("en")}`));
  if (one.unknown) {
    const near = one.near ? `: did you mean ${one.near}?` : ": misspelt?";
    cell.append(element("small", {}, `no entry in any region${near}`));
  }
  return cell;
}

function rowOf(one, depth, regions, hasTruth) {
  const kinds = [one.below && "sum", one.unknown && "unknown", one.category === view.chosen && "chosen"];
  const row = element("tr", {class: kinds.filter(Boolean).join(" ")});
  row.append(nameCell(one, depth), trendCell(one));
  if (hasTruth) row.append(element("td", {"data-name": "true"}, one.truth == null ? "" : grouped(one.truth)));
  for (const name of regions) {
    const shown = one.regions[name];
    const behind = one.truth != null && shown != null && shown !== one.truth;
    const cell = element("td", {"data-name": name}, one.unknown ? "-" : shown == null ? "not read" : grouped(shown));
    const isApart = one.truth == null && shown != null && shown !== one.regions[regions[0]];
    if (behind || isApart) cell.className = behind ? "behind" : "apart";
    row.append(cell);
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
  const hasTruth = state.totals.some((one) => one.truth != null);
  const head = element("tr");
  for (const name of ["category", "over time", ...(hasTruth ? ["true"] : []), ...regions]) {
    head.append(element("th", {scope: "col"}, name));
  }
  const rows = rowsShown(state);
  const shown = rows.slice(0, view.rows);
  at("table").tHead.replaceChildren(head);
  at("table").tBodies[0].replaceChildren(...shown.map(([one, depth]) => rowOf(one, depth, regions, hasTruth)));
  const sums = state.sums ?? [];
  at("unfold").hidden = sums.length === 0;
  at("unfold").textContent = sums.every((one) => view.open.has(one.category)) ? "fold all" : "unfold all";
  at("more").hidden = rows.length <= view.rows;
  at("more").textContent = `${(rows.length - shown.length).toLocaleString("en")} more rows`;
  const categories = state.totals.length.toLocaleString("en");
  const found = view.search && rows.length === 0 ? `no category matches ${view.search.trim()}` : `${rows.length.toLocaleString("en")} rows`;
  at("count").textContent = `${categories} categories, ${found}`;
}

function show() {
  const state = view.state;
  document.title = state.title;
  at("title").textContent = state.title;
  at("phase").textContent = [state.phase, state.cut].filter(Boolean).join("; ");
  at("phase").className = state.exact == null ? "" : state.exact ? "exact" : "wrong";
  if (!view.chosen && state.totals.length) view.chosen = (state.sums?.[0] ?? state.totals[0]).category;
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
  const names = rowsShown(view.state).slice(0, view.rows).map(([one]) => one.category);
  const query = (list) => list.map((name) => `category=${encodeURIComponent(name)}`).join("&");
  const lists = [];
  for (let place = 0; place < names.length; place += ROWS) lists.push(names.slice(place, place + ROWS));
  for (const list of [...lists, [view.chosen]]) {
    Object.assign(view.curves, await askFor(`curves.json?${query(list)}`));
  }
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

function searched() {
  view.search = at("search").value;
  view.rows = ROWS;
  history.replaceState(null, "", `#${encodeURIComponent(view.search)}`);
  if (view.state) show();
}

at("search").oninput = searched;
at("bar").onsubmit = (event) => event.preventDefault();
at("more").onclick = () => {
  view.rows += 5 * ROWS;
  show();
};
at("unfold").onclick = () => {
  const all = (view.state?.sums ?? []).map((one) => one.category);
  const isOpen = all.every((name) => view.open.has(name));
  view.open = new Set(isOpen ? [] : all);
  if (view.state) show();
};
at("search").value = view.search = decodeURIComponent(location.hash.slice(1));
tick();
