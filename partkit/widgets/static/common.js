// Numbers in words, and elements: what every view needs.
const { abs, atan2, ceil, exp, floor, hypot, log10, max, min, round } = Math;

const three = (x) => String(Number(x.toPrecision(3)));
const unit = (x) => { const k = x ? max(0, min(3, -floor((log10(abs(x)) + 1e-4) / 3))) : 0; return [10 ** (-3 * k), ["s", "ms", "us", "ns"][k]]; };
const seconds = (x) => { const [u, name] = unit(x); return `${three(x / u)} ${name}`; };
const words = (n, noun) => `${n.toLocaleString("en-US")} ${noun}${n === 1 ? "" : "s"}`;

const make = (tag, parent, textContent = "", className = "") => {
  const node = Object.assign(document.createElement(tag), { textContent, className });
  parent?.append(node);
  return node;
};

const dots = (...parts) => parts.filter(Boolean).join(" · ");
