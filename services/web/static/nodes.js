// The fleet's machines: how full each is, whose workers are on it, and who waits for one.

import { h, meter, number, seconds, words } from "./dom.js";
import { row, table } from "./tables.js";

const FEW = 12;
const WHY = {
  full: "no node that may take it has room",
  kept: "there is room, and guarantees need all of it",
  nodes_unknown: "nobody knows the nodes",
  hindered: "the platform did not take the word for its node",
  refused: "the scheduler does not take the node that was chosen",
};
const SEATED = {
  reserved: "in the cells of its guarantee",
  packed: "packed",
  spread: "spread",
  scheduler: "the scheduler's choice",
};

const whose = (node) =>
  [...Object.entries(node.jobs), ...(node.batch ? [["batch", node.batch]] : [])]
    .map(([job, count]) => `${job} ${count}`)
    .join(", ") || "–";

const fullness = (node) => {
  if (node.lost) return h("b.bad-text", {}, "lost");
  const text = `${number(node.taken)} of ${node.gpus}`;
  return h("span.load", {}, meter(node.taken / node.gpus, `${text} GPUs taken`), h("span", {}, text));
};

// Nobody tells what runs on a node that was only counted: then there is nothing to see.
export const machines = (nodes) => {
  const known = nodes.some((node) => node.taken || node.batch || node.lost || node.within.length);
  if (!known) return null;
  const heads = ["Node", "GPU type", "Stands in", "GPUs taken", "Workers"];
  const shown = table(
    "Nodes",
    heads,
    nodes.map((node) =>
      row(heads, node.node, [node.gpu_type, node.within.join(" / ") || "–", fullness(node), whose(node)]),
    ),
  );
  const lost = nodes.filter((node) => node.lost).length;
  const told = `${number(nodes.length)} nodes${lost ? `, ${lost} lost` : ""}`;
  return nodes.length <= FEW
    ? [h("h3", {}, "Nodes"), shown]
    : h("details", {}, h("summary", { "data-key": "nodes" }, told), shown);
};

export const gate = (waiting) => {
  if (!waiting.length) return null;
  const heads = ["Waits for a node", "Job", "For", "Why"];
  return [
    h("h3", {}, "At the gate"),
    table(
      "Waiting for a node",
      heads,
      waiting.map((one) =>
        row(heads, one.pod, [
          one.job || "–",
          seconds(one.waits_s),
          `${WHY[one.why] || words(one.why)}${one.node ? ` (${one.node})` : ""}`,
        ]),
      ),
    ),
  ];
};

export const seats = (seated) => {
  if (!seated.length) return null;
  const heads = ["Was told its node", "Job", "Node", "Why", "Ago"];
  return h(
    "details",
    {},
    h("summary", { "data-key": "seated" }, `Nodes chosen lately (${seated.length})`),
    table(
      "Nodes chosen lately",
      heads,
      seated.map((one) =>
        row(heads, one.pod, [
          one.job || "–",
          one.node || "–",
          SEATED[one.why] || words(one.why),
          seconds(one.ago_s),
        ]),
      ),
    ),
  );
};
