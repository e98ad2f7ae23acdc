// @ts-check
// What a person does to the world, always through the public API.
//
//   <button data-act="POST /v1/jobs/job_…/pause" data-body='{"reason": "…"}' data-done="Paused." data-undo="POST /v1/jobs/job_…/resume">
//
// `data-confirm` asks first; `data-reason` asks for a reason; `data-goto` leads to what was made, with {field} of the answer in it.
import { ask, Refused } from "./api.js";
import { refreshAll } from "./fragments.js";
import { announce, copy, one, root, toast } from "./page.js";

/**
 * @param {{title: string, text?: string, ok?: string, fields?: HTMLElement[], danger?: boolean}} about
 * @param {(fields: HTMLElement) => Promise<void>} act what OK does; an error stays in the dialog
 */
export function confirm(about, act) {
  const dialog = /** @type {HTMLDialogElement} */ (one("#confirm"));
  const form = /** @type {HTMLFormElement} */ (one("[data-confirm-form]", dialog));
  const place = /** @type {HTMLElement} */ (one("[data-confirm-fields]", dialog));
  const error = /** @type {HTMLElement} */ (one("[data-confirm-error]", dialog));
  const ok = /** @type {HTMLButtonElement} */ (one("[data-confirm-ok]", dialog));
  const opener = document.activeElement;
  /** @type {HTMLElement} */ (one("[data-confirm-title]", dialog)).textContent = about.title;
  const text = /** @type {HTMLElement} */ (one("[data-confirm-text]", dialog));
  text.textContent = about.text ?? "";
  text.hidden = !about.text;
  place.replaceChildren(...(about.fields ?? []));
  error.hidden = true;
  ok.textContent = about.ok ?? "OK";
  ok.disabled = false;
  form.onsubmit = async (event) => {
    event.preventDefault();
    ok.disabled = true;
    error.hidden = true;
    try {
      await act(place);
      dialog.close();
    } catch (refused) {
      error.textContent = refused instanceof Error ? refused.message : String(refused);
      error.hidden = false;
      ok.disabled = false;
    }
  };
  /** @type {HTMLElement} */ (one("[data-confirm-cancel]", dialog)).onclick = () => dialog.close();
  dialog.onclose = () => {
    // What was asked for may take its time, and somebody who has opened another dialog meanwhile types there.
    const other = one("dialog[open]");
    if (other && !other.contains(document.activeElement)) one("input, textarea, select, button", other)?.focus();
    else if (!other && opener instanceof HTMLElement) opener.focus();
  };
  dialog.showModal();
  (place.querySelector("input, textarea, select") instanceof HTMLElement ? /** @type {HTMLElement} */ (place.querySelector("input, textarea, select")) : ok).focus();
}

/** @param {string} name @param {string} label @param {{type?: string, value?: string, hint?: string, required?: boolean}} [options] */
export function field(name, label, options = {}) {
  const box = document.createElement("div");
  box.className = "field";
  const caption = document.createElement("label");
  caption.textContent = label;
  caption.htmlFor = `field-${name}`;
  const input = document.createElement(options.type === "json" ? "textarea" : "input");
  input.className = "field-input";
  input.id = `field-${name}`;
  input.name = name;
  if (input instanceof HTMLInputElement) input.type = options.type ?? "text";
  input.value = options.value ?? "";
  input.required = options.required ?? false;
  input.autocomplete = "off";
  input.spellcheck = false;
  box.append(caption, input);
  if (options.hint) {
    const hint = document.createElement("small");
    hint.id = `hint-${name}`;
    hint.textContent = options.hint;
    input.setAttribute("aria-describedby", hint.id);
    box.append(hint);
  }
  return box;
}

/** @param {HTMLElement} place @param {string} name */
export const valueOf = (place, name) => /** @type {HTMLInputElement | null} */ (place.querySelector(`[name="${name}"]`))?.value.trim() ?? "";

/** @param {string} template @param {Record<string, unknown>} answer */
const filled = (template, answer) => template.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(answer?.[name] ?? "")));

/** @param {HTMLElement} button @param {string} [reason] */
async function act(button, reason) {
  const [method, path] = (button.dataset.act ?? "").split(" ");
  const body = method === "DELETE" ? undefined : { ...JSON.parse(button.dataset.body || "{}"), ...(reason && button.dataset.reason === "body" ? { reason } : {}) };
  const answer = await ask(method, path, body, reason);
  if (button.dataset.goto) { location.assign(root + filled(button.dataset.goto, answer ?? {})); return; }
  const done = button.dataset.done ?? "Done.";
  const undo = button.dataset.undo;
  toast(done, undo ? { action: "Undo", act: () => ask(undo.split(" ")[0], undo.split(" ")[1], {}).then(() => { toast("Undone."); return refreshAll(); }).catch(complain) } : {});
  announce(done);
  await refreshAll();
}

/** @param {unknown} error */
export function complain(error) {
  toast(error instanceof Refused || error instanceof Error ? error.message : String(error), { bad: true });
}

/** @param {MouseEvent} event */
function onClick(event) {
  const target = event.target instanceof Element ? event.target : null;
  const opener = target?.closest("[data-open]");
  if (opener instanceof HTMLElement) {
    const dialog = document.getElementById(opener.dataset.open ?? "");
    if (dialog instanceof HTMLDialogElement) dialog.showModal();
    return;
  }
  const copier = target?.closest("[data-copy]");
  if (copier instanceof HTMLElement) {
    const text = copier.dataset.copy || copier.closest(".snippet")?.querySelector("code")?.textContent || "";
    copy(text);
    return;
  }
  const button = target?.closest("[data-act]");
  if (!(button instanceof HTMLElement)) return;
  event.preventDefault();
  const question = button.dataset.confirm;
  if (question || button.dataset.reason) {
    const fields = button.dataset.reason ? [field("reason", "Reason", { hint: "Kept in the audit trail." })] : [];
    confirm({ title: question ?? button.textContent ?? "", text: button.dataset.about, ok: button.dataset.ok ?? button.textContent?.trim(), fields }, (place) => act(button, valueOf(place, "reason") || undefined));
  } else {
    act(button).catch(complain);
  }
}

export function start() {
  document.addEventListener("click", onClick);
  one("[data-log-out]")?.addEventListener("click", () => ask("POST", "/logout").then(() => location.assign(`${root}/`), complain));
  const menu = one("[data-toggle-sidebar]");
  menu?.addEventListener("click", () => {
    const isOpen = one("#sidebar")?.toggleAttribute("data-open") ?? false;
    menu.setAttribute("aria-expanded", String(isOpen));
  });
}
