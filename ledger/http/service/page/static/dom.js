// Elements of the page. Text from the table becomes text nodes and nothing else.

// Characters that hide, or turn the direction of what follows: shown by their code instead.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/u;
const PARTS = new RegExp(`(${HIDDEN.source})`, "u");

// "us-east-1, table ledger: DynamoDB had an internal error (what it said): try again"
const OF_TABLE = /^(?<where>.*?), table \S+: (?<what>.*?) \((?<cause>.*)\)(?:: (?<advice>.*))?$/;
const AMOUNT = /^[\u2212+]?[\d,]+(?:\.(\d+))?$/;
const BROKEN_FROM = 20;  // characters of an amount that fit everywhere
const PLACES_MAX = 8;    // behind the point of amounts that are aligned by it

// Return an element: attributes by name, listeners as functions by the event's name, then children.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child != null && child !== false));
  return made;
}

// Return text of a user's: isolated in its direction, with hidden characters shown by their codes.
export function userText(text, attributes = {}) {
  const parts = String(text).split(PARTS).filter((part) => part !== "");
  const shown = parts.flatMap((part) => {
    if (!HIDDEN.test(part)) return part.split(/(?<=[/_.,:;-])/).flatMap((word, at) => at ? [element("wbr"), word] : [word]);
    const code = part.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return element("span", {class: "code-point", title: "a character that is not visible"}, `U+${code}`);
  });
  return element("bdi", attributes, ...shown);
}

// Return a message: what is in backticks as code, and behind "Detail" what DynamoDB itself said.
export function message(text) {
  const found = OF_TABLE.exec(text);
  if (found === null) return coded(text);
  const {where, what, cause, advice = ""} = found.groups;
  const further = advice && ` ${advice[0].toUpperCase()}${advice.slice(1)}.`;
  return [...coded(`${where}: ${what}.${further}`),
    element("details", {}, element("summary", {}, "Detail"), userText(cause))];
}

function coded(text) {
  return text.split(/`([^`]+)`/).map((part, at) => at % 2 ? element("code", {}, userText(part)) : userText(part));
}

// Return an amount as text that may be broken between its groups of digits, and nowhere else.
export function breakable(text) {
  if (text.length < BROKEN_FROM) return text;
  const [whole, rest = ""] = text.split(".");
  const groups = [...whole.split(/(?<=,)/), ...(rest ? `.${rest}`.match(/\.?\d{1,3}|.+/g) : [])];
  return element("span", {class: "amount"}, groups.flatMap((group, at) => at ? [element("wbr"), group] : [group]));
}

// Give the amounts in each column of a table the same room behind the point.
export function align(table) {
  const columns = new Map();
  for (const cell of table.querySelectorAll("tbody td.number")) {
    const places = AMOUNT.exec(cell.textContent)?.[1]?.length ?? 0;
    const isShort = AMOUNT.test(cell.textContent) && cell.textContent.length < BROKEN_FROM && places <= PLACES_MAX;
    delete cell.dataset.pad;
    if (isShort) columns.set(cell.cellIndex, [...(columns.get(cell.cellIndex) ?? []), {cell, places}]);
  }
  for (const cells of columns.values()) {
    const most = Math.max(...cells.map(({places}) => places));
    for (const {cell, places} of cells) {
      if (places < most) cell.dataset.pad = (places ? "" : ".") + "0".repeat(most - places);
    }
  }
}

// Return a line about the state of a view: loading, empty or failed.
export function stateLine(text, {failed = false} = {}) {
  return element("div", {class: failed ? "state failed" : "state", role: failed ? "alert" : null}, message(text));
}

// Return a section with a heading of its own.
export function section(title, ...children) {
  return element("section", {class: "panel"}, element("h2", {}, title), ...children);
}

// Return a table that scrolls by itself where it is too wide. Columns: [title, is a number].
export function table(label, columns, rows, kind = "") {
  const head = columns.map(([title, isNumber]) => element("th", {scope: "col", class: isNumber ? "number" : null}, title));
  const made = element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, rows));
  align(made);
  return element("div", {class: `scroll ${kind}`.trim(), tabindex: "0", role: "region", "aria-label": label}, made);
}

// Return a row: a cell is text, a node, or [content, class].
export function row(cells, attributes = {}) {
  return element("tr", attributes, cells.map((cell) =>
    Array.isArray(cell) ? element("td", {class: cell[1]}, cell[0]) : element("td", {}, cell)));
}

// Return pairs of a name and a value.
export function facts(pairs) {
  return element("dl", {class: "facts"}, pairs.filter(([, value]) => value != null).map(([name, value, kind]) =>
    element("div", {class: kind ?? null}, element("dt", {}, name), element("dd", {}, value))));
}

// Return a mark of a state: a shape and a word, so that colour is never all that tells.
export function mark(state, text = state) {
  return element("span", {class: `mark ${state}`}, text);
}
