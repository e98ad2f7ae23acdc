// @ts-check
// Dead letters: what a replay or discard would do is asked first; a replay may go slowly, with a few ahead.
import { ask } from "./api.js";
import { complain, confirm, field, valueOf } from "./actions.js";
import { refreshAll } from "./fragments.js";
import { root, toast } from "./page.js";

const ASK_ABOVE = 100;

/** @param {HTMLElement} button */
async function act(button) {
  const action = button.dataset.bulkAct;
  const match = { cause: button.dataset.cause, jobId: button.dataset.job, state: "DEAD" };
  const trial = await ask("POST", "/v1/executions:bulk", { action, match, dryRun: true });
  const eligible = trial.matched - trial.skipped;
  const isReplay = action === "replay";
  const fields = isReplay ? [field("rate", "At most per second", { type: "number", value: "50", hint: "Empty: as fast as they can be made." }), field("canary", "First only", { type: "number", hint: "So many go ahead; the rest waits until they have ended well. Empty: all of them." })] : [field("reason", "Reason", { hint: "Kept in the audit trail." })];
  if (eligible > ASK_ABOVE) fields.push(field("count", `Type ${eligible} to go on`, { required: true }));
  confirm({ title: `${isReplay ? "Replay" : "Discard"} ${eligible} of ${button.dataset.name}?`, text: `Dry run: ${trial.matched} match, ${eligible} can be ${isReplay ? "replayed" : "discarded"}, ${trial.skipped} cannot.`, ok: isReplay ? "Replay" : "Discard", fields }, async (place) => {
    if (eligible > ASK_ABOVE && valueOf(place, "count") !== String(eligible)) throw new Error(`Type ${eligible} to go on.`);
    const rate = Number(valueOf(place, "rate"));
    const canary = Number(valueOf(place, "canary"));
    const body = { action, match, ...(rate ? { ratePerSec: rate } : {}), ...(canary ? { canary } : {}) };
    const answer = await ask("POST", "/v1/executions:bulk", body, valueOf(place, "reason") || undefined);
    if (isReplay && answer.batchId) { location.assign(`${root}/dead-letters?batch=${answer.batchId}`); return; }
    toast(`${answer.done} put away.`);
    await refreshAll();
  });
}

document.addEventListener("click", (event) => {
  const target = event.target instanceof Element ? event.target : null;
  const button = target?.closest("[data-bulk-act]");
  if (button instanceof HTMLElement) act(button).catch(complain);
  const further = target?.closest("[data-go-on]");
  if (further instanceof HTMLElement) {
    ask("POST", "/v1/executions:bulk", { batchId: further.dataset.goOn, continue: true }).then((answer) => { toast(`${answer.done} more; ${answer.remaining} are left.`); return refreshAll(); }).catch(complain);
  }
});
