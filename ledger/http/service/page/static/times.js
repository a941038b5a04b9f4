// Times for people: of the browser's zone, with the zone's name where it matters.

const MINUTE = 60, HOUR = 3600, DAY = 86400;
const FULL = {year: "numeric", month: "short", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit"};
const full = new Intl.DateTimeFormat("en-GB", FULL);
const clock = new Intl.DateTimeFormat("en-GB", {hour: "2-digit", minute: "2-digit", second: "2-digit"});
const short = new Intl.DateTimeFormat("en-GB", {hour: "2-digit", minute: "2-digit"});
const precise = new Intl.DateTimeFormat("en-GB", {...FULL, fractionalSecondDigits: 3});
const tenths = new Intl.DateTimeFormat("en-GB", {hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 1});
const month = new Intl.DateTimeFormat("en-GB", {month: "short", year: "numeric"});
const named = new Intl.DateTimeFormat("en-GB", {timeZoneName: "short"});
const date = new Intl.DateTimeFormat("en-GB", {day: "2-digit", month: "short"});

// Return the short name of the browser's zone at a time: "UTC", "CET".
export const zoneText = (time = Date.now()) => named.formatToParts(new Date(time)).find(({type}) => type === "timeZoneName").value;
export const fullText = (time) => full.format(new Date(time)).replace(",", "");
export const clockText = (time) => clock.format(new Date(time));
export const clockZoneText = (time) => `${clockText(time)} ${zoneText(time)}`;
export const tenthsText = (time) => tenths.format(new Date(time));
export const shortText = (time) => short.format(new Date(time));
export const dateText = (time) => date.format(new Date(time));
export const monthText = (time) => month.format(new Date(time));

// Return the time in the id of an entry; null of an id in another form.
export function timeOf(id) {
  const time = Date.parse(id.split("#")[0]);
  return Number.isNaN(time) ? null : time;
}

// Return the time in the id of an entry for people, with the fraction of its second if the id has one.
export function entryTimeText(id) {
  const time = timeOf(id);
  if (time === null) return null;
  return id.includes(".") ? precise.format(new Date(time)).replace(",", "") : fullText(time);
}

// Return a duration: "250 ms", "3 min", "2 h".
export function durationText(seconds) {
  if (seconds == null) return "not known";
  const size = Math.abs(seconds);
  if (size < 0.0005) return "under 1 ms";
  if (size < 1) return `${(seconds * 1000).toFixed(0)} ms`;
  if (size < 10 && !Number.isInteger(seconds)) return `${seconds.toFixed(1)} s`;
  if (size < 2 * MINUTE) return `${seconds.toFixed(0)} s`;
  if (size < 2 * HOUR) return `${(seconds / MINUTE).toFixed(0)} min`;
  return size < 2 * DAY ? `${(seconds / HOUR).toFixed(0)} h` : `${(seconds / DAY).toFixed(0)} days`;
}
