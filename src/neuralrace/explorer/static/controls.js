// The problem: task cards, settings, sliders, and the gating as a grid that can be clicked.

import { $, make, tell } from "./dom.js";

const NAMES = { xor: "XOR", hierarchy: "hierarchy", semantic: "animals", contextual: "contexts", contextual_classification: "which input", routing: "routing",
  views: "views", iris: "flowers" };
const WORDS = { gated: "linear, gated", relu: "ReLU", gaussian: "Gaussian", relative: "Gaussian, relative to Xavier", orthogonal: "orthogonal" };
const FINE = 200; // places of a slider without stops

export class Controls {
  // change: what to call with a function that alters a copy of the scene
  constructor(about, change, choose, disabled) {
    Object.assign(this, { about, change, disabled });
    $("tasks").replaceChildren(...Object.keys(about.tasks).map((task) => this.card(task, choose)));
    const network = about.bounds.network.options.map((option) => make("label", {}, make("input", { type: "radio", name: "network", value: option, disabled,
      onchange: () => change((scene) => { scene.network = option; scene.flips = []; }) }), ` ${WORDS[option]}`));
    $("network").append(...network);
    $("sliders").replaceChildren(...Object.entries(about.bounds).filter(([name]) => name !== "network")
      .map(([name, bound]) => this.control(name, bound, (scene) => scene)));
    $("gating").onchange = () => change((scene) => { scene.gating = $("gating").value; scene.flips = []; });
    $("gating").disabled = disabled;
  }

  card(task, choose) {
    const input = make("input", { type: "radio", name: "task", value: task, id: `task-${task}`, disabled: this.disabled, onchange: () => choose(task) });
    return make("label", { class: "card" }, input, NAMES[task] ?? task);
  }

  // a slider or a choice; where: finds in a scene the object that holds the value
  control(name, bound, where) {
    const id = `control-${name}`;
    const put = (value) => this.change((scene) => { where(scene)[name] = value; });
    if (bound.kind === "choice")
      return make("label", { class: "slider" }, bound.label, make("select", { id, disabled: this.disabled, onchange: (event) => put(event.target.value) },
        ...bound.options.map((option) => make("option", { value: option }, WORDS[option] ?? option))));
    const most = bound.stops.length ? bound.stops.length - 1 : FINE;
    const input = make("input", { type: "range", id, min: 0, max: most, step: 1, disabled: this.disabled, oninput: (event) => put(valueAt(bound, Number(event.target.value))) });
    return make("label", { class: "slider", for: id }, make("span", {}, bound.label), make("output", { id: `${id}-told` }), input);
  }

  show(scene, problem) {
    $(`task-${scene.task}`).checked = true;
    if (this.task !== scene.task) {
      this.task = scene.task;
      $("settings").replaceChildren(...Object.entries(this.about.tasks[scene.task]).map(([name, bound]) => this.control(name, bound, (one) => one.settings)));
    }
    document.querySelector(`#network input[value="${scene.network}"]`).checked = true;
    for (const [name, bound] of Object.entries(this.about.bounds)) set(name, bound, scene[name]);
    for (const [name, bound] of Object.entries(this.about.tasks[scene.task])) set(name, bound, scene.settings[name]);
    $("gating-box").hidden = scene.network === "relu";
    if (!problem) return;
    $("gating").replaceChildren(...problem.gatings.map((name) => make("option", { value: name, selected: name === problem.gating }, name)));
    this.grid(scene, problem);
  }

  grid(scene, problem) {
    const [rows, columns] = [problem.rows.length, problem.pathways.length];
    $("grid").classList.toggle("many", rows > 12);
    if (rows * columns > 700 || !columns) {
      $("grid").replaceChildren();
      $("grid-told").textContent = columns ? `${rows} kinds of examples by ${columns} pathways: too many to draw` : "";
      return;
    }
    const flip = (row, column) => this.change((one) => {
      const at = one.flips.findIndex(([r, c]) => r === row && c === column);
      if (at < 0) one.flips.push([row, column]);
      else one.flips.splice(at, 1);
      one.flips.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    });
    const cell = (row, column) => make("button", { role: "switch", "aria-checked": String(problem.grid[row][column] !== 0), "aria-label": `${problem.pathways[column]} for ${problem.rows[row]}`,
      tabindex: row || column ? -1 : 0, "data-place": `${row}.${column}`, disabled: this.disabled, onclick: () => flip(row, column), onkeydown: (event) => move(event, row, column) });
    const focused = document.activeElement?.dataset?.place;
    const head = make("tr", {}, make("th"), ...problem.pathways.map((name) => make("th", { scope: "col", title: name }, name.length > 6 ? `${name.slice(0, 2)}…${name.slice(-1)}` : name)));
    const body = problem.rows.map((label, row) => make("tr", { "data-row": row }, make("th", { scope: "row" }, label), ...problem.pathways.map((_, column) => make("td", {}, cell(row, column)))));
    $("grid").replaceChildren(make("table", { "aria-label": "Which pathway is open for which example" }, make("thead", {}, head), make("tbody", {}, ...body)));
    if (focused) document.querySelector(`[data-place="${focused}"]`)?.focus();
    $("grid-told").textContent = scene.flips.length ? `${scene.flips.length} gate${scene.flips.length > 1 ? "s" : ""} other than in this gating` : "click a gate to open or close it";
  }

  light(row) {
    for (const line of document.querySelectorAll("#grid tr")) line.classList.toggle("lit", line.dataset.row === String(row));
  }
}

function move(event, row, column) {
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (!step) return;
  event.preventDefault();
  document.querySelector(`[data-place="${row + step[0]}.${column + step[1]}"]`)?.focus();
}

export function valueAt(bound, place) {
  if (bound.stops.length) return bound.stops[place];
  const part = place / FINE;
  const value = bound.log ? bound.least * (bound.most / bound.least) ** part : bound.least + part * (bound.most - bound.least);
  const kept = Number(value.toPrecision(bound.log ? 2 : 3));
  return Math.min(bound.most, Math.max(bound.least, bound.whole ? Math.round(kept) : kept));
}

function placeIn(bound, value) {
  if (bound.stops.length) return bound.stops.reduce((best, stop, k) => (Math.abs(stop - value) < Math.abs(bound.stops[best] - value) ? k : best), 0);
  const part = bound.log ? Math.log(value / bound.least) / Math.log(bound.most / bound.least) : (value - bound.least) / (bound.most - bound.least);
  return Math.round(part * FINE);
}

function set(name, bound, value) {
  const input = $(`control-${name}`);
  if (!input) return;
  if (bound.kind === "choice") input.value = value;
  else {
    if (document.activeElement !== input) input.value = placeIn(bound, value);
    $(`control-${name}-told`).textContent = tell(value);
    input.setAttribute("aria-valuetext", tell(value));
  }
}
