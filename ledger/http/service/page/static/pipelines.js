// Pipelines: their lanes, what of them waits, and the work on a whole pipeline that is under way.

import {NoAnswer, get, repeat} from "./api.js";
import {element, mark, message, row, section, stateLine, table, userText} from "./dom.js";
import {clockZoneText, durationText} from "./times.js";

const REFRESH_MS = 10000;

export async function pipelinesView(main, {session, signal}) {
  const heading = element("h1", {}, "Pipelines");
  if (!session.scopes.includes("admin")) {
    main.replaceChildren(heading, stateLine("This needs a token with the scope admin.", {failed: true}));
    return;
  }
  const place = element("div", {}, stateLine("Reading lanes…"));
  const status = element("p", {class: "note", role: "status"});
  main.replaceChildren(heading, status, place);

  async function load() {
    try {
      const found = await get("/v1/fleet", [], {signal});
      status.textContent = `As ${found.region} shows them at ${clockZoneText(found.at)}.`;
      place.replaceChildren(...shown(found));
    } catch (error) {
      if (!signal.aborted && error.status !== 401 && !(error instanceof NoAnswer)) place.replaceChildren(stateLine(error.message, {failed: true}));
    }
  }

  await load();
  repeat(REFRESH_MS, signal, load);
}

function shown(found) {
  if (found.pipelines.failed) return [stateLine(found.pipelines.failed, {failed: true})];
  if (found.pipelines.length === 0) {
    return [element("div", {class: "state"}, element("p", {}, "No pipeline has counted records into this table."),
      element("p", {class: "note"}, message("`ledger pipeline run` brings records in; each of its lanes is shown here.")))];
  }
  return found.pipelines.map((one) => panel(one, found.at));
}

function panel(pipeline, now) {
  const waiting = pipeline.lanes.reduce((all, lane) => all + lane.waiting, 0);
  const rows = pipeline.lanes.map((lane) => row([
    userText(lane.lane),
    lane.failed ? [element("span", {}, mark("problem", "not read"), " ", message(lane.failed)), "text"] : state(lane),
    [userText(lane.position.replace(/^0+(?=.)/, "") || "–"), "number"],
    [lane.waiting.toLocaleString("en"), "number"],
    [lane.wrote ? `${durationText(Math.max(0, (Date.parse(now) - Date.parse(lane.wrote)) / 1000))} ago` : "–", "number"],
  ]));
  const tasks = Object.entries(pipeline.tasks).map(([region, task]) =>
    element("p", {}, mark("warning", task), ` is under way in ${region}: if no process runs it, run it again, and it goes on.`));
  return section(pipeline.name || "Pipeline", tasks,
    element("p", {}, `${pipeline.lanes.length.toLocaleString("en")} ${pipeline.lanes.length === 1 ? "lane" : "lanes"}, ${waiting.toLocaleString("en")} map items wait to be added to the totals.`),
    table("Lanes", [["Lane"], ["State"], ["Position", true], ["Map items waiting", true], ["Last write", true]], rows),
    pipeline.is_cut ? element("p", {class: "note"}, "Further lanes are not shown.") : "");
}

function state(lane) {
  if (lane.is_closed) return mark("unknown", "closed");
  return lane.is_open ? mark("ok", "batch under way") : mark("ok", "committed");
}
