// The certificate: the ladder with the method that was taken, and every assumption as a chip.

import { $, make, tell } from "./dom.js";

export function showCertificate(certificate, regime) {
  const chips = [...certificate.chips, ...(regime ?? [])];
  const failing = chips.filter((chip) => chip.needed && !chip.holds).length;
  $("method").textContent = `by ${words(certificate.method)}`;
  $("certificate-told").textContent = `method ${words(certificate.method)}: ${failing ? `${failing} needed assumption fails` : "every needed assumption holds"}`;
  $("ladder").replaceChildren(...certificate.ladder.map((rung) => make("li", {}, make("button", { class: rung.state, onclick: () => say(rungText(rung)),
    "aria-label": `${words(rung.name)}: ${rung.state}` }, words(rung.name)))));
  $("chips").replaceChildren(...chips.map((chip) => make("li", {}, make("button", { class: !chip.needed ? "open" : chip.holds ? "holds" : "fails", onclick: () => say(chipText(chip)),
    "aria-label": `${chip.name}: ${verdict(chip)}` }, `${chip.name} ${tell(chip.residual)}`))));
  const first = certificate.ladder.find((rung) => rung.state === "declined");
  say(certificate.notes.length ? `Note: ${certificate.notes.join("; ")}.` : first ? rungText(first) : "");
}

const words = (name) => name.replace("_", " ");
const say = (text) => { $("chip-told").textContent = text; };

const verdict = (chip) => (!chip.needed ? "was only measured" : chip.holds ? "holds" : "fails");

function chipText(chip) {
  if (!chip.needed) return `${chip.name} ${verdict(chip)}, the forecast does not rest on it: ${tell(chip.residual)}; ${chip.detail}.`;
  const advice = chip.advice ? ` What would change it: ${chip.advice}.` : "";
  return `${chip.name} ${verdict(chip)}: residual ${tell(chip.residual)}, tolerance ${tell(chip.tolerance)}; ${chip.detail}.${advice}`;
}

function rungText(rung) {
  if (rung.state === "taken") return `${words(rung.name)}: taken, all that it needs holds.`;
  if (rung.state === "not needed") return `${words(rung.name)}: not needed, a stronger method applies.`;
  return `Not ${words(rung.name)}: ${chipText(rung.failed)}`;
}
