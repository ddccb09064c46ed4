// What a promise would cost: a verdict first, then the curve behind it, on the job's own recent traffic.

import { ask } from "./api.js";
import { CurveChart } from "./curve_chart.js";
import { h, number, percent, replace, seconds } from "./dom.js";

const NOTHING = { curve: [], points: [], rows: () => [] };

/** `changed` is called when `told` has become true: there is a prediction, or a word why there is none. */
export class Prediction {
  constructor(page, changed) {
    Object.assign(this, { page, changed, told: false });
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
    this.element = h("div", {}, this.chart.element, this.verdict);
  }

  ask(terms, { changed, after }) {
    this.stop();
    this.told = false;
    this.timer = setTimeout(() => this.predict(terms, changed), after);
  }

  refuse(why) {
    this.stop();
    this.told = false;
    this.verdict.textContent = why;
  }

  /** Nobody waits for the answer any more. */
  stop() {
    clearTimeout(this.timer);
    this.calm();
    this.asking?.abort();
  }

  async predict(terms, changed) {
    this.asking = new AbortController();
    this.allowed = terms.late_share_target;
    this.busy();
    try {
      // The verdict is enough to save by; the curve behind it takes several times as long.
      const answer = await this.played(terms, false);
      this.calm();
      this.judge(answer, changed);
      this.plot(answer, changed, "playing other settings of the rule…");
      this.settled();
    } catch (error) {
      if (error.name !== "AbortError") this.failed(error);
      return;
    }
    try {
      this.plot(await this.played(terms, true), changed, "dots: the rule at other settings");
    } catch (error) {
      if (error.name !== "AbortError") this.chart.hint(`no curve: ${error.message}`);
    }
  }

  async played(slo, curve) {
    return (await ask("POST", `${this.page.base}/what-if`, { slo, curve }, { signal: this.asking.signal }))
      .document;
  }

  settled() {
    this.told = true;
    this.changed();
  }

  /** Without a simulator, or without traffic to play, one may save all the same: that there is no prediction is said. */
  failed(error) {
    this.calm();
    this.verdict.textContent = `No prediction: ${error.message}.`;
    this.chart.empty = "No prediction.";
    this.chart.show(NOTHING);
    this.settled();
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

  judge({ asked, in_force: now, traffic_s: span }, changed) {
    const change = now.gpu_hours_per_day ? (asked.gpu_hours_per_day / now.gpu_hours_per_day - 1) * 100 : 0;
    const sign = change >= 0 ? "+" : "−";
    const cost = changed
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

  plot({ asked, in_force: now, curve }, changed, hint) {
    const spot = (point, look, name, below) => ({
      x: point.late_share,
      y: point.gpu_hours_per_day,
      look,
      name,
      below,
    });
    const points = [spot(now, "quiet", `now, ${seconds(now.fresh_within_s)}`, true)];
    if (changed) points.push(spot(asked, "asked", seconds(asked.fresh_within_s), false));
    const sorted = [...curve, asked].sort(
      (a, b) => a.late_share - b.late_share || b.gpu_hours_per_day - a.gpu_hours_per_day,
    );
    this.chart.show({
      curve: sorted.map((point) => [point.late_share, point.gpu_hours_per_day]),
      dots: true,
      legend: [[hint]],
      points,
      limit: { x: this.allowed, name: `allowed: ${percent(this.allowed)}` },
      rows: (i) => [
        ["rule set to", sorted[i].setting || "as it is"],
        ["late", percent(sorted[i].late_share)],
        ["GPU-hours a day", number(sorted[i].gpu_hours_per_day)],
        ["workers, mean", number(sorted[i].workers_mean)],
      ],
    });
  }

  /** How far the same prediction is from what was measured under the promise in force. */
  seen(now) {
    const { late_share: late } = this.page.job;
    if (late === null) return "";
    return ` For the promise in force it says ${percent(now.late_share)}; ${percent(late)} were late so far.`;
  }
}
