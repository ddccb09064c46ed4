// Freshness and quality.

import { h, number, percent, replace } from "./dom.js";

/** How fresh samples are trained, and how good the model is where the trainer tells. */
export function drawQuality(card, snapshot, job) {
  const known = snapshot?.quality;
  const rows = known ? factsOf(known, job) : [];
  replace(
    card,
    h("h2", {}, "Freshness and quality"),
    rows.length
      ? h(
          "dl.facts",
          {},
          rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
        )
      : h("p", {}, "Nobody counts this job's samples yet."),
  );
}

function factsOf(known, job) {
  const rows = [
    ["Trained", number(known.trained)],
    ["Late by arrival, within a week", percent(known.late_share)],
    ["Allowed late", percent(job.late_share_target)],
    ["Late by event time, of all", `${number(known.late)} (${percent(known.late_share_by_event_time)})`],
    ["Trained twice at most", number(known.repeated)],
    ["Lost by Kafka", number(known.lost)],
    ["AUC, test-then-train", known.auc === null ? "not reported" : known.auc.toFixed(4)],
  ];
  if (Number.isFinite(known.logloss)) rows.push(["Log loss", known.logloss.toFixed(4)]);
  if (Number.isFinite(known.sample_age_s))
    rows.push(["Age when trained", `${known.sample_age_s.toFixed(1)} s after the event`]);
  return rows;
}
