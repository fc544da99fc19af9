// Guess first: the visitor draws the curve, with a pointer or with the arrow keys, before the forecast is shown.

import { $, tell } from "./dom.js";

const POINTS = 60;

export class Guess {
  constructor(chart) {
    this.chart = chart;
    this.active = false;
    const overlay = $("overlay");
    overlay.addEventListener("pointerdown", (event) => { if (this.active) { overlay.setPointerCapture(event.pointerId); this.stroke(event, true); } });
    overlay.addEventListener("pointermove", (event) => { if (this.active && event.buttons) this.stroke(event, false); });
    overlay.addEventListener("keydown", (event) => this.key(event));
  }

  begin(first) {
    Object.assign(this, { active: true, points: Array(POINTS).fill(first), place: 0, last: null, first });
    const overlay = $("overlay");
    overlay.classList.add("drawing");
    overlay.removeAttribute("aria-hidden");
    overlay.setAttribute("tabindex", "0");
    overlay.setAttribute("role", "application");
    overlay.setAttribute("aria-label", "Draw the expected loss: with a pointer, or left and right to move, up and down to change it");
    $("guess-box").hidden = false;
    $("guess-told").textContent = "Draw the loss that you expect, from left to right.";
    this.show();
  }

  end() {
    this.active = false;
    const overlay = $("overlay");
    overlay.classList.remove("drawing");
    for (const name of ["tabindex", "role", "aria-label"]) overlay.removeAttribute(name);
    overlay.setAttribute("aria-hidden", "true");
    $("guess-box").hidden = true;
  }

  clear() {
    this.points = null;
    $("guess-line").setAttribute("points", "");
  }

  stroke(event, begins) {
    const { time, loss } = this.chart.point(event);
    const place = Math.round((time / this.chart.end) * (POINTS - 1));
    const from = begins || this.last === null ? place : this.last;
    const before = begins ? loss : this.points[from];
    for (let k = Math.min(from, place); k <= Math.max(from, place); k++)
      this.points[k] = place === from ? loss : before + ((loss - before) * (k - from)) / (place - from);
    for (let k = Math.max(from, place) + 1; k < POINTS; k++) this.points[k] = this.points[Math.max(from, place)];
    this.last = place;
    this.show();
  }

  key(event) {
    if (!this.active) return;
    const factor = { ArrowUp: 1.15, ArrowDown: 1 / 1.15 }[event.key];
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!factor && !step) return;
    event.preventDefault();
    if (step) this.place = Math.min(POINTS - 1, Math.max(0, this.place + step));
    else this.points.fill(this.points[this.place] * factor, this.place);
    $("guess-told").textContent = `At t = ${tell(this.time(this.place))} you expect ${tell(this.points[this.place])}.`;
    this.show();
  }

  time(place) { return (place / (POINTS - 1)) * this.chart.end; }
  pairs() { return this.points.map((loss, k) => [this.time(k), loss]); }

  // the area between the drawn curve and another one, in parts of the area under the other
  distance(time, loss) {
    const drawn = time.map((t) => {
      const at = (t / this.chart.end) * (POINTS - 1);
      const k = Math.min(POINTS - 2, Math.floor(at));
      return this.points[k] + (at - k) * (this.points[k + 1] - this.points[k]);
    });
    const area = (values) => values.slice(1).reduce((sum, value, k) => sum + 0.5 * (value + values[k]) * (time[k + 1] - time[k]), 0);
    return area(loss.map((value, k) => Math.abs(value - drawn[k]))) / area(loss);
  }

  show() {
    if (!this.points) return;
    $("guess-line").setAttribute("points", this.pairs().map(([time, loss]) => this.chart.pixel(time, loss).join(",")).join(" "));
  }
}
