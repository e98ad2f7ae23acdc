// @ts-check
// Parts of the page that are fetched again: each has an id, `data-part`, and what it follows in `data-topics`.
import htmx from "../vendor/htmx/htmx.esm.min.js";
import { all } from "./page.js";

/** @type {Map<string, string>} */
const tags = new Map();
/** @type {Map<string, Promise<void>>} */
const underway = new Map();
let sequence = 0;

/** The address of a part: the page's own, with its filters. @param {string} part */
function address(part) {
  const url = new URL(location.href);
  url.searchParams.set("part", part);
  url.hash = "";
  return url.toString();
}

/** Whether somebody is just using it: nothing moves under the pointer or below the cursor. @param {HTMLElement} element */
function isInUse(element) {
  const focused = document.activeElement;
  if (focused && element.contains(focused) && focused.matches("input:not([type=checkbox]), textarea, select")) return true;
  return element.matches("[data-calm]:hover");
}

/** @param {HTMLElement} element @param {boolean} [anyway] @returns {Promise<void>} */
export function refresh(element, anyway = false) {
  const part = element.dataset.part ?? "";
  const known = underway.get(part);
  if (known) return known;
  if (!anyway && isInUse(element)) return Promise.resolve();
  const going = fetchPart(element, part).finally(() => underway.delete(part));
  underway.set(part, going);
  return going;
}

/** @param {HTMLElement} element @param {string} part */
async function fetchPart(element, part) {
  const url = address(part);
  const tag = tags.get(url);
  const answer = await fetch(url, { headers: { Accept: "text/fragment", ...(tag ? { "If-None-Match": tag } : {}) }, credentials: "same-origin", cache: "no-store" });
  if (answer.status === 401) { location.reload(); return; }
  if (answer.status === 200) {
    const text = await answer.text();
    const etag = answer.headers.get("etag");
    if (etag) tags.set(url, etag);
    // The page may have moved on while this was under way.
    if (element.isConnected && address(part) === url) await morph(element, text);
  }
  document.documentElement.dataset.sequence = String(++sequence);
}

/** The parts that can be unfolded, by where they are and what they say. @param {Element | null} element */
const folds = (element) => /** @type {HTMLDetailsElement[]} */ ([...(element?.querySelectorAll("details") ?? [])]).map((fold) => ({ fold, name: `${fold.closest("[id]")?.id} ${fold.querySelector("summary")?.textContent}` }));

/** Change an element into what the server says, keeping what has stayed the same and what was unfolded. @param {HTMLElement} element @param {string} text */
async function morph(element, text) {
  const id = element.id;
  const open = new Set(folds(element).filter(({ fold }) => fold.open).map(({ name }) => name));
  await htmx.swap({ sourceElement: element, target: element, text, swap: "outerMorph", transition: false });
  const after = document.getElementById(id);
  for (const { fold, name } of folds(after)) if (open.has(name)) fold.open = true;
  document.dispatchEvent(new CustomEvent("duly:changed", { detail: { element: after } }));
}

/** Fetch again all parts that follow one of these topics. @param {Set<string>} topics */
export async function refreshTopics(topics) {
  const wanted = all("[data-part]").filter((part) => (part.dataset.topics ?? "").split(" ").some((topic) => topics.has(topic) || topics.has("all")));
  await Promise.allSettled(wanted.map((part) => refresh(part)));
}

/** Fetch again everything on the page, whoever uses it. */
export async function refreshAll() {
  await Promise.allSettled(all("[data-part]").map((part) => refresh(part, true)));
}
