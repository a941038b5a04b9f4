// Books: the balances of accounts by asset, and what a transfer moved. Names, notes and metadata are
// a user's: they become text nodes, and nothing else.

import {shown as amountText, sum} from "./amounts.js";
import {NoAnswer, get, pause, untilAnswered} from "./api.js";
import {breakable, element, row, section, stateLine, table, userText} from "./dom.js";
import {clockZoneText} from "./times.js";

const ROWS = 100, TYPING_MS = 250;

// The panel of a book: balances by asset, and what they come to.
export function balancesPanel(book, {signal}) {
  const search = element("input", {
    type: "search", id: "accounts", autocomplete: "off", spellcheck: "false", maxlength: "255",
    placeholder: "Prefix, such as customer/", input: () => typed(),
  });
  const place = element("div", {}, stateLine("Reading balances…"));
  const panel = section("Balances",
    element("form", {class: "toolbar", role: "search", submit: (event) => event.preventDefault()},
      element("label", {for: "accounts"}, "Accounts"), search), place);
  let typing = null, rows = ROWS;

  function typed() {
    typing?.abort();
    typing = new AbortController();
    const mine = AbortSignal.any([signal, typing.signal]);
    rows = ROWS;
    pause(TYPING_MS, mine).then(() => mine.aborted || load(mine));
  }

  async function load(asking = signal) {
    const prefix = search.value;
    try {
      const path = `/v1/books/${encodeURIComponent(book)}/balances`;
      const found = await untilAnswered(asking, () => get(path, [["prefix", prefix], ["max_age", 0]], {signal: asking}));
      if (!asking.aborted && prefix === search.value) render(found);
    } catch (error) {
      if (!asking.aborted && !(error instanceof NoAnswer)) place.replaceChildren(stateLine(error.message, {failed: true}));
    }
  }

  function render(found) {
    const assets = Object.entries(found.assets);
    const note = element("p", {class: "note"}, `As ${found.region} shows them, as of ${clockZoneText(found.as_of)}, of ${found.transfers.toLocaleString("en")} transfers. Accounts whose balance is 0 are left out.`);
    if (!assets.length) return place.replaceChildren(stateLine(search.value ? "No account that begins so has a balance." : "No account has a balance."), note);
    place.replaceChildren(...assets.flatMap(([asset, balances]) => ofAsset(asset, Object.entries(balances), found)), note);
  }

  function ofAsset(asset, balances, found) {
    const shown = balances.slice(0, rows).map(([account, balance]) => row([
      [userText(account), "account"], [breakable(amountText(balance)), balance.startsWith("-") ? "number down" : "number"],
    ]));
    const all = search.value ? "Sum of these accounts" : "Sum of all accounts";
    const edge = row([all, [breakable(amountText(sum(balances.map(([, balance]) => balance)))), "number"]], {class: "edge"});
    const rest = balances.length - rows;
    const further = rest > 0 && element("button", {type: "button", click: () => { rows += ROWS; render(found); }},
      `Show ${Math.min(rest, ROWS).toLocaleString("en")} more of ${rest.toLocaleString("en")} accounts`);
    return [element("h3", {}, userText(asset)), table(`Balances in ${asset}`, [["Account"], ["Balance", true]], [...shown, edge]), ...(further ? [further] : [])];
  }

  return {panel, load};
}

// Return what a transfer moved, a line for each account.
export function legsList(legs) {
  return element("ul", {class: "legs"}, legs.map((leg) => element("li", {},
    element("span", {class: leg.amount.startsWith("-") ? "moved down" : "moved"}, breakable(amountText(leg.amount, {signed: true}))),
    " ", userText(leg.asset), " ", userText(leg.account))));
}

// Return what the caller of an entry named, a line for each name.
export function metadataList(metadata) {
  return element("dl", {class: "metadata"}, Object.entries(metadata).map(([name, text]) =>
    element("div", {}, element("dt", {}, userText(name)), element("dd", {}, userText(text)))));
}
