// How the fleet's GPUs are shared: what there is, who asked for what, who has it, and what bound whom.

import { maybe } from "./api.js";
import { OtherBudget } from "./budget.js";
import { h, number, percent, redraw } from "./dom.js";
import { gate, machines, seats } from "./nodes.js";
import { sparkline } from "./sparkline.js";
import { row, table } from "./tables.js";

const AGAIN_MS = 5000;
const AHEAD_MS = 60000;
const KINDS = [
  "GPU type",
  "There",
  "Wished",
  "Held",
  "Guaranteed",
  "Lent",
  "Batch",
  "Contended",
  "Wished over a day",
  "One more is worth",
];
const JOBS = [
  "Job",
  "GPU type",
  "Asked",
  "Share",
  "Held",
  "Guaranteed",
  "Lent",
  "Satisfied",
  "Bound by",
  "One more GPU",
  "Worker",
];
const METHOD = {
  wishes: () => "There is enough: every job has what it asks for.",
  heap: () => "More is wished than there is: guarantees first, then whoever is least satisfied for its weight.",
  programme: (gap) =>
    `More is wished than there is: types and counts that satisfy most, at most ${percent(gap)} from the best.`,
  fallback: () => "More is wished than there is, and the programme found nothing in time: the simpler rule decided.",
};
const BOUND = {
  wish: "nothing",
  capacity: "the GPUs there are",
  efficiency: "one more adds too little",
  pinned: "being resized",
  no_type: "no GPU of its type",
  place: "no place beside guarantees",
};

const workerAdvice = (worker) => {
  if (!worker || worker.advice === "right") return "–";
  return `${worker.advice.replaceAll("_", " ")}: ${worker.cores} cores, ${worker.gpu_share} GPU`;
};

const shortAhead = (hours) => {
  if (hours === null) return "enough";
  return h("b.bad-text", {}, hours === 0 ? "short within the hour" : `short in ${hours} h`);
};

const ahead = (one) => {
  if (!one) return "–";
  const label = `${one.gpu_type}: up to ${number(Math.max(...one.wished))} of ${one.gpus} GPUs wished within a day`;
  return h(
    "span.with-spark",
    { title: label },
    sparkline(one.wished, { width: 90, height: 26, look: "forecast", label }),
    shortAhead(one.short_in_h),
  );
};

const worth = (by) =>
  Object.entries(by)
    .filter(([, added]) => added > 0)
    .map(([kind, added]) => `${kind} +${percent(added)}`)
    .join(", ") || "–";

const lent = (job) => `${number(job.lent)}${job.standbys_lent ? ` + ${job.standbys_lent} standby` : ""}`;

export class Shares {
  constructor() {
    this.told = h("div.told-shares");
    this.budget = new OtherBudget();
    this.element = h("section.shares", { hidden: true }, this.told, this.budget.element);
    this.ahead = new Map();
    this.askedAt = 0;
  }

  // When each type will be short, by the forecasts: asked for once a minute at most.
  async look() {
    if (Date.now() - this.askedAt < AHEAD_MS) return;
    this.askedAt = Date.now();
    const answer = await maybe("/v1/fleet/ahead").catch(() => null); // a token for some jobs may not ask
    if (!answer) return;
    this.ahead = new Map(answer.types.map((one) => [one.gpu_type, one]));
    if (this.share) this.draw(this.share);
  }

  draw(share) {
    this.element.hidden = !share;
    if (!share) return;
    this.share = share;
    this.look();
    this.budget.take(share.types);
    const open = new Set([...this.told.querySelectorAll("details[open] summary")].map((one) => one.dataset.key));
    redraw(
      this.told,
      h("h2", {}, "Shared GPUs"),
      share.trouble ? h("div.banner", { role: "alert" }, share.trouble) : null,
      h("p.help", {}, METHOD[share.method]?.(share.gap)),
      share.note ? h("p.callout", {}, share.note) : null,
      table("GPU types", KINDS, share.types.map((one) => this.kind(one))),
      table("Shares", JOBS, share.jobs.map((one) => this.job(one))),
      gate(share.waiting),
      machines(share.nodes),
      seats(share.seated),
    );
    for (const one of this.told.querySelectorAll("details")) one.open = open.has(one.firstChild.dataset.key);
  }

  kind(one) {
    return row(KINDS, one.gpu_type, [
      [number(one.gpus), one.lost ? h("small.bad-text", {}, `${number(one.lost)} lost`) : null],
      number(one.wished),
      number(one.held),
      number(one.guaranteed),
      number(one.lent),
      number(one.batch),
      one.contended ? h("b.bad-text", {}, "yes") : "no",
      ahead(this.ahead.get(one.gpu_type)),
      number(one.shadow_price),
    ]);
  }

  job(one) {
    return row(JOBS, one.tenant ? `${one.tenant}/${one.job}` : one.job, [
      one.gpu_type,
      number(one.asked),
      number(one.share),
      number(one.held),
      number(one.guaranteed),
      lent(one),
      h(one.satisfaction < 1 ? "b.bad-text" : "span", {}, percent(one.satisfaction)),
      BOUND[one.binding] || one.binding,
      worth(one.worth),
      workerAdvice(one.worker),
    ]);
  }

  // A decision may change everybody's share; many come at once, and one look is enough for them.
  again() {
    if (this.element.hidden || this.waiting) return;
    this.waiting = setTimeout(async () => {
      this.waiting = null;
      const fleet = await maybe("/v1/fleet").catch(() => null); // that the server is away is told by the live mark
      if (fleet) this.draw(fleet.share);
    }, AGAIN_MS);
  }

  close() {
    clearTimeout(this.waiting);
  }
}
