// The promise: what another one would cost, on the job's own recent traffic, before it can be saved.

import { Problem } from "./api.js";
import { h, replace, seconds } from "./dom.js";
import { Prediction } from "./prediction.js";

const STEPS = [
  0.5, 1, 2, 3, 5, 8, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1200, 1800, 2700, 3600,
  5400, 7200,
];

export class Freshness {
  constructor(page) {
    this.page = page;
    this.may = page.me.role !== "viewer";
    this.prediction = new Prediction(page, () => this.buttons());
    this.element = h("section.card", { "aria-label": "Freshness promised" });
  }

  load() {
    this.draw();
    this.ask(0);
  }

  /** The job's definition has changed: show it, without touching what is being typed. */
  changed() {
    if (!this.dirty) {
      this.take();
      this.ask(0);
    } else {
      this.said(
        "Somebody changed the job while you were choosing; your choice is compared with the new one.",
        "warn",
      );
    }
  }

  close() {
    this.prediction.stop();
  }

  draw() {
    const off = !this.may;
    this.slider = h("input", {
      id: "fresh",
      type: "range",
      min: 0,
      max: STEPS.length - 1,
      step: 1,
      disabled: off,
      "aria-describedby": "fresh-help",
      oninput: () => this.slid(),
    });
    this.fresh = h("input", {
      id: "fresh-s",
      type: "number",
      min: 0.1,
      step: "any",
      disabled: off,
      "aria-label": "Fresh within, in seconds",
      oninput: () => this.typed(),
    });
    this.target = h("input", {
      id: "target",
      type: "number",
      min: 0.001,
      max: 99,
      step: "any",
      disabled: off,
      oninput: () => this.typed(),
    });
    this.note = h("p.fine", { role: "status", "aria-live": "polite" });
    this.save = h("button.primary", { type: "submit", disabled: true }, "Save the promise");
    this.undo = h("button.ghost", { type: "button", disabled: true, onclick: () => this.reset() }, "Undo");
    const form = h(
      "form",
      { onsubmit: (event) => this.store(event) },
      h(
        "div.field",
        {},
        h("label", { for: "fresh" }, "Trained within"),
        h("div.slider", {}, this.slider, h("span.unit", {}, this.fresh, "s")),
      ),
      h(
        "div.field.across",
        {},
        h("label", { for: "target" }, "Samples that may be late"),
        h("span.unit", {}, this.target, "%"),
      ),
      this.prediction.element,
      h("div.buttons", {}, this.save, this.undo),
      this.note,
    );
    replace(
      this.element,
      h("h2", {}, "Freshness promised"),
      h(
        "p.help",
        { id: "fresh-help" },
        "Move the slider to see what a promise would cost, on this job's own recent traffic. Nothing changes until you save.",
      ),
      form,
    );
    this.take();
  }

  take() {
    const { job } = this.page;
    this.fresh.value = job.fresh_within_s;
    this.target.value = +(job.late_share_target * 100).toPrecision(6);
    this.slider.value = nearestStep(job.fresh_within_s);
    this.slider.setAttribute("aria-valuetext", seconds(job.fresh_within_s));
    this.dirty = false;
    this.buttons();
  }

  reset() {
    this.take();
    this.ask(0);
    this.said("");
  }

  slid() {
    const value = STEPS[this.slider.value];
    this.fresh.value = value;
    this.slider.setAttribute("aria-valuetext", seconds(value));
    this.touched();
  }

  typed() {
    this.slider.value = nearestStep(+this.fresh.value || 1);
    this.touched();
  }

  touched() {
    this.dirty = true;
    this.said("");
    this.ask(350);
    this.buttons();
  }

  wanted() {
    return { fresh_within_s: +this.fresh.value, late_share_target: +this.target.value / 100 };
  }

  valid() {
    const { fresh_within_s, late_share_target } = this.wanted();
    return fresh_within_s > 0 && late_share_target > 0 && late_share_target < 1;
  }

  buttons() {
    this.undo.disabled = !this.dirty;
    this.save.disabled = !this.dirty || !this.valid() || !this.prediction.told || !this.may;
  }

  /** What the terms chosen would cost, a moment after the last touch. */
  ask(after) {
    if (this.valid()) this.prediction.ask(this.wanted(), { changed: this.dirty, after });
    else this.prediction.refuse("A promise needs more than 0 seconds, and a late share between 0 and 100 %.");
  }

  async store(event) {
    event.preventDefault();
    this.save.disabled = true;
    try {
      await this.page.change("PUT", "/slo", this.wanted(), { etag: this.page.etag });
      this.dirty = false;
      this.take();
      this.said("Saved. It holds from the next tick on.", "good");
    } catch (error) {
      if (error instanceof Problem && error.status === 412) {
        await this.page.refresh();
        this.said(
          `Somebody else changed the job meanwhile (${this.page.job.changed_by}). It was read again: look, then save once more.`,
          "warn",
        );
      } else {
        this.said(`Not saved: ${error.message}`, "bad");
      }
    }
    this.buttons();
  }

  said(text, look = "") {
    this.note.textContent = text;
    this.note.className = `fine ${look ? `${look}-text` : ""}`;
  }
}

function nearestStep(value) {
  let best = 0;
  STEPS.forEach((step, i) => {
    if (Math.abs(Math.log(step / value)) < Math.abs(Math.log(STEPS[best] / value))) best = i;
  });
  return best;
}
