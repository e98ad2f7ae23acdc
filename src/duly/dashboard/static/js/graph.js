// @ts-check
// The graph of a run: arrows walk along its edges, and the picture can follow what runs.
import { collect } from "./live.js";
import { one } from "./page.js";

// Steps may begin and end between two looks of the stream: while a run is under way, its page asks how its steps stand.
const EVERY = 700;

/** @returns {SVGAElement[]} */
const nodes = () => [...document.querySelectorAll("[data-graph] a[data-node]")].filter((node) => node instanceof SVGAElement);

/** @param {SVGAElement} node */
const parents = (node) => (node.dataset.after ?? "").split(" ").filter(Boolean);

/** Left to a parent, right to a child, up and down within a column. @param {SVGAElement} node @param {string} key */
function neighbour(node, key) {
  const found = nodes();
  const name = node.dataset.node ?? "";
  if (key === "ArrowLeft") return found.find((other) => parents(node).includes(other.dataset.node ?? ""));
  if (key === "ArrowRight") return found.find((other) => parents(other).includes(name));
  if (key !== "ArrowUp" && key !== "ArrowDown") return undefined;
  const column = found.filter((other) => other.dataset.column === node.dataset.column).sort((a, b) => top(a) - top(b));
  return column[column.indexOf(node) + (key === "ArrowUp" ? -1 : 1)];
}

/** @param {SVGAElement} node */
const top = (node) => Number(node.querySelector("rect")?.getAttribute("y") ?? 0);

/** @param {KeyboardEvent} event */
function onKey(event) {
  const target = event.target instanceof Element ? event.target.closest("a[data-node]") : null;
  if (!(target instanceof SVGAElement) || !event.key.startsWith("Arrow")) return;
  event.preventDefault();
  const next = neighbour(target, event.key);
  if (!next) return;
  next.focus();
  next.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function follow() {
  const box = /** @type {HTMLInputElement | null} */ (one("[data-follow]"));
  if (!box) return;
  box.checked = sessionStorage.getItem("duly-follow") === "yes";
  const running = document.querySelector("[data-graph] .at-running");
  if (box.checked && running) running.scrollIntoView({ block: "nearest", inline: "center" });
}

document.addEventListener("keydown", onKey);
document.addEventListener("change", (event) => {
  if (!(event.target instanceof HTMLInputElement) || !event.target.matches("[data-follow]")) return;
  sessionStorage.setItem("duly-follow", event.target.checked ? "yes" : "no");
  follow();
});
document.addEventListener("duly:changed", follow);
setInterval(() => { if (one("[data-under-way]")) collect(["flow"]); }, EVERY);
follow();
