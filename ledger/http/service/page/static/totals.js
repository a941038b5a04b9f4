// Totals: counters by prefix as a tree with sums, followed live while they are shown.

import {shown as amountText} from "./amounts.js";
import {follow, get, isOfCounter, pause, repeat, untilAnswered} from "./api.js";
import {align, breakable, element, mark, stateLine, table, userText} from "./dom.js";
import {clockText, clockZoneText, durationText, zoneText} from "./times.js";
import {groupsOf, rowsOf, shortName} from "./tree.js";

const PAGE = 1000, PAGES_MAX = 5;
const READ_MAX = 300;       // up to so many counters are read whole; of more the index is shown
const READ_AT_ONCE = 100;
const FOLLOWED_AT_ONCE = 50, STREAMS_MAX = 3;
const ROWS = 100;
const TYPING_MS = 250, REFRESH_MS = 15000, COMPARE_MS = 3000;
const UNLISTED = "Counters that were not merged yet are not listed: the compactor adds them after a while.";
const OPEN_MAX = 60;        // with more counters than this, groups are folded at first

export function totalsView(main, {session, signal}) {
  const state = {
    values: new Map(), listed: [], more: false, rows: ROWS, touched: new Set(),
    cells: new Map(), groupCells: new Map(), streams: null, asking: null, regions: [],
  };
  const search = element("input", {
    type: "search", id: "search", autocomplete: "off", spellcheck: "false", autofocus: true,
    placeholder: "Prefix, such as shop/", "aria-describedby": "search-note", input: () => typed(), maxlength: "1024",
  });
  search.value = session.prefixes.includes("") ? restored() : session.prefixes[0];
  const compare = session.scopes.includes("admin") && session.regions.length > 1 && element("button", {
    type: "button", "aria-pressed": "false", click: () => {
      state.regions = state.regions.length ? [] : session.regions;
      compare.setAttribute("aria-pressed", String(state.regions.length > 0));
      render();
    },
  }, "Compare regions");
  const openIt = element("button", {type: "submit"}, "Open by id");
  const count = element("p", {class: "note", role: "status"});
  const place = element("div", {class: "listing"});
  const form = element("form", {class: "toolbar", role: "search", submit: (event) => {
    event.preventDefault();
    if (search.value !== "") location.hash = `#/counter/${encodeURIComponent(search.value)}`;
  }}, element("label", {for: "search", class: "hidden"}, "Search counters by prefix"), search, openIt, compare || "");
  const note = element("p", {id: "search-note", class: "note"}, "Lists as you type; Enter opens the counter of exactly this id.",
    element("span", {class: "keys"}, " Press / to come back here."));
  main.replaceChildren(element("h1", {}, "Totals"), form, note, count, place);
  place.append(stateLine("Loading counters…"));

  let typing = null;
  function typed() {
    typing?.abort();
    typing = new AbortController();
    const mine = typing.signal;
    pause(TYPING_MS, mine).then(() => { if (!mine.aborted && !signal.aborted) load(); });
  }

  async function load({again = false} = {}) {
    state.asking?.abort();
    state.asking = new AbortController();
    const asking = AbortSignal.any([signal, state.asking.signal]);
    const prefix = search.value;
    sessionStorage.setItem("ledger-search", prefix);
    if (!again) {
      state.rows = ROWS;
      state.touched.clear();
    }
    try {
      const {listed, more} = await untilAnswered(asking, () => list(prefix, asking));
      if (!listed.length) {
        stopFollowing();
        state.listed = [];
        count.textContent = "";
        return place.replaceChildren(nothing(prefix));
      }
      Object.assign(state, {listed, more});
      for (const one of listed) {
        const known = state.values.get(one.counter);
        if (!known?.isRead) state.values.set(one.counter, {...one, isRead: one.exact, problem: known?.problem});
      }
      const isRead = (one) => state.values.get(one.counter).isRead;
      const isWanted = (one) => listed.length <= READ_MAX || state.values.get(one.counter).problem;
      const wanted = listed.filter((one) => !isRead(one) && isWanted(one)).map((one) => one.counter);
      await untilAnswered(asking, () => readAll(wanted, asking));
      render();
    } catch (error) {
      if (asking.aborted || error.status === 401) return;
      stopFollowing();
      count.textContent = "";
      place.replaceChildren(...failure(error, prefix));
    }
  }

  async function readAll(counters, asking) {
    for (let at = 0; at < counters.length; at += READ_AT_ONCE) await read(counters.slice(at, at + READ_AT_ONCE), asking);
  }

  // Read totals; where one cannot be read, halve until it is alone, so that the others are.
  async function read(counters, asking) {
    try {
      const found = await get("/v1/totals", counters.map((counter) => ["id", counter]), {signal: asking});
      for (const one of found.totals) take(one);
      for (const [counter, problem] of Object.entries(found.problems ?? {})) refuse(counter, problem);
    } catch (error) {
      if (!isOfCounter(error)) throw error;
      if (counters.length === 1) return refuse(counters[0], error.fields);
      const half = Math.ceil(counters.length / 2);
      await read(counters.slice(0, half), asking);
      await read(counters.slice(half), asking);
    }
  }

  function take(total) {
    state.values.set(total.counter, {value: total.value, as_of: total.as_of, isRead: true});
  }

  function refuse(counter, problem) {
    state.values.set(counter, {value: null, isRead: false, problem});
  }

  function nothing(prefix) {
    const text = prefix ? ["No counter in the index begins with ", userText(prefix), "."] : ["No counters yet."];
    const hint = session.scopes.includes("write")
      ? "To begin, enter an id above, such as shop/mugs, open it and write a change."
      : "Any counter can be opened by its id.";
    return element("div", {class: "state"}, element("p", {}, text), element("p", {class: "note"}, `${hint} ${UNLISTED}`));
  }

  // How many there are, and how old the index is that lists them.
  function summary() {
    const {listed, more} = state;
    const number = listed.length.toLocaleString("en");
    const many = more ? `the first ${number} counters; type more of the prefix to see others` : `${number} ${listed.length === 1 ? "counter" : "counters"}`;
    const newest = Math.max(...listed.filter((one) => !one.exact).map((one) => Date.parse(one.as_of)));
    const age = Number.isFinite(newest) && `The index is as of ${clockZoneText(newest)}, ${durationText(Math.max(0, Math.round((Date.now() - newest) / 1000)))} ago. `;
    const faint = listed.length > READ_MAX && " Faint values are from the index: merged changes only.";
    return [element("b", {}, many), element("span", {}, ". ", age || "", UNLISTED, faint || "")];
  }

  function failure(error, prefix) {
    if (error.status !== 409) return [stateLine(error.message, {failed: true})];
    const shown = [stateLine(session.index.length
      ? "The table's index does not cover this prefix. A counter can still be opened by its id."
      : "This table keeps no index, so its counters cannot be listed. Enter a counter's id to open it.")];
    const covered = session.index.filter((pattern) => pattern !== `${prefix}*`);
    if (covered.length) {
      const choose = (pattern) => element("button", {type: "button", class: "quiet", click: () => {
        search.value = pattern.split(/[*?[]/)[0];
        load();
      }}, userText(pattern));
      shown.push(element("p", {class: "toolbar"}, "Indexed: ", covered.slice(0, 20).map(choose)));
    }
    shown.push(element("p", {class: "note"}, error.message));
    return shown;
  }

  const isOpen = (path) => state.touched.has(path) !== (state.listed.length <= OPEN_MAX || search.value.startsWith(path));

  function render() {
    if (signal.aborted) return;
    const counters = state.listed.map(({counter}) => ({counter, value: state.values.get(counter).value}));
    const groups = groupsOf(counters);
    const rows = rowsOf(counters, groups, isOpen);
    const shown = rows.slice(0, state.rows);
    const focused = document.activeElement?.dataset?.path;
    state.cells.clear();
    state.groupCells.clear();
    const body = shown.map((each) => each.group ? groupRow(each, groups) : counterRow(each, groups));
    const columns = [["Counter"], ["Total", true], ...state.regions.map((region) => [region, true]), [`Read, ${zoneText()}`, true]];
    const listing = table("Totals by counter", columns, body);
    const rest = rows.length - shown.length;
    const further = rest > 0 && element("button", {type: "button", click: () => { state.rows += ROWS; render(); }},
      `Show ${Math.min(rest, ROWS).toLocaleString("en")} more of ${rest.toLocaleString("en")} rows`);
    place.replaceChildren(listing, ...(further ? [further] : []));
    if (focused !== undefined) [...place.querySelectorAll("[data-path]")].find((one) => one.dataset.path === focused)?.focus();
    align(listing);
    count.replaceChildren(...summary());
    followShown(shown);
    compareShown().catch(() => {});
  }

  function groupRow({group, depth}, groups) {
    const value = element("td", {class: "number"}, breakable(amountText(group.value)));
    state.groupCells.set(group.path, value);
    const button = element("button", {
      type: "button", class: "fold", "aria-expanded": String(isOpen(group.path)), "data-path": group.path,
      click: () => {
        if (!state.touched.delete(group.path)) state.touched.add(group.path);
        render();
      },
    }, userText(shortName(group.path, groups)));
    const name = element("td", {class: "name"}, button, element("span", {class: "note"}, ` ${group.count.toLocaleString("en")}`));
    name.style.setProperty("--depth", depth);
    return element("tr", {class: "group"}, name, value, state.regions.map(() => element("td")), element("td", {class: "note of"},
      group.unread ? `of those read, without ${group.unread.toLocaleString("en")}` : "of those listed"));
  }

  function counterRow({one, depth}, groups) {
    const link = element("a", {href: `#/counter/${encodeURIComponent(one.counter)}`, "data-path": one.counter},
      userText(shortName(one.counter, groups)));
    const name = element("td", {class: "name"}, link);
    name.style.setProperty("--depth", depth);
    const value = element("td", {class: "number"}), read = element("td", {class: "number note read"});
    const shown = state.regions.map((region) => element("td", {class: "number note", "data-region": region}, "…"));
    state.cells.set(one.counter, {value, read, shown});
    fill(one.counter);
    return element("tr", {}, name, value, shown, read);
  }

  function fill(counter) {
    const cell = state.cells.get(counter), known = state.values.get(counter);
    if (!cell) return;
    const {problem} = known;
    cell.value.title = problem?.detail ?? "";
    cell.value.classList.toggle("unread", Boolean(problem));
    if (problem) {
      cell.value.replaceChildren(mark("problem", "not read"), element("span", {class: "note"}, ` ${problem.title}`));
      cell.read.textContent = "";
      return;
    }
    const text = amountText(known.value);
    const isNew = cell.value.textContent !== "" && cell.value.textContent !== text;
    if (cell.value.textContent !== text) cell.value.replaceChildren(breakable(text));
    cell.value.classList.toggle("behind", !known.isRead);
    cell.read.textContent = clockText(known.as_of);
    if (isNew) flash(cell.value);
  }

  // What every region shows of the counters on the page; where they differ, changes are on their way.
  async function compareShown() {
    const counters = [...state.cells.keys()].filter((one) => !state.values.get(one).problem).slice(0, READ_AT_ONCE);
    if (!state.regions.length || !counters.length) return;
    const found = await get("/v1/fleet/totals", counters.map((counter) => ["id", counter]), {signal});
    for (const [place, region] of state.regions.entries()) {
      const totals = found.regions[region]?.totals;
      for (const [at, counter] of counters.entries()) {
        const cell = state.cells.get(counter)?.shown[place];
        if (!cell) continue;
        cell.replaceChildren(totals ? breakable(amountText(totals[at].value)) : "not read");
        cell.title = totals ? "" : found.regions[region]?.failed ?? "";
        const first = found.regions[state.regions[0]]?.totals?.[at].value;
        cell.classList.toggle("apart", Boolean(totals && first !== undefined && totals[at].value !== first));
      }
    }
    align(place);
  }

  function stopFollowing() {
    state.streams?.abort();
    state.streams = null;
    state.followed = "";
  }

  function followShown(shown) {
    const counters = shown.filter(({one}) => one && !state.values.get(one.counter).problem).map(({one}) => one.counter).slice(0, FOLLOWED_AT_ONCE * STREAMS_MAX);
    const asked = JSON.stringify(counters);
    if (asked === state.followed) return;
    stopFollowing();
    state.followed = asked;
    state.streams = new AbortController();
    const both = AbortSignal.any([signal, state.streams.signal]);
    for (let at = 0; at < counters.length; at += FOLLOWED_AT_ONCE) {
      const followed = counters.slice(at, at + FOLLOWED_AT_ONCE);
      follow(followed, {signal: both, onTotal: changed, onBroken: () => findBroken(followed)});
    }
  }

  // One of those followed cannot be read any more: find it, and follow the others.
  function findBroken(followed) {
    stopFollowing();
    read(followed, signal).then(render).catch(() => {});
  }

  function changed(total) {
    take(total);
    fill(total.counter);
    if (!state.summing) state.summing = requestAnimationFrame(() => {
      state.summing = null;
      const groups = groupsOf(state.listed.map(({counter}) => ({counter, value: state.values.get(counter).value})));
      for (const [path, cell] of state.groupCells) {
        const text = amountText(groups.get(path)?.value ?? "0");
        if (cell.textContent !== text) { cell.replaceChildren(breakable(text)); flash(cell); }
      }
      align(place);
    });
  }

  load();
  repeat(REFRESH_MS, signal, () => load({again: true}));
  repeat(COMPARE_MS, signal, compareShown);
}

const restored = () => sessionStorage.getItem("ledger-search") ?? "";

export function flash(cell) {
  cell.classList.remove("flash");
  void cell.offsetWidth;  // so that the animation begins again
  cell.classList.add("flash");
}

async function list(prefix, signal) {
  const listed = [];
  let after = null;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const found = await get("/v1/counters", [["prefix", prefix], ["after", after], ["limit", PAGE]], {signal});
    listed.push(...found.counters);
    after = found.next;
    if (after === null) break;
  }
  return {listed, more: after !== null};
}
