// One chart: axes, curves, points, and a legend that tells the values at the section's cursor.

const HEIGHT = 190;
const MARGIN = { left: 46, right: 14, top: 8, bottom: 22 };

function smoothed(values, weight) {
  let mean = null;
  return values.map((v) => {
    if (v === null) return null;
    mean = mean === null ? v : weight * mean + (1 - weight) * v;
    return mean;
  });
}

// Index of the last x that is not behind step, -1 if there is none.
function indexAt(x, step) {
  let low = 0,
    high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] <= step) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

class ChartCard {
  constructor(chart, section) {
    this.chart = chart;
    this.section = section;
    this.hidden = new Set();
    this.legend = el("div", "legend");
    this.canvas = svg("svg", { role: "img", tabindex: 0, "aria-label": chart.title });
    this.node = el(
      "section",
      "card chart",
      el("h3", "", shown(chart.title)),
      chart.help ? el("p", "", chart.help) : null,
      this.legend,
      this.canvas,
    );
    this.groups = this.pointGroups();
    this.values = [];
    this.makeLegend();
    this.canvas.addEventListener("pointermove", (event) => section.point(this.stepAt(event)));
    this.canvas.addEventListener("pointerleave", () => section.point(null));
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  pointGroups() {
    const groups = new Map();
    for (const p of this.chart.points || []) {
      if (!groups.has(p.name)) groups.set(p.name, []);
      groups.get(p.name).push(p);
    }
    return groups;
  }

  color(index) {
    return " c" + (index % 8);
  }

  makeLegend() {
    const names = [...this.chart.series.map((s) => s.name), ...this.groups.keys()];
    names.forEach((name, index) => {
      const value = el("b");
      const swatch = el("i", (index >= this.chart.series.length ? "dot" : "") + this.color(index));
      const entry = button(
        "",
        () => {
          this.hidden.has(name) ? this.hidden.delete(name) : this.hidden.add(name);
          entry.setAttribute("aria-pressed", !this.hidden.has(name));
          this.draw();
        },
        true,
      );
      entry.append(swatch, el("span", "", shown(name)), value);
      this.legend.append(entry);
      this.values.push(value);
    });
  }

  stepAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const share = (event.clientX - box.left - MARGIN.left) / Math.max(this.width - MARGIN.left - MARGIN.right, 1);
    const [low, high] = this.section.range;
    return Math.round(low + Math.min(Math.max(share, 0), 1) * (high - low));
  }

  onKey(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    const [low, high] = this.section.range;
    const step = this.section.cursor === null ? high : this.section.cursor + move;
    this.section.point(Math.min(Math.max(step, low), high));
    event.preventDefault();
  }

  visible() {
    return this.chart.series.map((s, index) => ({ ...s, index })).filter((s) => !this.hidden.has(s.name));
  }

  // Lines as they are drawn: {index, x, y, raw} or, stacked, with the lower edge as `from`.
  curves() {
    const weight = this.section.smoothing;
    if (!this.chart.stacked)
      return this.visible().map((s) => ({ ...s, raw: s.y, y: weight ? smoothed(s.y, weight) : s.y }));
    const base = new Map();
    return this.visible().map((s) => {
      const from = s.x.map((x) => base.get(x) || 0);
      const y = s.y.map((v, i) => from[i] + (v || 0));
      s.x.forEach((x, i) => base.set(x, y[i]));
      return { ...s, from, y };
    });
  }

  yRange(curves) {
    const all = curves.flatMap((c) => (c.raw && this.section.smoothing < 0.5 ? c.raw : c.y)).filter((v) => v !== null);
    for (const [name, points] of this.groups)
      if (!this.hidden.has(name)) for (const p of points) all.push(p.y, p.low ?? p.y, p.high ?? p.y);
    let low = Infinity,
      high = -Infinity;
    for (const v of all) {
      low = Math.min(low, v);
      high = Math.max(high, v);
    }
    if (low > high) return [0, 1];
    if (this.chart.unit === "share" && high > 0.3 && high <= 1 && low >= 0) return [0, 1];
    if (this.chart.stacked || (low >= 0 && (low < 0.6 * high || low === high))) low = 0;
    const room = (high - low || Math.abs(high) || 1) * 0.06;
    return [low === 0 ? 0 : low - room, low === 0 && high === 0 ? 1 : high + room];
  }

  draw() {
    this.width = this.canvas.clientWidth || 380;
    const curves = this.curves();
    const [x0, x1] = this.section.range;
    const [y0, y1] = this.yRange(curves);
    this.x = (v) => MARGIN.left + ((v - x0) / (x1 - x0 || 1)) * (this.width - MARGIN.left - MARGIN.right);
    this.y = (v) => HEIGHT - MARGIN.bottom - ((v - y0) / (y1 - y0 || 1)) * (HEIGHT - MARGIN.top - MARGIN.bottom);
    this.canvas.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    this.canvas.setAttribute("height", HEIGHT);
    this.canvas.replaceChildren();
    this.axes(y0, y1);
    for (const curve of curves) this.curve(curve);
    this.points();
    this.drawn = curves;
    this.overlay = svg("g", {});
    this.canvas.append(this.overlay);
    this.hover();
  }

  axes(y0, y1) {
    for (const v of ticks(y0, y1, 4)) {
      const y = this.y(v);
      this.canvas.append(
        svg("line", { x1: MARGIN.left, x2: this.width - MARGIN.right, y1: y, y2: y, class: v === 0 ? "base" : "rule" }),
      );
      const text =
        this.chart.unit === "share" ? Number((v * 100).toPrecision(6)) + "%" : compactTick(v, this.chart.unit);
      this.canvas.append(svg("text", { x: MARGIN.left - 7, y: y + 4, "text-anchor": "end" }, text));
    }
    const [x0, x1] = this.section.range;
    for (const v of ticks(x0, x1, Math.max(this.width / 90, 2)).filter(Number.isInteger)) {
      this.canvas.append(
        svg("text", { x: this.x(v), y: HEIGHT - 5, "text-anchor": "middle" }, v.toLocaleString("en-US")),
      );
    }
  }

  curve({ index, x, y, raw, from }) {
    const color = this.color(index);
    if (from) {
      const upper = x.map((v, i) => `${this.x(v).toFixed(1)},${this.y(y[i]).toFixed(1)}`);
      const lower = x.map((v, i) => `${this.x(v).toFixed(1)},${this.y(from[i]).toFixed(1)}`).reverse();
      this.canvas.append(svg("polygon", { points: [...upper, ...lower].join(" "), class: "area" + color }));
      return;
    }
    if (raw && raw !== y) this.canvas.append(svg("path", { d: this.path(x, raw), class: "raw" + color }));
    this.canvas.append(svg("path", { d: this.path(x, y), class: "line" + color }));
    x.forEach((v, i) => y[i] === null && this.canvas.append(this.gap(this.x(v))));
  }

  gap(x) {
    const mark = svg("path", { d: `M${x - 4},${HEIGHT - MARGIN.bottom} h8 l-4,-7 z`, class: "gap" });
    mark.append(svg("title", {}, "not a finite number"));
    return mark;
  }

  path(x, y) {
    let out = "",
      open = false;
    x.forEach((v, i) => {
      if (y[i] === null) {
        open = false;
        return;
      }
      const alone = !open && (i + 1 >= x.length || y[i + 1] === null);
      out += `${open ? "L" : "M"}${this.x(v).toFixed(1)},${this.y(y[i]).toFixed(1)}${alone ? "h.01" : ""}`;
      open = true;
    });
    return out;
  }

  points() {
    let index = this.chart.series.length;
    for (const [name, points] of this.groups) {
      const color = this.color(index++);
      if (this.hidden.has(name)) continue;
      for (const p of points) {
        const x = this.x(p.x);
        if (p.low !== undefined)
          this.canvas.append(
            svg("line", { x1: x, x2: x, y1: this.y(p.low), y2: this.y(p.high), class: "whisker" + color }),
          );
        this.canvas.append(svg("circle", { cx: x, cy: this.y(p.y), r: 4, class: "point" + color }));
      }
    }
  }

  // The cursor, and in the legend the values there; without a cursor the last ones.
  hover() {
    const step = this.section.cursor;
    this.overlay.replaceChildren();
    if (step !== null) {
      const x = this.x(step);
      this.overlay.append(svg("line", { x1: x, x2: x, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom, class: "cursor" }));
      const label = step.toLocaleString("en-US");
      const width = label.length * 7 + 10;
      this.overlay.append(svg("rect", { x: x - width / 2, y: HEIGHT - 17, width, height: 16, class: "plate" }));
      this.overlay.append(svg("text", { x, y: HEIGHT - 5, "text-anchor": "middle", class: "step" }, label));
    }
    this.chart.series.forEach((s, i) => {
      const at = step === null ? s.x.length - 1 : indexAt(s.x, step);
      this.values[i].textContent = at < 0 ? "-" : s.y[at] === null ? "not finite" : format(s.y[at], this.chart.unit);
      const drawn = (this.drawn || []).find((c) => c.index === i);
      if (step !== null && at >= 0 && drawn && drawn.y[at] !== null && !this.chart.stacked) {
        this.overlay.append(
          svg("circle", { cx: this.x(s.x[at]), cy: this.y(drawn.y[at]), r: 4, class: "mark" + this.color(i) }),
        );
      }
    });
    [...this.groups.values()].forEach((points, i) => {
      const at =
        step === null
          ? points.length - 1
          : indexAt(
              points.map((p) => p.x),
              step,
            );
      this.values[this.chart.series.length + i].textContent = at < 0 ? "-" : format(points[at].y, this.chart.unit);
    });
  }
}

function compactTick(value, unit) {
  if (unit === "seconds") return Number(value.toPrecision(6)) + " s";
  const size = Math.abs(value);
  if (size >= 1e6) return Number((value / 1e6).toPrecision(4)) + "M";
  if (size >= 1e4) return Number((value / 1e3).toPrecision(4)) + "k";
  return size !== 0 && size < 1e-3
    ? Number(value.toPrecision(3)).toExponential()
    : String(Number(value.toPrecision(6)));
}
