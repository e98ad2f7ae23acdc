// @ts-check
// What a page says about itself, and the few things that every module needs.

/** @param {string} name */
export const said = (name) => /** @type {HTMLMetaElement | null} */ (document.querySelector(`meta[name="${name}"]`))?.content ?? "";

export const root = said("duly-root");

/** @template {HTMLElement} T @param {string} selector @param {ParentNode} [within] @returns {T | null} */
export const one = (selector, within = document) => within.querySelector(selector);

/** @param {string} selector @param {ParentNode} [within] @returns {HTMLElement[]} */
export const all = (selector, within = document) => [...within.querySelectorAll(selector)].filter((found) => found instanceof HTMLElement);

// The server's clock decides: how far it is ahead of this machine's.
const ahead = Date.parse(said("duly-now")) - Date.now();
export const now = () => Date.now() + ahead;

/** @param {string} name @param {string} value */
export function remember(name, value) {
  document.cookie = `duly_${name}=${encodeURIComponent(value)}; Path=/; Max-Age=31536000; SameSite=Strict`;
}

/** Tell those who hear the page; what comes close together is told once. @param {string} text */
export function announce(text) {
  const place = one("[data-announce]");
  if (place) place.textContent = text;
}

/**
 * @param {string} text
 * @param {{bad?: boolean, action?: string, act?: () => void, seconds?: number}} [options]
 */
export function toast(text, options = {}) {
  const place = one("[data-toasts]");
  if (!place) return;
  const box = document.createElement("div");
  box.className = options.bad ? "toast bad" : "toast";
  const words = document.createElement("span");
  words.textContent = text;
  box.append(words);
  if (options.action && options.act) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button small";
    button.textContent = options.action;
    button.addEventListener("click", () => { box.remove(); options.act?.(); });
    box.append(button);
  }
  place.append(box);
  setTimeout(() => box.remove(), (options.seconds ?? (options.bad ? 12 : options.action ? 10 : 5)) * 1000);
}

/** @param {string} text */
export function copy(text) {
  // Pages that come without TLS from elsewhere have no clipboard.
  const done = navigator.clipboard ? navigator.clipboard.writeText(text) : Promise.reject(new Error("no clipboard"));
  done.then(() => toast("Copied."), () => toast("This browser does not let pages copy.", { bad: true }));
}
