// Charts as SVG: a stepped line of a balance over bars of changes. Amounts are exact elsewhere;
// only the places in a chart are rounded.

import {timeTicks, valueText, valueTicks} from "./ticks.js";

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = {left: 12, right: 12, top: 12, bottom: 24};
const CHARACTER = 6.8;
const LABEL = 80;     // between two times on the axis, at least
const LABEL_HALF = 32;

function drawn(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function rangeOf(values) {
  if (values.every((value) => value === 0)) return [0, 1];
  let low = Math.min(...values), high = Math.max(...values);
  if (high - low < 1e-9 * Math.max(1, Math.abs(high))) {
    const room = Math.abs(high) * 0.05 || 1;
    [low, high] = [low - room, high + room];
  }
  return [low, high];
}

// Draw points [{x, y, label}] and bars [{from, to, y, label}] into an element.
// A value holds until the next point; `fromZero` shows 0, `whole` no parts of 1.
export function drawChart(place, {points, bars = [], label, height = 220, fromZero = false, whole = false}) {
  const width = Math.max(280, place.clientWidth);
  const svg = drawn("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, width, height});
  place.replaceChildren(svg);
  const xs = [...points.map((one) => one.x), ...bars.flatMap((one) => [one.from, one.to])];
  if (xs.length === 0) return;
  const [first, last] = [Math.min(...xs), Math.max(...xs)];
  const barRoom = bars.length ? Math.round(height * 0.26) : 0;
  const [low, high] = rangeOf([...points.map((one) => one.y), ...(fromZero ? [0] : [])]);
  const values = valueTicks(low, high, 4).filter((value) => !whole || Number.isInteger(value));
  const left = MARGIN.left + CHARACTER * Math.max(...values.map((value) => valueText(value).length)) + 6;
  const bottom = height - MARGIN.bottom - barRoom;
  const x = (value) => left + ((value - first) / Math.max(1, last - first)) * (width - left - MARGIN.right);
  const y = (value) => bottom - ((value - low) / (high - low)) * (bottom - MARGIN.top);
  for (const value of values) {
    svg.append(
      drawn("line", {x1: left, x2: width - MARGIN.right, y1: y(value), y2: y(value), class: "grid"}),
      drawn("text", {x: left - 6, y: y(value) + 4, "text-anchor": "end"}, valueText(value)));
  }
  for (const [time, text] of timeTicks(first, last, Math.max(2, Math.floor((width - left) / LABEL)))) {
    const anchor = x(time) > width - LABEL_HALF ? "end" : x(time) < left + LABEL_HALF ? "start" : "middle";
    svg.append(drawn("text", {x: x(time), y: height - 7, "text-anchor": anchor}, text));
  }
  drawBars(svg, bars, {x, middle: height - MARGIN.bottom - barRoom / 2 + 6, room: (barRoom - 14) / 2, left, right: width - MARGIN.right});
  drawLine(svg, points, {x, y, last});
}

function drawLine(svg, points, {x, y, last}) {
  if (points.length === 0) return;
  const path = [`M${x(points[0].x).toFixed(1)},${y(points[0].y).toFixed(1)}`];
  for (const one of points.slice(1)) path.push(`H${x(one.x).toFixed(1)}V${y(one.y).toFixed(1)}`);
  path.push(`H${x(last).toFixed(1)}`);
  svg.append(drawn("path", {d: path.join(""), class: "line"}));
  const end = points.at(-1);
  svg.append(drawn("circle", {cx: x(last), cy: y(end.y), r: 3, class: "end"}));
  if (points.length > 400) return;
  for (const one of points) {
    const dot = drawn("circle", {cx: x(one.x), cy: y(one.y), r: 6, class: "hit"});
    dot.append(drawn("title", {}, one.label));
    svg.append(dot);
  }
}

function drawBars(svg, bars, {x, middle, room, left, right}) {
  if (bars.length === 0) return;
  const most = Math.max(...bars.map((one) => Math.abs(one.y))) || 1;
  svg.append(drawn("line", {x1: left, x2: right, y1: middle, y2: middle, class: "grid"}));
  for (const one of bars) {
    const size = Math.max(one.y === 0 ? 0 : 1, (Math.abs(one.y) / most) * room);
    const width = Math.max(1.5, x(one.to) - x(one.from) - 1);
    const bar = drawn("rect", {
      x: x(one.from), width, y: one.y < 0 ? middle : middle - size, height: size,
      class: one.y < 0 ? "bar down" : "bar up",
    });
    bar.append(drawn("title", {}, one.label));
    svg.append(bar);
  }
}
