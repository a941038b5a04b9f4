// Finds out who asks, and shows the view that the address names.

import {NoAnswer, events, get, pause, repeat, tokens} from "./api.js";
import {element, message, stateLine} from "./dom.js";
import {budgetsView} from "./budgets.js";
import {counterView} from "./counter.js";
import {fleetView} from "./fleet.js";
import {pipelinesView} from "./pipelines.js";
import {totalsView} from "./totals.js";

const RETRY_MS = 2000;
const VIEWS = {
  "": ["Totals", totalsView],
  budgets: ["Budgets", budgetsView],
  fleet: ["Fleet", fleetView],
  pipelines: ["Pipelines", pipelinesView],
  counter: ["Counter", counterView],
};

const at = (id) => document.getElementById(id);
let session = null;
let open = new AbortController();
let failing = null;

// Return the view that the address names, and its argument.
function asked() {
  const [, name = "", argument = ""] = location.hash.split("/");
  let read = "";
  try {
    read = decodeURIComponent(argument);
  } catch {
    // An address that was typed: no counter has this name.
  }
  return VIEWS[name] ? [name, read] : ["", ""];
}

function show() {
  open.abort();
  open = new AbortController();
  if (session === null) return;
  const [name, argument] = asked();
  const [title, view] = VIEWS[name];
  document.title = name === "counter" ? `${argument} – Ledger` : `${title} – Ledger`;
  for (const link of document.querySelectorAll("nav a")) {
    const isCurrent = link.dataset.view === ({"": "totals", counter: "totals"}[name] ?? name);
    if (isCurrent) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const main = at("main");
  main.replaceChildren(stateLine("Loading…"));
  view(main, {session, argument, signal: open.signal, reopen: show});
}

// Ask who we are: without a token first, since a service for trials asks for none.
async function begin() {
  open.abort();
  session = null;
  for (;;) {
    try {
      session = await get("/v1/session");
      break;
    } catch (error) {
      if (!(error instanceof NoAnswer)) {
        if (error.status !== 401) at("main").replaceChildren(stateLine(error.message, {failed: true}));
        return;
      }
      at("main").replaceChildren(stateLine("The service does not answer; trying again.", {failed: true}));
      await pause(RETRY_MS);
    }
  }
  const role = session.region === session.home ? "home region" : `home is ${session.home}`;
  at("place").replaceChildren(element("b", {}, session.region), ` ${role}`);
  at("sign-out").hidden = tokens.get() === null;
  for (const link of document.querySelectorAll("nav a")) {
    link.hidden = !session.scopes.includes(link.dataset.scope) || (link.dataset.view === "budgets" && !session.budgets.length);
  }
  at("views").hidden = at("connection").hidden = false;
  show();
}

function askForToken() {
  open.abort();
  const wasRefused = tokens.get() !== null;
  tokens.clear();
  session = null;
  at("sign-out").hidden = at("views").hidden = at("connection").hidden = true;
  at("place").replaceChildren();
  const input = element("input", {
    id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true,
    placeholder: "ldg_…", "aria-describedby": "token-note",
  });
  const submit = (event) => {
    event.preventDefault();
    tokens.set(input.value.trim());
    begin();
  };
  at("main").replaceChildren(element("form", {class: "panel sign-in", submit},
    element("h1", {}, "Sign in"),
    element("label", {for: "token"}, "Access token"),
    input,
    element("p", {id: "token-note", class: "note"},
      message("Made by `ledger token create`. It is kept in this tab until you close it or sign out.")),
    wasRefused ? stateLine("The token is not valid, or not any more.", {failed: true}) : null,
    element("button", {type: "submit"}, "Sign in")));
  document.title = "Sign in – Ledger";
  input.focus();
}

const STATES = {
  online: ["connected", ""],
  failing: ["table not read", "The service cannot read the table."],
  offline: ["no answer", "The service does not answer."],
};

function connected(state) {
  const [text, why] = STATES[state];
  at("offline").hidden = why === "";
  at("offline").textContent = `${why} What is shown may be old; trying again.`;
  at("connection").textContent = text;
  at("connection").className = state;
  failing?.abort();
  failing = new AbortController();
  if (state === "failing") repeat(RETRY_MS, failing.signal, () => get("/readyz"));
}

// "/" goes to the search field of the view, as in other tools; there too while nothing is typed in it.
function shortcut(event) {
  const search = document.querySelector("main input[type=search]");
  const isTyping = event.target.closest("input, textarea, select, dialog") && (event.target !== search || search.value !== "");
  if (event.key !== "/" || isTyping || !search || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  search.focus();
}

events.addEventListener("signed-out", askForToken);
events.addEventListener("state", (event) => connected(event.detail));
addEventListener("hashchange", () => {
  if (location.hash === "#main") return;
  show();
  at("main").focus();
});
addEventListener("keydown", shortcut);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  at("main").focus();
});
at("sign-out").addEventListener("click", () => {
  tokens.clear();
  begin();
});
begin();
