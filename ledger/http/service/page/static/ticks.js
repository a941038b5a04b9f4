// Round values and times for the axes of a chart, and how they are written. No elements here.

import {clockText, dateText, monthText, shortText, tenthsText} from "./times.js";

const POWER_FROM = 1e15, POWER_BELOW = 1e-4;
const SUPERSCRIPTS = {"-": "\u207b", 0: "\u2070", 1: "\u00b9", 2: "\u00b2", 3: "\u00b3", 4: "\u2074", 5: "\u2075", 6: "\u2076", 7: "\u2077", 8: "\u2078", 9: "\u2079"};
const compact = new Intl.NumberFormat("en", {notation: "compact", maximumSignificantDigits: 4});
const SECOND_MS = 1000, MINUTE_MS = 60e3, HOUR_MS = 3600e3, DAY_MS = 24 * HOUR_MS;

// Steps by the field of a date that they go on by, what is set to 0 to begin, and how a time is written.
const KINDS = [
  ["Milliseconds", 1, [100, 200, 500], tenthsText, (at) => at.setMilliseconds(0)],
  ["Seconds", SECOND_MS, [1, 2, 5, 10, 15, 30], clockText, (at) => at.setSeconds(0, 0)],
  ["Minutes", MINUTE_MS, [1, 2, 5, 10, 15, 30], shortText, (at) => at.setMinutes(0, 0, 0)],
  ["Hours", HOUR_MS, [1, 2, 3, 6, 12], hourText, (at) => at.setHours(0, 0, 0, 0)],
  ["Date", DAY_MS, [1, 2, 7, 14], dateText, (at) => at.setHours(0, 0, 0, 0)],
  ["Month", 30 * DAY_MS, [1, 2, 3, 6, 12], monthText, (at) => { at.setHours(0, 0, 0, 0); at.setMonth(0, 1); }],
];
const STEPS = KINDS.flatMap(([field, size, counts, text, begin]) =>
  counts.map((count) => ({field, count, size: size * count, text, begin})));

function hourText(time) {
  return new Date(time).getHours() === 0 ? dateText(time) : shortText(time);
}

// Return round values that divide a range into about so many steps.
export function valueTicks(low, high, about) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((one) => one * power >= rough) * power;
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + step / 1e6; at += 1) found.push(at * step);
  return found;
}

// Return a value of an axis in at most 4 digits: "1.5K", "-20M", or a power of ten where no word is known.
export function valueText(value) {
  const size = Math.abs(value);
  if (size < 1e-40) return "0";
  let text = compact.format(value);
  if (size >= POWER_FROM || size < POWER_BELOW) {
    const [digits, power] = value.toExponential(3).split("e");
    text = `${Number(digits)}\u00d710${[...String(Number(power))].map((one) => SUPERSCRIPTS[one]).join("")}`;
  }
  return text.replace("-", "\u2212");
}

// Return round times of the browser's zone in a range, about `most` of them, as [time, text].
export function timeTicks(first, last, most) {
  const step = STEPS.find(({size}) => size * most >= last - first) ?? STEPS.at(-1);
  const at = new Date(first), found = [];
  step.begin(at);
  while (at <= last) {
    if (at >= first) found.push([at.getTime(), step.text(at)]);
    at[`set${step.field}`](at[`get${step.field}`]() + step.count);
  }
  return found.length ? found : [[first, clockText(first)]];
}
