// Pins, and a slider swept into a map whose cells open their run.

import { $, make, tell } from "./dom.js";
import { valueAt } from "./controls.js";

function describe(scene) {
  const settings = Object.entries(scene.settings).map(([name, value]) => `${name} ${typeof value === "number" ? tell(value) : value}`);
  const network = scene.network === "relu" ? "ReLU" : scene.gating || "gated";
  return [scene.task, ...settings, network, `scale ${tell(scene.scale)}`, `rate ${tell(scene.rate)}`, `depth ${scene.depth}`, `width ${scene.width}`].join(", ");
}

export function showPins(pins, open, remove) {
  $("pins").replaceChildren(...pins.map((pin) => make("li", {}, make("span", { class: "swatch", style: `background:${pin.color}` }),
    make("span", { class: "text", title: describe(pin.scene) }, `${pin.number}: ${describe(pin.scene)}`),
    make("button", { onclick: () => open(pin), "aria-label": `Open pinned run ${pin.number}` }, "open"),
    make("button", { onclick: () => remove(pin), "aria-label": `Remove pinned run ${pin.number}` }, "remove"))));
}

const MEASURES = {
  "time to half": async (found) => {
    const k = found.loss.findIndex((loss) => loss <= found.loss[0] / 2);
    if (k < 1) return null;
    const [before, after] = [found.loss[k - 1], found.loss[k]];
    return found.time[k - 1] + ((before - found.loss[0] / 2) / (before - after)) * (found.time[k] - found.time[k - 1]);
  },
  "last loss": async (found) => found.loss.at(-1),
  "winner's share": async (found, source) => (await source.cell(found.scene, "snapshots")).lanes.share,
};
const COLUMNS = 8;
const ROWS = 5;

export class Sweep {
  constructor(about, source, current, open, complain) {
    Object.assign(this, { about, source, current, open });
    $("measure").replaceChildren(...Object.keys(MEASURES).map((name) => make("option", { value: name }, name)));
    $("sweep").onclick = () => this.run().catch(complain);
    $("sweep").disabled = !source.live;
  }

  sliders(scene) {
    const all = { ...this.about.tasks[scene.task], ...this.about.bounds };
    return Object.entries(all).filter(([name, bound]) => bound.kind === "number" && !bound.shape && name !== "key");
  }

  show(scene) {
    if (this.task === scene.task) return;
    this.task = scene.task;
    const options = () => this.sliders(scene).map(([name, bound]) => make("option", { value: name }, bound.label));
    $("across").replaceChildren(...options());
    $("down").replaceChildren(make("option", { value: "" }, "nothing"), ...options());
    $("across").value = this.sliders(scene)[0][0];
    $("map").replaceChildren();
    $("map-told").textContent = "";
  }

  axis(scene, name, count) {
    const bound = { ...this.about.tasks[scene.task], ...this.about.bounds }[name];
    const here = scene.settings[name] ?? scene[name];
    // around the present value where the scale is logarithmic, over everything where it is not
    const least = bound.log ? Math.max(bound.least, here / 30) : bound.least;
    const most = bound.log ? Math.min(bound.most, here * 30) : bound.most;
    const part = { ...bound, stops: [], least, most };
    return { name, values: Array.from({ length: count }, (_, k) => valueAt(part, (200 * k) / (count - 1))) };
  }

  async run() {
    const scene = structuredClone(this.current());
    const [across, measure] = [this.axis(scene, $("across").value, COLUMNS), $("measure").value];
    const down = $("down").value && $("down").value !== across.name ? this.axis(scene, $("down").value, ROWS) : null;
    const cells = [];
    const lines = (down?.values ?? [null]).map((low) => across.values.map(() => make("button", { disabled: true, "aria-label": "not yet known" }, "…")));
    const head = make("tr", {}, make("th", {}, down ? `${down.name} \\ ${across.name}` : across.name), ...across.values.map((value) => make("th", { scope: "col" }, tell(value, 2))));
    const body = lines.map((line, j) => make("tr", {}, make("th", { scope: "row" }, down ? tell(down.values[j], 2) : ""), ...line.map((button) => make("td", {}, button))));
    $("map").replaceChildren(make("table", { "aria-label": `${measure} over ${across.name}${down ? ` and ${down.name}` : ""}` }, make("thead", {}, head), make("tbody", {}, ...body)));
    $("map-told").textContent = `${measure} by theory; a cell opens its run`;
    const turn = (this.turn = (this.turn ?? 0) + 1);
    for (const [j, low] of (down?.values ?? [null]).entries())
      for (const [i, value] of across.values.entries()) {
        const other = structuredClone(scene);
        for (const [axis, number] of [[across, value], [down, low]]) if (axis) (axis.name in other ? other : other.settings)[axis.name] = number;
        const found = await this.source.cell(other, "forecast");
        const cell = { across: i, down: j, value: await MEASURES[measure](found, this.source) };
        if (turn !== this.turn) return;
        cells.push(cell);
        const button = lines[j][i];
        button.textContent = tell(cell.value, 2);
        button.disabled = false;
        button.setAttribute("aria-label", `${measure} ${tell(cell.value)}: open this run`);
        button.onclick = () => this.open(found.scene);
        this.tint(cells, lines);
      }
  }

  tint(cells, lines) {
    const known = cells.map((cell) => cell.value).filter((value) => value !== null);
    const log = known.every((value) => value > 0) && Math.max(...known) > 30 * Math.min(...known);
    const scale = (value) => (log ? Math.log(value) : value);
    const [low, high] = [scale(Math.min(...known)), scale(Math.max(...known))];
    for (const { across, down, value } of cells) {
      const part = value === null ? null : high > low ? (scale(value) - low) / (high - low) : 0.5;
      lines[down][across].style.background = part === null ? "#e6e6e6" : `color-mix(in srgb, #56b4e9 ${Math.round(100 * (1 - part))}%, #f6e9c8)`;
    }
  }
}
