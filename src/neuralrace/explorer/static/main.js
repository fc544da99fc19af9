// The page: one state, one cursor. A change of the scene asks for a forecast at once; when the hand rests, for the rest.

import { fromFragment, toFragment } from "./address.js";
import { showCertificate } from "./certificate.js";
import { Chart, readout } from "./chart.js";
import { showPins, Sweep } from "./compare.js";
import { Controls } from "./controls.js";
import { $, make, tell } from "./dom.js";
import { Guess } from "./guess.js";
import { PANELS, showGraph } from "./snapshots.js";
import { showRace } from "./race.js";
import { asCsv, asJson, asPython, copy, save } from "./share.js";
import { Live, Mistake, Recorded, same } from "./source.js";

const RESTING = 350; // ms without a change before training starts
const PATIENCE = 600; // ms without an answer before the page says that it works
const PLAYING = 6000; // ms from the first to the last time
const MOST_PINS = 6;

const folder = document.documentElement.dataset.recorded;
const source = folder === undefined ? new Live() : new Recorded(folder);
const state = { scene: null, forecast: null, snapshots: null, training: null, pins: [], hidden: false };
const view = { part: 1, tab: "values", log: false, row: 0 };
let about, chart, controls, sweep, guess;
let asking = false;
let again = false;
let rest = null;
let story = null;

start().catch(complain);

async function start() {
  about = await source.about();
  chart = new Chart(about);
  guess = new Guess(chart);
  controls = new Controls(about, change, (task) => open(structuredClone(about.starts[task])), !source.live);
  sweep = new Sweep(about, source, () => state.scene, open, complain);
  fillMenus();
  wire();
  addEventListener("hashchange", () => { if (location.hash.slice(1) !== address()) read(); });
  await read();
}

async function read() {
  const { scene, view: seen, pins, guided, preset, unknown } = fromFragment(location.hash.slice(1), about);
  if (seen.tab in PANELS) view.tab = seen.tab;
  if (seen.t !== undefined) view.part = Math.min(1, Math.max(0, Number(seen.t) || 0));
  view.row = Number(seen.row) || 0;
  view.log = $("log").checked = seen.log === "1";
  choose($(`tab-${view.tab}`), false);
  if (guided) return tellStory(guided.split(".")[0], Number(guided.split(".")[1] ?? 1) - 1);
  await open(scene);
  if (preset?.note) complain(new Mistake(`${preset.source}: ${preset.note}`, 0));
  if (unknown) complain(new Mistake(unknown, 404));
  for (const one of pins.slice(0, MOST_PINS)) await pin(one).catch(complain);
}

function address() {
  const seen = { t: view.part < 1 ? view.part.toFixed(3) : "", tab: view.tab === "values" ? "" : view.tab, log: view.log ? "1" : "", row: view.row || "" };
  return toFragment(state.scene, seen, state.pins.map((one) => one.scene), about);
}

const remember = () => history.replaceState(null, "", `#${address()}`);

// ---- the scene

function change(alter) {
  const scene = structuredClone(state.scene);
  alter(scene);
  return open(scene);
}

async function open(scene) {
  state.scene = scene;
  if (scene.task in about.tasks) controls.show(scene);
  await ask();
}

// one forecast at a time; the newest scene is asked for when the last answer is there
async function ask() {
  again = true;
  if (asking) return;
  asking = true;
  try {
    while (again) {
      again = false;
      document.body.classList.add("busy");
      clearTimeout(rest);
      await working("compiling a network of a new shape, once", () => forecast(state.scene));
    }
  } finally {
    asking = false;
    document.body.classList.remove("busy");
  }
}

// say what is waited for, if it takes long
async function working(text, act) {
  const late = setTimeout(() => { $("waiting").hidden = false; $("waiting-told").textContent = text; }, PATIENCE);
  try {
    return await act();
  } finally {
    clearTimeout(late);
    $("waiting").hidden = true;
  }
}

async function forecast(scene) {
  const began = performance.now();
  source.stop("training");
  source.stop("snapshots");
  try {
    const found = await source.forecast(scene);
    Object.assign(state, { forecast: found, snapshots: null, training: null });
    if (same(scene, state.scene)) state.scene = found.scene;
    complain(null);
  } catch (error) {
    complain(error);
    document.body.dataset.failed = String(error.message);
    return;
  }
  delete document.body.dataset.failed;
  view.row = Math.min(view.row, state.forecast.problem.rows.length - 1);
  guess.clear();
  controls.show(state.scene, state.forecast.problem);
  sweep.show(state.scene);
  fillExamples();
  showCertificate(state.forecast.certificate, null);
  await chart.show(state, view.log);
  document.body.dataset.milliseconds = Math.round(performance.now() - began);
  document.body.dataset.forecasts = Number(document.body.dataset.forecasts ?? 0) + 1;
  moveTo(view.part);
  remember();
  rest = setTimeout(() => snapshots().then(() => ($("auto").checked ? train() : null)), RESTING);
}

async function snapshots() {
  const { forecast } = state;
  try {
    const found = await source.snapshots(state.scene);
    if (state.forecast !== forecast) return;
    state.snapshots = found;
    showCertificate(forecast.certificate, found.regime);
    if (found.untrained) await chart.show(state, view.log);
    look(false);
  } catch (error) {
    complain(error);
  }
}

async function train() {
  const { forecast, scene } = state;
  if (!forecast) return;
  document.body.dataset.training = "running";
  $("train").textContent = "Stop";
  const run = { time: [], mean: [], low: [], high: [], loss: [], done: null };
  try {
    await source.training(scene, (event, data) => {
      if (state.forecast !== forecast) return;
      if (event === "done") run.done = data;
      else {
        for (const name of ["time", "mean", "low", "high"]) run[name].push(...data[name]);
        data.loss.forEach((loss, k) => (run.loss[k] ??= []).push(...loss));
      }
      state.training = run;
      chart.show(state, view.log);
      look(false);
    });
    if (run.done?.status.includes("diverged")) complain(new Mistake("a network diverged: take a smaller learning rate; see the chip “flow regime”", 0));
  } catch (error) {
    complain(error);
  } finally {
    $("train").textContent = "Train";
    document.body.dataset.training = run.done ? "done" : "stopped";
  }
}

// ---- the cursor

const now = () => view.part * state.forecast.time.at(-1);

function moveTo(part) {
  view.part = part;
  $("scrub").value = Math.round(1000 * part);
  look(true);
}

function look(moved) {
  if (!state.forecast) return;
  const time = now();
  chart.cursor(time);
  $("clock").textContent = `t = ${tell(time)}`;
  $("scrub").setAttribute("aria-valuetext", `time ${tell(time)}`);
  $("readout").textContent = readout(state, time, state.hidden);
  showRace(state, time, about, state.hidden);
  showGraph(state, time, view.row, about);
  PANELS[view.tab](state, time, about, moved);
  controls.light(view.row);
}

let playing = null;

function play() {
  if (playing !== null) return pause();
  const [began, from] = [performance.now(), view.part >= 1 ? 0 : view.part];
  $("play").textContent = "❚❚";
  $("play").setAttribute("aria-label", "Pause");
  const frame = (at) => {
    const part = Math.min(1, from + (at - began) / PLAYING);
    moveTo(part);
    if (part < 1) playing = requestAnimationFrame(frame);
    else pause();
  };
  playing = requestAnimationFrame(frame);
}

function pause() {
  cancelAnimationFrame(playing);
  playing = null;
  $("play").textContent = "▶";
  $("play").setAttribute("aria-label", "Play");
  remember();
}

// ---- pins

async function pin(scene) {
  const here = same(scene, state.scene);
  const found = here ? state.forecast : await source.forecast(scene);
  const number = 1 + Math.max(0, ...state.pins.map((one) => one.number));
  const shades = about.series.filter((shade) => shade !== about.colors[state.scene.network]);
  state.pins.push({ scene: structuredClone(found.scene), forecast: found, training: here && state.training?.done ? state.training : null, number, color: shades[number % shades.length] });
  state.pins = state.pins.slice(-MOST_PINS);
  await pinsChanged();
}

async function pinsChanged() {
  showPins(state.pins, (one) => open(structuredClone(one.scene)), (one) => { state.pins = state.pins.filter((other) => other !== one); pinsChanged(); });
  await chart.show(state, view.log);
  remember();
}

// ---- stories

async function tellStory(name, step) {
  const found = about.guided.find((one) => one.name === name);
  if (!found) return complain(new Mistake(`there is no guided scene ${name}`, 404));
  step = Math.min(found.steps.length - 1, Math.max(0, step || 0));
  story = { found, step };
  const { text, scene, pins } = found.steps[step];
  $("tour").hidden = false;
  $("tour-title").textContent = found.title;
  $("tour-place").textContent = `${step + 1} of ${found.steps.length}`;
  $("tour-text").textContent = text;
  $("tour-back").disabled = step === 0;
  $("tour-next").disabled = step === found.steps.length - 1;
  $("guided").value = name;
  state.pins = [];
  showPins([], null, null);
  view.part = 1;
  await open(structuredClone(scene));
  for (const one of pins) await pin(one).catch(complain);
}

function endStory() {
  story = null;
  $("tour").hidden = true;
  $("guided").value = "";
}

// ---- guess first

function guessing(wanted) {
  state.hidden = wanted;
  $("guess").setAttribute("aria-pressed", String(wanted));
  if (wanted) {
    source.stop("training");
    state.training = null;
    $("auto").checked = false;
    guess.begin(state.forecast.loss[0]);
  } else guess.end();
  return chart.show(state, view.log).then(() => { guess.show(); look(false); });
}

async function reveal() {
  const apart = guess.distance(state.forecast.time, state.forecast.loss);
  await guessing(false);
  $("guess-box").hidden = false;
  $("reveal").hidden = true;
  $("guess-told").textContent = `Your curve is ${tell(100 * apart)} % of the area away from the forecast.`;
  setTimeout(() => { $("guess-box").hidden = true; $("reveal").hidden = false; }, 15000);
  train();
}

// ---- wiring

function fillMenus() {
  $("guided").append(...about.guided.map((one) => make("option", { value: one.name }, one.title)));
  const shown = source.live ? about.presets : about.presets.filter((one) => about.recordings.some((kept) => same(kept.scene, one.scene)));
  $("preset").append(...shown.map((one) => make("option", { value: one.name }, `${one.source}: ${one.title}`)));
  $("version").textContent = `neuralrace ${about.version}`;
}

function fillExamples() {
  const { rows } = state.forecast.problem;
  $("example").replaceChildren(...rows.map((label, k) => make("option", { value: k, selected: k === view.row }, label)));
}

function wire() {
  $("guided").onchange = (event) => (event.target.value ? tellStory(event.target.value, 0) : endStory());
  $("tour-next").onclick = () => tellStory(story.found.name, story.step + 1);
  $("tour-back").onclick = () => tellStory(story.found.name, story.step - 1);
  $("tour-end").onclick = endStory;
  $("preset").onchange = async (event) => {
    const found = about.presets.find((one) => one.name === event.target.value);
    event.target.value = "";
    if (!found) return;
    endStory();
    location.hash = `preset=${found.name}`;
  };
  $("log").onchange = () => { view.log = $("log").checked; chart.show(state, view.log).then(() => guess.show()); remember(); };
  $("train").onclick = () => ($("train").textContent === "Stop" ? source.stop("training") : train());
  $("guess").onclick = () => guessing(!state.hidden);
  $("reveal").onclick = () => reveal().catch(complain);
  $("pin").onclick = () => pin(state.scene).catch(complain);
  $("play").onclick = play;
  $("scrub").oninput = () => moveTo(Number($("scrub").value) / 1000);
  $("scrub").onchange = remember;
  $("chart").addEventListener("click", (event) => { if (!state.hidden && state.forecast) { moveTo(chart.point(event).time / chart.end); remember(); } });
  $("example").onchange = () => { view.row = Number($("example").value); look(false); remember(); };
  $("grid").addEventListener("pointerover", (event) => hover(event.target.closest("tr")));
  $("link").onclick = () => copy(location.href).then(() => flash("link", "Copied"));
  $("python").onclick = () => copy(document.body.dataset.python = asPython(state.scene)).then(() => flash("python", "Copied"));
  $("export").onchange = () => exported($("export").value).catch(complain);
  $("about-open").onclick = () => $("about").showModal();
  for (const tab of $("tabs").children) {
    tab.onclick = () => choose(tab);
    tab.onkeydown = (event) => {
      const next = { ArrowRight: tab.nextElementSibling, ArrowLeft: tab.previousElementSibling }[event.key];
      if (next) next.focus(), choose(next);
    };
  }
  addEventListener("resize", () => look(true));
}

function hover(line) {
  if (line?.dataset.row === undefined || Number(line.dataset.row) === view.row) return;
  view.row = Number(line.dataset.row);
  $("example").value = view.row;
  look(true);
}

function choose(tab, shown = true) {
  view.tab = tab.id.replace("tab-", "");
  for (const other of $("tabs").children) {
    other.setAttribute("aria-selected", String(other === tab));
    other.tabIndex = other === tab ? 0 : -1;
  }
  $("panel").setAttribute("aria-labelledby", tab.id);
  if (shown && state.forecast) look(false), remember();
}

async function exported(kind) {
  $("export").value = "";
  const name = `neuralrace-${state.scene.task}`;
  if (kind === "csv") save(`${name}.csv`, asCsv(state), "text/csv");
  if (kind === "json") save(`${name}.json`, asJson(state), "application/json");
  if (kind === "svg" || kind === "png") save(`${name}.${kind}`, await chart.picture(kind));
}

function flash(id, text) {
  const before = $(id).textContent;
  $(id).textContent = text;
  setTimeout(() => { $(id).textContent = before; }, 1200);
}

function complain(error) {
  if (error?.name === "AbortError" || error?.status === 409) return; // the page has asked for something newer
  if (error) console.info(error.message);
  $("message").hidden = !error;
  $("message").textContent = error ? error.message : "";
}
