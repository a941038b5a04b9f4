// Counters as a tree by the "/" in their ids. No elements and no requests here.

import {add} from "./amounts.js";

// Return the paths above a counter: of "a/b/c" these are "a/" and "a/b/".
export function pathsOf(counter) {
  const found = [];
  for (let at = counter.indexOf("/"); at >= 0 && at < counter.length - 1; at = counter.indexOf("/", at + 1)) {
    found.push(counter.slice(0, at + 1));
  }
  return found;
}

// Return the groups over counters, by path: how many are below each, what they sum up to, and how many
// are not in the sum, as they have no value.
export function groupsOf(counters) {
  const found = new Map();
  for (const {counter, value} of counters) {
    for (const path of pathsOf(counter)) {
      const group = found.get(path) ?? {path, count: 0, value: "0", unread: 0};
      group.count += 1;
      if (value === null) group.unread += 1;
      else group.value = add(group.value, value);
      found.set(path, group);
    }
  }
  return found;
}

// Return the rows that are shown: groups before what is below them, which is there if they are open.
// A path that leads to nothing but one further path is joined with it.
export function rowsOf(counters, groups, isOpen) {
  const rows = [], begun = new Set();
  for (const one of counters) {
    let depth = 0, isHidden = false;
    for (const path of pathsOf(one.counter)) {
      if (isHidden) break;
      if (groups.get(path).count === 1) continue;
      if (!begun.has(path)) {
        begun.add(path);
        rows.push({group: groups.get(path), depth});
      }
      isHidden = !isOpen(path);
      depth += 1;
    }
    if (!isHidden) rows.push({one, depth});
  }
  return rows;
}

// Return what a row is called under its parents: the rest of its name.
export function shortName(name, groups) {
  const above = pathsOf(name).filter((path) => path !== name && (groups.get(path)?.count ?? 0) > 1);
  return name.slice(above.at(-1)?.length ?? 0);
}
