// The race: one lane per pathway or mode. A hollow ring is theory, a disc is training; both move with the cursor.

import { $, draw, placeOf, tell } from "./dom.js";

const ROW = 24;

export function showRace(state, time, about, hidden) {
  const theory = hidden ? null : state.snapshots?.lanes;
  const trained = state.training?.done?.snapshots.lanes;
  const shown = theory ?? trained;
  $("race-told").textContent = shown ? told(theory, trained) : "";
  if (!shown) return $("race").replaceChildren();
  const width = Math.max($("race").clientWidth, 300);
  const [LABEL, TOLD] = width < 480 ? [66, 116] : [96, 138]; // room for names, and for finish times
  const most = Math.max(...[theory, trained].filter(Boolean).flatMap((one) => one.lanes.flatMap((lane) => lane.strength)), 1e-30);
  const place = (value) => LABEL + 6 + (Math.max(value, 0) / most) * (width - LABEL - TOLD - 16);
  const ink = about.colors[state.scene.network];
  const svg = draw("svg", { height: ROW * shown.lanes.length + 18, role: "img", "aria-label": `The race: ${$("race-told").textContent}` });
  shown.lanes.forEach((lane, row) => svg.append(...drawLane(row)));
  svg.append(draw("text", { x: width - TOLD, y: ROW * shown.lanes.length + 12, class: "soft" }, theory && trained ? "theory / training" : theory ? "theory" : "training"));
  svg.append(draw("text", { x: LABEL + 6, y: ROW * shown.lanes.length + 12, class: "soft" }, "strength 0"));
  svg.append(draw("text", { x: width - TOLD - 10, y: ROW * shown.lanes.length + 12, class: "soft", "text-anchor": "end" }, tell(most)));
  $("race").replaceChildren(svg);

  function drawLane(row) {
    const y = ROW * row + ROW / 2;
    const { label } = shown.lanes[row];
    const one = theory?.lanes.find((lane) => lane.label === label);
    const other = trained?.lanes.find((lane) => lane.label === label);
    const start = place(0);
    const parts = [
      draw("text", { x: LABEL - 6, y: y + 4, "text-anchor": "end" }, label.length > LABEL / 6 ? `${label.slice(0, LABEL / 6 - 1)}…` : label),
      draw("line", { x1: start, x2: place(most), y1: y, y2: y, stroke: "var(--line)", "stroke-width": 1 }),
    ];
    if (other) {
      const x = place(other.strength[placeOf(state.training.done.snapshots.time, time)]);
      parts.push(draw("line", { x1: start, x2: x, y1: y, y2: y, stroke: ink, "stroke-width": 6, opacity: 0.35 }));
      parts.push(draw("circle", { cx: x, cy: y, r: 5, fill: ink }));
    }
    if (one) {
      const x = place(one.strength[placeOf(state.snapshots.time, time)]);
      parts.push(draw("line", { x1: start, x2: x, y1: y, y2: y, stroke: "var(--theory)", "stroke-width": 1.6, "stroke-dasharray": "5 3" }));
      parts.push(draw("circle", { cx: x, cy: y, r: 7, fill: "none", stroke: "var(--theory)", "stroke-width": 1.8 }));
    }
    const finish = [one?.finish, other?.finish].filter((value) => value !== undefined);
    const done = finish.length && finish[0] !== null && finish[0] <= time;
    const text = finish.map((value) => (value === null ? "–" : tell(value))).join(" / ");
    parts.push(draw("text", { x: width - TOLD, y: y + 4, class: done ? "" : "soft" }, `${done ? "⚑ half" : "half"} at ${text}`));
    return parts;
  }
}

function told(theory, trained) {
  const said = (one, who) => (one?.winner ? `${who}: ${one.winner} ends highest, ${tell(100 * one.share, 3)} % of all` : null);
  return [said(theory, "theory"), said(trained, "training")].filter(Boolean).join("; ");
}
