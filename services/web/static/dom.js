// Elements, and how numbers, times and durations are written.

const SVG = "http://www.w3.org/2000/svg";

/** An element: h("div.card", {onclick}, "text", child). Text is always text: nothing is parsed as HTML. */
export function h(selector, attributes = {}, ...children) {
  const [tag, ...classes] = selector.split(".");
  return fill(document.createElement(tag || "div"), classes, attributes, children);
}

export function s(selector, attributes = {}, ...children) {
  const [tag, ...classes] = selector.split(".");
  return fill(document.createElementNS(SVG, tag), classes, attributes, children);
}

function fill(element, classes, attributes, children) {
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter(Boolean));
}

/** Draw anew what lies in `element` and leave the keyboard where it was: elements are new, their keys are not. */
export function redraw(element, ...children) {
  const at = document.activeElement;
  const key = element.contains(at) ? at.dataset.key : null;
  replace(element, ...children);
  if (key) element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

export function number(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${trim((value / 1e9).toPrecision(3))} G`;
  if (size >= 1e6) return `${trim((value / 1e6).toPrecision(3))} M`;
  if (size >= 1e4) return `${trim((value / 1e3).toPrecision(3))} k`;
  if (size >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en-GB");
  return trim(value.toPrecision(digits));
}

const trim = (text) => (text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : text);

export function percent(share, digits = 2) {
  if (share === null || share === undefined) return "–";
  const value = share * 100;
  if (value !== 0 && Math.abs(value) < 0.01) return "< 0.01 %";
  return `${trim(value.toFixed(digits))} %`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1) return `${trim(value.toPrecision(2))} s`;
  if (value < 120) return `${trim(value.toFixed(value < 10 ? 1 : 0))} s`;
  if (value < 7200) return `${trim((value / 60).toFixed(1))} min`;
  if (value < 172800) return `${trim((value / 3600).toFixed(1))} h`;
  return `${trim((value / 86400).toFixed(1))} d`;
}

export function clock(at, withSeconds = true) {
  const options = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  if (withSeconds) options.second = "2-digit";
  return new Date(at * 1000).toLocaleTimeString("en-GB", options);
}

/** Which clock the page shows: that of the browser. The command line and the logs show UTC. */
export function zone() {
  const minutes = -new Date().getTimezoneOffset();
  if (!minutes) return "UTC";
  const two = (value) => String(Math.floor(value)).padStart(2, "0");
  return `UTC${minutes < 0 ? "−" : "+"}${two(Math.abs(minutes) / 60)}:${two(Math.abs(minutes) % 60)}`;
}

export function moment(at) {
  const date = new Date(at * 1000);
  const today = new Date().toDateString() === date.toDateString();
  return today
    ? clock(at)
    : `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${clock(at, false)}`;
}

/** What a number is called and how it reads with its unit, from a name such as `rate_per_s` or `lag_s`. */
export function measured(name, value) {
  if (name === "lag") return ["backlog", `${number(value)} samples`];
  if (name.endsWith("_at_s")) return [words(name.slice(0, -5)), value ? moment(value) : "–"];
  if (name.endsWith("_per_s")) return [words(name.slice(0, -6)), `${number(value)}/s`];
  if (name.endsWith("_s")) return [words(name.slice(0, -2)), seconds(value)];
  if (name.endsWith("_share")) return [words(name), percent(value)];
  return [words(name), number(value)];
}

export const words = (reason) => reason.replaceAll("_", " ");

/** A bar that is `share` full, with what it means for those who do not see it. */
export function meter(share, label, look = "") {
  const inside = h(`i${look ? `.${look}` : ""}`);
  inside.style.width = `${Math.max(share * 100, 1)}%`;
  return h("span.meter", { role: "img", "aria-label": label, title: label }, inside);
}

/** Tell the operator, and a screen reader, what has just happened. */
export function tell(text, kind = "good") {
  const box = document.getElementById("told");
  const note = h(`div.note.${kind}`, {}, text);
  box.append(note);
  setTimeout(() => note.remove(), kind === "bad" ? 12000 : 6000);
}
