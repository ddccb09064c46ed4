// Why what is shown may not be how things are: a lost connection, a silent store, ticks that do not come.

import { h } from "./dom.js";

const ORDER = ["connection", "stalled", "reading", "silent", "degraded"];
const OLD = ["stalled", "silent"]; // the connection stands, and yet nothing new comes

export class Doubts {
  constructor() {
    this.why = new Map();
    this.changed = () => {};
    this.element = h("div.banner", { role: "alert", hidden: true });
  }

  /** The gravest is shown. An alert that says the same again would be read out again: it is left alone. */
  set(kind, text) {
    if ((this.why.get(kind) || "") === text) return;
    this.why.set(kind, text);
    const shown = ORDER.map((one) => this.why.get(one)).find(Boolean) || "";
    if (this.element.textContent !== shown) this.element.textContent = shown;
    this.element.hidden = !shown;
    this.changed();
  }

  get stalled() {
    return Boolean(this.why.get("stalled"));
  }

  get old() {
    return OLD.some((kind) => this.why.get(kind));
  }
}

const MISSED = 4; // ticks that may fail to come
const LEAST_S = 15;

/** Hears a job's ticks, and tells since when it has been silent; null while ticks come at their usual pace. */
export class Pulse {
  constructor(times = []) {
    this.times = times.slice(-10);
    this.heardAt = Date.now();
  }

  heard(at) {
    this.times = [...this.times, at].slice(-10);
    this.heardAt = Date.now();
  }

  silentSince() {
    const gaps = this.times.slice(1).map((at, i) => at - this.times[i]);
    const usual = gaps.sort((a, b) => a - b)[gaps.length >> 1] || 0;
    const gone = (Date.now() - this.heardAt) / 1000; // by our own clock: the server's may differ
    return gone > Math.max(LEAST_S, MISSED * usual) ? (this.times.at(-1) ?? null) : null;
  }
}
