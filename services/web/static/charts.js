// The charts of a job: traffic with what was and is forecast, workers, lag, capacity, throughput.

import { CurveChart } from "./curve_chart.js";
import { h, number, seconds } from "./dom.js";
import { TimeChart } from "./time_chart.js";

const NEAR = 2.5; // as much past as makes the forecast easy to read, in horizons

const card = (chart) => h("section.card", {}, chart.element);

export class Charts {
  constructor() {
    this.traffic = new TimeChart({
      title: "Traffic and forecast",
      unit: "samples/s",
      height: 260,
      value: (v) => `${number(v)}/s`,
    });
    this.workers = new TimeChart({ title: "Workers", value: (v) => number(v) });
    this.capacity = new TimeChart({
      title: "Capacity and training",
      unit: "samples/s",
      value: (v) => `${number(v)}/s`,
    });
    this.lag = new TimeChart({ title: "Lag against the promise", unit: "s", value: seconds });
    this.curve = new CurveChart({
      title: "Throughput",
      unit: "samples/s by workers",
      across: (v) => number(v),
    });
    this.span = h(
      "select",
      { id: "span", onchange: () => this.spanned() },
      h("option", { value: "" }, "near now"),
      h("option", { value: "whole" }, "all that is kept"),
    );
    this.spanRow = h(
      "div.row-head.span",
      {},
      h("span.inline", {}, h("label", { for: "span" }, "Charts show"), this.span),
    );
    this.element = h(
      "div.charts",
      {},
      this.spanRow,
      card(this.traffic),
      h("div.pair", {}, card(this.workers), card(this.lag)),
      h("div.pair", {}, card(this.capacity), card(this.curve)),
    );
  }

  draw(series, snapshot, job) {
    this.shown = [series, snapshot, job];
    const zip = (values) => series.at.map((at, i) => [at, values[i]]);
    const forecast = snapshot?.forecast;
    const now = series.at.at(-1);
    const ahead = forecast ? forecast.paths["0.5"].length * forecast.step_s : 0;
    const near = Math.max(ahead * NEAR, 120);
    const from = now === undefined ? undefined : Math.max(series.at[0], this.whole ? 0 : now - near);
    this.spanRow.hidden = now === undefined || now - series.at[0] <= near;
    const future = (level) =>
      forecast.paths[level]
        .map((value, i) => [forecast.issued_at_s + (i + 0.5) * forecast.step_s, value])
        .filter(([at]) => at >= now - forecast.step_s);
    const lines = [{ name: "arrived", look: "traffic", points: zip(series.rate) }];
    const bands = [];
    if (forecast && now !== undefined) {
      const said = forecast.said.filter(({ at_s }) => at_s <= now + forecast.step_s);
      const low = future("0.1");
      const high = future("0.95");
      bands.push({
        name: "was forecast (10–95 %)",
        look: "said",
        points: said.map((one) => [one.at_s, one.low, one.high]),
      });
      bands.push({
        name: "forecast (10–95 %)",
        look: "forecast",
        points: low.map(([at, value], i) => [at, value, high[i][1]]),
      });
      lines.push({ name: "forecast median", look: "forecast", points: future("0.5") });
    }
    this.traffic.show({ lines, bands, now, from });
    this.workers.show({
      lines: [
        { name: "planned", look: "planned", points: zip(series.planned), step: true },
        { name: "requested", look: "requested", points: zip(series.requested), step: true },
        { name: "ready", look: "ready", points: zip(series.ready), step: true },
      ],
      from,
    });
    this.capacity.show({
      lines: [
        { name: "capacity of ready workers", look: "capacity", points: zip(series.capacity), step: true },
        { name: "arrived", look: "traffic", points: zip(series.rate) },
        { name: "trained", look: "trained", points: zip(series.trained) },
      ],
      from,
    });
    this.lag.show({
      lines: [{ name: "oldest sample", look: "lag", points: zip(series.lag) }],
      rule: { value: job.fresh_within_s, name: `promised: ${seconds(job.fresh_within_s)}` },
      from,
    });
    this.drawCurve(snapshot?.throughput);
  }

  spanned() {
    this.whole = this.span.value === "whole";
    this.draw(...this.shown);
  }

  drawCurve(known) {
    if (!known) return this.curve.show({ curve: [], points: [], rows: () => [] });
    const curve = known.curve.map((rate, workers) => [workers, rate]);
    const band = known.curve_low.map((rate, workers) => [workers, rate, known.curve[workers]]);
    const points = [
      {
        x: known.ready,
        y: known.trained_per_s,
        look: "traffic",
        name: `now: ${known.ready} train ${number(known.trained_per_s)}/s`,
        below: true,
      },
    ];
    const legend = [
      ["expected", "throughput"],
      ["down to what is sure", "throughput.wide"],
    ];
    const rows = (workers) => [
      ["workers", number(workers)],
      ["can train", `${number(known.curve[workers])}/s`, "throughput"],
      ["at least", `${number(known.curve_low[workers])}/s`, "throughput.wide"],
    ];
    this.curve.show({ curve, band, points, legend, rows });
    this.note ||= this.curve.element.appendChild(h("p.fine"));
    this.note.textContent = `Bottleneck: ${known.bottleneck}. Confidence: ${known.confidence} (${known.observations} observations).`;
    return undefined;
  }
}
