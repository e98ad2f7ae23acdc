// @ts-check
// Log lines: those of the page, then each as it is written; follow, find, filter, wrap.
import { all, one, root } from "./page.js";

const section = one("[data-logs]");
const log = /** @type {HTMLElement | null} */ (one("[data-log]"));
const MOST = 5000;

/** @param {string} iso */
const shortTime = (iso) => new Date(iso).toISOString().slice(11, 23);

/** Text only: whatever a handler logs, it stays text. @param {{at: string, level: string, message: string, fields: Record<string, unknown>}} line @param {number} number */
function row(line, number) {
  const level = line.level.toUpperCase();
  const item = document.createElement("li");
  item.id = `L${number}`;
  if (level === "ERROR" || level === "CRITICAL") item.className = "is-error";
  else if (level.startsWith("WARN")) item.className = "is-warning";
  const link = document.createElement("a");
  link.href = `#L${number}`;
  link.title = line.at;
  link.textContent = shortTime(line.at);
  const word = document.createElement("span");
  word.className = `level level-${level === "WARN" ? "WARNING" : level}`;
  word.textContent = level;
  const message = document.createElement("span");
  message.className = "message";
  message.textContent = line.message;
  if (Object.keys(line.fields).length) {
    const fields = document.createElement("span");
    fields.className = "fields";
    fields.textContent = ` ${Object.entries(line.fields).map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(" ")}`;
    message.append(fields);
  }
  item.append(link, word, message);
  return item;
}

/** @param {HTMLElement} list */
async function follow(list) {
  const answer = await fetch(`${root}/v1/executions/${section?.dataset.logs}/logs`, { headers: { Accept: "text/event-stream" }, credentials: "same-origin" });
  if (!answer.ok || !answer.body) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  addEventListener("pagehide", () => reader.cancel().catch(() => undefined), { once: true });
  let rest = "";
  let seen = 0;
  const known = list.children.length;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop() ?? "";
    const made = document.createDocumentFragment();
    for (const block of blocks) {
      if (!/^event: log$/m.test(block)) continue;
      seen += 1;
      // The stream begins at the first line; those of the page are there already.
      if (seen > known) made.append(row(JSON.parse(/^data: (.*)$/m.exec(block)?.[1] ?? "{}"), seen));
    }
    if (made.childElementCount) {
      one("[data-log-empty]")?.setAttribute("hidden", "");
      list.append(made);
      while (list.children.length > MOST) list.firstElementChild?.remove();
      if (one("[data-log-follow]")?.getAttribute("aria-pressed") === "true") list.scrollTop = list.scrollHeight;
    }
  }
}

if (section && log) {
  one("[data-log-level]")?.addEventListener("change", (event) => { log.dataset.level = /** @type {HTMLSelectElement} */ (event.target).value; });
  for (const button of all("[data-log-wrap], [data-log-follow]", section)) {
    button.addEventListener("click", () => {
      const isOn = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(isOn));
      if (button.matches("[data-log-wrap]")) log.dataset.wrap = isOn ? "on" : "off";
      else if (isOn) log.scrollTop = log.scrollHeight;
    });
  }
  one("[data-log-error]")?.addEventListener("click", () => {
    const first = one("li.is-error", log);
    if (first) { location.hash = first.id; first.scrollIntoView({ block: "center" }); }
  });
  one("[data-log-find]")?.addEventListener("input", (event) => {
    const text = /** @type {HTMLInputElement} */ (event.target).value.toLowerCase();
    let first = null;
    for (const line of all("li", log)) {
      const isHit = text !== "" && (line.textContent ?? "").toLowerCase().includes(text);
      line.classList.toggle("hit", isHit);
      first ??= isHit ? line : null;
    }
    first?.scrollIntoView({ block: "nearest" });
  });
  if (section.dataset.final === "no") follow(log).catch(() => undefined);
}
