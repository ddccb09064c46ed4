// How the fleet's GPUs are shared: what there is, who asked for what, who has it, and what bound whom.

import { maybe } from "./api.js";
import { h, number, percent, replace } from "./dom.js";

const AGAIN_MS = 5000;
const AHEAD_MS = 60000;
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
  if (hours === undefined) return "–";
  if (hours === null) return "not within a day";
  return h("b.bad-text", {}, hours === 0 ? "within the hour" : `in ${hours} h`);
};

const table = (label, heads, rows) =>
  h(
    "div.card.flush",
    {},
    h(
      "table.jobs",
      { "aria-label": label },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((name) => h("th", { scope: "col" }, name)),
        ),
      ),
      h("tbody", {}, rows),
    ),
  );

const row = (heads, first, cells) =>
  h(
    "tr",
    {},
    h("th", { scope: "row" }, first),
    cells.map((cell, index) => h("td", { "data-name": heads[index + 1] }, cell)),
  );

export class Shares {
  constructor() {
    this.element = h("section.shares", { hidden: true });
    this.ahead = new Map();
    this.askedAt = 0;
  }

  // When each type will be short, by the forecasts: asked for once a minute at most.
  async look() {
    if (Date.now() - this.askedAt < AHEAD_MS) return;
    this.askedAt = Date.now();
    const answer = await maybe("/v1/fleet/ahead").catch(() => null); // a token for some jobs may not ask
    if (!answer) return;
    this.ahead = new Map(answer.types.map((one) => [one.gpu_type, one.short_in_h]));
    if (this.share) this.draw(this.share);
  }

  draw(share) {
    this.element.hidden = !share;
    if (!share) return;
    this.share = share;
    this.look();
    const kinds = [
      "GPU type",
      "There",
      "Lost",
      "Wished",
      "Held",
      "Batch",
      "Contended",
      "Short ahead",
      "One more is worth",
    ];
    const jobs = [
      "Job",
      "GPU type",
      "Asked",
      "Share",
      "Held",
      "Guaranteed",
      "Lent",
      "Satisfied",
      "Bound by",
      "Worker",
    ];
    replace(
      this.element,
      h("h2", {}, "Shared GPUs"),
      share.trouble ? h("div.banner", { role: "alert" }, share.trouble) : null,
      table(
        "GPU types",
        kinds,
        share.types.map((one) =>
          row(kinds, one.gpu_type, [
            number(one.gpus),
            number(one.lost),
            number(one.wished),
            number(one.held),
            number(one.batch),
            one.contended ? h("b.bad-text", {}, "yes") : "no",
            shortAhead(this.ahead.get(one.gpu_type)),
            number(one.shadow_price),
          ]),
        ),
      ),
      table(
        "Shares",
        jobs,
        share.jobs.map((one) =>
          row(jobs, one.tenant ? `${one.tenant}/${one.job}` : one.job, [
            one.gpu_type,
            number(one.asked),
            number(one.share),
            number(one.held),
            number(one.guaranteed),
            number(one.lent),
            percent(one.satisfaction),
            BOUND[one.binding] || one.binding,
            workerAdvice(one.worker),
          ]),
        ),
      ),
    );
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
