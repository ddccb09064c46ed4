// One job: what came, what is coming, what was decided and why, and what an operator can do about it.

import { ask, maybe } from "./api.js";
import { drawBalance } from "./balance.js";
import { Charts } from "./charts.js";
import { Doubts, Pulse } from "./doubts.js";
import { clock, h, number, percent, replace, seconds } from "./dom.js";
import { Forecasters } from "./forecasters.js";
import { Timeline } from "./timeline.js";
import { pill, statesOf, tile } from "./fleet.js";
import { Hand } from "./hand.js";
import { Freshness } from "./promise.js";
import { drawQuality } from "./quality.js";
import { Series, KEPT } from "./series.js";
import { drawResizes, resizesPath, standbys } from "./resizes.js";
import { drawWhy } from "./why.js";

export class JobPage {
  constructor(id, me, reasons) {
    Object.assign(this, { id, me, reasons, base: `/v1/jobs/${encodeURIComponent(id)}` });
    this.series = new Series();
    this.doubts = new Doubts();
    this.pulse = new Pulse();
    this.head = h("div.job-head");
    this.tiles = h("div.tiles");
    this.why = h("section.card.why", { "aria-label": "The plan in force" });
    this.charts = new Charts();
    this.balance = h("section.card", { "aria-label": "Partitions and workers" });
    this.timeline = new Timeline(this.base, reasons);
    this.resizes = h("section.card", { "aria-label": "Resizes" });
    this.quality = h("section.card", { "aria-label": "Freshness and quality" });
    this.promise = new Freshness(this);
    this.hand = new Hand(this);
    this.forecasters = new Forecasters(this);
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
        h("div.left", {}, this.why, this.charts.element, this.timeline.element, this.balance),
        h(
          "div.right",
          {},
          this.promise.element,
          this.hand.element,
          this.quality,
          this.forecasters.element,
          this.resizes,
        ),
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
    if (series) this.series = new Series(series);
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
    const since = this.pulse.silentSince();
    const why = "no controller decides for this job now, or nobody can tell. What you see is old.";
    this.doubts.set("silent", since ? `No tick since ${clock(since)}: ${why}` : "");
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
      this.series.add(data);
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
    this.charts.draw(this.series, this.snapshot, this.job);
    drawBalance(this.balance, this.snapshot);
    drawQuality(this.quality, this.snapshot, this.job);
    this.forecasters.draw(this.snapshot?.forecast, this.job);
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
}

/** On a narrow screen the parts lie far below one another. */
function jump(part) {
  part.scrollIntoView({ block: "start" });
  part.querySelector("input, button, select, summary")?.focus({ preventScroll: true });
}
