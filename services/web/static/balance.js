// Partitions and workers.

import { h, meter, number, percent, replace } from "./dom.js";
import { pill } from "./fleet.js";

/** Who reads which partitions, how much of the traffic that is, and how busy it keeps them. */
export function drawBalance(card, snapshot) {
  const workers = snapshot?.workers || [];
  const rates = snapshot?.traffic?.partition_rates || [];
  const most = Math.max(...workers.map((worker) => worker.share), 1e-9);
  const owned = workers.filter((worker) => worker.partitions.length);
  const mean = owned.reduce((sum, worker) => sum + worker.share, 0) / (owned.length || 1);
  const rows = workers.map((worker) =>
    h(
      "li",
      {},
      h(
        "div.balance-head",
        {},
        h("b", {}, worker.id),
        pill([worker.phase, worker.phase === "ready" ? "good" : worker.phase === "failed" ? "bad" : "quiet"]),
        h("span.fine", {}, worker.busy === null ? "no report" : `${percent(worker.busy, 0)} busy`),
      ),
      meter(worker.share / most, `${percent(worker.share, 1)} of the traffic`),
      h(
        "span.fine",
        {},
        worker.partitions.length
          ? `${percent(worker.share, 1)} of the traffic · partitions ${ranges(worker.partitions)}`
          : "no partitions of its own",
      ),
    ),
  );
  const even = owned.length
    ? `${rates.length} partitions on ${owned.length} workers; the busiest has ${number(most / (mean || 1))} times the mean.`
    : `${rates.length} partitions.`;
  replace(
    card,
    h("h2", {}, "Partitions and workers"),
    h("p.fine", {}, even),
    rows.length ? h("ul.balance", {}, rows) : h("p", {}, "No workers."),
  );
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
