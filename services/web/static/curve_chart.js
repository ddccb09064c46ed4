// A curve with points that have names.

import { h, number, replace, s } from "./dom.js";
import { Chart, MARGIN, area, nearest, path, ticksOf } from "./frame.js";

/** A curve of y over x with points that can be named. Data: {curve: [[x, y]], band: [[x, low, high]], points: [{x, y, name, look}], limit: {x, name}, legend: [[name, look]], rows(place on the curve)}. */
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

  /** Points are told apart by their place on the curve: several may lie above one another. */
  stops() {
    return this.data && this.box ? this.data.curve.map((_, i) => i) : [];
  }

  point(across, down) {
    const far = ([x, y]) => Math.hypot(this.x(x) - across, this.y(y) - down);
    if (this.stops().length) this.mark(nearest(this.data.curve.map(far), 0));
  }

  mark(at) {
    const found = this.data.curve[at];
    if (!found) return;
    this.at = at;
    const [x, y] = found;
    replace(this.marks, s("circle", { class: "dot throughput", cx: this.x(x), cy: this.y(y), r: 4 }));
    this.place(this.x(x), this.data.rows(at), "");
  }

  sentence({ points = [] }) {
    return points.map(({ name }) => name).join("; ") + ".";
  }
}
