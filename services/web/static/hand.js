// What an operator does by hand: recommend or act, pause, override.

import { h, moment, replace, tell } from "./dom.js";

const LASTING = [
  [900, "15 minutes"],
  [3600, "1 hour"],
  [4 * 3600, "4 hours"],
  [12 * 3600, "12 hours"],
  [86400, "1 day"],
];

export class Hand {
  constructor(page) {
    this.page = page;
    this.may = page.me.role !== "viewer";
    this.element = h("section.card", { "aria-label": "By hand" });
  }

  async act(method, path, body, done) {
    try {
      await this.page.change(method, path, body);
      tell(done);
    } catch (error) {
      tell(`Not done: ${error.message}`, "bad");
    }
  }

  draw() {
    if (!this.may) {
      replace(
        this.element,
        h("h2", {}, "By hand"),
        h("p.help", {}, "Your token may look, not change. An operator's may."),
        this.state(),
      );
      return;
    }
    const focused = document.activeElement?.id;
    replace(this.element, h("h2", {}, "By hand"), this.state(), this.mode(), this.pause(), this.override());
    if (focused) this.element.querySelector(`#${CSS.escape(focused)}`)?.focus();
  }

  state() {
    const { paused, override } = this.page.job;
    const rows = [];
    if (paused)
      rows.push(`Paused ${moment(paused.at_s)} by ${paused.by}${paused.reason ? `: ${paused.reason}` : ""}`);
    if (override)
      rows.push(
        `${override.workers} workers until ${moment(override.until_s)}, by ${override.by}: ${override.reason}`,
      );
    return rows.map((text) => h("p.callout", {}, text));
  }

  mode() {
    const acting = this.page.job.mode === "act";
    const other = acting ? "recommend" : "act";
    const done = acting ? "Decisions are now recorded only." : "Decisions are now carried out.";
    const toggle = h(
      "button",
      {
        id: "mode",
        class: `switch ${acting ? "on" : ""}`,
        type: "button",
        role: "switch",
        "aria-checked": String(acting),
        "aria-label": "Carry decisions out",
        onclick: () => this.act("POST", "/mode", { mode: other }, done),
      },
      h("i"),
    );
    const help = acting ? "Decisions are carried out." : "Decisions are recorded, not carried out.";
    return across(acting ? "Acts" : "Recommends only", help, toggle);
  }

  pause() {
    const { paused } = this.page.job;
    const resume = () =>
      this.act("POST", "/resume", undefined, "Resumed. The pool is sized again from the next tick on.");
    const pause = () => this.act("POST", "/pause", { reason: "" }, "Paused. The pool is left as it is.");
    const button = paused
      ? h("button.primary", { id: "pause", type: "button", onclick: resume }, "Resume")
      : h("button", { id: "pause", type: "button", onclick: pause }, "Pause");
    return across(
      paused ? "Paused" : "Sizing",
      paused ? "The pool is left as it is." : "Pausing leaves the pool as it is.",
      button,
    );
  }

  override() {
    const { job } = this.page;
    if (job.override) {
      const end = () =>
        this.act("DELETE", "/override", undefined, "The override has ended; the rule decides again.");
      return h(
        "div.buttons",
        {},
        h("button", { id: "end-override", type: "button", onclick: end }, "End the override"),
      );
    }
    const kept = this.kept || {};
    const workers = h("input", {
      id: "size",
      type: "number",
      required: true,
      min: job.workers_min,
      max: job.workers_max,
      step: 1,
      value: kept.workers ?? job.planned ?? job.workers_min,
    });
    const lasting = h(
      "select",
      { id: "lasting" },
      LASTING.map(([value, name]) =>
        h("option", { value, selected: value === (kept.lasting ?? 3600) }, name),
      ),
    );
    const reason = h("input", {
      id: "why",
      required: true,
      maxlength: 500,
      placeholder: "for the audit log",
      value: kept.reason || "",
    });
    const keep = () =>
      (this.kept = { workers: workers.value, lasting: +lasting.value, reason: reason.value });
    const submit = (event) => {
      event.preventDefault();
      const body = { workers: +workers.value, lasting_s: +lasting.value, reason: reason.value };
      this.kept = null;
      this.act(
        "POST",
        "/override",
        body,
        `${body.workers} workers, ${LASTING.find(([value]) => value === body.lasting_s)[1]}.`,
      );
    };
    return h(
      "form.override",
      { oninput: keep, onsubmit: submit },
      h("h3", {}, "Override the size"),
      h(
        "div.fields",
        {},
        field("size", `Workers (${job.workers_min}–${job.workers_max})`, workers),
        field("lasting", "For", lasting),
      ),
      field("why", "Why", reason),
      h("div.buttons", {}, h("button", { type: "submit" }, "Override")),
    );
  }
}

const across = (name, help, control) =>
  h("div.field.across", {}, h("div", {}, h("b", {}, name), h("p.help", {}, help)), control);

const field = (id, label, input) => h("div.field", {}, h("label", { for: id }, label), input);
