// How the pool was resized lately, what came of it, and what holds it back.

import { clock, h, number, replace, words } from "./dom.js";
import { pill } from "./fleet.js";

const SHOWN = 8;
const LOOKS = { done: "good", refused: "bad" };

export const resizesPath = `/actuations?limit=${SHOWN}`;

/** How many workers stand by, started and loaded but without work. */
export const standbys = (workers) => (workers || []).filter((worker) => worker.phase === "standby").length;

const used = (count, most) => (most ? `${number(count)} of ${number(most)}` : number(count));

const steps = ({ step_up_max: up, step_down_max: down }) =>
  [
    up ? ` One resize adds ${number(up)} workers at most.` : "",
    down ? ` One resize takes ${number(down)} workers at most.` : "",
  ].join("");

export function drawResizes(card, safety, actuations) {
  const held = safety
    ? [
        ["growing", safety.breaker_up],
        ["shrinking", safety.breaker_down],
      ].filter(([, breaker]) => breaker.phase !== "closed")
    : [];
  const trail = (actuations || []).map((one) =>
    h(
      "li",
      {},
      h("time", {}, clock(one.at_s)),
      " ",
      h("b", {}, `${one.before} → ${one.workers}`),
      " ",
      pill([words(one.outcome), LOOKS[one.outcome] || "quiet"]),
      one.why ? h("p.fine", {}, one.why) : null,
    ),
  );
  replace(
    card,
    h("h2", {}, "Resizes"),
    safety
      ? h(
          "p.fine",
          {},
          `${used(safety.resizes_hour, safety.resizes_per_hour)} within the hour, ${used(safety.resizes_day, safety.resizes_per_day)} within the day.${steps(safety)}`,
        )
      : null,
    held.map(([direction, breaker]) =>
      h(
        "p.callout",
        {},
        `${direction[0].toUpperCase()}${direction.slice(1)} is held${breaker.until_s ? ` until ${clock(breaker.until_s)}` : ""}: ${breaker.failures} resizes in a row failed or did not help. ${breaker.why}`,
      ),
    ),
    trail.length ? h("ul.trail", {}, trail) : h("p", {}, "None yet."),
  );
}
