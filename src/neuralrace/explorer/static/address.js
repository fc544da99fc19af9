// Every state in the address: a scene, its pins and the view as the fragment of a link, and back.

const VIEW = ["t", "tab", "log", "row"];

export function toFragment(scene, view, pins, about) {
  const given = pairs(scene, about);
  for (const name of VIEW) if (view[name]) given.set(name, view[name]);
  for (const pin of pins) given.append("pin", pairs(pin, about).toString());
  return given.toString();
}

function pairs(scene, about) {
  const given = new URLSearchParams({ task: scene.task });
  for (const [name, value] of Object.entries(scene.settings))
    if (value !== about.tasks[scene.task][name].default) given.set(`s.${name}`, value);
  if (scene.gating) given.set("gating", scene.gating);
  if (scene.flips.length) given.set("flips", scene.flips.map((pair) => pair.join(".")).join("_"));
  for (const [name, bound] of Object.entries(about.bounds)) if (scene[name] !== bound.default) given.set(name, scene[name]);
  return given;
}

// what a link says: {scene, view, pins} with values as they come; the server is who checks them
export function fromFragment(fragment, about) {
  const given = new URLSearchParams(fragment);
  const view = Object.fromEntries(VIEW.filter((name) => given.has(name)).map((name) => [name, given.get(name)]));
  const pins = given.getAll("pin").map((text) => sceneOf(new URLSearchParams(text), about));
  if (given.has("preset")) {
    const name = given.get("preset");
    const preset = about.presets.find((one) => one.name === name);
    return preset ? { scene: preset.scene, view, pins, preset } : { scene: about.first, view, pins, unknown: `there is no scene for a figure ${name}` };
  }
  if (given.has("guided")) return { guided: given.get("guided"), view, pins };
  return given.has("task") ? { scene: sceneOf(given, about), view, pins } : { scene: about.first, view, pins };
}

function sceneOf(given, about) {
  const task = given.get("task");
  const scene = { task, settings: {}, gating: given.get("gating") ?? "", flips: [] };
  const known = { ...about.bounds };
  for (const [name, bound] of Object.entries(about.tasks[task] ?? {})) scene.settings[name] = bound.default;
  for (const [name, bound] of Object.entries(known)) scene[name] = bound.default;
  for (const [name, text] of given) {
    if (name.startsWith("s.")) scene.settings[name.slice(2)] = value(text, about.tasks[task]?.[name.slice(2)]);
    else if (name in known) scene[name] = value(text, known[name]);
  }
  if (given.get("flips")) scene.flips = given.get("flips").split("_").map((pair) => pair.split(".").map(Number));
  return scene;
}

const value = (text, bound) => (bound?.kind === "number" && text.trim() !== "" && !Number.isNaN(Number(text)) ? Number(text) : text);
