// @ts-check
// The demo's time: this page's clock goes as fast as the town's does, and the bar says and changes how fast that is.
(() => {
  /** @param {string} name */
  const said = (name) => /** @type {HTMLMetaElement | null} */ (document.querySelector(`meta[name="${name}"]`))?.content ?? "";
  const address = `${said("duly-root")}/demo/time`;
  const EVERY = 1000;

  // Before any module of the page reads a clock. What measures spans uses performance.now(), which goes on as ever.
  let base = Date.parse(said("duly-now"));
  let since = performance.now();
  let reached = 1;
  const now = () => base + (performance.now() - since) * reached;
  Date.now = now;

  /** @typedef {{now: string, speed: number, reached: number}} Seen */
  let speed = 0;

  /** @param {Seen} seen */
  function show(seen) {
    base = Date.parse(seen.now);
    since = performance.now();
    reached = seen.reached;
    const bar = document.querySelector("[data-demo-time]");
    if (!(bar instanceof HTMLFormElement)) return;
    if (speed !== seen.speed) {
      speed = seen.speed;
      for (const choice of bar.querySelectorAll("input")) choice.checked = Number(choice.value) === speed;
    }
    const note = bar.querySelector("[data-demo-note]");
    const behind = speed > 1 && reached < speed * 0.8;
    const text = behind ? `as fast as this machine can: ${Math.round(reached)}×` : "";
    if (note && note.textContent !== text) note.textContent = text;
    tick();
  }

  function tick() {
    const place = document.querySelector("[data-demo-now]");
    if (!(place instanceof HTMLTimeElement)) return;
    const zone = said("duly-clock") === "utc" ? "UTC" : said("duly-zone") || "UTC";
    const shape = /** @type {const} */ ({ weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
    const text = new Intl.DateTimeFormat("en-GB", { ...shape, timeZone: zone }).format(now());
    if (place.textContent !== text) place.textContent = text;
    place.dateTime = new Date(now()).toISOString();
  }

  /** @param {RequestInit} [more] @returns {Promise<Seen | null>} */
  async function ask(more) {
    try {
      const answer = await fetch(address, { credentials: "same-origin", cache: "no-store", ...more });
      return answer.ok ? await answer.json() : null;
    } catch {
      return null;
    }
  }

  async function look() {
    const seen = document.hidden ? null : await ask();
    if (seen) show(seen);
    setTimeout(look, EVERY);
  }

  /** @param {number} wanted */
  async function change(wanted) {
    const headers = { "Content-Type": "application/json", "X-CSRF-Token": said("csrf-token") };
    const seen = await ask({ method: "PUT", headers, body: JSON.stringify({ speed: wanted }) });
    const told = document.querySelector("[data-demo-said]");
    if (told) told.textContent = seen ? (wanted === 1 ? "Demo time passes as fast as real time." : `Demo time passes ${wanted} times as fast as real time.`) : "Demo time was not changed.";
    // What was chosen and is not so is taken back.
    if (!seen) speed = 0;
    const so = seen ?? (await ask());
    if (so) show(so);
  }

  document.addEventListener("DOMContentLoaded", () => {
    const bar = document.querySelector("[data-demo-time]");
    if (!bar) return;
    bar.addEventListener("change", (event) => {
      if (event.target instanceof HTMLInputElement) change(Number(event.target.value));
    });
    bar.addEventListener("submit", (event) => event.preventDefault());
    setInterval(tick, 250);
    look();
  });
})();
