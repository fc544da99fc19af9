// Where numbers come from: the server, or recorded runs. Both answer the same questions, so the page is the same.

const page = Array.from(crypto.getRandomValues(new Uint32Array(3)), (n) => n.toString(36)).join("");

export class Live {
  live = true;
  #running = {};

  async about() { return read(await fetch("api/about")); }
  forecast(scene) { return this.#post("forecast", { scene }); }
  snapshots(scene) { return this.#post("snapshots", { scene }); }
  training(scene, on) { return this.#stream("training", { scene }, on); }
  // a cell of a map, beside the forecast that the page shows
  cell(scene, kind) { return this.#post(kind, { scene, page: `${page}map` }, "map"); }
  stop(kind) { this.#running[kind]?.abort(); }

  async #send(kind, body, as = kind) {
    this.stop(as);
    const { signal } = (this.#running[as] = new AbortController());
    const headers = { "content-type": "application/json" };
    return fetch(`api/${kind}`, { method: "POST", headers, signal, body: JSON.stringify({ page, ...body }) });
  }

  async #post(kind, body, as) { return read(await this.#send(kind, body, as)); }

  async #stream(kind, body, on) {
    const answer = await this.#send(kind, body);
    if (!answer.ok) return read(answer);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ; ) {
      const { done, value } = await reader.read();
      if (done) return null;
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      for (const event of events) {
        const [first, second] = event.split("\n");
        const [name, data] = [first.slice("event: ".length), JSON.parse(second.slice("data: ".length))];
        if (name === "failed") throw new Mistake(data.error, data.status);
        on(name, data);
      }
    }
  }
}

export class Mistake extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function read(answer) {
  const data = await answer.json();
  if (!answer.ok) throw new Mistake(data.error, answer.status);
  return data;
}

// Runs that were recorded: the scenes of the stories, and nothing can be changed but what is looked at.
export class Recorded {
  live = false;
  #kept = {};
  #turn = 0;

  constructor(folder) { this.folder = folder; }

  async about() {
    this.known = await read(await fetch(`${this.folder}about.json`));
    return this.known;
  }
  async forecast(scene) { return (await this.#run(scene)).forecast; }
  async snapshots(scene) { return (await this.#run(scene)).snapshots; }
  stop() { this.#turn += 1; }

  async training(scene, on) {
    const { curve, done } = (await this.#run(scene)).training;
    const turn = (this.#turn += 1);
    const parts = 20;
    for (let k = 0; k < parts; k++) {
      if (turn !== this.#turn) return;
      const cut = (list) => list.slice(Math.floor((k * curve.time.length) / parts), Math.floor(((k + 1) * curve.time.length) / parts));
      const piece = { time: cut(curve.time), mean: cut(curve.mean), low: cut(curve.low), high: cut(curve.high), loss: curve.loss.map(cut) };
      if (piece.time.length) on("progress", piece);
      await new Promise((wake) => setTimeout(wake, 40));
    }
    on("done", done);
  }

  async #run(scene) {
    const found = this.known.recordings.find((one) => same(one.scene, scene));
    if (!found) throw new Mistake("this scene is not among the recorded ones: start neuralrace explore to change it", 404);
    this.#kept[found.file] ??= read(await fetch(this.folder + found.file));
    return this.#kept[found.file];
  }
}

export function same(one, other) {
  if (typeof one !== "object" || one === null || typeof other !== "object" || other === null) return one === other;
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...names].every((name) => same(one[name], other[name]));
}
