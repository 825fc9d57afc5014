// Numbers in words, and elements: what every view needs.
const { atan2, ceil, exp, hypot, log10, round } = Math;
const abs = Math.abs, floor = Math.floor, max = Math.max, min = Math.min, assign = Object.assign;

const three = (x) => `${+x.toPrecision(3)}`;
const unit = (x) => { const k = x ? max(0, min(3, -floor((log10(abs(x)) + 1e-4) / 3))) : 0; return [10 ** (-3 * k), ["s", "ms", "us", "ns"][k]]; };
const seconds = (x) => { const [u, name] = unit(x); return `${three(x / u)} ${name}`; };
const words = (n, noun) => `${n.toLocaleString("en-US")} ${noun}${n === 1 ? "" : "s"}`;

const make = (tag, parent, textContent = "", className = "") => {
  const node = assign(document.createElement(tag), { textContent, className });
  parent?.append(node);
  return node;
};

const pen = (canvas) => canvas.getContext("2d");
const dots = (...parts) => parts.filter(Boolean).join(" · ");
