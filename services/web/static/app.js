// The page: who one is, which view is open, and the events that keep it live.

import { Problem, events, get, token } from "./api.js";
import { h, replace, s, zone } from "./dom.js";
import { FleetPage } from "./fleet.js";
import { JobPage } from "./job.js";

const main = document.getElementById("main");
const crumbs = document.getElementById("crumbs");
const live = document.getElementById("live");
const leave = document.getElementById("leave");

let page = null;
let stop = null;
let opening = 0;

const LIVE = { live: "Live", waiting: "Reconnecting…", refused: "Signed out", old: "No news" };

let connection = "";

/** What the mark on top says: whether the connection stands, and whether anything new comes over it. */
function showLive() {
  const state = connection === "live" && page?.doubts.old ? "old" : connection;
  live.dataset.state = state;
  if (live.textContent !== (LIVE[state] || "")) live.textContent = LIVE[state] || "";
}

function setLive(state) {
  connection = state;
  page?.doubts.set(
    "connection",
    state === "waiting" ? "The connection to the controller is lost. What you see may be old." : "",
  );
  if (state !== "live") page?.doubts.set("stalled", "");
  showLive();
}

function heard(kind, data) {
  if (kind !== "stalled") return page.heard(kind, data);
  return page.doubts.set(
    "stalled",
    data.why ? `The store does not answer, so nothing new can be shown: ${data.why}` : "",
  );
}

/** The job that the address names; as it stands there where it is not well written. */
function named() {
  const text = (location.hash.match(/^#\/jobs\/([^/]+)/) || [])[1] || "";
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function open() {
  const mine = ++opening;
  const left = () => mine !== opening; // for another view, while this one was still being read
  stop?.();
  page?.close?.();
  page = null;
  setLive("");
  const job = named();
  replace(
    crumbs,
    job
      ? [
          h("a", { href: "#/" }, "Fleet"),
          h("span", { "aria-hidden": true }, "›"),
          h("span", { "aria-current": "page" }, job),
        ]
      : [h("span", { "aria-current": "page" }, "Fleet")],
  );
  document.title = job ? `${job} · Penstock` : "Penstock";
  replace(main, h("p.loading", { role: "status" }, "Loading…"));
  try {
    const me = await get("/v1/me");
    if (left()) return;
    leave.hidden = !token.get();
    leave.title = `${me.name}, ${me.role}`;
    const reasons = await get("/v1/reasons");
    if (left()) return;
    page = job ? new JobPage(job, me, reasons) : new FleetPage(me);
    page.doubts.changed = showLive;
    const query = job ? `?job=${encodeURIComponent(job)}` : "?kinds=tick,decision,trouble,job";
    await listenThenLoad(page, query, left);
  } catch (error) {
    if (left()) return;
    stop?.();
    setLive("");
    failed(error);
  }
}

/** Heard first, then read: what happens in between is in one of the two or in both, and never in neither. */
async function listenThenLoad(opened, query, left) {
  const early = [];
  let take = (...event) => early.push(event);
  await new Promise((placed) => {
    const told = (state) => {
      if (!left()) setLive(state);
      placed();
    };
    stop = events(query, (...event) => take(...event), told);
  });
  await opened.load();
  if (left()) return opened.close();
  replace(main, opened.element);
  take = heard;
  for (const event of early) heard(...event);
  return undefined;
}

function failed(error) {
  if (error instanceof Problem && error.status === 401) return signIn(token.get() ? error.message : "");
  const again = h("button.primary", { type: "button", onclick: open }, "Try again");
  const title = error instanceof Problem ? error.title : "The controller cannot be reached";
  replace(main, h("section.empty", { role: "alert" }, h("h1", {}, title), h("p", {}, error.message), again));
}

function signIn(why) {
  leave.hidden = true;
  const field = h("input", {
    id: "token",
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
    "aria-describedby": "token-help",
  });
  const form = h(
    "form.card.sign-in",
    {
      onsubmit: (event) => {
        event.preventDefault();
        token.set(field.value.trim());
        open();
      },
    },
    h("h1", {}, "Sign in"),
    h("label", { for: "token" }, "Token"),
    field,
    h(
      "p.help",
      { id: "token-help" },
      "An admin makes one with ",
      h("code", {}, "penstock token create"),
      ". It is kept until this tab is closed.",
    ),
    why ? h("p.error", { role: "alert" }, why) : null,
    h("button.primary", { type: "submit" }, "Sign in"),
  );
  replace(main, form);
  field.focus();
}

leave.addEventListener("click", () => {
  token.drop();
  open();
});

const theme = document.getElementById("theme");
const SUN = () =>
  s(
    "svg",
    { viewBox: "0 0 24 24", width: 18, height: 18, "aria-hidden": true },
    s("circle", { cx: 12, cy: 12, r: 4.2, fill: "none", stroke: "currentColor", "stroke-width": 2 }),
    s("path", {
      d: "M12 2.500v2.500M12 19v2.500M2.500 12H5M19 12h2.500M5.300 5.300l1.800 1.800M16.900 16.900l1.800 1.800M18.700 5.300l-1.800 1.800M7.100 16.900l-1.800 1.800",
      stroke: "currentColor",
      "stroke-width": 2,
      "stroke-linecap": "round",
    }),
  );
const MOON = () =>
  s(
    "svg",
    { viewBox: "0 0 24 24", width: 18, height: 18, "aria-hidden": true },
    s("path", {
      d: "M20 14.500A8 8 0 0 1 9.500 4a8 8 0 1 0 10.500 10.500z",
      fill: "none",
      stroke: "currentColor",
      "stroke-width": 2,
      "stroke-linejoin": "round",
    }),
  );
const dark = () =>
  (document.documentElement.dataset.theme ||
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
function paint(chosen) {
  if (chosen) document.documentElement.dataset.theme = chosen;
  replace(theme, dark() ? SUN() : MOON());
}
theme.addEventListener("click", () => {
  const chosen = dark() ? "light" : "dark";
  localStorage.setItem("penstock-theme", chosen);
  paint(chosen);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => paint());
paint(localStorage.getItem("penstock-theme"));

document.getElementById("zone").textContent = `Times are those of this browser: ${zone()}.`;
window.addEventListener("hashchange", open);
open();
