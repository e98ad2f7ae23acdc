// @ts-check
// Theme and whose clock: chosen here, kept in cookies, so that the server sends pages as they are wanted.
import { announce, one, remember, said } from "./page.js";

const THEMES = ["system", "light", "dark", "contrast"];
const CLOCKS = ["mine", "job", "utc"];

export function nextTheme() {
  const html = document.documentElement;
  const theme = THEMES[(THEMES.indexOf(html.dataset.theme ?? "system") + 1) % THEMES.length];
  html.dataset.theme = theme;
  remember("theme", theme);
  one("[data-theme-button]")?.setAttribute("aria-label", `Theme: ${theme}`);
  announce(`Theme: ${theme}`);
}

export function nextClock() {
  remember("clock", CLOCKS[(CLOCKS.indexOf(said("duly-clock")) + 1) % CLOCKS.length]);
  location.reload();
}

export function start() {
  one("[data-theme-button]")?.addEventListener("click", nextTheme);
  one("[data-zone-chip]")?.addEventListener("click", nextClock);
}
