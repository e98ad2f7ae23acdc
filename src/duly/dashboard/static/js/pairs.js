// @ts-check
// Two runs of the run grid are chosen with Shift, by mouse or by keyboard, and compared.
import { announce, one, root } from "./page.js";

const HINT = one("[data-chosen-runs]")?.textContent ?? "";
/** @type {string | null} */
let chosen = null;

/** The runs of the grid, oldest first. @returns {SVGAElement[]} */
const columns = () => [...document.querySelectorAll("a[data-run]")].filter((column) => column instanceof SVGAElement);

/** What is chosen is outlined, and said. */
function show() {
  for (const bar of columns()) bar.toggleAttribute("data-chosen", bar.dataset.run === chosen);
  const note = one("[data-chosen-runs]");
  const text = chosen ? `Run …${chosen.slice(-8)} is chosen: choose another one to compare them, or press Escape.` : HINT;
  if (note && note.textContent !== text) note.textContent = text;
}

/** @param {string} run */
function choose(run) {
  if (chosen === null || chosen === run) {
    chosen = chosen === run ? null : run;
    show();
    announce(one("[data-chosen-runs]")?.textContent ?? "");
    return;
  }
  // The grid has the oldest first: that is what the newer one is compared with.
  const order = columns().map((bar) => bar.dataset.run ?? "");
  const [other, later] = order.indexOf(chosen) < order.indexOf(run) ? [chosen, run] : [run, chosen];
  location.assign(`${root}/compare?run=${later}&other=${other}`);
}

// Enter on a link is a click too. Without this, Shift would open a window.
document.addEventListener("click", (event) => {
  const bar = event.target instanceof Element ? event.target.closest("[data-run]") : null;
  if (!(bar instanceof SVGAElement) || !event.shiftKey) return;
  event.preventDefault();
  choose(bar.dataset.run ?? "");
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || chosen === null) return;
  chosen = null;
  show();
});
document.addEventListener("duly:changed", show);
