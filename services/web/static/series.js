// The latest ticks of a job as columns, oldest first: what the charts show.

export const KEPT = 600;

const COLUMNS = {
  at: "at_s",
  rate: "rate_per_s",
  trained: "trained_per_s",
  lag: "lag_s",
  capacity: "capacity_per_s",
  planned: "planned",
  requested: "requested",
  ready: "ready",
};

export class Series {
  constructor(document = {}) {
    for (const [name, field] of Object.entries(COLUMNS)) this[name] = document[field] || [];
  }

  /** One tick more; the oldest goes when there are too many. */
  add(tick) {
    if (this.at.includes(tick.at_s)) return; // read already
    for (const [name, field] of Object.entries(COLUMNS)) {
      this[name].push(tick[field] ?? null);
      if (this[name].length > KEPT) this[name].shift();
    }
  }
}
