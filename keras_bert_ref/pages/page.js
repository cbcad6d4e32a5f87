
"use strict";
// Views by name: (root, data) => fills the element `root`. See Page.add_view.
const views = {};

// Makes an element. Children that are strings become text, never markup.
function make(tag, attributes = {}, ...children) {
  const isDrawing = make.drawing.has(tag);
  const element = isDrawing
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}
make.drawing = new Set(
  ["svg", "g", "line", "path", "rect", "circle", "text", "polyline"]);

// A typed array of what pack_array wrote; `shape` stands beside it. Loops, since
// Uint8Array.from with a function takes ten times as long.
function unpackArray(packed) {
  const text = atob(packed.base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
  if (packed.type === "float16") {
    const halves = new Uint16Array(bytes.buffer);
    const numbers = new Float32Array(halves.length);
    for (let i = 0; i < numbers.length; i++) numbers[i] = fromHalf(halves[i]);
    return numbers;
  }
  const type = packed.type === "float32" ? Float32Array : Int32Array;
  return new type(bytes.buffer);
}

// The number that 16 bits stand for: a sign, 5 bits of exponent, 10 of
// fraction. Not every browser has a Float16Array.
function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = bits >> 10 & 0x1f;
  const fraction = (bits & 0x3ff) / 1024;
  if (exponent === 0) return sign * 2 ** -14 * fraction;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * 2 ** (exponent - 15) * (1 + fraction);
}

// A number as people read it: four digits that count.
function formatNumber(value) {
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  return String(Number(value.toPrecision(4)));
}

function showViews() {
  const all = JSON.parse(document.getElementById("data").textContent);
  all.forEach(({name, data}, i) => {
    views[name](document.getElementById(`view-${i}`), data);
  });
}
