// A touch, or Enter, enlarges a panel; a link opens what it points into; paper shows all; the filters hide what does not fit.
const all = (selector) => [...document.querySelectorAll(selector)];
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let box = target; box; box = box.parentElement) if (box.tagName === "DETAILS") box.open = true;
  if (target) target.scrollIntoView();
};
addEventListener("hashchange", reveal);
addEventListener("load", reveal);
addEventListener("beforeprint", () => all("details.claims, details.key").forEach((box) => { box.open = true; }));
const enlarge = (panel) => {
  const dialog = document.createElement("dialog");
  dialog.append(panel.cloneNode());
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
};
all("img.panel").forEach((panel) => { panel.tabIndex = 0; panel.setAttribute("role", "button"); });
addEventListener("click", (event) => {
  if (event.target.matches("dialog, dialog *")) event.target.closest("dialog").remove();
  else if (event.target.matches("img.panel")) enlarge(event.target);
});
addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches("img.panel") && !event.target.closest("dialog")) enlarge(event.target);
});
const form = document.querySelector("form.filter");
if (form) {
  form.hidden = false;
  const fits = (thing, chosen) => Object.entries(chosen).every(([name, value]) => !value || thing.dataset[name] === value);
  form.addEventListener("input", () => {
    const chosen = Object.fromEntries(new FormData(form));
    all("[data-verdict]").forEach((thing) => { thing.hidden = !fits(thing, chosen); });
    all("[data-holder]").forEach((box) => { box.hidden = !box.querySelector("[data-verdict]:not([hidden])"); });
    if (chosen.verdict) all("details.claims").forEach((box) => { box.open = !box.hidden; });
  });
  form.addEventListener("reset", () => setTimeout(() => form.dispatchEvent(new Event("input"))));
}
