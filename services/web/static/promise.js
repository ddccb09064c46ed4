// The promise: what another one would cost, on the job's own recent traffic, before it can be saved.

import { Problem, ask } from "./api.js";
import { CurveChart } from "./chart.js";
import { h, number, percent, replace, seconds } from "./dom.js";

const STEPS = [
  0.5, 1, 2, 3, 5, 8, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1200, 1800, 2700, 3600,
  5400, 7200,
];

export class Freshness {
  constructor(page) {
    this.page = page;
    this.may = page.me.role !== "viewer";
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
    clearTimeout(this.timer);
    this.calm();
    this.asking?.abort();
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
    this.chart = new CurveChart({
      title: "What it would cost",
      unit: "GPU-hours a day by late share",
      height: 190,
      across: (v, step) =>
        percent(v, step ? Math.min(4, Math.max(0, Math.ceil(-Math.log10(step * 100) - 1e-9))) : 1),
      fromZero: false,
      empty: "Playing recent traffic again…",
    });
    this.verdict = h("p.verdict", { role: "status", "aria-live": "polite" });
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
      this.chart.element,
      this.verdict,
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
    this.predicted = false;
    this.said("");
    this.buttons();
    this.ask(350);
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
    this.save.disabled = !this.dirty || !this.valid() || !this.predicted || !this.may;
  }

  ask(after) {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.timer = setTimeout(() => this.predict(), after);
  }

  async predict() {
    if (!this.valid()) {
      this.verdict.textContent = "A promise needs more than 0 seconds, and a late share between 0 and 100 %.";
      return;
    }
    this.asking = new AbortController();
    this.busy();
    const terms = this.wanted();
    try {
      // The verdict is enough to save by; the curve behind it takes several times as long.
      this.shown(await this.played(terms, false), "playing other settings of the rule…");
    } catch (error) {
      if (error.name === "AbortError") return;
      this.failed(error);
      return;
    }
    try {
      this.shown(await this.played(terms, true), "dots: the rule at other settings");
    } catch (error) {
      if (error.name !== "AbortError") this.chart.hint(`no curve: ${error.message}`);
    }
  }

  async played(slo, curve) {
    return (await ask("POST", `${this.page.base}/what-if`, { slo, curve }, { signal: this.asking.signal }))
      .document;
  }

  /** Without a simulator, or without traffic to play, one may save all the same: that there is no prediction is said. */
  failed(error) {
    this.calm();
    this.verdict.textContent = `No prediction: ${error.message}.`;
    this.chart.empty = "No prediction.";
    this.chart.show({ curve: [], points: [], rows: () => [] });
    this.predicted = true;
    this.buttons();
  }

  /** A prediction plays a whole day: how long it has taken so far is told, to the eye alone. */
  busy() {
    const since = Date.now();
    const gone = h("span", { "aria-hidden": true });
    this.calm();
    this.verdict.dataset.state = "busy";
    replace(this.verdict, "Playing recent traffic again… ", gone);
    this.counting = setInterval(
      () => (gone.textContent = `${Math.round((Date.now() - since) / 1000)} s`),
      1000,
    );
  }

  calm() {
    clearInterval(this.counting);
    this.verdict?.removeAttribute("data-state");
  }

  shown({ asked, in_force: now, curve, traffic_s: span }, hint) {
    this.calm();
    this.predicted = true;
    this.buttons();
    const points = [
      {
        x: now.late_share,
        y: now.gpu_hours_per_day,
        look: "quiet",
        name: `now, ${seconds(now.fresh_within_s)}`,
        below: true,
      },
    ];
    if (this.dirty)
      points.push({
        x: asked.late_share,
        y: asked.gpu_hours_per_day,
        look: "asked",
        name: seconds(asked.fresh_within_s),
      });
    const sorted = [...curve, asked].sort(
      (a, b) => a.late_share - b.late_share || b.gpu_hours_per_day - a.gpu_hours_per_day,
    );
    this.chart.show({
      curve: sorted.map((point) => [point.late_share, point.gpu_hours_per_day]),
      dots: true,
      legend: [[hint]],
      points,
      limit: {
        x: this.wanted().late_share_target,
        name: `allowed: ${percent(this.wanted().late_share_target)}`,
      },
      rows: (x) => {
        const point = sorted.find((one) => one.late_share === x) || sorted[0];
        return [
          ["rule set to", point.setting || "as it is"],
          ["late", percent(point.late_share)],
          ["GPU-hours a day", number(point.gpu_hours_per_day)],
          ["workers, mean", number(point.workers_mean)],
        ];
      },
    });
    const change = now.gpu_hours_per_day ? (asked.gpu_hours_per_day / now.gpu_hours_per_day - 1) * 100 : 0;
    const sign = change >= 0 ? "+" : "−";
    const cost = this.dirty
      ? `, ${sign}${Math.abs(change).toFixed(Math.abs(change) < 10 ? 1 : 0)} % against now`
      : "";
    replace(
      this.verdict,
      h("b", {}, percent(asked.late_share)),
      " late at ",
      h("b", {}, `${number(asked.gpu_hours_per_day)} GPU-hours a day`),
      cost,
      Number.isFinite(asked.auc_loss) ? `, ${asked.auc_loss.toFixed(4)} of AUC lost by lateness` : "",
      h("span.fine", {}, ` Predicted from the last ${seconds(span)} of traffic.${this.seen(now)}`),
    );
  }

  /** How far the same prediction is from what was measured under the promise in force. */
  seen(now) {
    const { late_share: late } = this.page.job;
    if (late === null) return "";
    return ` For the promise in force it says ${percent(now.late_share)}; ${percent(late)} were late so far.`;
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
