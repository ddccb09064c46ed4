// What every chart has: scales, grid, a crosshair, and how it is read with pointer, keys and as a sentence.

import { h, number, replace, s } from "./dom.js";

export const MARGIN = { top: 12, right: 14, bottom: 24, left: 52 };

export function ticksOf(low, high, count) {
  const span = high - low || 1;
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= rough) || rough;
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-6; at += step) ticks.push(at);
  return ticks;
}

export const path = (points, x, y, step) => {
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
export const area = (points, x, y) => {
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
export class Chart {
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
    this.svg.addEventListener("pointermove", (event) => this.point(event.offsetX, event.offsetY));
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

export function nearest(values, wanted) {
  let best = 0;
  values.forEach((value, i) => {
    if (Math.abs(value - wanted) < Math.abs(values[best] - wanted)) best = i;
  });
  return best;
}
