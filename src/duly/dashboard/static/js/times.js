// @ts-check
// The clock in the header, and how far away each time is.
import { all, now, one, remember, said } from "./page.js";

const UNITS = /** @type {const} */ ([["d", 86_400], ["h", 3_600], ["m", 60], ["s", 1]]);

/** @param {number} seconds */
function spanOf(seconds) {
  let rest = Math.round(Math.abs(seconds));
  const parts = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count || parts.length) parts.push(count ? `${count}\u00a0${unit}` : "");
    if (parts.length === 2) break;
  }
  return parts.filter(Boolean).join("\u00a0") || "0\u00a0s";
}

/** @param {string} iso */
function relative(iso) {
  const seconds = (Date.parse(iso) - now()) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  return seconds > 0 ? `in ${spanOf(seconds)}` : `${spanOf(seconds)} ago`;
}

export function tick() {
  const clock = one("[data-clock]");
  const kind = said("duly-clock");
  const zone = kind === "mine" ? said("duly-zone") || "UTC" : "UTC";
  if (clock) clock.textContent = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZone: zone }).format(now());
  if (document.hidden) return;
  for (const element of all("[data-relative]")) {
    const text = relative(element.dataset.relative ?? "");
    if (element.textContent !== text) element.textContent = text;
  }
  for (const element of all("[data-elapsed]")) {
    const text = spanOf((now() - Date.parse(element.dataset.elapsed ?? "")) / 1000);
    if (element.textContent !== text) element.textContent = text;
  }
}

export function start() {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (own && own !== said("duly-zone") && sessionStorage.getItem("duly-zone-told") !== own) {
    // The server writes the times, so it has to know; once is enough.
    sessionStorage.setItem("duly-zone-told", own);
    remember("zone", own);
    location.reload();
    return;
  }
  tick();
  setInterval(tick, 1000);
  document.addEventListener("duly:changed", tick);
}
