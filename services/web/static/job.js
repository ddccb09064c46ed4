// One job: what came, what is coming, what was decided and why, and what an operator can do about it.

import { ask, get, maybe } from "./api.js";
import { CurveChart, TimeChart } from "./chart.js";
import { Controls } from "./controls.js";
import { clock, h, number, percent, redraw, replace, seconds, words } from "./dom.js";
import { Timeline } from "./timeline.js";
import { pill, stateOf, tile } from "./fleet.js";
import { drawResizes, resizesPath, standbys } from "./resizes.js";

const KEPT = 600;
const NEAR = 2.5; // as much past as makes the forecast easy to read, in horizons

export class JobPage {
  constructor(id, me, reasons) {
    Object.assign(this, { id, me, reasons, base: `/v1/jobs/${encodeURIComponent(id)}` });
    this.series = { at: [], rate: [], trained: [], lag: [], capacity: [], planned: [], requested: [], ready: [] };
    this.warning = h("div.banner", { role: "alert", hidden: true });
    this.head = h("div.job-head");
    this.tiles = h("div.tiles");
    this.why = h("section.card.why", { "aria-label": "The plan in force" });
    this.traffic = new TimeChart({ title: "Traffic and forecast", unit: "samples/s", height: 260, value: (v) => `${number(v)}/s` });
    this.workers = new TimeChart({ title: "Workers", value: (v) => number(v) });
    this.capacity = new TimeChart({ title: "Capacity and training", unit: "samples/s", value: (v) => `${number(v)}/s` });
    this.lag = new TimeChart({ title: "Lag against the promise", unit: "s", value: seconds });
    this.curve = new CurveChart({ title: "Throughput", unit: "samples/s by workers", across: (v) => number(v) });
    this.balance = h("section.card", { "aria-label": "Partitions and workers" });
    this.timeline = new Timeline(this.base, reasons);
    this.resizes = h("section.card", { "aria-label": "Resizes" });
    this.quality = h("section.card", { "aria-label": "Freshness and quality" });
    this.controls = new Controls(this);
    this.span = h("select", { id: "span", onchange: () => this.spanned() }, h("option", { value: "" }, "near now"), h("option", { value: "whole" }, "all that is kept"));
    this.spanRow = h("div.row-head.span", {}, h("span.inline", {}, h("label", { for: "span" }, "Charts show"), this.span));
    this.element = h(
      "div.page",
      {},
      this.warning,
      this.head,
      h("nav.jump", { "aria-label": "On this page" }, [["Promise", this.controls.slo], ["By hand", this.controls.hand], ["Decisions", this.timeline.element]].map(([name, part]) => h("button", { type: "button", onclick: () => jump(part) }, name))),
      this.tiles,
      h("div.columns", {}, h("div.left", {}, this.why, this.spanRow, h("section.card", {}, this.traffic.element), h("div.pair", {}, h("section.card", {}, this.workers.element), h("section.card", {}, this.lag.element)), h("div.pair", {}, h("section.card", {}, this.capacity.element), h("section.card", {}, this.curve.element)), this.timeline.element, this.balance), h("div.right", {}, this.controls.element, this.quality, this.resizes)),
    );
  }

  async load() {
    await this.readAll();
    await this.controls.load();
  }

  async readAll() {
    await this.read();
    const series = await maybe(`${this.base}/series?limit=${KEPT}`);
    if (series) {
      this.series = { at: series.at_s, rate: series.rate_per_s, trained: series.trained_per_s, lag: series.lag_s, capacity: series.capacity_per_s, planned: series.planned, requested: series.requested, ready: series.ready };
    }
    await this.timeline.load();
    this.draw();
  }

  async read() {
    const { document, etag } = await ask("GET", this.base);
    Object.assign(this, { job: document, etag });
    [this.snapshot, this.plan, this.actuations] = await Promise.all(["/snapshot", "/plan", resizesPath].map((path) => maybe(this.base + path)));
  }

  degraded(why) {
    this.lost = why;
    this.drawWarning();
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
      this.controls.changed();
    }
    return undefined;
  }

  gone() {
    replace(this.element, h("section.empty", {}, h("h1", {}, `${this.id} was deleted`), h("p", {}, "Its workers are being drained."), h("a.button", { href: "#/" }, "Back to the fleet")));
  }

  tick(data) {
    Object.assign(this.job, { degraded: data.degraded, trouble: data.trouble, at_s: data.at_s });
    if (data.rate_per_s !== undefined) {
      const { series } = this;
      const values = { at: data.at_s, rate: data.rate_per_s, trained: data.trained_per_s, lag: data.lag_s, capacity: data.capacity_per_s, planned: data.planned, requested: data.requested, ready: data.ready };
      for (const [name, value] of Object.entries(values)) {
        series[name].push(value ?? null);
        if (series[name].length > KEPT) series[name].shift();
      }
      for (const name of ["rate_per_s", "lag_s", "planned", "requested", "ready"]) if (data[name] !== undefined) this.job[name] = data[name];
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
    } catch (error) {
      if (error.status === 404) return this.gone();
      this.degraded(`What you see may be old: ${error.message}.`);
    }
    return this.draw();
  }

  close() {
    clearTimeout(this.waiting);
    this.controls.close();
  }

  draw() {
    this.drawHead();
    this.drawWarning();
    this.drawWhy();
    this.drawCharts();
    this.drawBalance();
    this.drawQuality();
    drawResizes(this.resizes, this.snapshot?.safety, this.actuations);
  }

  drawWarning() {
    const why = this.lost || (this.job?.degraded ? `Degraded: ${this.job.trouble}` : "");
    this.warning.hidden = !why;
    this.warning.textContent = why;
  }

  drawHead() {
    const { job, snapshot } = this;
    replace(this.head, h("h1", {}, job.id), pill(stateOf(job)), job.mode === "recommend" ? pill(["Recommends only", "quiet"]) : null, h("span.meta", {}, `topic ${job.topic} · rule ${job.rule} · version ${job.version}`));
    const late = job.lag_s !== null && job.lag_s > job.fresh_within_s;
    const forecast = snapshot?.forecast;
    const idle = standbys(snapshot?.workers);
    replace(
      this.tiles,
      tile("Traffic", job.rate_per_s === null ? "–" : `${number(job.rate_per_s)}/s`, snapshot?.traffic ? `${number(snapshot.traffic.trained_per_s)}/s trained` : "not measured yet"),
      tile("Oldest sample", seconds(job.lag_s), `promised ${seconds(job.fresh_within_s)}`, late ? "bad" : "good"),
      tile("Workers ready", job.ready ?? "–", `${job.planned ?? "–"} planned · ${job.requested ?? "–"} requested${idle ? ` · ${idle} on standby` : ""}`),
      tile("Late so far", percent(job.late_share), `may be ${percent(job.late_share_target)}`, job.late_share > job.late_share_target ? "bad" : ""),
      tile("Forecast", forecast ? forecast.model : "–", forecast ? (forecast.score === null ? "not scored yet" : `error ${percent(forecast.score, 1)} of the rate`) : "too little history"),
    );
  }

  drawWhy() {
    const { plan, job } = this;
    if (!plan) {
      replace(this.why, h("h2", {}, "No decision yet"), h("p", {}, job.trouble || "The job has just started."));
      return;
    }
    const notes = plan.notes_in_words.map((text) => h("li", {}, text));
    const options = plan.alternatives.map((option) =>
      h(
        "tr",
        { class: option.workers === plan.planned ? "chosen" : null },
        h("th", { scope: "row" }, option.workers, option.workers === plan.planned ? h("span.hidden", {}, " (the plan)") : null),
        h("td", {}, `${number(option.capacity_per_s)}/s`),
        h("td", {}, bar(option.utilisation_now)),
        h("td", {}, option.utilisation_peak === null ? "–" : bar(option.utilisation_peak)),
        h("td", {}, option.drain_s === null ? "grows" : seconds(option.drain_s)),
      ),
    );
    redraw(
      this.why,
      h("h2", {}, `${plan.planned} ${plan.planned === 1 ? "worker" : "workers"}: ${words(plan.reason)}`),
      h("p.lead", {}, plan.why),
      notes.length ? h("ul.notes", {}, notes) : null,
      plan.binding ? h("p", {}, "Binding constraint: ", h("b", {}, words(plan.binding)), ".") : null,
      options.length
        ? h("details", { open: this.whyOpen, ontoggle: (event) => (this.whyOpen = event.target.open) }, h("summary", { "data-key": "other sizes" }, "What other sizes would mean"), h("table.options", {}, h("thead", {}, h("tr", {}, ["Workers", "Can train", "Load now", "Load at forecast peak", "Backlog gone in"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, options)))
        : null,
      plan.would_change.length ? h("p.fine", {}, `What would change it: ${plan.would_change.join(" ")}`) : null,
      h("p.fine", {}, `Decision ${plan.id} at ${clock(plan.at_s)}`),
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
    const future = (level) => forecast.paths[level].map((value, i) => [forecast.issued_at_s + (i + 0.5) * forecast.step_s, value]).filter(([at]) => at >= now - forecast.step_s);
    const lines = [{ name: "arrived", look: "traffic", points: zip(series.rate) }];
    const bands = [];
    if (forecast && now !== undefined) {
      const said = forecast.said.filter(({ at_s }) => at_s <= now + forecast.step_s);
      const low = future("0.1");
      const high = future("0.95");
      bands.push({ name: "was forecast (10–95 %)", look: "said", points: said.map((one) => [one.at_s, one.low, one.high]) });
      bands.push({ name: "forecast (10–95 %)", look: "forecast", points: low.map(([at, value], i) => [at, value, high[i][1]]) });
      lines.push({ name: "forecast median", look: "forecast", points: future("0.5") });
    }
    this.traffic.show({ lines, bands, now, from });
    this.workers.show({ lines: [{ name: "planned", look: "planned", points: zip(series.planned), step: true }, { name: "requested", look: "requested", points: zip(series.requested), step: true }, { name: "ready", look: "ready", points: zip(series.ready), step: true }], from });
    this.capacity.show({ lines: [{ name: "capacity of ready workers", look: "capacity", points: zip(series.capacity), step: true }, { name: "arrived", look: "traffic", points: zip(series.rate) }, { name: "trained", look: "trained", points: zip(series.trained) }], from });
    this.lag.show({ lines: [{ name: "oldest sample", look: "lag", points: zip(series.lag) }], rule: { value: job.fresh_within_s, name: `promised: ${seconds(job.fresh_within_s)}` }, from });
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
    const points = [{ x: known.ready, y: known.trained_per_s, look: "traffic", name: `now: ${known.ready} train ${number(known.trained_per_s)}/s`, below: true }];
    this.curve.show({ curve, points, rows: (x, y) => [["workers", number(x)], ["can train", `${number(y)}/s`, "throughput"]] });
    this.note ||= this.curve.element.appendChild(h("p.fine"));
    this.note.textContent = `Bottleneck: ${known.bottleneck}. Confidence: ${known.confidence} (${known.observations} observations).`;
    return undefined;
  }

  drawBalance() {
    const workers = this.snapshot?.workers || [];
    const rates = this.snapshot?.traffic?.partition_rates || [];
    const most = Math.max(...workers.map((worker) => worker.share), 1e-9);
    const owned = workers.filter((worker) => worker.partitions.length);
    const mean = owned.reduce((sum, worker) => sum + worker.share, 0) / (owned.length || 1);
    const rows = workers.map((worker) =>
      h(
        "li",
        {},
        h("div.balance-head", {}, h("b", {}, worker.id), pill([worker.phase, worker.phase === "ready" ? "good" : worker.phase === "failed" ? "bad" : "quiet"]), h("span.fine", {}, worker.busy === null ? "no report" : `${percent(worker.busy, 0)} busy`)),
        meter(worker.share / most, `${percent(worker.share, 1)} of the traffic`),
        h("span.fine", {}, worker.partitions.length ? `partitions ${ranges(worker.partitions)}` : "no partitions of its own"),
      ),
    );
    const even = owned.length ? `${rates.length} partitions on ${owned.length} workers; the busiest has ${number(most / (mean || 1))} times the mean.` : `${rates.length} partitions.`;
    replace(this.balance, h("h2", {}, "Partitions and workers"), h("p.fine", {}, even), rows.length ? h("ul.balance", {}, rows) : h("p", {}, "No workers."));
  }

  drawQuality() {
    const known = this.snapshot?.quality;
    const rows = known
      ? [["Trained", number(known.trained)], ["Late", `${number(known.late)} (${percent(known.late_share)})`], ["Allowed late", percent(this.job.late_share_target)], ["Trained twice at most", number(known.repeated)], ["Lost by Kafka", number(known.lost)], ["AUC, test-then-train", known.auc === null ? "not reported" : known.auc.toFixed(4)], ...(Number.isFinite(known.sample_age_s) ? [["Age when trained", `${known.sample_age_s.toFixed(1)} s after the event`], ["Log loss", known.logloss.toFixed(4)]] : [])]
      : [];
    const scores = this.snapshot?.forecast?.scores || [];
    replace(
      this.quality,
      h("h2", {}, "Freshness and quality"),
      rows.length ? h("dl.facts", {}, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])) : h("p", {}, "Nobody counts this job's samples yet."),
      scores.length ? h("table.options", {}, h("thead", {}, h("tr", {}, ["Model", "Error", "Weight"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, scores.map((score) => h("tr", {}, h("th", { scope: "row" }, score.model), h("td", {}, percent(score.loss, 1)), h("td", {}, percent(score.weight, 0)))))) : null,
    );
  }
}

/** On a narrow screen the parts lie far below one another. */
function jump(part) {
  part.scrollIntoView({ block: "start" });
  part.querySelector("input, button, select, summary")?.focus({ preventScroll: true });
}

function bar(share) {
  const look = share > 1 ? "over" : share > 0.85 ? "near" : "";
  return h("span.load", {}, meter(Math.min(share, 1), percent(share, 0), look), h("span", {}, percent(share, 0)));
}

function meter(share, label, look = "") {
  const inside = h(`i${look ? `.${look}` : ""}`);
  inside.style.width = `${Math.max(share * 100, 1)}%`;
  return h("span.meter", { role: "img", "aria-label": label, title: label }, inside);
}

function ranges(numbers) {
  const parts = [];
  for (const n of numbers) {
    const last = parts.at(-1);
    if (last && last[1] === n - 1) last[1] = n;
    else parts.push([n, n]);
  }
  return parts.map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(", ");
}
