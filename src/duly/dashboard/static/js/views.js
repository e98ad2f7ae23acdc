// @ts-check
// Saved views: a list as it stands in its address, under a name of one's own, kept in this browser for this server and tenant.
import { confirm, field, valueOf } from "./actions.js";
import { announce, copy, one, root, said, toast } from "./page.js";

/** @typedef {{name: string, path: string, query: string}} View */

const KEY = `duly-views${root}:${said("duly-tenant")}`;
const MOST = 30;
const LONGEST = 60;
// What an address has that is no part of how a list is looked at.
const PASSING = ["part", "cursor", "at", "span"];

let shown = "";

/** What was saved; what is no view of ours is left out. @returns {View[]} */
export function saved() {
  try {
    /** @type {View[]} */
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return kept.filter((view) => typeof view?.name === "string" && /^\/[a-z-]+$/.test(view.path) && /^(\?.*)?$/.test(view.query));
  } catch { return []; }
}

/** @param {View} view */
export const addressOf = (view) => `${root}${view.path}${view.query}`;

/** @param {View[]} views */
function keep(views) {
  localStorage.setItem(KEY, JSON.stringify(views.slice(0, MOST)));
  show();
}

function query() {
  const wanted = new URLSearchParams(location.search);
  for (const name of PASSING) wanted.delete(name);
  return wanted.size ? `?${wanted}` : "";
}

/** The views of this list, each a link and a way to remove it. */
function show() {
  const place = one("[data-views]");
  const list = place && one("ul", place);
  if (!place || !list) return;
  place.hidden = false;
  const own = saved().filter((view) => view.path === place.dataset.views);
  const here = query();
  // Whoever stands on one of them stays there while nothing has changed.
  const now = JSON.stringify([own, here]);
  if (now === shown) return;
  shown = now;
  list.hidden = own.length === 0;
  list.replaceChildren(...own.map((view) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.className = "chip";
    link.href = addressOf(view);
    link.textContent = view.name;
    if (view.query === here) link.setAttribute("aria-current", "true");
    const remove = document.createElement("button");
    remove.type = "button";
    remove.className = "icon-button";
    remove.textContent = "×";
    remove.setAttribute("aria-label", `Remove the view ${view.name}`);
    remove.addEventListener("click", () => forget(view));
    item.append(link, remove);
    return item;
  }));
}

/** @param {View} view */
function forget(view) {
  const before = saved();
  keep(before.filter((other) => other.name !== view.name || other.path !== view.path));
  toast(`The view ${view.name} is removed.`, { action: "Undo", act: () => keep(before) });
  one("[data-save-view]")?.focus();
}

/** @param {string} path */
function save(path) {
  const title = document.title.replace(/ · duly$/, "").slice(0, LONGEST);
  confirm({ title: "Save this view", text: "It is listed above this list and in the command palette, in this browser.", ok: "Save", fields: [field("name", "Name", { value: title, required: true })] }, async (place) => {
    const name = (valueOf(place, "name") ?? "").trim().slice(0, LONGEST);
    if (!name) throw new Error("Give it a name.");
    const others = saved().filter((view) => view.name !== name || view.path !== path);
    if (others.length >= MOST) throw new Error(`There are ${MOST} views already: remove one first.`);
    keep([...others, { name, path, query: query() }]);
    announce(`The view ${name} is saved.`);
  });
}

export function start() {
  show();
  const place = one("[data-views]");
  if (!place) return;
  one("[data-save-view]", place)?.addEventListener("click", () => save(place.dataset.views ?? ""));
  one("[data-copy-link]", place)?.addEventListener("click", () => copy(`${location.origin}${location.pathname}${query()}`));
  // Another tab has saved one; the address has changed.
  addEventListener("storage", (event) => { if (event.key === KEY) show(); });
  addEventListener("popstate", show);
  document.addEventListener("duly:changed", show);
}
