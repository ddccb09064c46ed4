// Every job at a glance: what is late, what is degraded, what it holds.

import { get, maybe } from "./api.js";
import { sparkline } from "./sparkline.js";
import { Doubts, Pulse } from "./doubts.js";
import { clock, h, number, percent, redraw, replace, seconds } from "./dom.js";
import { Shares } from "./shares.js";

const KEPT = 90;

/** How a job does, then what somebody has set by hand: a paused job can be late, too. */
export function statesOf(job, silent = false) {
  const states = [health(job, silent)];
  if (job.paused) states.push(["Paused", "warn"]);
  if (job.override) states.push(["Override", "warn"]);
  if (job.mode === "recommend") states.push(["Recommends only", "quiet"]);
  return states;
}

function health(job, silent) {
  if (silent) return ["No news", "bad"];
  if (job.degraded) return ["Degraded", "bad"];
  return isLate(job) ? ["Late", "bad"] : ["On time", "good"];
}

const isLate = (job) => job.lag_s !== null && job.lag_s > job.fresh_within_s;
const isOver = (job) => job.late_share !== null && job.late_share > job.late_share_target;

export const pill = ([text, look]) => h(`span.pill.${look}`, {}, text);

export class FleetPage {
  constructor(me) {
    this.me = me;
    this.rates = new Map();
    this.jobs = new Map();
    this.tiles = h("div.tiles");
    this.doubts = new Doubts();
    this.pulses = new Map();
    this.list = h("div");
    this.shares = new Shares();
    this.element = h(
      "div.page",
      {},
      this.doubts.element,
      h("h1", {}, "Fleet"),
      this.tiles,
      this.list,
      this.shares.element,
    );
  }

  async load() {
    const fleet = await get("/v1/fleet");
    this.shares.draw(fleet.share);
    this.jobs = new Map(fleet.jobs.map((job) => [job.id, job]));
    await Promise.all(
      fleet.jobs.slice(0, 40).map(async (job) => {
        const series = await maybe(`/v1/jobs/${job.id}/series?limit=${KEPT}`);
        if (series) this.rates.set(job.id, series.rate_per_s);
        if (series) this.pulses.set(job.id, new Pulse(series.at_s));
      }),
    );
    for (const job of this.pulses.keys()) if (!this.jobs.has(job)) this.pulses.delete(job);
    this.watching ||= setInterval(() => this.listen(), 2000);
    this.draw();
  }

  /** Ticks that do not come are news too. */
  listen() {
    const silent = [...this.pulses].filter(([, pulse]) => pulse.silentSince());
    const told = silent.map(([job, pulse]) => `${job} since ${clock(pulse.silentSince())}`);
    this.doubts.set("silent", told.length ? `No tick of ${told.join(", ")}. What you see of it is old.` : "");
    if (this.doubts.old) this.draw();
  }

  async heard(kind, data) {
    if (kind === "reset" || kind === "job") return this.load();
    if (kind === "decision") this.shares.again();
    const job = this.jobs.get(data.job);
    if (!job || kind !== "tick") return undefined;
    for (const name of [
      "at_s",
      "rate_per_s",
      "lag_s",
      "late_share",
      "planned",
      "requested",
      "ready",
      "degraded",
      "trouble",
    ]) {
      if (data[name] !== undefined) job[name] = data[name];
    }
    this.pulses.get(data.job)?.heard(data.at_s);
    const rates = this.rates.get(data.job) || [];
    if (data.rate_per_s !== undefined) rates.push(data.rate_per_s);
    this.rates.set(data.job, rates.slice(-KEPT));
    if (!this.waiting) {
      this.waiting = setTimeout(() => {
        this.waiting = null;
        this.draw();
      }, 250);
    }
    return undefined;
  }

  close() {
    clearTimeout(this.waiting);
    clearInterval(this.watching);
    this.shares.close();
  }

  draw() {
    const jobs = [...this.jobs.values()];
    const sum = (name) => jobs.reduce((total, job) => total + (job[name] || 0), 0);
    const late = jobs.filter(isLate).length;
    const over = jobs.filter(isOver).length;
    const degraded = jobs.filter((job) => job.degraded).length;
    const gpus = jobs.reduce((total, job) => total + (job.ready || 0) * job.gpus_per_worker, 0);
    replace(
      this.tiles,
      tile(
        "Jobs",
        number(jobs.length),
        degraded ? `${degraded} degraded` : late ? "none degraded" : "all well",
        degraded ? "bad" : late ? "" : "good",
      ),
      tile("Late now", number(late), ...kept(late, over)),
      tile("Traffic", `${number(sum("rate_per_s"))}/s`, "samples arriving"),
      tile("Workers", number(sum("ready")), `of ${number(sum("planned"))} planned`),
      tile("GPUs", number(gpus), "held by ready workers"),
    );
    if (!jobs.length) {
      this.body = null;
      replace(
        this.list,
        h(
          "section.empty",
          {},
          h("h2", {}, "No jobs yet"),
          h(
            "p",
            {},
            "Add one under ",
            h("code", {}, "jobs"),
            " in the settings, or with ",
            h("code", {}, "penstock job apply FILE"),
            ".",
          ),
        ),
      );
      return;
    }
    if (!this.body) {
      this.body = h("tbody");
      const heads = ["Job", "State", "Traffic", "Lag", "Workers", "Late so far"];
      replace(
        this.list,
        h(
          "div.card.flush",
          {},
          h(
            "table.jobs",
            {},
            h(
              "thead",
              {},
              h(
                "tr",
                {},
                heads.map((name) => h("th", { scope: "col" }, name)),
              ),
            ),
            this.body,
          ),
        ),
      );
    }
    redraw(
      this.body,
      jobs.map((job) => this.row(job)),
    );
  }

  row(job) {
    const rates = this.rates.get(job.id) || [];
    const late = isLate(job);
    const silent = Boolean(this.doubts.stalled || this.pulses.get(job.id)?.silentSince());
    const cell = (name, ...children) => h("td", { "data-name": name }, ...children);
    return h(
      "tr",
      {},
      h(
        "th",
        { scope: "row" },
        h("a.job-link", { href: `#/jobs/${job.id}`, "data-key": job.id }, job.id),
        h("small", {}, job.topic),
      ),
      cell(
        "State",
        h("span.pills", {}, statesOf(job, silent).map(pill)),
        job.trouble ? h("small.trouble", {}, job.trouble) : null,
      ),
      cell(
        "Traffic",
        h(
          "span.with-spark",
          {},
          sparkline(rates, { label: `Traffic of ${job.id}` }),
          h("b", {}, job.rate_per_s === null ? "–" : `${number(job.rate_per_s)}/s`),
        ),
      ),
      cell(
        "Lag",
        h(late ? "b.bad-text" : "b", {}, seconds(job.lag_s)),
        h("small", {}, `of ${seconds(job.fresh_within_s)}`),
      ),
      cell("Workers", h("b", {}, job.ready ?? "–"), h("small", {}, `${job.planned ?? "–"} planned`)),
      cell(
        "Late so far",
        h(isOver(job) ? "b.bad-text" : "b", {}, percent(job.late_share)),
        h("small", {}, `${percent(job.late_share_target)} allowed`),
      ),
    );
  }
}

/** A promise is two: no sample older than promised now, and no more late ones than may be. */
function kept(late, over) {
  if (late) return ["beyond the promise", "bad"];
  if (over) return [`${over} had more late than may be`, "bad"];
  return ["every promise is kept", "good"];
}

export function tile(name, value, note, look = "") {
  return h(
    "div.tile",
    {},
    h("span.tile-name", {}, name),
    h("span.tile-value", {}, value),
    h(`span.tile-note${look ? `.${look}-text` : ""}`, {}, note),
  );
}
