"use strict";
// The page of `cairn report`. Sections in order: helpers, numbers, ticks, the
// state of the page, the series of a run, a chart, facts and tables, and the
// page as a whole. build() makes the page once; render() fills it from `data`
// and `state`; follow() fetches new data while the page is live.
(() => {

// ---- Helpers. Texts of runs go in as text nodes only, never as HTML.

const SVG = "http://www.w3.org/2000/svg";
const clear = (node) => { while (node.firstChild) node.removeChild(node.firstChild); };
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  for (const child of [children].flat(9)) {
    if (child !== undefined && child !== null && child !== false) node.append(child);
  }
  return node;
}
const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
const colour = (i) => (i < 8 ? `var(--c${i})` : `hsl(${Math.round(i * 137.5) % 360} 55% 52%)`);
const finite = (v) => typeof v === "number" && Number.isFinite(v);

// ---- Numbers for people

function trimmed(text) {
  return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
}
function scaled(value, digits, steps, names) {
  const size = Math.abs(value);
  let i = 0;
  while (i + 1 < steps.length && size >= steps[i + 1] * 0.9995) i++;
  return trimmed((value / steps[i]).toPrecision(digits)).replace(/e\+?(-?\d+)$/, "e$1") + names[i];
}
const counts = [1, 1e3, 1e6, 1e9, 1e12, 1e15, 1e18];
function plain(value, digits) {
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1e5 || size < 1e-3) {
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
    return `${trimmed(mantissa)}e${Number(exponent)}`;
  }
  return trimmed(value.toPrecision(Math.max(digits, Math.ceil(Math.log10(size + 1)))));
}
function shown(value, unit, digits = 4) {
  if (!finite(value)) return "not finite";
  switch (unit) {
    case "count":
      return Math.abs(value) < 1e4 && Number.isInteger(value) ? String(value)
        : scaled(value, Math.max(3, digits), counts, ["", "k", "M", "G", "T", "P", "E"]);
    case "bytes": return scaled(value, 3, counts, [" B", " kB", " MB", " GB", " TB", " PB", " EB"]);
    case "flops": return scaled(value, 3, counts, ["", " kFLOP/s", " MFLOP/s", " GFLOP/s", " TFLOP/s", " PFLOP/s", " EFLOP/s"]);
    case "share": return `${trimmed((100 * value).toPrecision(3))} %`;
    case "ms": return value >= 1000 ? duration(value / 1000) : `${trimmed(value.toPrecision(digits))} ms`;
    default: return plain(value, digits);
  }
}
function duration(seconds) {
  if (!finite(seconds) || seconds < 0) return "";
  if (seconds < 10) return `${trimmed(seconds.toFixed(seconds < 1 ? 2 : 1))} s`;
  if (seconds < 99.5) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds), minutes = Math.round(seconds / 60);
  if (seconds < 5970) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (seconds < 172800) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${trimmed((seconds / 86400).toFixed(1))} days`;
}
function moment(seconds) {
  if (!finite(seconds)) return "";
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return "";
  const two = (n) => String(n).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ` +
    `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

// ---- Ticks

function linearTicks(low, high, most) {
  const rough = (high - low) / Math.max(1, most);
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = power * ([1, 2, 5].find((m) => m * power >= rough * 0.999) || 10);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9 && ticks.length < 50; i++) {
    ticks.push(i * step);
  }
  return { ticks, step };
}
/// Values for the labels of a logarithmic scale from `low` to `high`.
function logTicks(low, high, most) {
  const decades = Math.log10(high / low);
  for (const steps of [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 5], [1, 2, 5], [1, 3], [1]]) {
    const ticks = [];
    for (let p = Math.floor(Math.log10(low)) - 1; p <= Math.ceil(Math.log10(high)); p++) {
      for (const s of steps) {
        const value = s * Math.pow(10, p);
        if (value >= low * 0.9999 && value <= high * 1.0001) ticks.push(value);
      }
    }
    if (ticks.length <= most) {
      // Powers of ten are too far apart on a scale of less than one decade.
      return ticks.length >= 2 || decades > 1 ? ticks : linearTicks(low, high, most).ticks.filter((t) => t > 0);
    }
  }
  const every = Math.ceil(decades / most);
  const ticks = [];
  for (let p = Math.ceil(Math.log10(low)); p <= Math.log10(high); p++) {
    if (p % every === 0) ticks.push(Math.pow(10, p));
  }
  return ticks;
}
/// Labels of ticks, with enough digits to tell them apart, in one format.
function tickLabels(ticks, step, unit) {
  const largest = Math.max(...ticks.map(Math.abs), 0);
  if (unit === "number") {
    if (largest > 0 && (largest >= 1e5 || largest < 1e-2)) {
      return ticks.map((t) => (t === 0 ? "0" : plain(t, 3)));
    }
    const decimals = step ? Math.min(10, Math.max(0, Math.ceil(-Math.log10(step) - 1e-6))) : 0;
    return ticks.map((t) => (step ? t.toFixed(decimals) : plain(t, 3)));
  }
  if (unit === "share" && step) {
    const decimals = Math.max(0, Math.ceil(-Math.log10(step * 100) - 1e-6));
    return ticks.map((t) => `${(100 * t).toFixed(Math.min(8, decimals))} %`);
  }
  if (unit === "ms") {
    const large = largest >= 10000;
    return ticks.map((t) => (large ? `${plain(t / 1000, 4)} s` : `${plain(t, 4)} ms`));
  }
  return ticks.map((t) => (t === 0 ? "0" : shown(t, unit, 4).replace("FLOP/s", "")));
}

// ---- State of the page

/// Takes the prototype from maps of curves: a run may call one "constructor".
function received(json) {
  for (const run of json.runs) Object.setPrototypeOf(run.curves, null);
  return json;
}
let data = received(JSON.parse(document.getElementById("data").textContent));
let receivedAt = performance.now();
let stale = false, shownStates = "";
const state = {
  axis: "iterations", // or tokens, hours
  smoothing: 0,
  hidden: new Set(),  // names of runs
  zoom: null,         // [from, to] on the axis
  log: new Map(),     // chart title -> chosen scale
  differences: false,
};
let charts = [];

// ---- Series of a run

/// A function from a step to its x on the chosen axis, interpolated between
/// logged values; null if the run has no such values.
function axisOf(run) {
  if (state.axis === "iterations") return (step) => step;
  const curve = run.curves[state.axis === "tokens" ? "consumed tokens" : "time"];
  if (!curve || curve.x.length === 0) return null;
  const xs = curve.x, ys = curve.y;
  const begin = finite(run.first_time) ? run.first_time : ys[0];
  const value = state.axis === "tokens" ? (v) => v : (v) => (v - begin) / 3600;
  return (step) => {
    let low = 0, high = xs.length - 1;
    if (step <= xs[0]) {
      return state.axis === "tokens" && xs[0] > 0 ? value(ys[0]) * step / xs[0] : value(ys[0]);
    }
    if (step >= xs[high]) return value(ys[high]);
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= step) low = middle; else high = middle;
    }
    const share = (step - xs[low]) / (xs[high] - xs[low]);
    return value(ys[low] + share * (ys[high] - ys[low]));
  };
}

/// The exponential moving average, without the bias of its start.
function smooth(ys, weight) {
  let sum = 0, weights = 0;
  return ys.map((y) => {
    if (!finite(y)) return y;
    sum = sum * weight + y * (1 - weight);
    weights = weights * weight + (1 - weight);
    return sum / weights;
  });
}

function seriesOf(chart) {
  const series = [];
  data.runs.forEach((run, number) => {
    if (state.hidden.has(run.name)) return;
    const axis = axisOf(run);
    if (!axis) return;
    chart.curves.forEach((name, kind) => {
      const curve = run.curves[name];
      if (!curve) return;
      const one = {
        run, number, kind,
        colour: colour(data.runs.length === 1 ? number + kind : number),
        label: [data.runs.length > 1 ? run.name : "", chart.labels[kind] || ""].filter(Boolean).join(", ") || chart.title,
        xs: curve.x.map(axis), ys: curve.y, raw: null,
      };
      if (chart.noisy && kind === 0 && state.smoothing > 0) {
        one.raw = one.ys;
        one.ys = smooth(one.ys, state.smoothing);
      }
      series.push(one);
    });
  });
  return series;
}

// ---- A chart

class Chart {
  constructor(plan) {
    this.plan = plan;
    this.keys = el("div", { class: "keys" });
    this.logButton = el("button", {
      type: "button", title: "logarithmic scale",
      onclick: () => { state.log.set(plan.title, !this.isLog()); this.draw(); },
    }, "log");
    this.hint = el("div", { class: "hint" });
    this.plot = el("div", { class: "plot" }, this.hint);
    this.node = el("section", { class: plan.wide ? "card wide" : "card" },
      el("header", {}, el("h3", {}, plan.title), this.keys, this.logButton), this.plot);
  }

  isLog() {
    return state.log.has(this.plan.title) ? state.log.get(this.plan.title) : this.plan.log;
  }

  draw() {
    const width = Math.max(200, Math.floor(this.plot.clientWidth));
    const height = this.plan.wide ? Math.min(340, Math.max(230, Math.round(width * 0.36))) : 210;
    this.series = seriesOf(this.plan);
    this.scales(width, height);
    const root = svg("svg", {
      class: "chart", "data-chart": this.plan.title, width, height,
      viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": this.plan.title,
    });
    this.axes(root);
    if (this.series.length) this.curves(root); else this.nothing(root);
    this.pointer(root);
    const old = this.plot.querySelector("svg");
    if (old) old.replaceWith(root); else this.plot.prepend(root);
    this.legend();
  }

  legend() {
    clear(this.keys);
    this.logButton.setAttribute("aria-pressed", String(this.log));
    this.logButton.style.display = this.canLog ? "" : "none";
    if (this.plan.curves.length < 2) return;
    const several = data.runs.length > 1;
    this.plan.curves.forEach((name, kind) => {
      if (!this.series.some((s) => s.kind === kind)) return;
      const line = svg("svg", { class: "key", width: 18, height: 8, style: "width:18px" },
        kind < 2 ? svg("path", {
          class: kind ? "curve dashed" : "curve", d: "M1 4H17",
          stroke: several ? "currentColor" : colour(kind),
        }) : svg("circle", {
          cx: 9, cy: 4, r: 2.6, fill: "none", stroke: several ? "currentColor" : colour(kind), "stroke-width": 1.4,
        }));
      this.keys.append(el("span", {}, line, this.plan.labels[kind] || "training"));
    });
  }

  /// Chooses the ranges: x from the zoom, or the same range for all charts; y
  /// from the values in that range.
  scales(width, height) {
    let [from, to] = state.zoom || fullRange();
    if (!(to > from)) { to = from + 1; }
    let low = Infinity, high = -Infinity, positive = Infinity;
    const look = (xs, ys) => {
      for (let i = 0; i < xs.length; i++) {
        if (!finite(ys[i]) || xs[i] < from || xs[i] > to) continue;
        if (ys[i] < low) low = ys[i];
        if (ys[i] > high) high = ys[i];
        if (ys[i] > 0 && ys[i] < positive) positive = ys[i];
      }
    };
    for (const s of this.series) {
      look(s.xs, s.ys);
      if (s.raw) look(s.xs, s.raw);
    }
    if (low > high) { low = 0; high = 1; positive = Infinity; }
    this.canLog = low > 0;
    this.log = this.isLog() && this.canLog;
    if (this.log) {
      const room = Math.max(1.02, Math.pow(high / low, 0.04));
      low /= room; high *= room;
    } else {
      // The scale of a share, a rate or a size begins at 0 if that costs little.
      if (low >= 0 && low < high * 0.4 && !this.plan.noisy) low = 0;
      const room = high > low ? (high - low) * 0.05 : Math.abs(high) * 0.05 || 0.5;
      high += room;
      if (low !== 0) low = low > 0 && low - room < 0 ? 0 : low - room;
    }
    const rows = Math.max(2, Math.floor((height - 36) / 38));
    if (this.log) {
      this.yTicks = logTicks(low, high, rows + 1);
      this.yLabels = tickLabels(this.yTicks, 0, this.plan.unit);
    } else {
      const { ticks, step } = linearTicks(low, high, rows);
      const whole = this.plan.unit === "count" && step < 1;
      this.yTicks = whole ? ticks.filter((t) => Math.abs(t - Math.round(t)) < 1e-9) : ticks;
      this.yLabels = tickLabels(this.yTicks, step, this.plan.unit);
    }
    const widest = Math.max(2, ...this.yLabels.map((t) => t.length));
    this.box = { left: Math.min(widest * 6.4 + 10, width * 0.35), top: 8, right: width - 12, bottom: height - 24 };
    const { left, top, right, bottom } = this.box;
    this.from = from; this.to = to;
    this.x = (v) => left + (v - from) / (to - from) * (right - left);
    this.back = (px) => from + (px - left) / (right - left) * (to - from);
    const place = this.log ? Math.log : (v) => v;
    const a = place(low), b = place(high);
    this.y = (v) => bottom - (place(v) - a) / (b - a) * (bottom - top);
  }

  axes(root) {
    const { left, top, right, bottom } = this.box;
    this.yTicks.forEach((tick, i) => {
      const y = Math.round(this.y(tick)) + 0.5;
      if (y < top - 1 || y > bottom + 1) return;
      root.append(svg("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }),
        svg("text", { x: left - 6, y: y + 3.5, "text-anchor": "end" }, this.yLabels[i]));
    });
    root.append(svg("line", { class: "axis", x1: left, x2: right, y1: bottom + 0.5, y2: bottom + 0.5 }));
    const unit = state.axis === "hours" ? hourUnit(this.to) : { name: "", factor: 1 };
    const { ticks, step } = linearTicks(this.from * unit.factor, this.to * unit.factor, Math.max(2, Math.floor((right - left) / 68)));
    const labels = state.axis === "hours" ? tickLabels(ticks, step, "number").map((t) => `${t} ${unit.name}`)
      : tickLabels(ticks, step, "count");
    let end = -Infinity;
    ticks.forEach((tick, i) => {
      if (state.axis === "iterations" && !Number.isInteger(tick)) return;
      const x = this.x(tick / unit.factor);
      const half = labels[i].length * 3.2;
      const at = Math.min(Math.max(x, half + 1), right + 11 - half);
      if (at - half < end + 6) return;
      end = at + half;
      root.append(svg("line", { class: "axis", x1: x, x2: x, y1: bottom, y2: bottom + 4 }),
        svg("text", { x: at, y: bottom + 17, "text-anchor": "middle" }, labels[i]));
    });
  }

  nothing(root) {
    const { left, right, top, bottom } = this.box;
    root.append(svg("text", { x: (left + right) / 2, y: (top + bottom) / 2, "text-anchor": "middle" }, "nothing to show"));
  }

  path(xs, ys) {
    let d = "", pen = false, begin = 0, end = xs.length;
    while (begin + 1 < end && xs[begin + 1] < this.from) begin++;
    while (end - 2 >= begin && xs[end - 2] > this.to) end--;
    for (let i = begin; i < end; i++) {
      const ok = finite(ys[i]) && (!this.log || ys[i] > 0);
      if (ok) {
        d += `${pen ? "L" : "M"}${this.x(xs[i]).toFixed(1)} ${this.y(ys[i]).toFixed(1)}`;
        // A lone point would be invisible.
        const next = i + 1 < end && finite(ys[i + 1]);
        if (!pen && !next) d += "h0.01";
      }
      pen = ok;
    }
    return d;
  }

  curves(root) {
    const { left, top, right, bottom } = this.box;
    const id = `clip${charts.indexOf(this)}`;
    root.append(svg("clipPath", { id }, svg("rect", { x: left, y: top - 4, width: right - left, height: bottom - top + 8 })));
    const inside = svg("g", { "clip-path": `url(#${id})` });
    const marked = new Set();
    for (const s of this.series) {
      if (marked.has(s.run)) continue;
      marked.add(s.run);
      const axis = axisOf(s.run);
      s.run.starts.slice(1).forEach((start) => {
        const x = this.x(axis(start.step));
        inside.append(svg("line", {
          class: "restart", x1: x, x2: x, y1: top, y2: bottom,
          stroke: data.runs.length > 1 ? colour(s.number) : "var(--faint)",
        }, svg("title", {}, "restart")));
      });
    }
    for (const s of this.series) {
      const marks = s.kind > 0 || s.xs.length < 3;
      if (s.raw) inside.append(svg("path", { class: "curve raw", d: this.path(s.xs, s.raw), stroke: s.colour }));
      inside.append(svg("path", { class: s.kind ? "curve dashed" : "curve", d: this.path(s.xs, s.ys), stroke: s.colour }));
      s.xs.forEach((x, i) => {
        if (x < this.from || x > this.to) return;
        if (s.ys[i] === null) {
          inside.append(svg("line", { class: "gap", x1: this.x(x), x2: this.x(x), y1: bottom - 7, y2: bottom + 4 },
            svg("title", {}, "not finite")));
        } else if (marks && s.xs.length <= 60) {
          inside.append(svg("circle", {
            cx: this.x(x).toFixed(1), cy: this.y(s.ys[i]).toFixed(1), r: 2.6,
            fill: s.kind === 2 ? "var(--card)" : s.colour, stroke: s.colour, "stroke-width": 1.4,
          }));
        }
      });
    }
    root.append(inside);
  }

  pointer(root) {
    const { left, top, right, bottom } = this.box;
    this.mark = svg("g", { "pointer-events": "none" });
    this.range = svg("rect", { class: "range", y: top, height: bottom - top, width: 0, x: left });
    root.append(this.range, this.mark);
    const at = (event) => {
      const box = root.getBoundingClientRect();
      return Math.min(right, Math.max(left, (event.clientX - box.left) * (root.viewBox.baseVal.width / box.width)));
    };
    let begin = null;
    root.addEventListener("pointermove", (event) => {
      const px = at(event);
      if (begin !== null) {
        fill(this.range, { x: Math.min(begin, px), width: Math.abs(px - begin) });
      }
      point(this, this.back(px), px);
    });
    root.addEventListener("pointerleave", () => point(null));
    root.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || event.button !== 0) return;
      begin = at(event);
      if (event.isTrusted) root.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    root.addEventListener("pointerup", (event) => {
      if (begin === null) return;
      const px = at(event);
      const ends = [this.back(Math.min(begin, px)), this.back(Math.max(begin, px))];
      const far = Math.abs(px - begin) > 6;
      begin = null;
      this.range.setAttribute("width", 0);
      if (far) zoomTo(ends);
    });
    root.addEventListener("pointercancel", () => { begin = null; this.range.setAttribute("width", 0); });
    root.addEventListener("dblclick", () => zoomTo(null));
  }

  /// Draws the cross-hair at `x`, and the values if the pointer is here (`px`).
  show(x, px) {
    clear(this.mark);
    this.hint.style.visibility = "hidden";
    if (x === null || x < this.from || x > this.to) return;
    const { left, top, right, bottom } = this.box;
    this.mark.append(svg("line", { class: "cross", x1: this.x(x), x2: this.x(x), y1: top, y2: bottom }));
    if (px === undefined) return;
    const rows = [];
    for (const s of this.series) {
      const i = nearest(s.xs, x, this.from, this.to);
      if (i < 0) continue;
      rows.push({ s, x: s.xs[i], y: s.ys[i] });
    }
    if (!rows.length) return;
    rows.sort((a, b) => Math.abs(a.x - x) - Math.abs(b.x - x));
    // Points far from the nearest one have another x, so they are left out.
    const close = (right - left) * 0.04;
    const near = rows.filter((row) => Math.abs(this.x(row.x) - this.x(rows[0].x)) <= close);
    near.sort((a, b) => a.s.number - b.s.number || a.s.kind - b.s.kind);
    clear(this.hint);
    this.hint.append(el("div", { class: "x" }, axisValue(rows[0].x)));
    for (const { s, x: sx, y } of near.slice(0, 16)) {
      if (finite(y) && (!this.log || y > 0)) {
        this.mark.append(svg("circle", { cx: this.x(sx), cy: this.y(y), r: 3.4, fill: s.colour, stroke: "var(--card)", "stroke-width": 1.5 }));
      }
      this.hint.append(el("div", { class: "row" },
        el("i", { class: "swatch", style: `color:${s.colour}` }), el("span", {}, s.label),
        el("b", {}, finite(y) ? shown(y, this.plan.unit, 5) : "not finite")));
    }
    this.hint.style.visibility = "visible";
    const wide = this.hint.offsetWidth;
    const place = px + 14 + wide > right + 10 ? px - 14 - wide : px + 14;
    this.hint.style.left = `${Math.max(0, place)}px`;
  }
}

function nearest(xs, x, from, to) {
  let best = -1, distance = Infinity;
  for (let i = 0; i < xs.length; i++) {
    if (xs[i] < from || xs[i] > to) continue;
    const d = Math.abs(xs[i] - x);
    if (d < distance) { distance = d; best = i; }
  }
  return best;
}

function hourUnit(hours) {
  if (hours < 0.05) return { name: "s", factor: 3600 };
  if (hours < 3) return { name: "min", factor: 60 };
  return hours < 72 ? { name: "h", factor: 1 } : { name: "d", factor: 1 / 24 };
}
function axisValue(x) {
  if (state.axis === "hours") return `after ${duration(x * 3600)}`;
  if (state.axis === "tokens") return `${shown(x, "count", 4)} tokens`;
  return `iteration ${Math.round(x)}`;
}

/// The range of x over all runs: all charts share it, so they line up.
function fullRange() {
  let from = Infinity, to = -Infinity;
  for (const run of data.runs) {
    if (state.hidden.has(run.name)) continue;
    const axis = axisOf(run);
    if (!axis) continue;
    for (const curve of Object.values(run.curves)) {
      if (!curve.x.length) continue;
      from = Math.min(from, axis(curve.x[0]));
      to = Math.max(to, axis(curve.x[curve.x.length - 1]));
    }
  }
  if (from > to) return [0, 1];
  return [from > 0 && from < 0.2 * to ? 0 : from, to];
}

function zoomTo(range) {
  state.zoom = range;
  toolbar();
  drawAll();
}
function point(chart, x, px) {
  for (const one of charts) {
    if (one.box) one.show(chart ? x : null, one === chart ? px : undefined);
  }
}
function drawAll() {
  for (const chart of charts) chart.draw();
}

// ---- Facts and tables

const last = (run, name) => (run.curves[name] ? run.curves[name].last : null);
function lossName(run) {
  const names = Object.keys(run.curves).map((n) => n.replace(/^(validation|test) /, ""));
  return names.find((n) => n === "lm loss") || names.find((n) => n.endsWith("loss")) || "lm loss";
}
/// Seconds by the clock of the data's machine; a page that is not live stays
/// at its time.
function now() {
  return data.made + (data.refresh ? (performance.now() - receivedAt) / 1000 : 0);
}
function stateOf(run) {
  const complete = finite(run.iterations) && run.last_step >= run.iterations;
  if (run.end) return { text: complete ? "done" : "stopped", note: run.end.reason, good: true };
  const silent = now() - run.last_time;
  const pace = (run.last_time - run.first_time) / Math.max(1, run.records);
  if (finite(silent) && silent < Math.max(120, 10 * pace)) return { text: "running", good: true };
  if (complete) return { text: "done", good: true };
  return { text: "no end", note: finite(silent) ? `last line ${duration(silent)} ago` : "", bad: true };
}

function milliseconds(value) {
  return value >= 1000 ? `${plain(value / 1000, 3)} s` : `${plain(value, 3)} ms`;
}

/// The main facts of a run, as rows of name, value and note.
function factsOf(run) {
  const facts = [];
  const add = (name, value, note) => { if (value) facts.push({ name, value, note: note || "" }); };
  const loss = lossName(run);
  const status = stateOf(run);
  add("State", status.text, status.note);
  facts[facts.length - 1].tone = status.good ? "good" : status.bad ? "bad" : "";
  add("Iteration", String(run.last_step), finite(run.iterations) ? `of ${run.iterations}` : "");
  if (finite(last(run, loss))) {
    const lowest = run.curves[loss].lowest;
    add(loss === "lm loss" ? "Loss" : loss, plain(last(run, loss), 4), finite(lowest) ? `lowest ${plain(lowest, 4)}` : "");
  }
  for (const kind of ["validation", "test"]) {
    const curve = run.curves[`${kind} ${loss}`];
    if (curve && finite(curve.last)) {
      add(kind === "test" ? "Test loss" : "Validation loss", plain(curve.last, 4),
        kind === "test" || curve.lowest === curve.last ? `perplexity ${plain(Math.exp(Math.min(20, curve.last)), 4)}` : `lowest ${plain(curve.lowest, 4)}`);
    }
  }
  const tokens = last(run, "consumed tokens");
  if (finite(tokens)) add("Tokens", shown(tokens, "count", 3));
  const speed = run.curves["tokens per second"];
  if (speed && finite(speed.mean)) add("Tokens per second", shown(speed.mean, "count", 3), "mean");
  const mfu = run.curves.MFU, flops = run.curves["flops per second and rank"];
  if (mfu && finite(mfu.mean)) add("MFU", shown(mfu.mean, "share"), flops && finite(flops.mean) ? `${shown(flops.mean, "flops")} per rank` : "mean");
  else if (flops && finite(flops.mean)) add("Work of a rank", shown(flops.mean, "flops"), "mean");
  const memory = run.memory && run.memory.bytes.find(([name]) => name === "most allocated");
  const peak = memory ? memory[1] : run.curves["max allocated bytes"] && run.curves["max allocated bytes"].highest;
  const planned = new Map(run.estimate ? run.estimate.bytes : []);
  if (finite(peak)) add("Memory at most", shown(peak, "bytes"), planned.has("total") ? `of rank 0; by plan ${shown(planned.get("total"), "bytes")}` : "of rank 0");
  const took = run.curves["iteration (ms)"];
  if (took && finite(took.mean) && run.estimate && finite(run.estimate.iteration_seconds)) {
    add("Iteration time", milliseconds(took.mean), `mean; by plan ${milliseconds(1000 * run.estimate.iteration_seconds)}`);
  }
  if (finite(run.first_time) && finite(run.last_time)) {
    add("Duration", duration(run.last_time - run.first_time), moment(run.first_time));
  }
  const start = run.starts[run.starts.length - 1];
  if (start && finite(start.ranks)) add("Ranks", String(start.ranks), start.host);
  add("Restarts", String(run.restarts));
  const skipped = run.curves["skipped iterations"];
  if (skipped && skipped.highest > 0) add("Skipped", "yes", "iterations whose gradient overflowed");
  return facts;
}

function overview() {
  if (data.runs.length === 1) {
    return el("div", { class: "tiles" }, factsOf(data.runs[0]).map((fact) =>
      el("div", { class: "tile" }, el("div", { class: "name" }, fact.name),
        el("div", { class: `value ${fact.tone || ""}` }, fact.value), el("div", { class: "note" }, fact.note))));
  }
  const all = data.runs.map((run) => new Map(factsOf(run).map((fact) => [fact.name, fact])));
  const names = [...new Set(all.flatMap((facts) => [...facts.keys()]))];
  return el("div", { class: "scroll", style: "margin-top:16px" }, el("table", {}, heads(""),
    names.map((name) => el("tr", {}, el("th", { scope: "row" }, name), all.map((facts) => {
      const fact = facts.get(name);
      return el("td", { class: (fact && fact.tone) || "" }, fact ? [fact.value, fact.note ? el("div", { class: "small" }, fact.note) : ""] : "");
    })))));
}
function heads(first) {
  return el("tr", {}, el("th", { scope: "col" }, first), data.runs.map((run, i) =>
    el("th", { scope: "col" }, data.runs.length > 1 ? el("i", { class: "swatch", style: `color:${colour(i)}` }) : "", run.name)));
}

/// A table of names with the values of each run beside each other.
function comparison(key, code) {
  const maps = data.runs.map((run) => new Map(run[key]));
  const names = [...new Set(maps.flatMap((map) => [...map.keys()]))];
  const differs = (name) => new Set(maps.map((map) => map.get(name))).size > 1;
  return el("div", { class: "scroll" }, el("table", {}, data.runs.length > 1 ? heads("") : "",
    names.filter((name) => !state.differences || data.runs.length === 1 || differs(name)).map((name) =>
      el("tr", { class: data.runs.length > 1 && differs(name) ? "differs" : "" }, el("th", { scope: "row" }, name),
        maps.map((map) => el("td", { class: code ? "code" : "" }, map.has(name) ? map.get(name) : "—"))))));
}

const memoryNames = [
  ["parameters", "parameters"], ["gathered", "gathered parameters"], ["gradients", "gradients"],
  ["optimizer", "optimizer"], ["buffers", "buffers"], ["activations", "activations"],
];
/// What the planner counts for a component that was measured.
const plannedParts = {
  parameters: ["parameters"], "gathered parameters": ["gathered_parameters"], gradients: ["gradients"],
  optimizer: ["master_weights", "optimizer"], activations: ["activations"],
};
function plannedFor(run, name) {
  if (!run.estimate || !plannedParts[name]) return "";
  const planned = new Map(run.estimate.bytes);
  const size = plannedParts[name].reduce((total, part) => total + (planned.get(part) || 0), 0);
  return el("span", { class: "small" }, ` by plan ${shown(size, "bytes")}`);
}
function memoryCard(run) {
  const bytes = new Map(run.memory.bytes);
  const known = new Set(memoryNames.map(([name]) => name));
  const parts = memoryNames.filter(([name]) => bytes.get(name) > 0).map(([name, shownName]) => [shownName, bytes.get(name)]);
  const most = bytes.get("most allocated") || 0;
  const sum = parts.reduce((total, [, size]) => total + size, 0);
  const elsewhere = [...bytes].filter(([name]) => !known.has(name) && !["allocated", "most allocated", "other"].includes(name));
  if (most > sum) parts.push(["everything else", most - sum]);
  const whole = Math.max(most, sum);
  const tint = (i) => (parts[i][0] === "everything else" ? "var(--faint)" : colour(i));
  return el("section", { class: "card", "data-memory": run.name },
    el("header", {}, el("h3", {}, data.runs.length > 1 ? run.name : "By component"),
      el("span", { class: "under" }, `rank 0${run.memory.device ? `, ${run.memory.device}` : ""}: ${shown(whole, "bytes")} at most`)),
    el("div", { class: "stack" }, parts.map(([name, size], i) =>
      el("div", { style: `flex:${size / whole} 0 0;background:${tint(i)}`, title: `${name}: ${shown(size, "bytes")}` }))),
    el("div", { class: "parts" }, parts.map(([name, size], i) =>
      el("div", {}, el("i", { class: "box", style: `background:${tint(i)}` }), name, el("b", {}, shown(size, "bytes")), plannedFor(run, name))),
      elsewhere.map(([name, size]) => el("div", {}, name, el("b", {}, shown(size, "bytes"))))));
}

function history() {
  const rows = [];
  data.runs.forEach((run, i) => {
    run.starts.forEach((start, n) => {
      const who = [finite(start.ranks) ? `${start.ranks} rank${start.ranks === 1 ? "" : "s"}` : "", start.host ? `on ${start.host}` : ""].filter(Boolean).join(" ");
      const back = start.reached > start.step ? `, back from ${start.reached}` : "";
      const what = n === 0 && start.step <= 0 ? "started" : n === 0 ? `went on after iteration ${start.step}` : `restarted after iteration ${start.step}${back}`;
      rows.push({ i, time: start.time, what: who ? `${what}, ${who}` : what });
    });
    if (run.restarts > run.starts.length) rows.push({ i, time: null, what: `… ${run.restarts} restarts in all` });
    if (run.end) rows.push({ i, time: run.end.time, what: `iteration ${run.end.step}: ${run.end.reason || "ended"}` });
  });
  if (!rows.length) return null;
  return [el("h2", {}, "Starts and ends"), el("div", { class: "scroll" }, el("table", { id: "history" },
    rows.map((row) => el("tr", {}, el("th", { scope: "row" }, moment(row.time) || "—"),
      data.runs.length > 1 ? el("td", {}, data.runs[row.i].name) : "", el("td", {}, row.what)))))];
}

function details() {
  const nodes = [history()];
  if (data.runs.some((run) => run.given.length)) {
    nodes.push(el("h2", {}, "Configuration"));
    if (data.runs.length > 1) {
      nodes.push(el("p", { class: "under", style: "margin:0 0 8px" }, el("label", {},
        fill(el("input", { type: "checkbox", onchange: (event) => { state.differences = event.target.checked; below(); } }),
          state.differences ? { checked: "" } : {}), " only what differs")));
    }
    nodes.push(comparison("given", true));
  }
  data.runs.forEach((run) => {
    if (!run.configuration) return;
    nodes.push(el("details", {}, el("summary", {}, "Everything that was in force", data.runs.length > 1 ? `: ${run.name}` : ""), el("pre", {}, run.configuration)));
  });
  if (data.runs.some((run) => run.versions.length)) {
    nodes.push(el("h2", {}, "Versions"), comparison("versions", false));
  }
  return nodes;
}

// ---- The page as a whole

const page = document.getElementById("page");
const parts = {};
function build() {
  clear(page);
  parts.head = el("div");
  parts.notice = el("div", { class: "notice", role: "status" });
  parts.bar = el("div", { class: "bar" });
  parts.top = el("div");
  parts.charts = el("div");
  parts.below = el("div");
  fill(page, {}, Object.values(parts));
}

function head() {
  clear(parts.head);
  const one = data.runs.length === 1 ? data.runs[0] : null;
  const under = one ? [one.model ? one.model.toUpperCase() : "", one.path] : data.runs.map((run) => run.name);
  fill(parts.head, {}, [
    el("h1", {}, one ? one.name : data.runs.length ? `${data.runs.length} runs` : "No run yet"),
    el("p", { class: "under" }, [...under.filter(Boolean), data.refresh ? "" : `as of ${moment(data.made)}`].filter(Boolean).join(" · ")),
  ]);
  const said = [];
  for (const run of data.runs) {
    const name = data.runs.length > 1 ? `${run.name}: ` : "";
    if (run.broken_lines) said.push(`${name}${run.broken_lines} line${run.broken_lines === 1 ? "" : "s"} of the log could not be read.`);
    if (run.ignored_values) said.push(`${name}values of too many names: ${run.ignored_values} were left out.`);
  }
  if (!data.runs.length) said.push("Nothing has been logged yet. This page looks again by itself.");
  parts.notice.textContent = said.join(" ");
}

function toolbar() {
  clear(parts.bar);
  const choose = (name, value, text) => el("button", {
    type: "button", "aria-pressed": String(state[name] === value),
    onclick: () => { state[name] = value; state.zoom = null; toolbar(); drawAll(); },
  }, text);
  const has = (name) => data.runs.some((run) => run.curves[name]);
  if (data.runs.length > 1) {
    parts.bar.append(el("div", { class: "runs" }, data.runs.map((run, i) => el("button", {
      type: "button", title: run.path, "aria-pressed": String(!state.hidden.has(run.name)),
      onclick: () => {
        if (!state.hidden.delete(run.name)) state.hidden.add(run.name);
        toolbar(); drawAll();
      },
    }, el("i", { class: "swatch", style: `color:${colour(i)}` }), el("span", {}, run.name)))));
  }
  parts.bar.append(el("div", { class: "group" }, "over", el("span", { class: "choice" }, choose("axis", "iterations", "iterations"),
    has("consumed tokens") ? choose("axis", "tokens", "tokens") : "", has("time") ? choose("axis", "hours", "time") : "")));
  const slider = el("input", { type: "range", min: 0, max: 0.99, step: 0.01, "aria-label": "smoothing" });
  slider.value = state.smoothing;
  slider.addEventListener("input", () => { state.smoothing = Number(slider.value); drawAll(); });
  parts.bar.append(el("label", {}, "smooth", slider));
  if (state.zoom) parts.bar.append(el("button", { type: "button", onclick: () => zoomTo(null) }, "whole run"));
  parts.live = data.refresh ? el("span", { class: "live right" }, "live") : null;
  if (parts.live) parts.bar.append(parts.live);
  parts.bar.style.display = data.runs.length ? "" : "none";
}

function below() {
  clear(parts.below);
  fill(parts.below, {}, details());
}

function chartSections() {
  clear(parts.charts);
  charts = [];
  const sections = new Map();
  for (const plan of data.charts) {
    if (!sections.has(plan.section)) sections.set(plan.section, []);
    sections.get(plan.section).push(new Chart(plan));
  }
  if (data.runs.some((run) => run.memory) && !sections.has("Memory")) sections.set("Memory", []);
  for (const [name, list] of sections) {
    fill(parts.charts, {}, el("h2", {}, name));
    if (name === "Memory") {
      const cards = data.runs.filter((run) => run.memory && run.memory.bytes.length).map(memoryCard);
      if (cards.length) parts.charts.append(el("div", { class: "memory" }, cards));
    }
    if (list.length) parts.charts.append(el("div", { class: "charts" }, list.map((chart) => chart.node)));
    charts.push(...list);
  }
}

/// The states of the runs as a text, which may change with time alone.
function states() {
  return data.runs.map((run) => {
    const state = stateOf(run);
    return state.bad ? `silent ${Math.floor((now() - run.last_time) / 60)}` : state.text;
  }).join();
}

function render() {
  stale = false;
  shownStates = states();
  const scroll = window.scrollY;
  const open = [...document.querySelectorAll("details")].map((node) => node.open);
  head();
  toolbar();
  clear(parts.top);
  if (data.runs.length) parts.top.append(overview());
  chartSections();
  below();
  drawAll();
  document.querySelectorAll("details").forEach((node, i) => { node.open = Boolean(open[i]); });
  window.scrollTo(0, scroll);
}

/// Fetches new data again and again; the reader's choices stay.
async function follow() {
  try {
    const reply = await fetch(`data.json?after=${data.version}`, { cache: "no-store" });
    if (reply.status === 200) {
      data = received(await reply.json());
      receivedAt = performance.now();
      stale = true;
    } else if (reply.status !== 204) {
      throw new Error(await reply.text());
    }
    stale = stale || states() !== shownStates; // a run may have fallen silent
    if (stale && !pointing) render();
    if (parts.live) { parts.live.className = "live right"; parts.live.textContent = "live"; }
  } catch (error) {
    if (parts.live) {
      parts.live.className = "live lost right";
      parts.live.textContent = `no answer; as of ${moment(data.made)}`;
    }
  }
  setTimeout(follow, 1000 * data.refresh);
}

// Nothing is replaced while the reader drags a range.
let pointing = false;
document.addEventListener("pointerdown", () => { pointing = true; });
for (const name of ["pointerup", "pointercancel"]) {
  document.addEventListener(name, () => {
    pointing = false;
    if (stale) render();
  });
}

build();
render();
let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth !== width) { width = window.innerWidth; drawAll(); }
});
if (data.refresh) setTimeout(follow, 1000 * data.refresh);
})();
