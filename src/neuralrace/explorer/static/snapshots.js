// The network: the graph with edges as thick as their strength and the gates of one example, and four ways to look.

import { $, color, draw, make, placeOf, tell } from "./dom.js";

export function showGraph(state, time, row, about) {
  const { problem } = state.forecast;
  const seen = state.training?.done?.snapshots ?? state.snapshots;
  const whose = state.training?.done ? "the first trained network" : "theory";
  const width = Math.max($("graph").clientWidth, 260);
  const levels = Math.max(...problem.nodes.map((node) => node.level)) + 1;
  const columns = Array.from({ length: levels }, (_, level) => problem.nodes.filter((node) => node.level === level));
  // outputs stand in the last column, whatever way leads to them
  const most = Math.max(...columns.map((column) => column.length));
  const height = Math.min(330, Math.max(130, most * 34));
  const at = {};
  columns.forEach((column, level) => column.forEach((node, k) => {
    at[node.name] = [26 + (level / Math.max(levels - 1, 1)) * (width - 52), ((k + 0.5) / column.length) * height];
  }));
  const place = seen ? placeOf(seen.time, time) : 0;
  const strongest = seen ? Math.max(...Object.values(seen.edges).flat(), 1e-30) : 1;
  const open = (name) => (problem.open[name]?.[row] ?? 1) !== 0;
  const ink = about.colors[state.scene.network];
  const svg = draw("svg", { height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `The graph of ${whose}; for ${problem.rows[row] ?? "every example"} these nodes are open: ${problem.nodes.filter((n) => open(n.name)).map((n) => n.name).join(", ")}` });
  for (const edge of problem.edges) {
    const strength = seen?.edges[edge.name]?.[place] ?? 0;
    const lit = open(edge.source) && open(edge.target);
    const [[x1, y1], [x2, y2]] = [at[edge.source], at[edge.target]];
    svg.append(draw("line", { x1, y1, x2, y2, stroke: lit ? ink : "var(--line)", "stroke-width": 0.8 + 7 * (strength / strongest), opacity: lit ? 0.8 : 0.9 },
      draw("title", {}, `${edge.name}: strength ${tell(strength)}`)));
  }
  const small = most > 8;
  for (const node of problem.nodes) {
    const [cx, cy] = at[node.name];
    const lit = open(node.name);
    svg.append(draw("circle", { cx, cy, r: small ? 6 : 13, fill: lit ? "var(--paper)" : "var(--faint)", stroke: lit ? "var(--ink)" : "var(--line)", "stroke-width": 1.4 },
      draw("title", {}, `${node.name}: ${node.size} neurons, ${lit ? "open" : "closed"}`)));
    if (!small) svg.append(draw("text", { x: cx, y: cy + 3.5, "text-anchor": "middle", style: "font-size:9px", class: lit ? "" : "soft" }, short(node.name)));
  }
  $("graph").replaceChildren(svg, make("p", { class: "soft small" }, `edges of ${whose} at t = ${tell(time)}`));
}

const short = (name) => (name.length > 4 ? name.replace(/^([a-z]{1,2})[a-z]*/i, "$1") : name).slice(0, 6);

export const PANELS = { values: showValues, similarity: showSimilarity, units: showUnits, equations: showEquations };

let chosenEdge = "";

async function showValues(state, time, about, moved) {
  const seen = state.snapshots ?? state.training?.done?.snapshots;
  if (!seen) return $("panel").replaceChildren(make("p", { class: "soft" }, "coming …"));
  const edges = Object.keys(seen.values);
  if (!edges.includes(chosenEdge)) chosenEdge = edges[0];
  let box = document.querySelector("#panel .curve");
  if (!box || !moved) {
    const choose = make("select", { "aria-label": "Edge", onchange: (event) => { chosenEdge = event.target.value; showValues(state, time, about, false); } },
      ...edges.map((edge) => make("option", { value: edge, selected: edge === chosenEdge }, edge)));
    box = make("div", { class: "curve", role: "img", "aria-label": "Singular values over time" });
    $("panel").replaceChildren(make("div", { class: "row small soft" }, "of edge ", choose), box);
  }
  const ink = about.colors[state.scene.network];
  const traces = [];
  const add = (snapshots, style, name) => (snapshots?.values[chosenEdge]?.[0] ?? []).forEach((_, k) => traces.push({
    x: snapshots.time, y: snapshots.values[chosenEdge].map((values) => values[k]), mode: "lines", line: style, name, showlegend: k === 0,
    hovertemplate: `${name} ${k + 1}: %{y:.3g}<extra></extra>` }));
  add(state.training?.done?.snapshots, { color: ink, width: 2 }, "training");
  add(state.hidden ? null : state.snapshots, { color: color("theory"), width: 1.4, dash: "6px,4px" }, "theory");
  const axis = { fixedrange: true, gridcolor: color("line"), zeroline: false, tickfont: { size: 11 } };
  await Plotly.react(box, traces, {
    margin: { l: 40, r: 6, t: 6, b: 34 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: color("ink"), size: 11, family: "system-ui, sans-serif" },
    xaxis: { ...axis, range: [0, state.forecast.time.at(-1)], title: { text: "time t", standoff: 4 } }, yaxis: { ...axis, rangemode: "tozero" },
    showlegend: false, hovermode: "closest", dragmode: false,
    shapes: [{ type: "line", x0: time, x1: time, y0: 0, y1: 1, yref: "paper", line: { color: color("accent"), width: 1 } }],
  }, { displayModeBar: false, responsive: true });
}

function pair(state, paint) {
  const box = (label, snapshots) => {
    const canvas = make("canvas", { width: 300, height: 300, role: "img", "aria-label": label });
    if (snapshots) paint(canvas, snapshots);
    return make("div", {}, canvas, label);
  };
  $("panel").replaceChildren(make("div", { class: "pair" }, box("theory", state.hidden ? null : state.snapshots),
    box("training, first network", state.training?.done?.snapshots)));
}

function showSimilarity(state, time) {
  pair(state, (canvas, snapshots) => {
    const { size, percent } = snapshots.similarity;
    const values = percent[placeOf(snapshots.time, time)];
    canvas.width = canvas.height = size;
    const context = canvas.getContext("2d");
    const image = context.createImageData(size, size);
    values.forEach((value, k) => image.data.set(shade(value / 100), 4 * k));
    context.putImageData(image, 0, 0);
  });
  $("panel").append(make("p", { class: "soft small" }, "Inner products of the first hidden layer between examples: blue is positive, orange negative, white none; of the largest over all times."));
}

// white at nothing, blue above, orange below
function shade(value) {
  const [r, g, b] = value >= 0 ? [0, 114, 178] : [213, 94, 0];
  const part = Math.min(1, Math.abs(value));
  return [255 + (r - 255) * part, 255 + (g - 255) * part, 255 + (b - 255) * part, 255];
}

function showUnits(state, time) {
  if (!(state.snapshots?.units ?? state.training?.done?.snapshots.units))
    return $("panel").replaceChildren(make("p", { class: "soft" }, state.snapshots ? "Neurons are shown where the inputs are a plane: choose XOR." : "coming …"));
  const reach = Math.max(...[state.snapshots, state.training?.done?.snapshots].filter((m) => m?.units).flatMap((m) => m.units.places.at(-1).flat().map(Math.abs)), 1e-9);
  pair(state, (canvas, snapshots) => {
    if (!snapshots.units) return;
    const context = canvas.getContext("2d");
    const { points, targets, places, signs } = snapshots.units;
    const far = Math.max(...points.flat().map(Math.abs), 1e-9);
    const put = ([x, y], scale, part) => [150 + (120 * part * x) / scale, 150 - (120 * part * y) / scale];
    context.fillStyle = "#ffffff";
    context.fillRect(0, 0, 300, 300);
    context.strokeStyle = "#dddddd";
    context.beginPath();
    context.moveTo(150, 0), context.lineTo(150, 300), context.moveTo(0, 150), context.lineTo(300, 150);
    context.stroke();
    const now = places[placeOf(snapshots.time, time)];
    now.forEach((place, k) => {
      const [x, y] = put(place, reach, 0.9);
      context.strokeStyle = context.fillStyle = signs[k] >= 0 ? "#0072B2" : "#D55E00";
      context.globalAlpha = 0.35;
      context.beginPath(), context.moveTo(150, 150), context.lineTo(x, y), context.stroke();
      context.globalAlpha = 0.9;
      context.beginPath(), context.arc(x, y, 4, 0, 7), context.fill();
    });
    context.globalAlpha = 1;
    points.forEach((point, k) => {
      const [x, y] = put(point, far, 1.1);
      context.fillStyle = targets[k] > 0 ? "#0072B2" : "#D55E00";
      context.fillRect(x - 6, y - 6, 12, 12);
      context.strokeStyle = "#ffffff";
      context.strokeRect(x - 6, y - 6, 12, 12);
    });
  });
  $("panel").append(make("p", { class: "soft small" }, "Each disc is a hidden neuron: what it reads from the first two inputs times what it sends on; its color is the sign it sends. Squares are the examples, in the color of their target."));
}

function showEquations(state) {
  if (!state.snapshots) return $("panel").replaceChildren(make("p", { class: "soft" }, "coming …"));
  const { equations, where, more } = state.snapshots.equations;
  const box = make("div", { class: "formulas" });
  box.innerHTML = equations.join(""); // made by the server from numbers and names of its own
  if (more) box.append(make("p", { class: "soft" }, `and ${more} more like these`));
  if (where.length) box.append(make("p", { class: "soft" }, "where"), ...where.map((text) => make("p", {}, text)));
  if (!where.length) box.append(make("p", { class: "soft" }, "No modes are shared by all pathways, so no scalar equation per mode: this is what was integrated."));
  $("panel").replaceChildren(box);
}
