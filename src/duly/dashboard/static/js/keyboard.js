// @ts-check
// Keys: `g` and a letter go somewhere, j and k walk along a list, x selects. Single keys can be switched off (WCAG 2.1.4).
import { toggle } from "./live.js";
import { all, one } from "./page.js";
import { nextClock, nextTheme } from "./preferences.js";

// Measured by a clock that nobody sets.
let gone = -Infinity;

/** @param {EventTarget | null} target */
const isTyping = (target) => target instanceof HTMLElement && (target.isContentEditable || target.matches("input:not([type=checkbox]), textarea, select"));

const rows = () => all("[data-rows] tr[data-href], [data-rows] li[data-href]");

/** @param {number} by */
function walk(by) {
  const found = rows();
  const at = found.findIndex((row) => row.classList.contains("current"));
  const next = found[Math.max(0, Math.min(found.length - 1, at + by))];
  if (!next) return;
  found[at]?.classList.remove("current");
  next.classList.add("current");
  one("a", next)?.focus();
  next.scrollIntoView({ block: "nearest" });
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (localStorage.getItem("duly-single-keys") === "off" && event.key !== "?") return;
  const isControl = event.target instanceof HTMLElement && event.target.matches("button, a, summary, input, [role=gridcell]");
  const key = event.key;
  if (performance.now() - gone < 1200) {
    const place = one(`[data-go="${CSS.escape(key)}"]`);
    gone = -Infinity;
    if (place) { event.preventDefault(); place.click(); return; }
  }
  /** @type {Record<string, () => void>} */
  const acts = {
    g: () => { gone = performance.now(); },
    "/": () => one("[data-shortcut='/']:not([hidden])")?.focus(),
    "?": () => one("#keys") instanceof HTMLDialogElement && /** @type {HTMLDialogElement} */ (one("#keys")).showModal(),
    j: () => walk(1),
    k: () => walk(-1),
    x: () => one("tr.current input[type=checkbox]")?.click(),
    t: nextTheme,
    z: nextClock,
  };
  if (key === " " && !isControl) { event.preventDefault(); toggle(); return; }
  if (acts[key]) { event.preventDefault(); acts[key](); }
}

/** What can be walked to in a line of a grid. @param {Element} line */
const cellsOf = (line) => /** @type {(HTMLElement | SVGElement)[]} */ ([...line.querySelectorAll("a:not([data-off-grid])")]);

/** The cell that stands straight above or below another. @param {(HTMLElement | SVGElement)[]} cells @param {Element} other */
function nearest(cells, other) {
  const left = other.getBoundingClientRect().left;
  const far = (/** @type {Element} */ cell) => Math.abs(cell.getBoundingClientRect().left - left);
  return cells.reduce((/** @type {HTMLElement | SVGElement | undefined} */ best, cell) => (best && far(best) <= far(cell) ? best : cell), undefined);
}

/** Cells of a grid are walked along with the arrows; one of them is on the way of Tab. @param {KeyboardEvent} event */
function onArrow(event) {
  const target = event.target;
  if (!(target instanceof HTMLElement || target instanceof SVGElement)) return;
  const grid = target.closest("[data-arrows]");
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!grid || !steps) return;
  const lines = all("[data-line]", grid).map(cellsOf).filter((line) => line.length);
  const y = lines.findIndex((line) => line.includes(target));
  const next = steps[0] ? nearest(lines[y + steps[0]] ?? [], target) : lines[y]?.[lines[y].indexOf(target) + steps[1]];
  if (y < 0 || !next) return;
  event.preventDefault();
  target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

/** Of the cells of a grid one is on the way of Tab. */
function rove() {
  for (const grid of all("[data-arrows]")) {
    const cells = all("[data-line]", grid).flatMap(cellsOf);
    const kept = cells.find((cell) => cell === document.activeElement) ?? cells.find((cell) => cell.getAttribute("tabindex") === "0") ?? cells[0];
    for (const cell of cells) cell.tabIndex = cell === kept ? 0 : -1;
  }
}

export function start() {
  rove();
  document.addEventListener("duly:changed", rove);
  document.addEventListener("keydown", onKey);
  document.addEventListener("keydown", onArrow);
  const box = /** @type {HTMLInputElement | null} */ (one("[data-single-keys]"));
  if (box) {
    box.checked = localStorage.getItem("duly-single-keys") !== "off";
    box.addEventListener("change", () => localStorage.setItem("duly-single-keys", box.checked ? "on" : "off"));
  }
}
