// Lines, steps and bands over time.

import { clock, h, number, replace, s } from "./dom.js";
import { Chart, MARGIN, area, path } from "./frame.js";

const TIME_STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
];

function timeTicks(low, high, count) {
  const rough = (high - low) / count;
  const step = TIME_STEPS.find((m) => m >= rough) || Math.ceil(rough / 86400) * 86400;
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) ticks.push(at);
  return { ticks, step };
}

/** Lines, steps and bands over time. Data: {lines: [{name, look, points, step}], bands: [{name, look, points}], rule, now, until}. */
export class TimeChart extends Chart {
  constructor(options) {
    super(options);
    this.floor = options.floor ?? 0;
    this.value = options.value || number;
  }

  domain({ lines, bands = [], rule, from }) {
    const kept = (points) => points.filter(([at]) => from === undefined || at >= from);
    const all = [
      ...lines.flatMap((line) => kept(line.points)),
      ...bands.flatMap((band) => kept(band.points)),
    ];
    if (!all.length) return [null, null, 0, 1];
    const times = all.map(([at]) => at);
    const values = all
      .flatMap((point) => point.slice(1))
      .filter((value) => value !== null && value !== undefined);
    if (rule) values.push(rule.value * 1.08);
    const top = Math.max(...values, this.floor + 1e-9);
    return [
      from ?? Math.min(...times),
      Math.max(...times),
      this.floor,
      this.floor + (top - this.floor) * 1.08 || 1,
    ];
  }

  xTicks(x0, x1, count) {
    const { ticks, step } = timeTicks(x0, x1, count);
    return ticks.map((at) => [at, clock(at, step < 60)]);
  }

  shapes({ lines, bands = [], rule, now }) {
    const { width, h: high, x0 } = this.box;
    const parts = [];
    const kept = (points) => points.filter(([at]) => at >= x0);
    for (const band of bands) {
      const points = kept(band.points);
      if (points.length < 2) continue;
      parts.push(s("path", { class: `band ${band.look}`, d: area(points, this.x, this.y) }));
    }
    if (now !== undefined && this.x(now) < width - MARGIN.right - 2) {
      parts.push(
        s("line", { class: "now", x1: this.x(now), x2: this.x(now), y1: MARGIN.top, y2: MARGIN.top + high }),
      );
      parts.push(s("text", { class: "axis", x: this.x(now) + 5, y: MARGIN.top + 9 }, "now"));
    }
    for (const line of lines)
      parts.push(
        s("path", { class: `line ${line.look}`, d: path(kept(line.points), this.x, this.y, line.step) }),
      );
    if (rule) {
      const at = this.y(rule.value);
      parts.push(s("line", { class: "rule", x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at }));
      parts.push(s("text", { class: "axis rule-name", x: MARGIN.left + 6, y: at - 5 }, rule.name));
    }
    replace(
      this.legend,
      [...lines, ...bands].map((part) =>
        h("span", {}, h(`i.key.${part.look}${part.points[0]?.length > 2 ? ".wide" : ""}`), part.name),
      ),
    );
    return parts;
  }

  stops() {
    if (!this.data || !this.box) return [];
    const every = new Set(
      [...this.data.lines, ...(this.data.bands || [])].flatMap((part) => part.points.map(([at]) => at)),
    );
    return [...every].filter((at) => at >= this.box.x0).sort((a, b) => a - b);
  }

  mark(at) {
    this.at = at;
    const x = this.x(at);
    const rows = [];
    const { h: high } = this.box;
    replace(this.marks, s("line", { class: "cross", x1: x, x2: x, y1: MARGIN.top, y2: MARGIN.top + high }));
    for (const line of this.data.lines) {
      const value = valueAt(line.points, at, line.step);
      if (value === null) continue;
      rows.push([line.name, this.value(value), line.look]);
      this.marks.append(s("circle", { class: `dot ${line.look}`, cx: x, cy: this.y(value), r: 3.5 }));
    }
    for (const band of this.data.bands || []) {
      const found = pointAt(band.points, at);
      if (found)
        rows.push([band.name, `${this.value(found[1])} – ${this.value(found[2])}`, `${band.look}.wide`]);
    }
    this.place(x, rows, clock(at));
  }

  sentence({ lines, rule }) {
    const said = lines
      .filter((line) => line.points.length)
      .map((line) => `${line.name} ${this.value(line.points.at(-1)[1])}`);
    return `Latest: ${said.join(", ")}${rule ? `; ${rule.name}` : ""}.`;
  }
}

function pointAt(points, at) {
  if (!points.length || at < points[0][0] - 1e-9 || at > points.at(-1)[0] + 1e-9) return null;
  let low = 0;
  let high = points.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][0] <= at) low = middle;
    else high = middle;
  }
  return Math.abs(points[high][0] - at) < Math.abs(points[low][0] - at) ? points[high] : points[low];
}

const valueAt = (points, at) => pointAt(points, at)?.[1] ?? null;
