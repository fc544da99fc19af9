// The certificate: the ladder with the method that was taken, and every assumption as a chip.

import { $, make, tell } from "./dom.js";

export function showCertificate(certificate, regime) {
  const chips = [...certificate.chips, ...(regime ?? [])];
  const failing = chips.filter((chip) => chip.needed && !chip.holds).length;
  $("method").textContent = `by ${certificate.method.replace("_", " ")}`;
  $("certificate-told").textContent = `method ${certificate.method.replace("_", " ")}: ${failing ? `${failing} needed assumption fails` : "every needed assumption holds"}`;
  $("ladder").replaceChildren(...certificate.ladder.map((rung) => make("li", {}, make("button", { class: rung.state, onclick: () => say(rungText(rung)),
    "aria-label": `${rung.name.replace("_", " ")}: ${rung.state}` }, rung.name.replace("_", " ")))));
  $("chips").replaceChildren(...chips.map((chip) => make("li", {}, make("button", { class: chip.holds ? "holds" : chip.needed ? "fails" : "open", onclick: () => say(chipText(chip)),
    "aria-label": `${chip.name}: ${verdict(chip)}` }, `${chip.name} ${tell(chip.residual)}`))));
  const first = certificate.ladder.find((rung) => rung.state === "declined");
  say(certificate.notes.length ? `Note: ${certificate.notes.join("; ")}.` : first ? rungText(first) : "");
}

const say = (text) => { $("chip-told").textContent = text; };

const verdict = (chip) => (chip.holds ? "holds" : chip.needed ? "fails" : "does not hold, and is not needed");

function chipText(chip) {
  const advice = chip.advice ? ` What would change it: ${chip.advice}.` : "";
  return `${chip.name} ${verdict(chip)}: residual ${tell(chip.residual)}, tolerance ${tell(chip.tolerance)}; ${chip.detail}.${advice}`;
}

function rungText(rung) {
  if (rung.state === "taken") return `${rung.name.replace("_", " ")}: taken, all that it needs holds.`;
  if (rung.state === "not needed") return `${rung.name.replace("_", " ")}: not needed, a stronger method applies.`;
  return `Not ${rung.name.replace("_", " ")}: ${chipText(rung.failed)}`;
}
