// @ts-check
// The command palette: Ctrl-K, a few letters, Enter. Screens and actions are those of the page; jobs and runs come from the API.
import { confirm, field, valueOf } from "./actions.js";
import { ask } from "./api.js";
import { refreshAll } from "./fragments.js";
import { toggle } from "./live.js";
import { all, announce, one, root, toast } from "./page.js";
import { nextClock, nextTheme } from "./preferences.js";
import { addressOf, saved } from "./views.js";

/** @typedef {{kind: string, label: string, detail?: string, href?: string, act?: () => void}} Entry */

const WAIT = 120;
const MOST = 12;
const KEPT = 5;
const RECENT = `duly-recent${root}`;
// What can be done to a job from anywhere, and what it is called.
/** @type {Record<string, {label: string, path: string, done: string}>} */
const VERBS = {
  run: { label: "Run", path: "run", done: "is enqueued." },
  pause: { label: "Pause", path: "pause", done: "is paused." },
  resume: { label: "Resume", path: "resume", done: "fires again." },
};

/** @type {Entry[]} */
let shown = [];
let chosen = 0;
let asked = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

const dialog = () => /** @type {HTMLDialogElement | null} */ (one("#palette"));
const box = () => /** @type {HTMLInputElement} */ (one("#palette-text"));

/** @returns {Entry[]} */
function screens() {
  return all("[data-go]").map((link) => ({ kind: "Screen", label: link.textContent?.trim() ?? "", detail: `g ${link.dataset.go}`, href: link.getAttribute("href") ?? "" }));
}

/** Lists as somebody has saved them. @returns {Entry[]} */
const views = () => saved().map((view) => ({ kind: "View", label: view.name, detail: view.path.slice(1), href: addressOf(view) }));

/** What the page itself offers, and what every page does. @returns {Entry[]} */
function actions() {
  const own = all("main .page-head .buttons button, main .waiting button, main .views > button").filter((button) => button instanceof HTMLButtonElement && !button.disabled && button.offsetParent !== null);
  const always = [
    { label: "Change the theme", detail: "t", act: nextTheme },
    { label: "Change whose clock times are shown in", detail: "z", act: nextClock },
    { label: "Pause or resume live updates", detail: "Space", act: toggle },
    { label: "This screen as a command", act: () => one("[data-open=commands]")?.click() },
    { label: "Show all keys", detail: "?", act: () => /** @type {HTMLDialogElement | null} */ (one("#keys"))?.showModal() },
  ];
  return [...own.map((button) => ({ kind: "Here", label: (button.textContent ?? "").replace(/\s+/g, " ").trim(), act: () => button.click() })), ...always.map((entry) => ({ kind: "Do", ...entry }))];
}

/** @returns {Entry[]} */
function recent() {
  try {
    /** @type {Entry[]} */
    const kept = JSON.parse(sessionStorage.getItem(RECENT) ?? "[]");
    return kept.filter((entry) => entry.href?.startsWith(`${root}/`)).map((entry) => ({ ...entry, kind: "Recent" }));
  } catch { return []; }
}

/** @param {Entry} entry */
function keep(entry) {
  const kept = [entry, ...recent().filter((other) => other.href !== entry.href)].slice(0, KEPT);
  sessionStorage.setItem(RECENT, JSON.stringify(kept.map(({ label, detail, href }) => ({ kind: "Recent", label, detail, href }))));
}

/** All words of the text stand in it, in any order. @param {Entry} entry @param {string} text */
const matches = (entry, text) => text.toLowerCase().split(/\s+/).every((word) => entry.label.toLowerCase().includes(word));

/** Jobs by a part of their name, what can be done to them, and their last runs; one run by its id. @param {string} text @returns {Promise<Entry[]>} */
async function found(text) {
  const run = /^run_[0-9a-f]{32}$/.exec(text);
  if (run) {
    const one = await ask("GET", `/v1/executions/${text}`).catch(() => null);
    return one ? [{ kind: "Run", label: `${one.jobName} ${text}`, detail: one.state.toLowerCase(), href: `${root}/executions/${text}` }] : [];
  }
  if (/^job_[0-9a-f]{32}$/.test(text)) {
    const one = await ask("GET", `/v1/jobs/${text}`).catch(() => null);
    return one ? [{ kind: "Job", label: one.name, detail: one.words, href: `${root}/jobs/${text}` }] : [];
  }
  const [first, ...rest] = text.split(/\s+/);
  const verb = dialog()?.dataset.operator === "yes" && rest.length ? VERBS[first.toLowerCase()] : undefined;
  const name = verb ? rest.join(" ") : text;
  if (!name) return [];
  const jobs = (await ask("GET", `/v1/jobs?limit=6&search=${encodeURIComponent(name)}`)).items.filter((/** @type {any} */ job) => job.state !== "CANCELLED");
  if (verb) return jobs.map((/** @type {any} */ job) => ({ kind: "Do", label: `${verb.label} ${job.name}`, detail: job.words, act: () => doTo(verb, job) }));
  /** @type {Entry[]} */
  const entries = jobs.map((/** @type {any} */ job) => ({ kind: "Job", label: job.name, detail: job.state === "ACTIVE" ? job.words : job.state.toLowerCase(), href: `${root}/jobs/${job.jobId}` }));
  if (!jobs.length) return entries;
  const runs = (await ask("GET", `/v1/jobs/${jobs[0].jobId}/executions?limit=3`)).items;
  return [...entries, ...runs.map((/** @type {any} */ run) => ({ kind: "Run", label: `${run.jobName} …${run.executionId.slice(-8)}`, detail: run.state.toLowerCase(), href: `${root}/executions/${run.executionId}` }))];
}

/** @param {{label: string, path: string, done: string}} verb @param {any} job */
function doTo(verb, job) {
  const fields = verb.path === "pause" ? [field("reason", "Reason", { hint: "Shown to whoever asks, and kept in the audit trail." })] : [];
  confirm({ title: `${verb.label} ${job.name}?`, text: job.words, ok: verb.label, fields }, async (place) => {
    const reason = valueOf(place, "reason") || undefined;
    const made = await ask("POST", `/v1/jobs/${job.jobId}/${verb.path}`, reason ? { reason } : {}, reason);
    if (verb.path === "run") { location.assign(`${root}/executions/${made.executionId}`); return; }
    toast(`${job.name} ${verb.done}`);
    announce(`${job.name} ${verb.done}`);
    // Not waited for: the question is answered, and whoever asked goes on.
    refreshAll();
  });
}

/** @param {Entry[]} entries @param {string} note */
function show(entries, note) {
  shown = entries.slice(0, MOST);
  chosen = 0;
  const list = /** @type {HTMLElement} */ (one("#palette-list"));
  list.replaceChildren(...shown.map((entry, nth) => {
    const item = document.createElement("li");
    item.id = `palette-${nth}`;
    item.role = "option";
    item.dataset.nth = String(nth);
    for (const [name, text] of [["kind", entry.kind], ["label", entry.label], ["detail", entry.detail ?? ""]]) {
      const part = document.createElement("span");
      part.className = name;
      part.textContent = text;
      item.append(part, " ");
    }
    return item;
  }));
  list.hidden = shown.length === 0;
  box().setAttribute("aria-expanded", String(shown.length > 0));
  /** @type {HTMLElement} */ (one("[data-palette-note]")).textContent = shown.length ? "" : note;
  mark();
}

function mark() {
  for (const item of all("#palette-list li")) item.setAttribute("aria-selected", String(Number(item.dataset.nth) === chosen));
  const current = one(`#palette-${chosen}`);
  if (current) { box().setAttribute("aria-activedescendant", current.id); current.scrollIntoView({ block: "nearest" }); }
  else box().removeAttribute("aria-activedescendant");
}

function typed() {
  const text = box().value.trim();
  const turn = ++asked;
  clearTimeout(timer);
  if (!text) { show([...actions().filter((entry) => entry.kind === "Here"), ...recent(), ...views(), ...screens()], ""); return; }
  const near = [...screens(), ...views(), ...actions()].filter((entry) => matches(entry, text));
  show(near, "Looking…");
  timer = setTimeout(async () => {
    /** @type {Entry[]} */
    let far = [];
    let note = `Nothing here is called “${text}”.`;
    try { far = await found(text); } catch (error) { note = error instanceof Error ? error.message : String(error); }
    // What was typed since then has its own answer on the way.
    if (turn !== asked) return;
    const before = chosen > 0 ? shown[chosen] : undefined;
    // What every page does comes last: a job of that name is meant more often.
    show([...near.filter((entry) => entry.kind !== "Do"), ...far, ...near.filter((entry) => entry.kind === "Do")], note);
    if (before) { chosen = Math.max(0, shown.findIndex((entry) => entry.kind === before.kind && entry.label === before.label)); mark(); }
  }, WAIT);
}

function take() {
  const entry = shown[chosen];
  if (!entry) return;
  dialog()?.close();
  if (entry.href) { keep(entry); location.assign(entry.href); } else entry.act?.();
}

function open() {
  const palette = dialog();
  if (!palette || document.querySelector("dialog[open]")) return;
  box().value = "";
  palette.showModal();
  box().focus();
  typed();
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 5, PageUp: -5 };
  const by = steps[/** @type {keyof steps} */ (event.key)];
  if (by) {
    event.preventDefault();
    const count = shown.length;
    if (count) chosen = Math.abs(by) === 1 ? (chosen + by + count) % count : Math.max(0, Math.min(count - 1, chosen + by));
    mark();
  } else if (event.key === "Enter") {
    event.preventDefault();
    take();
  }
}

export function start() {
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (dialog()?.open) dialog()?.close(); else open();
    }
  });
  one("[data-palette]")?.addEventListener("click", open);
  const palette = dialog();
  if (!palette) return;
  box().addEventListener("keydown", onKey);
  box().addEventListener("input", typed);
  palette.addEventListener("click", (event) => {
    const item = event.target instanceof Element ? event.target.closest("[data-nth]") : null;
    if (item instanceof HTMLElement) { chosen = Number(item.dataset.nth); take(); }
    else if (event.target === palette) palette.close();
  });
}
