// @ts-check
// Lists: what is typed filters while it is typed, and what is selected can be acted on together, with a preview and an undo.
import { ask } from "./api.js";
import { complain, confirm, field, valueOf } from "./actions.js";
import { refreshAll } from "./fragments.js";
import { all, announce, one, toast } from "./page.js";

const ASK_ABOVE = 100;
const PER_CALL = 200;
const UNDONE_BY = { pause: "resume", resume: "pause" };

/** The search box: the address changes with it, so that back, reload and a copied link show the same. */
function filter() {
  const form = /** @type {HTMLFormElement | null} */ (one("form[data-filter]"));
  const box = /** @type {HTMLInputElement | null} */ (form?.querySelector("input[type=search]"));
  if (!form || !box) return;
  let timer = 0;
  let isFresh = true;
  const apply = () => {
    const url = new URL(location.href);
    url.searchParams.delete("cursor");
    if (box.value.trim()) url.searchParams.set("q", box.value.trim());
    else url.searchParams.delete("q");
    if (url.href === location.href) return;
    // The first change is a step back to return to; further typing changes that same step.
    history[isFresh ? "pushState" : "replaceState"]({}, "", url);
    isFresh = false;
    document.title = document.title.replace(/^(\w+)(: .*)?( · duly)$/, (_, word, __, end) => `${word}${box.value.trim() ? `: ${box.value.trim()}` : ""}${end}`);
    for (const chip of all("form[data-filter] .chip")) chip.removeAttribute("aria-current");
    refreshAll().then(() => announce(`${all("[data-rows] tr").length} rows`));
  };
  box.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(apply, 200); });
  box.addEventListener("focus", () => { isFresh = true; });
  form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(timer); apply(); });
  addEventListener("popstate", () => {
    box.value = new URL(location.href).searchParams.get("q") ?? "";
    isFresh = true;
    refreshAll();
  });
}

/** @type {Map<string, string>} */
const selected = new Map();

function bar() {
  const list = one("[data-bulk]");
  if (!list) return;
  one(".selection")?.remove();
  for (const box of all("[data-select]", list)) {
    if (!(box instanceof HTMLInputElement)) continue;
    box.checked = selected.has(box.dataset.select ?? "");
    box.closest("tr")?.setAttribute("aria-selected", String(box.checked));
  }
  const every = /** @type {HTMLInputElement | null} */ (one("[data-select-all]", list));
  const boxes = all("[data-select]", list);
  if (every) {
    every.checked = boxes.length > 0 && boxes.every((box) => selected.has(box.dataset.select ?? ""));
    every.indeterminate = !every.checked && selected.size > 0;
  }
  if (!selected.size) return;
  const made = document.createElement("div");
  made.className = "selection";
  made.setAttribute("role", "group");
  made.setAttribute("aria-label", "Selected jobs");
  const words = document.createElement("strong");
  words.textContent = `${selected.size} selected`;
  made.append(words);
  for (const [label, act] of /** @type {[string, () => void][]} */ ([["Select all that match", selectAll], ["Pause…", () => bulk("pause")], ["Resume", () => bulk("resume")], ["Run now", () => bulk("run")], ["Clear", () => { selected.clear(); bar(); }]])) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button small";
    button.textContent = label;
    button.addEventListener("click", act);
    made.append(button);
  }
  list.after(made);
}

/** All jobs that the search finds, page after page. */
async function selectAll() {
  try {
    const wanted = new URLSearchParams(one("[data-bulk]")?.dataset.wanted ?? "");
    wanted.set("limit", String(PER_CALL));
    for (let cursor = ""; ;) {
      if (cursor) wanted.set("cursor", cursor);
      const page = await ask("GET", `/v1/jobs?${wanted}`);
      for (const job of page.items) if (job.state !== "CANCELLED") selected.set(job.jobId, job.name);
      cursor = page.nextCursor;
      if (!cursor) break;
    }
    bar();
    announce(`${selected.size} jobs are selected.`);
  } catch (error) { complain(error); }
}

/** @param {"pause" | "resume" | "run"} action */
function bulk(action) {
  const names = [...selected.values()];
  const count = names.length;
  const few = names.slice(0, 5).join(", ") + (count > 5 ? ` and ${count - 5} more` : "");
  const fields = action === "pause" ? [field("reason", "Reason", { hint: "Shown to whoever asks, and kept in the audit trail." })] : [];
  if (count > ASK_ABOVE) fields.push(field("count", `Type ${count} to go on`, { required: true }));
  const verb = { pause: "Pause", resume: "Resume", run: "Run" }[action];
  confirm({ title: `${verb} ${count} ${count === 1 ? "job" : "jobs"}?`, text: few, ok: verb, fields }, async (place) => {
    if (count > ASK_ABOVE && valueOf(place, "count") !== String(count)) throw new Error(`Type ${count} to go on.`);
    const reason = valueOf(place, "reason");
    await carryOut(action, [...selected.keys()], reason);
  });
}

/** One after another, with how far it has come and a way to stop. @param {"pause" | "resume" | "run"} action @param {string[]} ids @param {string} [reason] */
async function carryOut(action, ids, reason) {
  /** @type {string[]} */
  const done = [];
  /** @type {string[]} */
  const refused = [];
  let stopped = false;
  if (ids.length > 10) toast(`${ids.length} jobs, one after another.`, { action: "Abort", act: () => { stopped = true; }, seconds: 3600 });
  for (const id of ids) {
    if (stopped) break;
    try {
      await ask("POST", `/v1/jobs/${id}/${action}`, action === "pause" && reason ? { reason } : {}, reason || undefined);
      done.push(id);
    } catch (error) {
      refused.push(`${selected.get(id)}: ${error instanceof Error ? error.message : error}`);
    }
  }
  one("[data-toasts]")?.replaceChildren();
  const undo = UNDONE_BY[/** @type {keyof UNDONE_BY} */ (action)];
  const said = `${{ pause: "Paused", resume: "Resumed", run: "Started" }[action]} ${done.length} of ${ids.length}.`;
  toast(said, undo ? { action: "Undo", act: () => carryOut(/** @type {"pause" | "resume"} */ (undo), done).catch(complain) } : {});
  announce(said);
  if (refused.length) toast(refused.slice(0, 3).join(" "), { bad: true });
  selected.clear();
  await refreshAll();
  bar();
}

document.addEventListener("change", (event) => {
  const box = event.target;
  if (!(box instanceof HTMLInputElement)) return;
  if (box.matches("[data-select-all]")) {
    for (const each of all("[data-select]")) {
      if (box.checked) selected.set(each.dataset.select ?? "", each.dataset.name ?? "");
      else selected.delete(each.dataset.select ?? "");
    }
    bar();
  } else if (box.matches("[data-select]")) {
    if (box.checked) selected.set(box.dataset.select ?? "", box.dataset.name ?? "");
    else selected.delete(box.dataset.select ?? "");
    bar();
  }
});
document.addEventListener("duly:changed", bar);
filter();
