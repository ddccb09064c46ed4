// Who forecasts: how every model does, which trained version serves, and how to go back from it.

import { h, moment, percent, replace, tell } from "./dom.js";

export class Forecasters {
  constructor(page) {
    this.page = page;
    // Models are shared by jobs: going back is for tokens that are good for all of them.
    this.may = page.me.role !== "viewer" && page.me.jobs === null;
    this.known = h("div");
    this.version = h("b");
    this.reason = h("input", {
      id: "why-back",
      required: true,
      maxlength: 500,
      placeholder: "for the audit log",
    });
    this.form = h(
      "form",
      { hidden: true, onsubmit: (event) => this.goBack(event) },
      h("h3", {}, "Go back"),
      h(
        "p.help",
        {},
        "Version ",
        this.version,
        " serves no more: the one before it does, else light models, until a training beats them. It holds for all jobs with the same forecast settings.",
      ),
      h("div.field", {}, h("label", { for: "why-back" }, "Reason to go back"), this.reason),
      h("div.buttons", {}, h("button", { type: "submit" }, "Go back")),
    );
    this.element = h(
      "section.card",
      { "aria-label": "Forecasting models" },
      h("h2", {}, "Forecasting models"),
      this.known,
      this.form,
    );
  }

  async goBack(event) {
    event.preventDefault();
    const body = { version: this.version.textContent, reason: this.reason.value };
    try {
      await this.page.change("POST", "/forecast/rollback", body);
      this.reason.value = "";
      tell(`Version ${body.version} serves no more from the next step on.`);
    } catch (error) {
      tell(`Not done: ${error.message}`, "bad");
    }
  }

  /** The form is not drawn again: what is being typed stays. */
  draw(forecast, job) {
    const training = forecast?.training;
    const { rollback } = job;
    const version = training?.version || "";
    replace(this.known, stateOf(training, rollback), tableOf(forecast?.scores || []));
    this.version.textContent = version;
    this.form.hidden = !this.may || !version || version === rollback?.version;
  }
}

function stateOf(training, rollback) {
  if (!training) return [h("p", {}, "Light models forecast this job; none is trained for it.")];
  const rows = [
    h(
      "p",
      {},
      training.version
        ? `Version ${training.version} serves: ${training.models.join(", ")}.`
        : "No trained version serves; light models do.",
      training.phase === "running"
        ? ` Training: ${training.stage}, ${percent(training.share, 0)} of its budget.`
        : "",
      training.rejected.length ? ` The last training rejected ${training.rejected.join(", ")}.` : "",
    ),
  ];
  if (training.rolled_back) rows.push(h("p.callout", {}, wentBack(training.rolled_back, rollback)));
  for (const trouble of [training.fault, training.advice])
    if (trouble) rows.push(h("p.callout", {}, trouble));
  return rows;
}

/** Another job of the same settings may have been where it was said: then nobody is named here. */
function wentBack(version, rollback) {
  const said = rollback?.version === version;
  const who = said ? ` ${moment(rollback.at_s)} by ${rollback.by}: ${rollback.reason}` : "";
  return `Gone back from version ${version}${who}`;
}

function tableOf(scores) {
  if (!scores.length) return null;
  const names = ["Model", "Error, of the rate", "Covered at 95 %", "Weight"];
  return h(
    "table.options",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        names.map((name) => h("th", { scope: "col" }, name)),
      ),
    ),
    h(
      "tbody",
      {},
      scores.map((score) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, score.model),
          h("td", {}, percent(score.loss, 1)),
          h("td", {}, percent(score.coverage, 0)),
          h("td", {}, percent(score.weight, 0)),
        ),
      ),
    ),
  );
}
