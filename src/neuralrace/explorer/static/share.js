// Taking a scene along: a link, a program, its numbers, a picture.

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // no permission: the old way
    const box = Object.assign(document.createElement("textarea"), { value: text });
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
  }
}

export function save(name, content, type) {
  const link = document.createElement("a");
  link.href = content.startsWith("data:") ? content : URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  if (!content.startsWith("data:")) setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export function asCsv({ forecast, training }) {
  const seeds = training?.loss.map((_, k) => `network_${k}`) ?? [];
  const head = ["time", "theory", "theory_low", "theory_high", ...(training ? ["training_mean"] : []), ...seeds];
  const rows = forecast.time.map((time, k) => [time, forecast.loss[k], forecast.low[k], forecast.high[k],
    ...(training ? [training.mean[k] ?? ""] : []), ...(training?.loss.map((loss) => loss[k] ?? "") ?? [])]);
  return [head, ...rows].map((row) => row.map((value) => value ?? "").join(",")).join("\n") + "\n";
}

export function asJson({ scene, forecast, snapshots, training }) {
  const { time, loss, low, high, certificate } = forecast;
  const run = training && { time: training.time, loss: training.loss, mean: training.mean, agreement: training.done?.agreement ?? null, status: training.done?.status ?? null };
  const untrained = snapshots?.untrained && { time: snapshots.time, theory: snapshots.untrained, training: training?.done?.snapshots.untrained ?? null };
  return JSON.stringify({ scene, theory: { time, loss, low, high, certificate }, training: run ?? null, untrained: untrained ?? null }, null, 1);
}

// a scene is plain values, which are written alike in JSON and Python
export function asPython(scene) {
  const own = scene.network === "relu" ? `learning_rate=${scene.rate}` : "rtol=1e-4";
  return `import neuralrace as nr
from neuralrace.explorer.problem import initializer_of, make_setup
from neuralrace.explorer.scene import read_scene
from neuralrace.explorer.session import Session

scene = read_scene(${JSON.stringify(scene)})
problem, initial = make_setup(Session(), scene).problem, initializer_of(scene)
run = nr.train(problem, initial, ${scene.rate}, ${scene.steps}, seeds=${scene.seeds}, key=${scene.key})
forecast = nr.predict(problem, initial, run.time, key=${scene.key}, draws=2, ${own})
print(forecast.certificate)
print(nr.agreement(forecast, run))
nr.compare(forecast, run).savefig("comparison.png")
`;
}
