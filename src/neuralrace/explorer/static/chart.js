// The loss: theory in black dashes, training in color with its range, the difference below, one cursor.

import { $, color, placeOf, tell } from "./dom.js";

const MARGIN = { l: 58, r: 14, t: 8, b: 42 };
const LOSS = [0.32, 1]; // of the height
const GAP = [0, 0.22];
const FIXED = { displayModeBar: false, responsive: true, doubleClick: false };

export class Chart {
  constructor(about) {
    this.about = about;
    this.plot = $("plot");
    new ResizeObserver(() => this.cursor(this.time)).observe($("chart"));
  }

  // pixels of the upper panel
  area() {
    const { width, height } = $("chart").getBoundingClientRect();
    const inner = height - MARGIN.t - MARGIN.b;
    return { left: MARGIN.l, right: width - MARGIN.r, top: MARGIN.t, bottom: MARGIN.t + inner * (1 - LOSS[0]), end: height - MARGIN.b };
  }

  range({ forecast, training, snapshots, pins }, log) {
    const untrained = [snapshots?.untrained, training?.done?.snapshots.untrained];
    const all = [forecast.high, forecast.loss, training?.mean, ...untrained, ...pins.map((pin) => pin.forecast.loss)].flat().filter((v) => v > 0);
    const first = forecast.loss[0];
    const most = Math.min(Math.max(...all, 1e-30), 20 * first);
    if (!log) return [0, 1.06 * most];
    const least = Math.max(Math.min(...all), 1e-8 * first);
    return [Math.log10(least) - 0.15, Math.log10(most) + 0.15];
  }

  async show(state, log) {
    if (!window.Plotly) await new Promise((ready) => addEventListener("load", ready, { once: true }));
    const { forecast, training, snapshots, pins, scene, hidden } = state;
    this.end = forecast.time.at(-1);
    this.limits = this.range(state, log);
    this.log = log;
    const traces = [];
    if (!hidden) traces.push(...this.theory(forecast), ...untrained("theory", snapshots, color("theory")));
    pins.forEach((pin) => traces.push(...this.pinned(pin)));
    if (training) traces.push(...this.trained(training, scene), ...untrained("training", training.done?.snapshots, this.about.colors.untrained));
    traces.push({ x: [0], y: [0], xaxis: "x", yaxis: "y2", mode: "lines", hoverinfo: "skip", showlegend: false }); // keeps the lower panel
    await Plotly.react(this.plot, traces, this.layout(forecast, training, log), FIXED);
    this.cursor(this.time ?? this.end);
  }

  theory(forecast) {
    const ink = color("theory");
    const edge = { x: forecast.time, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
    return [
      { ...edge, y: forecast.low },
      { ...edge, y: forecast.high, fill: "tonexty", fillcolor: `${color("soft")}33` },
      line(forecast.time, forecast.loss, "theory", { color: ink, width: 2, dash: "6px,4px" }),
    ];
  }

  pinned(pin) {
    const told = { color: pin.color, width: 1.6 };
    const found = [line(pin.forecast.time, pin.forecast.loss, `pinned ${pin.number}, theory`, { ...told, dash: "3px,3px" })];
    if (pin.training) found.push(line(pin.training.time, pin.training.mean, `pinned ${pin.number}, training`, told));
    return found;
  }

  trained(training, scene) {
    const ink = this.about.colors[scene.network];
    const { time } = training;
    const edge = { x: time, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
    const seeds = training.loss.length > 1 ? training.loss.map((loss, k) => ({
      ...line(time, loss, `network ${k}`, { color: ink, width: 0.7 }), opacity: 0.45, showlegend: false })) : [];
    const found = [
      { ...edge, y: training.low },
      { ...edge, y: training.high, fill: "tonexty", fillcolor: `${ink}30` },
      ...seeds,
      line(time, training.mean, training.loss.length > 1 ? `training, mean of ${training.loss.length}` : "training", { color: ink, width: 2 }),
    ];
    if (training.done) {
      const below = { xaxis: "x", yaxis: "y2" };
      const { gap, low, high } = training.done;
      found.push({ ...edge, ...below, y: low }, { ...edge, ...below, y: high, fill: "tonexty", fillcolor: `${color("soft")}33` });
      found.push({ ...line(time, gap, "training less theory", { color: ink, width: 1.5 }), ...below, showlegend: false });
    }
    return found;
  }

  layout(forecast, training, log) {
    const axis = { fixedrange: true, gridcolor: color("line"), zeroline: false, linecolor: color("soft"), ticks: "outside", ticklen: 4,
      tickcolor: color("soft"), automargin: false };
    const reach = training?.done ? 1.15 * Math.max(...[training.done.gap, training.done.low, training.done.high].flat().map(Math.abs), 1e-12) : 1;
    return {
      margin: MARGIN, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest", dragmode: false,
      font: { family: "system-ui, sans-serif", size: 12, color: color("ink") }, showlegend: true,
      legend: { x: 1, y: 1, xanchor: "right", yanchor: "top", bgcolor: "rgba(0,0,0,0)", font: { size: this.plot.clientWidth < 480 ? 9 : 12 } },
      xaxis: { ...axis, range: [0, this.end], title: { text: "time t (learning rate × step)", standoff: 6, font: { size: 12 } }, anchor: "y2" },
      yaxis: { ...axis, domain: LOSS, range: this.limits, type: log ? "log" : "linear", title: { text: "loss", standoff: 4, font: { size: 12 } },
        exponentformat: "power", nticks: 6, ...(log ? { dtick: Math.max(1, Math.ceil((this.limits[1] - this.limits[0]) / 6)) } : {}) },
      yaxis2: { ...axis, domain: GAP, range: [-reach, reach], nticks: 3, title: { text: "difference", standoff: 4, font: { size: 12 } }, zeroline: true,
        zerolinecolor: color("soft"), exponentformat: "power", showticklabels: Boolean(training?.done) },
    };
  }

  cursor(time) {
    this.time = time;
    if (!this.end) return;
    const { left, right, top, end } = this.area();
    const x = left + (Math.min(time, this.end) / this.end) * (right - left);
    for (const [name, value] of Object.entries({ x1: x, x2: x, y1: top, y2: end })) $("cursor-line").setAttribute(name, value);
  }

  // from a pointer in the chart to a time and a loss
  point(event) {
    const box = $("chart").getBoundingClientRect();
    const { left, right, top, bottom } = this.area();
    const across = Math.min(1, Math.max(0, (event.clientX - box.left - left) / (right - left)));
    const up = Math.min(1, Math.max(0, (bottom - (event.clientY - box.top)) / (bottom - top)));
    const value = this.limits[0] + up * (this.limits[1] - this.limits[0]);
    return { time: across * this.end, loss: this.log ? 10 ** value : value };
  }

  pixel(time, loss) {
    const { left, right, top, bottom } = this.area();
    const value = this.log ? Math.log10(Math.max(loss, 1e-300)) : loss;
    const up = (value - this.limits[0]) / (this.limits[1] - this.limits[0]);
    return [left + (time / this.end) * (right - left), bottom - Math.min(1, Math.max(0, up)) * (bottom - top)];
  }

  picture(format) {
    return Plotly.toImage(this.plot, { format, width: 900, height: 560, scale: format === "png" ? 2 : 1 });
  }
}

// the loss of routes that are never trained, where there are such
const untrained = (who, snapshots, color) => (snapshots?.untrained ? [line(snapshots.time, snapshots.untrained, `${who}, untrained routes`, { color, width: 2, dash: "2px,3px" })] : []);

const line = (x, y, name, style) => ({ x, y, name, mode: "lines", line: style, hovertemplate: `${name}<br>t %{x:.4g}: %{y:.4g}<extra></extra>` });

export function readout({ forecast, training }, time, hidden) {
  const at = placeOf(forecast.time, time);
  const parts = [`t = ${tell(forecast.time[at])}`];
  if (!hidden) parts.push(`theory ${tell(forecast.loss[at])}`);
  if (training && at < training.time.length) {
    parts.push(`training ${tell(training.mean[at])}`);
    if (training.loss.length > 1) parts.push(`networks ${training.loss.map((loss) => tell(loss[at], 2)).join(", ")}`);
  }
  const said = [];
  const found = training?.done?.agreement;
  if (found && !hidden)
    said.push(`apart by ${tell(found.normalized_l1)} of the area (L1), ${tell(found.max_gap)} of the first loss at most`);
  return [parts.join("  ·  "), ...said].join("\n");
}
