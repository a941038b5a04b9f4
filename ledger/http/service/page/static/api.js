// The service's endpoints. A token, if the user gave one, is kept for this tab alone.

const TOKEN = "ledger-token";
const RETRY_MS = 1000, RETRY_MS_MAX = 15000;
const UNAUTHORIZED = 401;

// Problems of one counter: others can be read.
const OF_COUNTER = new Set(["/problems/amount-overflow", "/problems/damaged-item", "/problems/net-vanished"]);
const LEAVING = "/problems/shutting-down";
const READS = /^\/(v1\/(counters|totals)|readyz)/;  // whose answers say that the table is read

export const events = new EventTarget();  // "signed-out", "state" with what `tell` was told
let state = null;

// Tell how far requests get: "online", "failing" where the table is not read, or "offline".
export function tell(now) {
  if (now === state) return;
  state = now;
  events.dispatchEvent(new CustomEvent("state", {detail: now}));
}

// An answer that is a problem (RFC 9457): `fields` are its members.
export class Problem extends Error {
  constructor(status, fields) {
    super(fields.detail || fields.title || `HTTP status ${status}`);
    this.status = status;
    this.fields = fields;
  }
}

export const isOfCounter = (error) => OF_COUNTER.has(error.fields?.type);
const isOfTable = (error) => error.status >= 500 && error.fields.type !== LEAVING && !isOfCounter(error);

// No answer came: a write may have been applied or not.
export class NoAnswer extends Error {}

export const tokens = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (token) => sessionStorage.setItem(TOKEN, token),
  clear: () => sessionStorage.removeItem(TOKEN),
};

function headers(more = {}) {
  const token = tokens.get();
  return token ? {...more, Authorization: `Bearer ${token}`} : more;
}

async function asked(path, options) {
  let answer;
  try {
    answer = await fetch(path, {...options, cache: "no-store", credentials: "same-origin"});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    tell("offline");
    throw new NoAnswer("the service does not answer");
  }
  if (answer.ok) {
    if (state !== "failing" || READS.test(path)) tell("online");
    return answer;
  }
  const problem = new Problem(answer.status, await answer.json().catch(() => ({})));
  if (isOfTable(problem)) tell("failing");
  else if (state !== "failing") tell("online");
  if (answer.status === UNAUTHORIZED) events.dispatchEvent(new Event("signed-out"));
  throw problem;
}

// Return the JSON at a path; `query` is a list of pairs.
export async function get(path, query = [], {signal} = {}) {
  const asText = new URLSearchParams(query.filter(([, value]) => value != null && value !== "")).toString();
  const answer = await asked(asText ? `${path}?${asText}` : path, {headers: headers(), signal});
  return answer.json();
}

export async function post(path, body, more = {}) {
  const answer = await asked(path, {
    method: "POST",
    headers: headers({...more, "Content-Type": "application/json"}),
    body: JSON.stringify(body),
  });
  return answer.json();
}

export const counterPath = (counter, rest = "") => `/v1/counters/${encodeURIComponent(counter)}${rest}`;

// Follow the totals of up to 50 counters until the signal is aborted; connects again by itself.
// `onBroken` is called where one of them cannot be read, as long as that is so.
export async function follow(counters, {onTotal, onBroken, signal}) {
  const query = new URLSearchParams(counters.map((counter) => ["id", counter])).toString();
  let wait = RETRY_MS;
  while (!signal.aborted) {
    try {
      const answer = await asked(`/v1/live?${query}`, {headers: headers(), signal});
      wait = RETRY_MS;
      await readEvents(answer.body, (name, data) => {
        if (name === "total") {
          tell("online");
          onTotal(data);
        } else if (name === "problem") {
          const problem = new Problem(data.status, data);
          if (isOfCounter(problem)) onBroken?.();
          else tell("failing");
        }
      });
    } catch (error) {
      if (signal.aborted || (error instanceof Problem && error.status < 500)) return;
    }
    await pause(wait, signal);
    wait = Math.min(2 * wait, RETRY_MS_MAX);
  }
}

// Read server-sent events: EventSource cannot send a token.
async function readEvents(body, onEvent) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const lines = part.split("\n");
      const of = (field) => lines.find((line) => line.startsWith(`${field}: `))?.slice(field.length + 2);
      if (of("data")) onEvent(of("event"), JSON.parse(of("data")));
    }
  }
}

// Ask until an answer comes, whatever it says; meanwhile the page says that there is none.
export async function untilAnswered(signal, ask) {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof NoAnswer) || signal.aborted) throw error;
    }
    await pause(RETRY_MS, signal);
  }
}

// Wait, or until the signal is aborted.
export function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    signal?.addEventListener("abort", end);
  });
}

// Call a look again and again until the signal is aborted, not while the tab is hidden.
export async function repeat(milliseconds, signal, look) {
  while (!signal.aborted) {
    await pause(milliseconds, signal);
    if (!signal.aborted && !document.hidden) await look().catch(() => {});
  }
}

// Return a new UUIDv7: the time in it is that of the change, so a repeat of it changes nothing.
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const now = BigInt(Date.now());
  for (let place = 0; place < 6; place += 1) bytes[place] = Number((now >> BigInt(8 * (5 - place))) & 255n);
  bytes[6] = (bytes[6] & 15) | 112;
  bytes[8] = (bytes[8] & 63) | 128;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
