// @ts-check
// The run grid: the cell under the pointer, or that the arrows have come to, is outlined and told in words.
import { announce, one } from "./page.js";

/** Which row the arrows are in; none at first. */
let row = -1;

const grid = () => one(".run-grid");
let hint = one("[data-cell]")?.textContent ?? "";

/** @param {Element} svg @param {string} name */
const measure = (svg, name) => Number(svg.getAttribute(`data-${name}`));

/** @param {Element} column @param {number} at */
function words(column, at) {
  const names = [...(grid()?.querySelectorAll(".rows li") ?? [])];
  const letters = JSON.parse(grid()?.dataset.letters ?? "{}");
  const cell = (column.getAttribute("data-cells") ?? "")[at];
  const run = column.getAttribute("aria-label") ?? "";
  return cell === undefined ? run : `${names[at]?.textContent}: ${letters[cell]}. Run: ${run}`;
}

/** Outline a cell, or nothing, and say what it is. @param {Element | null} column @param {number} at */
function show(column, at) {
  const note = one("[data-cell]");
  const text = column ? words(column, at) : hint;
  if (note && note.textContent !== text) note.textContent = text;
  const svg = grid()?.querySelector("svg");
  const cursor = svg?.querySelector(".cursor");
  if (!svg || !cursor) return;
  cursor.toggleAttribute("hidden", !column || at < 0);
  cursor.setAttribute("x", column?.querySelector(".hit")?.getAttribute("x") ?? "0");
  cursor.setAttribute("y", String(measure(svg, "top") + at * measure(svg, "tall")));
}

/** @param {PointerEvent} event */
function onPointer(event) {
  const svg = event.target instanceof Element ? event.target.closest(".run-grid svg") : null;
  if (!svg) return;
  const box = svg.getBoundingClientRect();
  const column = svg.querySelectorAll("a[data-run]")[Math.floor((event.clientX - box.left) / measure(svg, "wide"))] ?? null;
  const at = Math.floor((event.clientY - box.top - measure(svg, "top")) / measure(svg, "tall"));
  show(column, Math.max(at, -1));
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  const column = event.target instanceof Element ? event.target.closest(".run-grid a[data-run]") : null;
  const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (!column || !by) return;
  event.preventDefault();
  row = Math.max(-1, Math.min(row + by, (column.getAttribute("data-cells") ?? "").length - 1));
  show(column, row);
  announce(words(column, row));
}

document.addEventListener("pointermove", onPointer);
document.addEventListener("pointerout", (event) => {
  const to = event.relatedTarget instanceof Element ? event.relatedTarget.closest(".run-grid") : null;
  if (!to && event.target instanceof Element && event.target.closest(".run-grid")) show(null, -1);
});
document.addEventListener("keydown", onKey);
document.addEventListener("focusin", (event) => {
  const column = event.target instanceof Element ? event.target.closest(".run-grid a[data-run]") : null;
  if (!column) return;
  show(column, row);
  if (row >= 0) announce(words(column, row));
});

// A refresh brings the words of the server, and hides the outline.
document.addEventListener("duly:changed", () => {
  const note = one("[data-cell]")?.textContent ?? "";
  const column = document.activeElement?.closest(".run-grid a[data-run]");
  if (!note.includes(". Run: ")) hint = note;
  if (column) show(column, row);
});

// The newest runs are what somebody comes for.
const place = one(".run-grid .scroll");
if (place) place.scrollLeft = place.scrollWidth;
