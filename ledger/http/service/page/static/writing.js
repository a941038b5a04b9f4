// Writing: a change of a counter, a credit of a budget, and the reversal of an entry after it was confirmed.

import {isAmount, negated, shown as amountText} from "./amounts.js";
import {NoAnswer, counterPath, newKey, post} from "./api.js";
import {legsList} from "./books.js";
import {element, facts, section, stateLine, userText} from "./dom.js";
import {entryTimeText, zoneText} from "./times.js";

export const writePanel = (counter, {onWritten}) => amountPanel("Write a change", {
  path: counterPath(counter, "/entries"), member: "change", verb: "Write", examples: "12.50 or -3", onWritten,
  said: (entry) => `Written: ${amountText(entry.change, {signed: true})}, durable in ${entry.region}.`,
});

export const creditPanel = (budget, {onWritten}) => amountPanel("Credit the budget", {
  path: `/v1/budgets/${encodeURIComponent(budget)}/credits`, member: "amount", verb: "Credit", examples: "12.50", onWritten,
  said: (entry) => `Credited: ${amountText(entry.change)}, durable in ${entry.region}. It can be spent${entry.spendable ? "" : " once every region shows it"}.`,
});

// A form that sends an amount as this member. Its key stays the same until the form says something else,
// so sending it again after no answer cannot count it twice.
function amountPanel(title, {path, member, verb, examples, said, onWritten}) {
  const change = element("input", {id: member, inputmode: "decimal", autocomplete: "off", required: true, placeholder: examples});
  const note = element("input", {id: `${member}-note`, autocomplete: "off", maxlength: "1000"});
  const answer = element("div", {role: "status"});
  const button = element("button", {type: "submit"}, verb);
  let key = newKey();
  const anotherOne = () => {
    key = newKey();
    change.setCustomValidity("");
    answer.replaceChildren();
    button.textContent = verb;
  };
  change.addEventListener("input", anotherOne);
  note.addEventListener("input", anotherOne);

  async function submit(event) {
    event.preventDefault();
    const amount = change.value.trim().replace("\u2212", "-").replace(/^\+/, "");
    if (!isAmount(amount)) {
      change.setCustomValidity(`An amount such as ${examples}, without grouping`);
      change.reportValidity();
      return;
    }
    button.disabled = true;
    try {
      const body = {[member]: amount, ...(note.value === "" ? {} : {note: note.value})};
      const entry = await post(path, body, {"Idempotency-Key": key});
      change.value = note.value = "";
      anotherOne();
      answer.replaceChildren(element("p", {class: "done"}, said(entry)));
      onWritten(entry);
    } catch (error) {
      answer.replaceChildren(failureLine(error));
      if (isUnknown(error)) button.textContent = `${verb} again`;
    } finally {
      button.disabled = false;
    }
  }

  return section(title, element("form", {class: "toolbar write", submit},
    element("div", {}, element("label", {for: change.id}, "Amount"), change),
    element("div", {class: "wide"}, element("label", {for: note.id}, "Note (optional)"), note), button), answer);
}

// Ask whether an entry shall be reversed, and do it.
export function confirmReversal(counter, entry, session, {onWritten}) {
  const opener = document.activeElement;
  const note = element("input", {id: "reason", autocomplete: "off", maxlength: "1000"});
  const answer = element("div", {role: "status"});
  const cancel = element("button", {type: "button", autofocus: true, click: () => dialog.close()}, "Cancel");
  const said = entry.legs ? "the transfer" : amountText(entry.change, {signed: true});
  const back = entry.legs ? "The opposite transfer" : amountText(negated(entry.change), {signed: true});
  const confirm = element("button", {type: "submit", class: "danger"}, `Reverse ${said}`);
  const time = entryTimeText(entry.id);

  async function submit(event) {
    event.preventDefault();
    confirm.disabled = true;
    note.disabled = true;  // a repeat must say the same
    try {
      const body = {counter, ...(note.value === "" ? {} : {note: note.value})};
      const written = await post(`/v1/entries/${encodeURIComponent(entry.id)}/reverse`, body);
      dialog.close();
      onWritten(written);
    } catch (error) {
      answer.replaceChildren(failureLine(error));
      confirm.disabled = false;
      note.disabled = isUnknown(error);
    }
  }

  const dialog = element("dialog", {"aria-labelledby": "reverse-title", close: () => { dialog.remove(); opener?.focus(); }},
    element("form", {submit},
      element("h2", {id: "reverse-title"}, "Reverse this entry?"),
      facts([
        ["Counter", userText(counter)],
        ["Entry", time === null ? userText(entry.id) : `${time} ${zoneText()}, ${entry.region ?? "region not known"}`],
        ["Change", entry.legs ? legsList(entry.legs) : amountText(entry.change, {signed: true})],
        ["Note", entry.note == null ? null : userText(entry.note)],
        ["Will be written", element("strong", {}, `${back} in ${session.home}, as the reversal of this entry`)],
      ]),
      element("p", {class: "note"}, "The entry stays in the history. It can be reversed once; a reversal cannot be reversed."),
      element("label", {for: "reason"}, "Reason (optional)"), note, answer,
      element("div", {class: "toolbar end"}, cancel, confirm)));
  document.body.append(dialog);
  dialog.showModal();
  cancel.focus();
}

const isUnknown = (error) => error instanceof NoAnswer || error.fields?.outcome === "unknown";

function failureLine(error) {
  const text = isUnknown(error)
    ? "No answer: it may have been written or not. Sending it again is safe, it counts once."
    : error.message;
  return stateLine(text, {failed: true});
}
