// @ts-check
// Alerts: quiet for a while, a rule tried on the past, a test of a channel.
import { ask } from "./api.js";
import { complain, confirm, field, valueOf } from "./actions.js";
import { refreshAll } from "./fragments.js";
import { announce, toast } from "./page.js";

const LENGTHS = /** @type {const} */ ([["1 hour", 3600], ["4 hours", 14_400], ["8 hours", 28_800], ["1 day", 86_400], ["1 week", 604_800]]);
const DAYS = 30;
// What a rule is besides its definition.
const BESIDES = ["name", "words", "version", "updatedAt", "snoozedUntil", "source"];

function lengths() {
  const box = field("length", "For how long", { hint: "What is still wrong afterwards is told afterwards." });
  const select = document.createElement("select");
  select.id = "field-length";
  select.name = "length";
  select.setAttribute("aria-describedby", "hint-length");
  for (const [label, seconds] of LENGTHS) select.add(new Option(label, String(seconds)));
  box.querySelector("input")?.replaceWith(select);
  return box;
}

/** @param {string} path @param {string} name */
function snooze(path, name) {
  const fields = [lengths(), field("reason", "Reason", { hint: "Kept in the audit trail." })];
  confirm({ title: `Snooze ${name}?`, text: "Nobody is told for so long. It stays in the list.", ok: "Snooze", fields }, async (place) => {
    await ask("POST", `${path}/snooze`, { forSec: Number(valueOf(place, "length")) }, valueOf(place, "reason") || undefined);
    const done = `${name} is snoozed.`;
    toast(done, { action: "Undo", act: () => { ask("POST", `${path}/snooze`, {}).then(() => { toast("Undone."); return refreshAll(); }).catch(complain); } });
    announce(done);
    await refreshAll();
  });
}

/** @param {string} name */
async function preview(name) {
  const rule = Object.fromEntries(Object.entries(await ask("GET", `/v1/alert-rules/${name}`)).filter(([key]) => !BESIDES.includes(key)));
  const found = await ask("POST", "/v1/alert-rules/preview", { rule, days: DAYS });
  const list = document.createElement("ol");
  list.className = "would";
  for (const each of found.incidents.slice(-10).reverse()) {
    const line = document.createElement("li");
    line.textContent = `${each.since.replace("T", " ")}  ${each.title}`;
    list.append(line);
  }
  confirm({ title: found.words, text: found.complete ? "" : "There is more history than was looked at.", ok: "Close", fields: [list] }, async () => undefined);
}

/** @param {string} name */
async function test(name) {
  const answer = await ask("POST", `/v1/alert-channels/${name}/test`, {});
  const said = answer.isSent ? `${name} has taken the test.` : `${name} has not taken the test: ${answer.error}`;
  toast(said, { bad: !answer.isSent });
  announce(said);
}

document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-snooze], [data-preview-rule], [data-test-channel]") : null;
  if (!(button instanceof HTMLElement)) return;
  const { snooze: path, previewRule, testChannel, name } = button.dataset;
  if (path) snooze(path, name ?? "");
  else if (previewRule) preview(previewRule).catch(complain);
  else if (testChannel) test(testChannel).catch(complain);
});
