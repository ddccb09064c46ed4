// What if there were another number of GPUs: who would suffer, and who would gain.

import { ask } from "./api.js";
import { h, number, percent, replace } from "./dom.js";
import { row, table } from "./tables.js";

export class OtherBudget {
  constructor() {
    this.inputs = new Map();
    this.fields = h("div.fields.budget");
    this.answer = h("div.answer", { "aria-live": "polite" });
    this.element = h(
      "div.card",
      { hidden: true },
      h("h3", {}, "With another budget"),
      h(
        "p.help",
        {},
        "Who would suffer, or gain, by the latest wishes if there were another number of GPUs. Nothing is changed.",
      ),
      h(
        "form",
        { onsubmit: (event) => this.asked(event) },
        this.fields,
        h("div.buttons", {}, h("button", { type: "submit" }, "Who would suffer?")),
      ),
      this.answer,
    );
  }

  // Inputs are made once for each type: what somebody types is not drawn over.
  take(types) {
    this.types = types;
    for (const one of types) {
      if (this.inputs.has(one.gpu_type)) continue;
      const input = h("input", { type: "number", min: 0, step: 1, id: `budget-${one.gpu_type}` });
      input.value = one.gpus;
      this.inputs.set(one.gpu_type, input);
      this.fields.append(
        h(
          "div.field",
          {},
          h("label", { for: input.id }, `GPUs of ${one.gpu_type}`),
          input,
          h("small", {}, `${number(one.gpus)} now`),
        ),
      );
    }
    this.element.hidden = !types.length;
  }

  async asked(event) {
    event.preventDefault();
    const gpus = {};
    for (const one of this.types) {
      const typed = this.inputs.get(one.gpu_type).valueAsNumber;
      if (Number.isInteger(typed) && typed !== one.gpus) gpus[one.gpu_type] = typed;
    }
    if (!Object.keys(gpus).length) return this.tell("That is what there is now.");
    try {
      this.draw((await ask("POST", "/v1/fleet/what-if", { gpus })).document);
    } catch (error) {
      this.tell(error.message, ".bad-text");
    }
    return undefined;
  }

  tell(text, look = "") {
    replace(this.answer, h(`p.fine${look}`, {}, text));
  }

  draw(answer) {
    if (!answer.jobs.length) return this.tell("Nobody would have more or less.");
    const heads = ["Job", "Workers", "Workers then", "Satisfied", "Satisfied then"];
    replace(
      this.answer,
      table(
        "With that budget",
        heads,
        answer.jobs.map((job) =>
          row(heads, job.job, [
            number(job.workers_before),
            number(job.workers_after),
            percent(job.satisfaction_before),
            h(
              job.satisfaction_after < job.satisfaction_before ? "b.bad-text" : "b",
              {},
              percent(job.satisfaction_after),
            ),
          ]),
        ),
      ),
    );
    return undefined;
  }
}
