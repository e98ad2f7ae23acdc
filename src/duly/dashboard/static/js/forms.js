// @ts-check
// Dialogs of one job or execution: run with another payload, pause with a reason and an end, replay with edits.
import { ask } from "./api.js";
import { confirm, field, valueOf } from "./actions.js";
import { refreshAll } from "./fragments.js";
import { announce, root, toast } from "./page.js";

/** A field for each value of an object that has only simple ones; the text of anything else. @param {string} text */
function payloadFields(text) {
  const fields = [field("payload", "Payload", { type: "json", value: text === "null" ? "" : text, hint: "JSON. Empty: the job's own payload." })];
  return fields;
}

/** What was typed, checked before it is sent, and sent as it stands: large numbers keep their digits. @param {HTMLElement} place */
function payloadOf(place) {
  const text = valueOf(place, "payload");
  if (!text) return null;
  try { JSON.parse(text); } catch (error) { throw new Error(`This is not JSON: ${error instanceof Error ? error.message : error}`); }
  return text;
}

/** @param {string | null} payload */
const withPayload = (payload) => (payload === null ? "{}" : `{"payload": ${payload}}`);

document.addEventListener("click", (event) => {
  const target = event.target instanceof Element ? event.target.closest("[data-run-with], [data-replay-with], [data-pause], [data-signal]") : null;
  if (!(target instanceof HTMLElement)) return;
  const { runWith, replayWith, pause, signal, name, payload } = target.dataset;
  if (runWith || replayWith) {
    const path = runWith ? `/v1/jobs/${runWith}/run` : `/v1/executions/${replayWith}/replay`;
    confirm({ title: `${runWith ? "Run" : "Replay"} ${name} with…`, ok: runWith ? "Run" : "Replay", fields: payloadFields(payload ?? "") }, async (place) => {
      const answer = await ask("POST", path, withPayload(payloadOf(place)));
      location.assign(`${root}/executions/${answer.executionId}`);
    });
  } else if (signal) {
    const fields = [field("name", "Name", { value: name ?? "", required: true, hint: "The first signal of a name counts." }), field("payload", "Payload", { type: "json", hint: "JSON. Empty: none." })];
    confirm({ title: "Send a signal to this run", ok: "Send", fields }, async (place) => {
      const sent = payloadOf(place);
      const called = valueOf(place, "name");
      await ask("POST", `/v1/executions/${signal}/signal`, `{"name": ${JSON.stringify(called)}${sent === null ? "" : `, "payload": ${sent}`}}`);
      toast(`The run has the signal ${called}.`);
      announce(`The run has the signal ${called}.`);
      await refreshAll();
    });
  } else if (pause) {
    const fields = [field("reason", "Reason", { hint: "Shown to whoever asks, and kept in the audit trail." }), field("until", "Until", { type: "datetime-local", hint: "In this browser's zone. Empty: until it is resumed." })];
    confirm({ title: `Pause ${name}?`, text: "No fire until it is resumed, or until the time that you give.", ok: "Pause", fields }, async (place) => {
      const until = valueOf(place, "until");
      const reason = valueOf(place, "reason");
      await ask("POST", `/v1/jobs/${pause}/pause`, { ...(reason ? { reason } : {}), ...(until ? { until: new Date(until).toISOString() } : {}) }, reason || undefined);
      toast(`${name} is paused.`, { action: "Undo", act: () => { ask("POST", `/v1/jobs/${pause}/resume`, {}).then(() => refreshAll()); } });
      announce(`${name} is paused.`);
      await refreshAll();
    });
  }
});
