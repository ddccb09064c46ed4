// What was decided, when and why. Hovering or focusing an entry shows its numbers; opening it keeps them.

import { ask } from "./api.js";
import { clock, h, measured, replace, words } from "./dom.js";

const PAGE = 25;
const TOLD = 10; // numbers in the tip; all of them are in the entry

export class Timeline {
  constructor(base, reasons) {
    Object.assign(this, { base, reasons, filter: "", decisions: [], drawn: new Map() });
    const choices = [
      ["", "Changes of size"],
      ...Object.keys(reasons).map((reason) => [reason, words(reason)]),
    ];
    this.chooser = h(
      "select",
      { id: "reason", onchange: () => this.choose() },
      choices.map(([value, name]) => h("option", { value }, name)),
    );
    this.entries = h("ol.timeline", { onscroll: () => this.leave() });
    this.tip = h("div.tip.decision-tip", { hidden: true, role: "presentation" });
    this.older = h(
      "button.ghost",
      { type: "button", hidden: true, onclick: () => this.more() },
      "Older decisions",
    );
    this.element = h(
      "section.card.decisions",
      { "aria-label": "Decisions" },
      h(
        "div.row-head",
        {},
        h("h2", {}, "Decisions"),
        h("span.inline", {}, h("label", { for: "reason" }, "Show"), this.chooser),
      ),
      this.entries,
      this.older,
      this.tip,
    );
  }

  async load() {
    const query = this.filter ? `&reason=${this.filter}` : "&resized=true";
    const { document, link } = await ask("GET", `${this.base}/decisions?limit=${PAGE}${query}`);
    this.decisions = document;
    this.next = nextOf(link);
    this.draw();
  }

  async choose() {
    this.filter = this.chooser.value;
    await this.load();
  }

  async more() {
    const { document, link } = await ask("GET", this.next);
    this.decisions = [...this.decisions, ...document];
    this.next = nextOf(link);
    this.draw();
  }

  heard(decision) {
    if (!decision.resized || this.filter) return;
    this.decisions = [decision, ...this.decisions.filter(({ id }) => id !== decision.id)];
    this.draw();
  }

  /** Decisions do not change: an entry once drawn stays, with what is open, hovered or focused in it. */
  draw() {
    const drawn = new Map(
      this.decisions.map((decision) => [decision.id, this.drawn.get(decision.id) || this.entry(decision)]),
    );
    for (const [id, entry] of this.drawn) if (!drawn.has(id)) entry.remove();
    this.drawn = drawn;
    const items = [...drawn.values()];
    if (!items.length)
      replace(
        this.entries,
        h(
          "li.none",
          {},
          this.filter ? "None of the decisions kept has this reason." : "The size has not been changed yet.",
        ),
      );
    else {
      this.entries.querySelector(".none")?.remove();
      items.forEach((item, i) => {
        if (this.entries.children[i] !== item)
          this.entries.insertBefore(item, this.entries.children[i] || null);
      });
    }
    this.older.hidden = !this.next;
  }

  entry(decision) {
    const change = decision.planned - decision.requested;
    const look = change > 0 ? "up" : change < 0 ? "down" : "same";
    const numbers = Object.entries(decision.numbers).map(([name, value]) => measured(name, value));
    const show = (event) => this.show(event.currentTarget, decision, numbers);
    return h(
      `li.${look}`,
      {},
      h(
        "details",
        { ontoggle: () => this.leave() },
        h(
          "summary",
          {
            onpointerenter: show,
            onfocus: show,
            onpointerleave: () => this.leave(),
            onblur: () => this.leave(),
            onkeydown: (event) => event.key === "Escape" && this.leave(),
          },
          h("time", {}, clock(decision.at_s)),
          h("b.change", {}, change ? `${decision.requested} → ${decision.planned}` : `${decision.planned}`),
          h("span", {}, words(decision.reason)),
          decision.notes.map((note) => h("span.tag", {}, words(note))),
        ),
        h("p", {}, this.reasons[decision.reason] || ""),
        h(
          "dl.numbers",
          {},
          numbers.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
        ),
        h("p.fine", {}, `Decision ${decision.id}`),
      ),
    );
  }

  show(summary, decision, numbers) {
    if (summary.parentElement.open) return;
    replace(
      this.tip,
      h("strong", {}, this.reasons[decision.reason] || words(decision.reason)),
      numbers
        .slice(0, TOLD)
        .map(([name, value]) => h("span.row", {}, h("span", {}, name), h("b", {}, value))),
    );
    this.tip.hidden = false;
    const card = this.element.getBoundingClientRect();
    const place = summary.getBoundingClientRect();
    const below = place.bottom - card.top + 4;
    const above = place.top - card.top - this.tip.offsetHeight - 4;
    this.tip.style.top = `${place.bottom + this.tip.offsetHeight > innerHeight && above > -card.top ? above : below}px`;
  }

  leave() {
    this.tip.hidden = true;
  }
}

/** Where the header `Link` says that older ones are; null when there are none. */
function nextOf(link) {
  return link?.match(/<([^>]+)>; rel="next"/)?.[1] || null;
}
