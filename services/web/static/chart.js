// Small SVG charts. Each can be read with the pointer, with the arrow keys, and as a sentence.

import { clock, h, number, replace, s } from "./dom.js";

const MARGIN = { top: 12, right: 14, bottom: 24, left: 52 };

function ticksOf(low, high, count) {
  const span = high - low || 1;
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= rough) || rough;
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-6; at += step) ticks.push(at);
  return ticks;
}

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

const path = (points, x, y, step) => {
  let d = "";
  let pen = false;
  let before = null;
  for (const [at, value] of points) {
    if (value === null || value === undefined) {
      pen = false;
      continue;
    }
    const px = x(at).toFixed(1);
    const py = y(value).toFixed(1);
    if (!pen) d += `M${px} ${py}`;
    else if (step) d += `H${px}V${py}`;
    else d += `L${px} ${py}`;
    pen = true;
    before = at;
  }
  return before === null ? "" : d;
};

/** What lies between the lower and the upper edge of [x, low, high] points. */
const area = (points, x, y) => {
  const upper = path(
    points.map(([at, , high]) => [at, high]),
    x,
    y,
  );
  const lower = path(
    [...points].reverse().map(([at, low]) => [at, low]),
    x,
    y,
  ).replace("M", "L");
  return `${upper}${lower}Z`;
};

/** One frame for every chart: scales, grid, axes, a crosshair and a tooltip. */
class Chart {
  constructor({ title, unit = "", height = 210, axis = number, empty = "Nothing measured yet." }) {
    Object.assign(this, { title, unit, height, axis, empty });
    this.svg = s("svg", { class: "chart", tabindex: 0, role: "img", "aria-label": title });
    this.tip = h("div.tip", { hidden: true });
    this.legend = h("div.legend");
    this.spoken = h("p.hidden", { "aria-live": "polite" });
    this.plot = h("div.plot", {}, this.svg, this.tip);
    this.element = h(
      "figure.figure",
      {},
      h("figcaption", {}, h("h3", {}, title, unit ? h("small", {}, ` ${unit}`) : null), this.legend),
      this.plot,
      this.spoken,
    );
    this.at = null;
    this.data = null;
    this.svg.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.svg.addEventListener("pointerleave", () => this.leave());
    this.svg.addEventListener("blur", () => this.leave());
    this.svg.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  show(data) {
    this.data = data;
    this.draw();
  }

  leave() {
    this.at = null;
    this.tip.hidden = true;
    this.marks?.replaceChildren();
  }

  key(event) {
    const stops = this.stops();
    if (!stops.length || !["ArrowLeft", "ArrowRight", "Home", "End", "Escape"].includes(event.key)) return;
    event.preventDefault();
    if (event.key === "Escape") return this.leave();
    const here = this.at === null ? stops.length : nearest(stops, this.at);
    const jump = event.shiftKey ? 10 : 1;
    const next = { ArrowLeft: here - jump, ArrowRight: here + jump, Home: 0, End: stops.length - 1 }[
      event.key
    ];
    this.mark(stops[Math.max(0, Math.min(stops.length - 1, next))]);
    this.spoken.textContent = this.tip.innerText.replaceAll("\n", ", ");
  }

  point(offset) {
    const stops = this.stops();
    if (!stops.length || !this.x) return;
    this.mark(stops[nearest(stops.map(this.x), offset)]);
  }

  draw() {
    const width = Math.round(this.plot.clientWidth);
    if (!width) return;
    const inner = { w: width - MARGIN.left - MARGIN.right, h: this.height - MARGIN.top - MARGIN.bottom };
    this.svg.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", this.height);
    const [x0, x1, y0, y1] = this.data ? this.domain(this.data) : [null];
    if (x0 === null || x0 === undefined) {
      replace(this.svg, s("text", { x: width / 2, y: this.height / 2, class: "axis mid" }, this.empty));
      this.svg.setAttribute("aria-label", `${this.title}. ${this.empty}`);
      this.x = null;
      return;
    }
    this.x = (value) => MARGIN.left + ((value - x0) / (x1 - x0 || 1)) * inner.w;
    this.y = (value) => MARGIN.top + inner.h - ((value - y0) / (y1 - y0 || 1)) * inner.h;
    this.box = { width, ...inner, x0, x1, y0, y1 };
    this.marks = s("g", { class: "marks" });
    replace(this.svg, this.grid(), s("g", {}, ...this.shapes(this.data)), this.marks);
    this.svg.setAttribute(
      "aria-label",
      `${this.title}. ${this.sentence(this.data)} Arrow keys read the values.`,
    );
    if (this.at !== null) this.mark(this.at);
  }

  grid() {
    const { width, h: high, x0, x1, y0, y1 } = this.box;
    const group = s("g", { class: "grid", "aria-hidden": true });
    for (const value of ticksOf(y0, y1, 4)) {
      const at = this.y(value);
      group.append(s("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at }));
      group.append(s("text", { x: MARGIN.left - 8, y: at + 4, class: "axis end" }, this.axis(value)));
    }
    for (const [value, label] of this.xTicks(x0, x1, Math.max(2, Math.floor(width / 110)))) {
      const at = this.x(value);
      if (at > width - MARGIN.right - 10) continue;
      group.append(
        s("line", { class: "tick", x1: at, x2: at, y1: MARGIN.top + high, y2: MARGIN.top + high + 4 }),
      );
      group.append(s("text", { x: at, y: MARGIN.top + high + 17, class: "axis mid" }, label));
    }
    return group;
  }

  place(x, rows, heading) {
    replace(
      this.tip,
      h("strong", {}, heading),
      ...rows.map(([name, value, look]) =>
        h("span.row", {}, h(`i.key.${look || "none"}`), h("span", {}, name), h("b", {}, value)),
      ),
    );
    this.tip.hidden = false;
    const wide = this.tip.offsetWidth;
    const left = x + 14 + wide > this.box.width ? x - wide - 14 : x + 14;
    this.tip.style.left = `${Math.max(2, left)}px`;
  }
}

function nearest(values, wanted) {
  let best = 0;
  values.forEach((value, i) => {
    if (Math.abs(value - wanted) < Math.abs(values[best] - wanted)) best = i;
  });
  return best;
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

/** A curve of y over x with points that can be named. Data: {curve: [[x, y]], band: [[x, low, high]], points: [{x, y, name, look}], limit: {x, name}, legend: [[name, look]], rows(x, y)}. */
export class CurveChart extends Chart {
  constructor(options) {
    super(options);
    Object.assign(this, {
      across: options.across || number,
      up: options.up || number,
      fromZero: options.fromZero !== false,
    });
  }

  domain({ curve, points = [], limit }) {
    const all = [...curve, ...points.map(({ x, y }) => [x, y])];
    if (!all.length) return [null, null, 0, 1];
    const xs = [...all.map(([x]) => x), ...(limit ? [limit.x] : [])];
    const ys = all.map(([, y]) => y);
    const padX = (Math.max(...xs) - Math.min(...xs)) * 0.06 || Math.max(...xs) * 0.1 || 1;
    const low = this.fromZero ? 0 : Math.max(0, Math.min(...xs) - padX);
    return [low, Math.max(...xs) + padX, 0, Math.max(...ys) * 1.15 || 1];
  }

  xTicks(x0, x1, count) {
    const ticks = ticksOf(x0, x1, count);
    const step = ticks.length > 1 ? ticks[1] - ticks[0] : 0;
    return ticks.map((value) => [value, this.across(value, step)]);
  }

  limit({ x, name }) {
    const at = this.x(x);
    const end = at > this.box.width * 0.5;
    return [
      s("line", { class: "rule", x1: at, x2: at, y1: MARGIN.top, y2: MARGIN.top + this.box.h }),
      s(
        "text",
        { class: `axis rule-name ${end ? "end" : ""}`, x: at + (end ? -5 : 5), y: MARGIN.top + 9 },
        name,
      ),
    ];
  }

  shapes({ curve, band, points = [], dots, limit, legend = [] }) {
    const parts = limit ? this.limit(limit) : [];
    if (band) parts.push(s("path", { class: "band throughput", d: area(band, this.x, this.y) }));
    parts.push(s("path", { class: "line throughput", d: path(curve, this.x, this.y) }));
    if (dots)
      for (const [x, y] of curve)
        parts.push(s("circle", { class: "dot throughput", cx: this.x(x), cy: this.y(y), r: 3 }));
    for (const { x, y, name, look, below } of points) {
      const px = this.x(x);
      const end = px > this.box.width * 0.66;
      parts.push(s("line", { class: "drop", x1: px, x2: px, y1: this.y(y), y2: MARGIN.top + this.box.h }));
      parts.push(s("circle", { class: `spot ${look}`, cx: px, cy: this.y(y), r: 6 }));
      const low = below && this.y(y) + 22 < MARGIN.top + this.box.h; // never over the axis
      parts.push(
        s(
          "text",
          {
            class: `axis name ${end ? "end" : ""}`,
            x: px + (end ? -10 : 10),
            y: this.y(y) + (low ? 18 : -9),
          },
          name,
        ),
      );
    }
    replace(
      this.legend,
      legend.map(([name, look]) => h("span", {}, look ? h(`i.key.${look}`) : null, name)),
    );
    return parts;
  }

  /** A word beside the title, in the place of the legend. */
  hint(text) {
    replace(this.legend, h("span", {}, text));
  }

  stops() {
    return this.data && this.box ? this.data.curve.map(([x]) => x) : [];
  }

  mark(at) {
    this.at = at;
    const found =
      this.data.curve[
        nearest(
          this.data.curve.map(([x]) => x),
          at,
        )
      ];
    if (!found) return;
    const [x, y] = found;
    replace(this.marks, s("circle", { class: "dot throughput", cx: this.x(x), cy: this.y(y), r: 4 }));
    this.place(this.x(x), this.data.rows(x, y), "");
  }

  sentence({ points = [] }) {
    return points.map(({ name }) => name).join("; ") + ".";
  }
}

/** A line without axes, for tables. */
export function sparkline(values, { width = 120, height = 30, look = "traffic", label = "" } = {}) {
  const known = values.filter((value) => value !== null);
  const svg = s("svg", {
    class: "spark",
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "img",
    "aria-label": label,
  });
  if (known.length < 2) return svg;
  const top = Math.max(...known) || 1;
  const x = (i) => (i / (values.length - 1)) * (width - 2) + 1;
  const y = (value) => height - 3 - (value / top) * (height - 6);
  const d = path(
    values.map((value, i) => [i, value]),
    x,
    y,
  );
  svg.append(
    s("path", { class: `band ${look}`, d: `${d}L${x(values.length - 1)} ${height}L${x(0)} ${height}Z` }),
    s("path", { class: `line ${look}`, d }),
  );
  return svg;
}
