// One job: what came, what is coming, what was decided and why, and what an operator can do about it.

import { ask, get, maybe } from "./api.js";
import { CurveChart, TimeChart } from "./chart.js";
import { drawBalance } from "./balance.js";
import { Doubts, Pulse } from "./doubts.js";
import { h, number, percent, replace, seconds } from "./dom.js";
import { Timeline } from "./timeline.js";
import { pill, statesOf, tile } from "./fleet.js";
import { Hand } from "./hand.js";
import { Freshness } from "./promise.js";
import { drawQuality } from "./quality.js";
import { drawResizes, resizesPath, standbys } from "./resizes.js";
import { drawWhy } from "./why.js";

const KEPT = 600;
const NEAR = 2.5; // as much past as makes the forecast easy to read, in horizons

export class JobPage {
  constructor(id, me, reasons) {
    Object.assign(this, { id, me, reasons, base: `/v1/jobs/${encodeURIComponent(id)}` });
    this.series = {
      at: [],
      rate: [],
      trained: [],
      lag: [],
      capacity: [],
      planned: [],
      requested: [],
      ready: [],
    };
    this.doubts = new Doubts();
    this.pulse = new Pulse();
    this.head = h("div.job-head");
    this.tiles = h("div.tiles");
    this.why = h("section.card.why", { "aria-label": "The plan in force" });
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
    this.balance = h("section.card", { "aria-label": "Partitions and workers" });
    this.timeline = new Timeline(this.base, reasons);
    this.resizes = h("section.card", { "aria-label": "Resizes" });
    this.quality = h("section.card", { "aria-label": "Freshness and quality" });
    this.promise = new Freshness(this);
    this.hand = new Hand(this);
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
      "div.page",
      {},
      this.doubts.element,
      this.head,
      h(
        "nav.jump",
        { "aria-label": "On this page" },
        [
          ["Promise", this.promise.element],
          ["By hand", this.hand.element],
          ["Decisions", this.timeline.element],
        ].map(([name, part]) => h("button", { type: "button", onclick: () => jump(part) }, name)),
      ),
      this.tiles,
      h(
        "div.columns",
        {},
        h(
          "div.left",
          {},
          this.why,
          this.spanRow,
          h("section.card", {}, this.traffic.element),
          h(
            "div.pair",
            {},
            h("section.card", {}, this.workers.element),
            h("section.card", {}, this.lag.element),
          ),
          h(
            "div.pair",
            {},
            h("section.card", {}, this.capacity.element),
            h("section.card", {}, this.curve.element),
          ),
          this.timeline.element,
          this.balance,
        ),
        h("div.right", {}, this.promise.element, this.hand.element, this.quality, this.resizes),
      ),
    );
  }

  async load() {
    await this.readAll();
    this.hand.draw();
    this.promise.load();
    this.watching = setInterval(() => this.listen(), 2000);
  }

  async readAll() {
    await this.read();
    const series = await maybe(`${this.base}/series?limit=${KEPT}`);
    if (series) {
      this.series = {
        at: series.at_s,
        rate: series.rate_per_s,
        trained: series.trained_per_s,
        lag: series.lag_s,
        capacity: series.capacity_per_s,
        planned: series.planned,
        requested: series.requested,
        ready: series.ready,
      };
    }
    this.pulse = new Pulse(this.series.at);
    await this.timeline.load();
    this.draw();
  }

  async read() {
    const { document, etag } = await ask("GET", this.base);
    Object.assign(this, { job: document, etag });
    [this.snapshot, this.plan, this.actuations] = await Promise.all(
      ["/snapshot", "/plan", resizesPath].map((path) => maybe(this.base + path)),
    );
  }

  /** Ticks that do not come are news too. */
  listen() {
    const silent = this.pulse.silentFor();
    this.doubts.set(
      "silent",
      silent
        ? `No tick for ${seconds(silent)}: no controller decides for this job now, or nobody can tell. What you see is old.`
        : "",
    );
    this.drawHead();
  }

  async heard(kind, data) {
    if (kind === "reset") return this.readAll(); // what is being typed stays
    if (kind === "tick") this.tick(data);
    if (kind === "decision") {
      this.timeline.heard(data);
      this.readAt = 0; // the plan in force is another: read it with the next drawing
    }
    if (kind === "job") {
      if (data.action === "job.delete") return this.gone();
      await this.refresh();
      this.hand.draw();
      this.promise.changed();
    }
    return undefined;
  }

  gone() {
    replace(
      this.element,
      h(
        "section.empty",
        {},
        h("h1", {}, `${this.id} was deleted`),
        h("p", {}, "Its workers are being drained."),
        h("a.button", { href: "#/" }, "Back to the fleet"),
      ),
    );
  }

  tick(data) {
    this.pulse.heard(data.at_s);
    this.doubts.set("silent", "");
    Object.assign(this.job, { degraded: data.degraded, trouble: data.trouble, at_s: data.at_s });
    if (data.rate_per_s !== undefined) {
      const { series } = this;
      const values = {
        at: data.at_s,
        rate: data.rate_per_s,
        trained: data.trained_per_s,
        lag: data.lag_s,
        capacity: data.capacity_per_s,
        planned: data.planned,
        requested: data.requested,
        ready: data.ready,
      };
      for (const [name, value] of Object.entries(values)) {
        series[name].push(value ?? null);
        if (series[name].length > KEPT) series[name].shift();
      }
      for (const name of ["rate_per_s", "lag_s", "planned", "requested", "ready"])
        if (data[name] !== undefined) this.job[name] = data[name];
    }
    if (!this.waiting) {
      this.waiting = setTimeout(async () => {
        this.waiting = null;
        if (Date.now() - (this.readAt || 0) > 4000) await this.refresh();
        else this.draw();
      }, 300);
    }
  }

  async refresh() {
    this.readAt = Date.now();
    try {
      await this.read();
      this.doubts.set("reading", "");
    } catch (error) {
      if (error.status === 404) return this.gone();
      this.doubts.set("reading", `What you see may be old: ${error.message}.`);
    }
    return this.draw();
  }

  /** Change the job, and show it as it is then. */
  async change(method, path, body, options = {}) {
    const { document, etag } = await ask(method, this.base + path, body, options);
    Object.assign(this, { job: document, etag });
    this.draw();
    this.hand.draw();
  }

  close() {
    clearTimeout(this.waiting);
    clearInterval(this.watching);
    this.promise.close();
  }

  draw() {
    this.drawHead();
    this.doubts.set("degraded", this.job.degraded ? `Degraded: ${this.job.trouble}` : "");
    drawWhy(this.why, this.plan, this.job);
    this.drawCharts();
    drawBalance(this.balance, this.snapshot);
    drawQuality(this.quality, this.snapshot, this.job);
    drawResizes(this.resizes, this.snapshot?.safety, this.actuations);
  }

  drawHead() {
    const { job, snapshot } = this;
    replace(
      this.head,
      h("h1", {}, job.id),
      statesOf(job, this.doubts.old).map(pill),
      h("span.meta", {}, `topic ${job.topic} · rule ${job.rule} · version ${job.version}`),
    );
    const late = job.lag_s !== null && job.lag_s > job.fresh_within_s;
    const forecast = snapshot?.forecast;
    const idle = standbys(snapshot?.workers);
    replace(
      this.tiles,
      tile(
        "Traffic",
        job.rate_per_s === null ? "–" : `${number(job.rate_per_s)}/s`,
        snapshot?.traffic ? `${number(snapshot.traffic.trained_per_s)}/s trained` : "not measured yet",
      ),
      tile(
        "Oldest sample",
        seconds(job.lag_s),
        `promised ${seconds(job.fresh_within_s)}`,
        late ? "bad" : "good",
      ),
      tile(
        "Workers ready",
        job.ready ?? "–",
        `${job.planned ?? "–"} planned · ${job.requested ?? "–"} requested${idle ? ` · ${idle} on standby` : ""}`,
      ),
      tile(
        "Late so far",
        percent(job.late_share),
        `may be ${percent(job.late_share_target)}`,
        job.late_share > job.late_share_target ? "bad" : "",
      ),
      tile(
        "Forecast",
        forecast ? forecast.model : "–",
        forecast
          ? forecast.score === null
            ? "not scored yet"
            : `error ${percent(forecast.score, 1)} of the rate`
          : "too little history",
      ),
    );
  }

  drawCharts() {
    const { series, snapshot, job } = this;
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
    this.drawCurve();
  }

  spanned() {
    this.whole = this.span.value === "whole";
    this.drawCharts();
  }

  drawCurve() {
    const known = this.snapshot?.throughput;
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
    const rows = (x, y) => [
      ["workers", number(x)],
      ["can train", `${number(y)}/s`, "throughput"],
      ["at least", `${number(known.curve_low[x])}/s`, "throughput.wide"],
    ];
    this.curve.show({ curve, band, points, legend, rows });
    this.note ||= this.curve.element.appendChild(h("p.fine"));
    this.note.textContent = `Bottleneck: ${known.bottleneck}. Confidence: ${known.confidence} (${known.observations} observations).`;
    return undefined;
  }
}

/** On a narrow screen the parts lie far below one another. */
function jump(part) {
  part.scrollIntoView({ block: "start" });
  part.querySelector("input, button, select, summary")?.focus({ preventScroll: true });
}
