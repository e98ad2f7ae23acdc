// @ts-check
// Tenants: another weight, other quotas. Whoever was faster is not overwritten.
import { ask } from "./api.js";
import { confirm, field, valueOf } from "./actions.js";
import { refreshAll } from "./fragments.js";
import { announce, toast } from "./page.js";

const QUOTAS = /** @type {const} */ ([["maxConcurrent", "Running at once"], ["maxQueued", "Waiting"], ["maxFiresPerMinute", "Coming in within a minute"], ["maxJobs", "Jobs"], ["maxPayloadBytes", "Bytes of a payload"], ["retentionDays", "Days that what has ended is kept"]]);

/** @param {HTMLElement} button */
function change(button) {
  const { tenant = "", version = "", settings = "{}" } = button.dataset;
  const was = JSON.parse(settings);
  const fields = [field("weight", "Weight", { type: "number", value: String(was.weight), hint: "Its share of a busy fleet, beside the weights of the others.", required: true })];
  for (const [name, label] of QUOTAS) fields.push(field(name, label, { type: "number", value: String(was[name] ?? "") }));
  fields.push(field("reason", "Reason", { hint: "Kept in the audit trail." }));
  confirm({ title: `Change ${tenant}`, text: "An empty quota is none. It holds within two seconds everywhere.", ok: "Change", fields }, async (place) => {
    const quotas = Object.fromEntries(QUOTAS.map(([name]) => [name, valueOf(place, name)]).filter(([, value]) => value !== "").map(([name, value]) => [name, Number(value)]));
    const body = { weight: Number(valueOf(place, "weight")), quotas };
    await ask("PUT", `/v1/tenants/${tenant}`, body, valueOf(place, "reason") || undefined, { "If-Match": `"v${version}"` });
    toast(`${tenant} is changed.`);
    announce(`${tenant} is changed.`);
    await refreshAll();
  });
}

document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-tenant]") : null;
  if (button instanceof HTMLElement) change(button);
});
