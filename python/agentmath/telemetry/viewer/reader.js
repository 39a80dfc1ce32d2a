// The trajectory reader: filters, a list of what fits them, and the one that is open.

const FILTERS = [
  ["all", () => true],
  ["right", (t) => isRight(t)],
  ["wrong", (t) => !isRight(t)],
  ["no tool", (t) => t.num_tool_calls === 0],
  ["tool error", (t) => t.num_tool_failures > 0],
  ["truncated", (t) => t.outcome === "truncated"],
];
const PAGE = 60;

function keyOf(t) {
  return `t=${t.step}.${t.ordinal}.${t.sample_index}`;
}

class Reader {
  constructor(trajectories, notes) {
    this.all = trajectories;
    this.filter = "all";
    this.step = "";
    this.words = "";
    this.list = el("div", "list");
    this.detail = el("div", "detail");
    this.filters = el("div", "filters");
    this.node = el(
      "section",
      "",
      el("div", "head", el("h2", "", "Trajectories")),
      this.filters,
      el("div", "card reader", this.list, this.detail),
    );
    for (const note of notes) this.node.append(el("p", "notes", note));
    this.makeFilters();
    this.apply();
    const asked = this.all.find((t) => "#" + keyOf(t) === location.hash);
    this.open(asked || this.found[0]);
    document.addEventListener("keydown", (event) => this.onKey(event));
  }

  makeFilters() {
    this.chips = FILTERS.map(([name, test]) => {
      const count = el("span", "", String(this.all.filter(test).length));
      const chip = button(name + " ", () => {
        this.filter = name;
        this.apply();
        this.open(this.found[0]);
      });
      chip.append(count);
      return chip;
    });
    const steps = [...new Set(this.all.map((t) => t.step))];
    const select = el(
      "select",
      "",
      ...["every step", ...steps.map((s) => `step ${s}`)].map((s) => el("option", "", s)),
    );
    select.setAttribute("aria-label", "step");
    select.addEventListener("change", () => {
      this.step = steps[select.selectedIndex - 1] ?? "";
      this.apply();
      this.open(this.found[0]);
    });
    const search = el("input");
    Object.assign(search, { type: "search", placeholder: "search in all texts" });
    search.addEventListener("input", () => {
      this.words = search.value.toLowerCase();
      this.apply();
      this.open(this.found[0]);
    });
    this.filters.append(...this.chips, select, search);
  }

  apply() {
    const test = FILTERS.find(([name]) => name === this.filter)[1];
    const has = (text) => (text || "").toLowerCase().includes(this.words);
    this.found = this.all.filter(
      (t) =>
        test(t) &&
        (this.step === "" || t.step === this.step) &&
        (!this.words || has(t.question) || has(t.task_id) || t.spans.some((s) => has(s.text))),
    );
    this.chips.forEach((chip, i) => chip.setAttribute("aria-pressed", FILTERS[i][0] === this.filter));
    this.rows = [];
    this.list.replaceChildren();
    this.list.scrollTop = 0;
    this.extend();
    if (!this.found.length) this.list.append(el("p", "", "No trajectory fits these filters."));
  }

  // Rows are made as far as they are needed.
  extend() {
    const next = this.found.slice(this.rows.length, this.rows.length + PAGE);
    const rows = next.map((t) => this.row(t));
    this.rows.push(...rows);
    this.list.append(...rows);
    const left = this.found.length - this.rows.length;
    if (left > 0) {
      const more = button(`show ${Math.min(left, PAGE)} more`, () => {
        more.remove();
        this.extend();
      });
      more.className = "more-rows";
      this.list.append(more);
    }
  }

  row(t) {
    const right = isRight(t);
    const calls = t.num_tool_calls === 1 ? "1 call" : `${t.num_tool_calls} calls`;
    const facts = [`step ${t.step}`, calls, `${compact(t.num_sampled_tokens)} tokens`];
    if (t.num_tool_failures) facts.push("tool error");
    if (t.outcome === "truncated") facts.push("truncated");
    const mark = el("span", right ? "right" : "wrong", right ? "\u2713" : "\u2717");
    const node = button("", () => {
      this.visit(t);
      if (innerWidth <= 860) this.detail.scrollIntoView({ block: "start" });
    });
    node.append(
      mark,
      el("span", "text", shown(t.question.slice(0, 120))),
      el("span", "reward", t.reward === null ? "" : Number(t.reward).toFixed(2)),
      el("span", "facts", facts.join(" \u00b7 ")),
    );
    return node;
  }

  open(t) {
    this.current = t;
    this.found.forEach((other, i) => this.rows[i] && this.rows[i].setAttribute("aria-current", other === t));
    this.detail.replaceChildren();
    this.detail.scrollTop = 0;
    if (t) this.detail.append(this.navigation(t), ...trajectoryPage(t));
  }

  // Open on request: the address then leads here again.
  visit(t) {
    this.open(t);
    history.replaceState(null, "", "#" + keyOf(t));
  }

  move(by) {
    const next = this.found[this.found.indexOf(this.current) + by];
    if (!next) return;
    while (this.found.indexOf(next) >= this.rows.length) {
      this.list.lastChild.remove();
      this.extend();
    }
    this.visit(next);
    const row = this.rows[this.found.indexOf(next)];
    this.list.scrollTop = Math.min(
      Math.max(this.list.scrollTop, row.offsetTop + row.offsetHeight - this.list.offsetTop - this.list.clientHeight),
      row.offsetTop - this.list.offsetTop,
    );
  }

  onKey(event) {
    if (event.target.closest("input, select, svg") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "j") this.move(1);
    if (event.key === "k") this.move(-1);
  }

  navigation(t) {
    return el(
      "div",
      "nav",
      button("previous", () => this.move(-1)),
      button("next", () => this.move(1)),
      el("span", "", `${this.found.indexOf(t) + 1} of ${this.found.length}`),
      el("span", "push", "keys j and k"),
    );
  }
}
