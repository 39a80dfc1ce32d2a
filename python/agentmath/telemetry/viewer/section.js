// The charts of one stage: they share the steps on their x axes, one cursor and one smoothing.

class ChartSection {
  constructor(data) {
    this.smoothing = 0;
    this.cursor = null;
    this.cards = [];
    this.range = this.findRange(data);
    const slider = el("input");
    Object.assign(slider, { type: "range", min: 0, max: 0.95, step: 0.05, value: 0 });
    slider.addEventListener("input", () => {
      this.smoothing = Number(slider.value);
      this.cards.forEach((c) => c.draw());
    });
    const smoothing = el("label", "switch push", "smoothing", slider);
    this.node = el("section", "", el("div", "head", el("h2", "", data.title), smoothing), this.grid(data.charts));
    if (data.more.length) this.node.append(this.more(data.more));
  }

  findRange(data) {
    const ends = [];
    for (const chart of [...data.charts, ...data.more]) {
      for (const s of chart.series) ends.push(s.x[0], s.x[s.x.length - 1]);
      for (const p of chart.points || []) ends.push(p.x);
    }
    return ends.length ? [Math.min(...ends), Math.max(...ends)] : [0, 1];
  }

  grid(charts) {
    const cards = charts.map((c) => new ChartCard(c, this));
    this.cards.push(...cards);
    return el("div", "grid", ...cards.map((c) => c.node));
  }

  more(charts) {
    const details = el("details", "more", el("summary", "", `${charts.length} more metrics`));
    details.addEventListener("toggle", () => details.children.length === 1 && details.append(this.grid(charts)));
    return details;
  }

  point(step) {
    this.cursor = step;
    this.cards.forEach((c) => c.overlay && c.hover());
  }
}
