// A line without axes, for tables.

import { s } from "./dom.js";
import { path } from "./frame.js";

export function sparkline(values, { width = 120, height = 30, look = "traffic", label = "" } = {}) {
  const known = values.filter((value) => value !== null);
  const svg = s("svg", {
    class: "spark",
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "img",
    "aria-label": label,
  });
  if (known.length < 2) return svg;
  const top = Math.max(...known) || 1;
  const x = (i) => (i / (values.length - 1)) * (width - 2) + 1;
  const y = (value) => height - 3 - (value / top) * (height - 6);
  const d = path(
    values.map((value, i) => [i, value]),
    x,
    y,
  );
  svg.append(
    s("path", { class: `band ${look}`, d: `${d}L${x(values.length - 1)} ${height}L${x(0)} ${height}Z` }),
    s("path", { class: `line ${look}`, d }),
  );
  return svg;
}
