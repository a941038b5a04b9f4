// A counter's entries from a time on, and the balances between them. No elements here.

import {add, negated, sum} from "./amounts.js";
import {counterPath, get} from "./api.js";

const PAGE = 1000;
export const ENTRIES_MAX = 5000;
const LOOKS_MAX = 3;

// Return the entries after a time (null: all), and a total that counts exactly these last ones.
//
// Balances are counted back from the total, so an entry that arrives between the two looks would
// shift them all. Entries are therefore read again until no further one comes.
export async function statementSince(counter, since, {signal}) {
  let entries = [], total = null, isCut = false;
  for (let look = 0; look < LOOKS_MAX; look += 1) {
    const found = await entriesSince(counter, since, signal);
    const isSame = total !== null && found.entries.length === entries.length;
    ({entries, isCut} = found);
    if (isSame) break;
    total = await get(counterPath(counter), [["max_age", 0]], {signal});
  }
  const lines = [];
  let balance = total.value;
  for (const entry of entries.toReversed()) {
    lines.push({entry, balance});
    balance = add(balance, negated(entry.change));
  }
  const older = isCut ? 0 : await mergedBefore(counter, since, total, itemsIn(entries), signal);
  return {lines: lines.reverse(), opening: balance, closing: total.value, total, isCut, older};
}

// Return the entries after a time without balances: those of a counter whose total cannot be read.
export async function entriesOnly(counter, since, {signal}) {
  const {entries, isCut} = await entriesSince(counter, since, signal);
  return {lines: entries.map((entry) => ({entry, balance: null})), total: null, isCut, older: 0};
}

// Return in how many items entries lie: some share one, which the total counts once.
const itemsIn = (entries) => new Set(entries.map(({id}) => id.replace(/(#[0-9a-f]{16})\.\d{3}$/, "$1"))).size;

// Return how many entries were merged and are not kept: those that the total counts and no list has.
async function mergedBefore(counter, since, total, listed, signal) {
  const unlisted = Math.min(total.merged, total.entries + total.merged - listed);
  if (unlisted <= 0 || since === null) return Math.max(0, unlisted);
  const kept = await get(counterPath(counter, "/entries"), [["before", since], ["limit", 1]], {signal});
  return kept.entries.length ? 0 : unlisted;
}

// Say what became of entries that are not in the list; "" where there are none.
export function mergedText({older, total}, ofBook = false) {
  if (older === 0) return "";
  if (ofBook) return `Of ${older.toLocaleString("en")} older transfers only the balances are kept.`;
  const [what, whose] = older === 1 ? ["older entry is", "its change"] : ["older entries are", "their sum"];
  const more = total.additions ? ", with what pipelines added," : "";
  return `${older.toLocaleString("en")} ${what} merged: ${whose}${more} is the opening balance; single entries are no longer kept.`;
}

// Read a page at a time; of more than ENTRIES_MAX the oldest are left out, since balances count back.
async function entriesSince(counter, since, signal) {
  let entries = [], after = since, isCut = false;
  do {
    const page = await get(counterPath(counter, "/entries"), [["after", after], ["limit", PAGE]], {signal});
    entries = entries.concat(page.entries);
    if (entries.length > ENTRIES_MAX) {
      entries = entries.slice(-ENTRIES_MAX);
      isCut = true;
    }
    after = page.next;
  } while (after !== null);
  return {entries, isCut};
}

// Return sums by hour or day of these lines, as `/periods` gives them.
export function periodsOf(statement, by, timeOf) {
  const found = new Map();
  for (const {entry} of statement.lines) {
    const time = timeOf(entry.id);
    if (time === null) continue;
    const start = new Date(time);
    if (by === "day") start.setHours(0);
    start.setMinutes(0, 0, 0);
    const key = start.getTime();
    found.set(key, [...(found.get(key) ?? []), entry.change]);
  }
  const periods = [...found].sort(([one], [other]) => one - other).map(([start, changes]) => {
    const end = new Date(start);
    if (by === "day") end.setDate(end.getDate() + 1);
    else end.setHours(end.getHours() + 1);
    return {start: new Date(start).toISOString(), end: end.toISOString(), value: sum(changes)};
  });
  return {opening: statement.opening, periods};
}
