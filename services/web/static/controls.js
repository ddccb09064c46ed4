// What an operator can do: see what a promise costs before making it, override, pause, recommend or act.

import { Problem, ask } from "./api.js";
import { CurveChart } from "./chart.js";
import { h, moment, number, percent, replace, seconds, tell } from "./dom.js";

const STEPS = [0.5, 1, 2, 3, 5, 8, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200];
const LASTING = [[900, "15 minutes"], [3600, "1 hour"], [4 * 3600, "4 hours"], [12 * 3600, "12 hours"], [86400, "1 day"]];

export class Controls {
  constructor(page) {
    this.page = page;
    this.may = page.me.role !== "viewer";
    this.slo = h("section.card", { "aria-label": "Freshness promised" });
    this.hand = h("section.card", { "aria-label": "By hand" });
    this.element = h("div.controls", {}, this.slo, this.hand);
  }

  async load() {
    this.drawSlo();
    this.drawHand();
    this.ask(0);
  }

  /** The job's definition has changed: show it, without touching what is being typed. */
  changed() {
    this.drawHand();
    if (!this.dirty) {
      this.take();
      this.ask(0);
    } else {
      this.said("Somebody changed the job while you were choosing; your choice is compared with the new one.", "warn");
    }
  }

  close() {
    clearTimeout(this.timer);
    this.calm();
    this.asking?.abort();
  }

  drawSlo() {
    const { job } = this.page;
    const off = !this.may;
    this.slider = h("input", { id: "fresh", type: "range", min: 0, max: STEPS.length - 1, step: 1, disabled: off, "aria-describedby": "fresh-help", oninput: () => this.slid() });
    this.fresh = h("input", { id: "fresh-s", type: "number", min: 0.1, step: "any", disabled: off, "aria-label": "Fresh within, in seconds", oninput: () => this.typed() });
    this.target = h("input", { id: "target", type: "number", min: 0.001, max: 99, step: "any", disabled: off, oninput: () => this.typed() });
    this.chart = new CurveChart({ title: "What it would cost", unit: "GPU-hours a day by late share", height: 190, across: (v, step) => percent(v, step ? Math.min(4, Math.max(0, Math.ceil(-Math.log10(step * 100) - 1e-9))) : 1), fromZero: false, empty: "Playing recent traffic again…" });
    this.verdict = h("p.verdict", { role: "status", "aria-live": "polite" });
    this.note = h("p.fine", { role: "status", "aria-live": "polite" });
    this.save = h("button.primary", { type: "submit", disabled: true }, "Save the promise");
    this.undo = h("button.ghost", { type: "button", disabled: true, onclick: () => this.reset() }, "Undo");
    const form = h(
      "form",
      { onsubmit: (event) => this.store(event) },
      h("div.field", {}, h("label", { for: "fresh" }, "Trained within"), h("div.slider", {}, this.slider, h("span.unit", {}, this.fresh, "s"))),
      h("div.field.across", {}, h("label", { for: "target" }, "Samples that may be late"), h("span.unit", {}, this.target, "%")),
      this.chart.element,
      this.verdict,
      h("div.buttons", {}, this.save, this.undo),
      this.note,
    );
    replace(this.slo, h("h2", {}, "Freshness promised"), h("p.help", { id: "fresh-help" }, "Move the slider to see what a promise would cost, on this job's own recent traffic. Nothing changes until you save."), form);
    this.take(job);
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
    try {
      // The verdict is enough to save by; the curve behind it takes several times as long.
      for (const curve of [false, true]) {
        const { document } = await ask("POST", `${this.page.base}/what-if`, { slo: this.wanted(), curve }, { signal: this.asking.signal });
        this.calm();
        this.shown(document);
        this.predicted = true;
        this.buttons();
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      this.calm();
      this.verdict.textContent = `No prediction: ${error.message}.`;
      this.chart.empty = "No prediction.";
      this.chart.show({ curve: [], points: [], rows: () => [] });
    }
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
    this.counting = setInterval(() => (gone.textContent = `${Math.round((Date.now() - since) / 1000)} s`), 1000);
  }

  calm() {
    clearInterval(this.counting);
    this.verdict?.removeAttribute("data-state");
  }

  shown({ asked, in_force: now, curve, traffic_s: span }) {
    const points = [{ x: now.late_share, y: now.gpu_hours_per_day, look: "quiet", name: `now, ${seconds(now.fresh_within_s)}`, below: true }];
    if (this.dirty) points.push({ x: asked.late_share, y: asked.gpu_hours_per_day, look: "asked", name: seconds(asked.fresh_within_s) });
    const sorted = [...curve, asked].sort((a, b) => a.late_share - b.late_share || b.gpu_hours_per_day - a.gpu_hours_per_day);
    this.chart.show({
      curve: sorted.map((point) => [point.late_share, point.gpu_hours_per_day]),
      dots: true,
      points,
      limit: { x: this.wanted().late_share_target, name: `allowed: ${percent(this.wanted().late_share_target)}` },
      rows: (x) => {
        const point = sorted.find((one) => one.late_share === x) || sorted[0];
        return [["rule set to", point.setting || "as it is"], ["late", percent(point.late_share)], ["GPU-hours a day", number(point.gpu_hours_per_day)], ["workers, mean", number(point.workers_mean)]];
      },
    });
    const change = now.gpu_hours_per_day ? (asked.gpu_hours_per_day / now.gpu_hours_per_day - 1) * 100 : 0;
    const sign = change >= 0 ? "+" : "−";
    const cost = this.dirty ? `, ${sign}${Math.abs(change).toFixed(Math.abs(change) < 10 ? 1 : 0)} % against now` : "";
    replace(this.verdict, h("b", {}, percent(asked.late_share)), " late at ", h("b", {}, `${number(asked.gpu_hours_per_day)} GPU-hours a day`), cost, Number.isFinite(asked.auc_loss) ? `, ${asked.auc_loss.toFixed(4)} of AUC lost by lateness` : "", h("span.fine", {}, ` Predicted from the last ${seconds(span)} of traffic.`));
  }

  async store(event) {
    event.preventDefault();
    this.save.disabled = true;
    try {
      await this.change("PUT", "/slo", this.wanted(), { etag: this.page.etag });
      this.dirty = false;
      this.take();
      this.said("Saved. It holds from the next tick on.", "good");
    } catch (error) {
      if (error instanceof Problem && error.status === 412) {
        await this.page.refresh();
        this.said(`Somebody else changed the job meanwhile (${this.page.job.changed_by}). It was read again: look, then save once more.`, "warn");
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

  async change(method, path, body, options = {}) {
    const { document, etag } = await ask(method, this.page.base + path, body, options);
    Object.assign(this.page, { job: document, etag });
    this.page.draw();
    this.drawHand();
  }

  async act(method, path, body, done) {
    try {
      await this.change(method, path, body);
      tell(done);
    } catch (error) {
      tell(`Not done: ${error.message}`, "bad");
    }
  }

  drawHand() {
    const { job } = this.page;
    if (!this.may) {
      replace(this.hand, h("h2", {}, "By hand"), h("p.help", {}, "Your token may look, not change. An operator's may."), this.state());
      return;
    }
    const focused = document.activeElement?.id;
    const acting = job.mode === "act";
    const act = h("button", { id: "mode", class: `switch ${acting ? "on" : ""}`, type: "button", role: "switch", "aria-checked": String(acting), "aria-label": "Carry decisions out", onclick: () => this.act("POST", "/mode", { mode: acting ? "recommend" : "act" }, acting ? "Decisions are now recorded only." : "Decisions are now carried out.") }, h("i"));
    const pause = job.paused
      ? h("button.primary", { id: "pause", type: "button", onclick: () => this.act("POST", "/resume", undefined, "Resumed. The pool is sized again from the next tick on.") }, "Resume")
      : h("button", { id: "pause", type: "button", onclick: () => this.act("POST", "/pause", { reason: "" }, "Paused. The pool is left as it is.") }, "Pause");
    replace(
      this.hand,
      h("h2", {}, "By hand"),
      this.state(),
      h("div.field.across", {}, h("div", {}, h("b", {}, acting ? "Acts" : "Recommends only"), h("p.help", {}, acting ? "Decisions are carried out." : "Decisions are recorded, not carried out.")), act),
      h("div.field.across", {}, h("div", {}, h("b", {}, job.paused ? "Paused" : "Sizing"), h("p.help", {}, job.paused ? "The pool is left as it is." : "Pausing leaves the pool as it is.")), pause),
      this.overrideForm(),
    );
    if (focused) this.hand.querySelector(`#${CSS.escape(focused)}`)?.focus();
  }

  state() {
    const { job } = this.page;
    const rows = [];
    if (job.paused) rows.push(h("p.callout", {}, `Paused ${moment(job.paused.at_s)} by ${job.paused.by}${job.paused.reason ? `: ${job.paused.reason}` : ""}`));
    if (job.override) rows.push(h("p.callout", {}, `${job.override.workers} workers until ${moment(job.override.until_s)}, by ${job.override.by}: ${job.override.reason}`));
    return rows;
  }

  overrideForm() {
    const { job } = this.page;
    if (job.override) {
      return h("div.buttons", {}, h("button", { id: "end-override", type: "button", onclick: () => this.act("DELETE", "/override", undefined, "The override has ended; the rule decides again.") }, "End the override"));
    }
    const kept = this.override || {};
    const workers = h("input", { id: "size", type: "number", required: true, min: job.workers_min, max: job.workers_max, step: 1, value: kept.workers ?? job.planned ?? job.workers_min });
    const lasting = h("select", { id: "lasting" }, LASTING.map(([value, name]) => h("option", { value, selected: value === (kept.lasting ?? 3600) }, name)));
    const reason = h("input", { id: "why", required: true, maxlength: 500, placeholder: "for the audit log", value: kept.reason || "" });
    const keep = () => (this.override = { workers: workers.value, lasting: +lasting.value, reason: reason.value });
    return h(
      "form.override",
      {
        oninput: keep,
        onsubmit: (event) => {
          event.preventDefault();
          const body = { workers: +workers.value, lasting_s: +lasting.value, reason: reason.value };
          this.override = null;
          this.act("POST", "/override", body, `${body.workers} workers, ${LASTING.find(([v]) => v === body.lasting_s)[1]}.`);
        },
      },
      h("h3", {}, "Override the size"),
      h("div.fields", {}, h("div.field", {}, h("label", { for: "size" }, `Workers (${job.workers_min}–${job.workers_max})`), workers), h("div.field", {}, h("label", { for: "lasting" }, "For"), lasting)),
      h("div.field", {}, h("label", { for: "why" }, "Why"), reason),
      h("div.buttons", {}, h("button", { type: "submit" }, "Override")),
    );
  }
}

function nearestStep(value) {
  let best = 0;
  STEPS.forEach((step, i) => {
    if (Math.abs(Math.log(step / value)) < Math.abs(Math.log(STEPS[best] / value))) best = i;
  });
  return best;
}
