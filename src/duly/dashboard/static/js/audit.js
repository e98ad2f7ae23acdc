// @ts-check
// The whole chain of the audit trail, walked link by link; a page shows only a stretch of it.
import { ask } from "./api.js";
import { complain } from "./actions.js";
import { announce, toast } from "./page.js";

/** @param {HTMLButtonElement} button */
async function verify(button) {
  button.disabled = true;
  let checked = 0;
  try {
    for (let cursor = ""; ;) {
      const chain = await ask("GET", `/v1/audit/verify${cursor ? `?cursor=${encodeURIComponent(cursor)}` : ""}`);
      checked += chain.checked;
      button.textContent = `${checked} links`;
      if (!chain.intact) {
        toast(`The chain is broken after ${checked} good links: ${chain.broken.what}.`, { bad: true, seconds: 60 });
        announce("The chain is broken.");
        return;
      }
      cursor = chain.nextCursor ?? "";
      if (!cursor) break;
    }
    const said = `All ${checked} links are as they were written.`;
    toast(said);
    announce(said);
  } catch (error) {
    complain(error);
  } finally {
    button.disabled = false;
    button.textContent = "Verify all of it";
  }
}

document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-verify-all]") : null;
  if (button instanceof HTMLButtonElement) verify(button);
});
