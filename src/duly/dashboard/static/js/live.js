// @ts-check
// What changes, as it changes: one stream per browser. The tab that holds the lock reads the stream and tells the others.
import { refreshAll, refreshTopics } from "./fragments.js";
import { announce, one, root } from "./page.js";

const COALESCE = 300;
const POLL_EVERY = 5000;
const LONGEST_WAIT = 30_000;

/** @typedef {{kind: "news", topics: string[], id: string | null} | {kind: "state", state: string, seconds?: number} | {kind: "hello"}} Message */

const channel = "BroadcastChannel" in window ? new BroadcastChannel(`duly-live${root}`) : null;
/** @type {Set<string>} */
const waiting = new Set();
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
let isPaused = sessionStorage.getItem("duly-paused") === "yes";
let missed = false;
// Measured by a clock that nobody sets.
let flushed = -Infinity;
let standing = "connecting";
let isLeader = false;
let hasFollowed = false;
/** @type {string | null} */
let lastId = null;

const WORDS = { live: "Live", paused: "Paused", connecting: "Connecting", reconnecting: "Reconnecting", polling: "Polling" };

/** @param {string} state @param {number} [seconds] */
function show(state, seconds) {
  standing = state;
  const chip = one("[data-live-chip]");
  if (!chip) return;
  const shown = isPaused ? "paused" : state;
  chip.dataset.state = shown;
  chip.setAttribute("aria-pressed", String(isPaused));
  const text = one("[data-live-text]", chip);
  const word = WORDS[/** @type {keyof WORDS} */ (shown)] ?? shown;
  if (text) text.textContent = shown === "reconnecting" && seconds ? `${word} (${seconds} s)` : word;
  chip.setAttribute("aria-label", `Live updates: ${word.toLowerCase()}`);
}

/** @param {Message} message */
function tell(message) {
  channel?.postMessage(message);
  hear(message);
}

/** @param {Message} message */
function hear(message) {
  if (message.kind === "state") show(message.state, message.seconds);
  else if (message.kind === "news") {
    // Whoever leads next goes on from here.
    lastId = message.id ?? lastId;
    collect(message.topics);
  }
  else if (isLeader) channel?.postMessage({ kind: "state", state: standing });
}

/** Parts that follow these topics are fetched again soon, unless somebody has paused that. @param {string[]} topics */
export function collect(topics) {
  for (const topic of topics) waiting.add(topic);
  if (isPaused || document.hidden) { missed = true; return; }
  // The first news is shown at once, what comes close after it together.
  timer ??= setTimeout(flush, Math.max(0, flushed + COALESCE - performance.now()));
}

async function flush() {
  timer = undefined;
  flushed = performance.now();
  if (isPaused || document.hidden || waiting.size === 0) return;
  const topics = new Set(waiting);
  waiting.clear();
  await refreshTopics(topics);
}

export function toggle() {
  isPaused = !isPaused;
  sessionStorage.setItem("duly-paused", isPaused ? "yes" : "no");
  show(standing);
  announce(isPaused ? "Live updates are paused." : "Live updates go on.");
  if (!isPaused && missed) { missed = false; waiting.clear(); refreshAll(); }
}

/** Read the stream until it ends; EventSource would not say why it did. @param {AbortSignal} signal */
async function read(signal) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "text/event-stream" };
  if (lastId) headers["Last-Event-ID"] = lastId;
  const answer = await fetch(`${root}/v1/events`, { headers, credentials: "same-origin", signal, cache: "no-store" });
  if (!answer.ok || !answer.body) throw Object.assign(new Error("no stream"), { status: answer.status });
  tell({ kind: "state", state: "live" });
  // Something may have changed between two streams, of this tab or of the one that led before.
  if (lastId || hasFollowed) tell({ kind: "news", topics: ["all"], id: lastId });
  hasFollowed = true;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop() ?? "";
    /** @type {Set<string>} */
    const topics = new Set();
    for (const block of blocks) {
      const event = /^event: (\w+)$/m.exec(block)?.[1];
      lastId = /^id: (\d+)$/m.exec(block)?.[1] ?? lastId;
      if (event) topics.add(event === "refresh" ? "all" : event);
    }
    if (topics.size) tell({ kind: "news", topics: [...topics], id: lastId });
  }
}

async function lead() {
  isLeader = true;
  hasFollowed = standing !== "connecting";
  const ended = new AbortController();
  addEventListener("pagehide", () => ended.abort(), { once: true });
  for (let failures = 0; !ended.signal.aborted;) {
    const began = performance.now();
    try {
      await read(ended.signal);
    } catch (error) {
      if (ended.signal.aborted) return;
      const status = /** @type {{status?: number}} */ (error).status;
      if (status === 401 || status === 403) { show("paused"); return; }
    }
    failures = performance.now() - began > 10_000 ? 1 : failures + 1;
    if (failures > 3) {
      // No stream comes through here: ask every few seconds, and try again now and then.
      tell({ kind: "state", state: "polling" });
      for (let polls = 0; polls < 12 && !ended.signal.aborted; polls++) {
        await new Promise((resolve) => setTimeout(resolve, POLL_EVERY));
        tell({ kind: "news", topics: ["all"], id: lastId });
      }
    } else {
      const wait = Math.min(1000 * 2 ** (failures - 1), LONGEST_WAIT);
      tell({ kind: "state", state: "reconnecting", seconds: Math.round(wait / 1000) });
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}

export function start() {
  show(standing);
  one("[data-live-chip]")?.addEventListener("click", toggle);
  channel?.addEventListener("message", (event) => hear(event.data));
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && missed && !isPaused) { missed = false; waiting.clear(); refreshAll(); }
  });
  // What depends on the time alone (the next fire, who is late) is asked for now and then.
  setInterval(() => collect(["clock"]), 15_000);
  if (!("locks" in navigator) || !channel) { lead(); return; }
  channel.postMessage({ kind: "hello" });
  navigator.locks.request(`duly-live${root}`, () => lead()).catch(() => undefined);
}
