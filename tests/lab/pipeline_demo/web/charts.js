"use strict";
// Charts of lines with axes; texts are only ever set as text.
const MARGIN = {left: 12, right: 12, top: 14, bottom: 22};
const REGION_COLOURS = 8;

function drawn(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== "") made.textContent = text;
  return made;
}

// Amounts are exact decimals as texts: only places in a chart are rounded.
function grouped(amount) {
  const [, sign, whole, rest] = /^(-?)(\d+)(.*)$/.exec(amount);
  return sign + whole.replace(/\B(?=(\d{3})+$)/g, ",") + rest;
}

const short = new Intl.NumberFormat("en", {notation: "compact", maximumSignificantDigits: 4});

function tickText(value, step) {
  const size = Math.max(Math.abs(value), step);
  if (size >= 1e15 || (size < 1e-4 && size > 0)) return value.toExponential(3);
  if (step < size / 2000) return value.toLocaleString("en", {maximumSignificantDigits: 12});
  return short.format(value);
}

// Round values that divide a range into about so many steps.
function ticks(low, high, about) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((one) => one * power >= rough) * power;
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + step / 1e6; at += 1) found.push(at * step);
  return {found, step};
}

function range(values) {
  let low = Math.min(...values), high = Math.max(...values);
  const least = Math.max(Math.abs(high), Math.abs(low), 1e-9) * 1e-9;
  if (high - low < least) [low, high] = [low - (Math.abs(low) || 1) * 0.05, high + (Math.abs(high) || 1) * 0.05];
  return [low, high];
}

function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}

// lines: [{kind, points: [[x, y], ...]}]; both axes have their values.
function chart(svg, lines, {height = 220, xText = clock} = {}) {
  const width = Math.max(280, svg.clientWidth);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.style.height = `${height}px`;
  const points = lines.flatMap((line) => line.points);
  if (points.length === 0) {
    svg.replaceChildren(drawn("text", {x: MARGIN.left, y: height / 2}, "no values yet"));
    return;
  }
  const [low, high] = range(points.map(([, y]) => y));
  const [first, last] = [points[0][0], Math.max(points[0][0] + 1, ...points.map(([x]) => x))];
  const {found, step} = ticks(low, high, 4);
  const texts = found.map((value) => tickText(value, step));
  const left = MARGIN.left + 7.2 * Math.max(...texts.map((text) => text.length));
  const x = (value) => left + ((value - first) / (last - first)) * (width - left - MARGIN.right);
  const y = (value) => height - MARGIN.bottom - ((value - low) / (high - low)) * (height - MARGIN.bottom - MARGIN.top);
  const shapes = [];
  found.forEach((value, place) => {
    shapes.push(drawn("line", {x1: left, x2: width - MARGIN.right, y1: y(value), y2: y(value), class: "axis"}));
    shapes.push(drawn("text", {x: left - 6, y: y(value) + 4, "text-anchor": "end"}, texts[place]));
  });
  const columns = width < 500 ? 2 : 4;
  for (let place = 0; place <= columns; place += 1) {
    const at = first + ((last - first) * place) / columns;
    const anchor = place === 0 ? "start" : place === columns ? "end" : "middle";
    shapes.push(drawn("text", {x: x(at), y: height - 6, "text-anchor": anchor}, xText(at)));
  }
  for (const line of lines) {
    const path = line.points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    shapes.push(drawn("polyline", {points: path, class: line.kind}));
  }
  svg.replaceChildren(...shapes);
}

// A curve without axes, for a row of the table.
function spark(points) {
  const svg = drawn("svg", {viewBox: "0 0 90 20", class: "region-0"});
  if (points.length < 2) return svg;
  const [low, high] = range(points.map(([, y]) => y));
  const [first, last] = [points[0][0], points[points.length - 1][0]];
  const path = points.map(([x, y]) =>
    `${(2 + ((x - first) / Math.max(1e-9, last - first)) * 86).toFixed(1)},${(18 - ((y - low) / (high - low)) * 16).toFixed(1)}`);
  svg.append(drawn("polyline", {points: path.join(" ")}));
  return svg;
}
