// Small helpers to make elements, and to write numbers.

export const $ = (id) => document.getElementById(id);

export function make(name, attributes = {}, ...inner) {
  const element = document.createElement(name);
  return fill(element, attributes, inner);
}

export function draw(name, attributes = {}, ...inner) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, inner);
}

function fill(element, attributes, inner) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...inner.filter((part) => part !== null && part !== undefined));
  return element;
}

export function tell(value, digits = 3) {
  if (typeof value !== "number") return value ?? "–"; // words that a link gives for a number: the server refuses them
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return Number(value.toPrecision(digits)).toExponential().replace("e+", "e");
  return String(Number(value.toPrecision(digits)));
}

export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// the place of a time among increasing times, as a whole number
export function placeOf(times, time) {
  let low = 0;
  let high = times.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (times[middle] <= time * (1 + 1e-9)) low = middle;
    else high = middle - 1;
  }
  return low;
}
