// Tables that become a list of cards on a narrow screen: every cell knows the name of its column.

import { h } from "./dom.js";

export const table = (label, heads, rows) =>
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

export const row = (heads, first, cells) =>
  h(
    "tr",
    {},
    h("th", { scope: "row" }, first),
    cells.map((cell, index) => h("td", { "data-name": heads[index + 1] }, cell)),
  );
