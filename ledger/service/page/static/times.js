// Times for people: of the browser's zone, with the zone's name where it matters.

const MINUTE = 60, HOUR = 3600, DAY = 86400;
const full = new Intl.DateTimeFormat("en-GB", {
  year: "numeric", month: "short", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
});
const clock = new Intl.DateTimeFormat("en-GB", {hour: "2-digit", minute: "2-digit", second: "2-digit"});
const short = new Intl.DateTimeFormat("en-GB", {hour: "2-digit", minute: "2-digit"});
const date = new Intl.DateTimeFormat("en-GB", {day: "2-digit", month: "short"});

export const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

export const fullText = (time) => full.format(new Date(time)).replace(",", "");
export const clockText = (time) => clock.format(new Date(time));
export const shortText = (time) => short.format(new Date(time));
export const dateText = (time) => date.format(new Date(time));

// Return the time in the id of an entry; null of an id in another form.
export function timeOf(id) {
  const time = Date.parse(id.split("#")[0]);
  return Number.isNaN(time) ? null : time;
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
