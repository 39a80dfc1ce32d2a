"use strict";
// Elements, foreign text and numbers. Text from a run only ever becomes text nodes.

function el(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}

function svg(tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function button(label, onClick, pressed) {
  const node = el("button", "", label);
  node.type = "button";
  if (pressed !== undefined) node.setAttribute("aria-pressed", pressed);
  node.addEventListener("click", onClick);
  return node;
}

// Signs that are invisible or change the direction of reading are written out.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]/gu;

function shown(text) {
  const out = document.createDocumentFragment();
  let end = 0;
  for (const match of text.matchAll(HIDDEN)) {
    out.append(text.slice(end, match.index));
    const code = match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    out.append(el("span", "ctl", "U+" + code));
    end = match.index + match[0].length;
  }
  out.append(text.slice(end));
  return out;
}

function compact(value) {
  if (typeof value !== "number") return value === null || value === undefined ? "-" : String(value);
  const size = Math.abs(value);
  if (size >= 1e12) return value.toExponential(2);
  if (size >= 1000) return Math.round(value).toLocaleString("en-US");
  if (size >= 100) return value.toFixed(size % 1 ? 1 : 0);
  if (Number.isInteger(value)) return String(value);
  if (size >= 0.01) return value.toFixed(size < 1 ? 3 : 2);
  return value === 0 ? "0" : value.toExponential(1);
}

function duration(seconds) {
  if (seconds >= 60) {
    const whole = Math.round(seconds);
    const minutes = Math.floor(whole / 60) % 60;
    const rest = String(whole % 60).padStart(2, "0");
    return whole >= 3600
      ? Math.floor(whole / 3600) + ":" + String(minutes).padStart(2, "0") + " h"
      : minutes + ":" + rest + " min";
  }
  if (seconds === 0) return "0 s";
  if (seconds < 0.1) return (seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0) + " ms";
  return seconds.toFixed(seconds < 10 ? 2 : 1) + " s";
}

function format(value, unit) {
  if (typeof value !== "number") return "-";
  if (unit === "share") {
    const percent = value * 100;
    const whole = percent === 0 || percent === 100 || (percent >= 20 && percent < 99.5);
    return percent.toFixed(whole ? 0 : Math.abs(percent) >= 1 ? 1 : 2) + "%";
  }
  return unit === "seconds" ? duration(value) : compact(value);
}

// Round numbers between low and high, about `count` of them.
function ticks(low, high, count) {
  const rough = (high - low) / Math.max(count, 1) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const width = [1, 2, 5, 10].map((m) => m * power).find((w) => w >= rough * 0.999);
  const out = [];
  for (let i = Math.ceil(low / width - 1e-9); i * width <= high + width * 1e-9; i++)
    out.push(Number((i * width).toPrecision(12)));
  return out;
}
