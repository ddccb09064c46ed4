// Why the pool has the size it has, what other sizes would mean, and what would change it.

import { clock, h, meter, number, percent, redraw, replace, seconds, words } from "./dom.js";

/** The plan in force, why, and what else there was. */
export function drawWhy(card, plan, job) {
  if (!plan) {
    replace(card, h("h2", {}, "No decision yet"), h("p", {}, job.trouble || "The job has just started."));
    return;
  }
  const notes = plan.notes_in_words.map((text) => h("li", {}, text));
  const options = plan.alternatives.map((option) =>
    h(
      "tr",
      { class: option.workers === plan.planned ? "chosen" : null },
      h(
        "th",
        { scope: "row" },
        option.workers,
        option.workers === plan.planned ? h("span.hidden", {}, " (the plan)") : null,
      ),
      h("td", {}, `${number(option.capacity_per_s)}/s`),
      h("td", {}, bar(option.utilisation_now)),
      h("td", {}, option.utilisation_peak === null ? "–" : bar(option.utilisation_peak)),
      h("td", {}, option.drain_s === null ? "grows" : seconds(option.drain_s)),
    ),
  );
  const open = card.querySelector("details")?.open;
  redraw(
    card,
    h("h2", {}, `${plan.planned} ${plan.planned === 1 ? "worker" : "workers"}: ${words(plan.reason)}`),
    h("p.lead", {}, plan.why),
    notes.length ? h("ul.notes", {}, notes) : null,
    plan.binding ? h("p", {}, "Binding constraint: ", h("b", {}, words(plan.binding)), ".") : null,
    options.length
      ? h(
          "details",
          { open },
          h("summary", { "data-key": "other sizes" }, "What other sizes would mean"),
          h(
            "table.options",
            {},
            h(
              "thead",
              {},
              h(
                "tr",
                {},
                ["Workers", "Can train", "Load now", "Load at forecast peak", "Backlog gone in"].map((name) =>
                  h("th", { scope: "col" }, name),
                ),
              ),
            ),
            h("tbody", {}, options),
          ),
        )
      : null,
    plan.would_change.length ? h("p.fine", {}, `What would change it: ${plan.would_change.join(" ")}`) : null,
    h("p.fine", {}, `Decision ${plan.id} at ${clock(plan.at_s)}`),
  );
}

function bar(share) {
  const look = share > 1 ? "over" : share > 0.85 ? "near" : "";
  return h(
    "span.load",
    {},
    meter(Math.min(share, 1), percent(share, 0), look),
    h("span", {}, percent(share, 0)),
  );
}
