// @ts-check
// Dragging along a chart zooms all of them into that time. Buttons beside them do the same without a pointer.
import { all, one } from "./page.js";

const SVG = "http://www.w3.org/2000/svg";
// Less than this is a click.
const LEAST = 4;

/** @type {{from: number, at: number, x: number, moved: boolean} | null} */
let drag = null;

const charts = () => all("[data-brush] .chart").map((chart) => chart.querySelector("svg")).filter((chart) => chart !== null);

/** Where along the axis of time something is, from 0 to 1. @param {SVGSVGElement} chart @param {number} x */
function shareAt(chart, x) {
  const box = chart.getBoundingClientRect();
  const left = Number(chart.dataset.left) / chart.viewBox.baseVal.width;
  return Math.max(0, Math.min(1, ((x - box.left) / box.width - left) / (1 - left)));
}

/** The minutes that are touched, counted from the first that is drawn. @returns {[number, number]} */
function touched() {
  const count = Number(one("[data-brush]")?.dataset.count);
  const [low, high] = drag ? [Math.min(drag.from, drag.at), Math.max(drag.from, drag.at)] : [0, 0];
  const first = Math.min(Math.floor(low * count), count - 1);
  return [first, Math.max(first + 1, Math.ceil(high * count))];
}

/** All charts have one axis: what is touched on one is marked on each. */
function mark() {
  for (const chart of charts()) {
    let rect = chart.querySelector(".brush");
    if (!drag?.moved) { rect?.remove(); continue; }
    if (!rect) {
      rect = document.createElementNS(SVG, "rect");
      rect.setAttribute("class", "brush");
      chart.append(rect);
    }
    const count = Number(one("[data-brush]")?.dataset.count);
    const [first, last] = touched();
    const left = Number(chart.dataset.left);
    const each = (chart.viewBox.baseVal.width - left) / count;
    for (const [name, value] of Object.entries({ x: left + first * each, y: 10, width: (last - first) * each, height: chart.viewBox.baseVal.height - 28 })) rect.setAttribute(name, String(value));
  }
}

function end() {
  drag = null;
  mark();
}

document.addEventListener("pointerdown", (event) => {
  const chart = event.target instanceof Element ? event.target.closest("[data-brush] .chart svg") : null;
  if (!(chart instanceof SVGSVGElement) || event.button !== 0) return;
  // No text is selected, and no picture dragged, on the way.
  event.preventDefault();
  const at = shareAt(chart, event.clientX);
  drag = { from: at, at, x: event.clientX, moved: false };
  chart.setPointerCapture(event.pointerId);
});
document.addEventListener("pointermove", (event) => {
  const chart = charts().find((one) => one.hasPointerCapture(event.pointerId));
  if (!drag || !chart) return;
  drag.at = shareAt(chart, event.clientX);
  drag.moved ||= Math.abs(event.clientX - drag.x) >= LEAST;
  mark();
});
document.addEventListener("pointerup", () => {
  if (drag?.moved) {
    const [first, last] = touched();
    const start = Number(one("[data-brush]")?.dataset.first);
    const url = new URL(location.href);
    url.searchParams.set("since", String(start + first));
    url.searchParams.set("until", String(start + last));
    location.assign(url);
  }
  end();
});
document.addEventListener("pointercancel", end);
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && drag) end(); });
document.addEventListener("duly:changed", mark);
