// @ts-check
// Crowded minutes: the moves that are chosen are carried out together, with a reason, and can be taken back.
import { ask } from "./api.js";
import { complain, confirm, field, valueOf } from "./actions.js";
import { refreshAll } from "./fragments.js";
import { all, announce, one, toast } from "./page.js";

const ASK_ABOVE = 100;
const PER_CALL = 200;

/** @typedef {{jobId: string, before: string, after: string}} Move */

/** What somebody does not want moved stays so when the list is fetched again. @type {Set<string>} */
const unwanted = new Set();

/** @returns {Move[]} */
function chosen() {
  const boxes = /** @type {HTMLInputElement[]} */ (all("[data-move]"));
  return boxes.filter((box) => box.checked).map((box) => ({ jobId: box.dataset.move ?? "", before: box.dataset.before ?? "", after: box.dataset.after ?? "" }));
}

function show() {
  for (const box of /** @type {HTMLInputElement[]} */ (all("[data-move]"))) box.checked = !unwanted.has(box.dataset.move ?? "");
  const button = /** @type {HTMLButtonElement | null} */ (one("[data-spread]"));
  if (!button) return;
  const count = chosen().length;
  button.textContent = `Apply ${count}…`;
  button.disabled = count === 0;
}

/** @param {Move[]} moves @param {string} [reason] @returns {Promise<Move[]>} those that were carried out */
async function carryOut(moves, reason) {
  /** @type {string[]} */
  const done = [];
  /** @type {string[]} */
  const refused = [];
  for (let at = 0; at < moves.length; at += PER_CALL) {
    const answer = await ask("POST", "/v1/jobs:reschedule", { moves: moves.slice(at, at + PER_CALL) }, reason);
    done.push(...answer.done);
    refused.push(...answer.refused.map((/** @type {{jobId: string, detail: string}} */ each) => `${each.jobId}: ${each.detail}`));
  }
  if (refused.length) toast(refused.slice(0, 3).join(" "), { bad: true });
  return moves.filter((move) => done.includes(move.jobId));
}

/** @param {Move[]} moves */
async function undo(moves) {
  const back = await carryOut(moves.map((move) => ({ jobId: move.jobId, before: move.after, after: move.before })), "undone");
  toast(`${back.length} moved back.`);
  await refreshAll();
}

document.addEventListener("click", (event) => {
  const target = event.target instanceof Element ? event.target : null;
  if (!target?.closest("[data-spread]")) return;
  const moves = chosen();
  const count = moves.length;
  const fields = [field("reason", "Reason", { hint: "Kept in the audit trail." })];
  if (count > ASK_ABOVE) fields.push(field("count", `Type ${count} to go on`, { required: true }));
  const text = "Each gets a new version with a minute of its own. What somebody has changed meanwhile stays as it is.";
  confirm({ title: `Move ${count} ${count === 1 ? "job" : "jobs"}?`, text, ok: "Move", fields }, async (place) => {
    if (count > ASK_ABOVE && valueOf(place, "count") !== String(count)) throw new Error(`Type ${count} to go on.`);
    const moved = await carryOut(moves, valueOf(place, "reason") || undefined);
    const said = `Moved ${moved.length} of ${count}.`;
    toast(said, moved.length ? { action: "Undo", act: () => undo(moved).catch(complain) } : {});
    announce(said);
    await refreshAll();
  });
});
document.addEventListener("change", (event) => {
  const box = event.target;
  if (!(box instanceof HTMLInputElement) || box.dataset.move === undefined) return;
  if (box.checked) unwanted.delete(box.dataset.move);
  else unwanted.add(box.dataset.move);
  show();
});
document.addEventListener("duly:changed", show);
show();
