// A Duly worker in one file of JavaScript, without a dependency (Node 18 or newer).
//
//   DULY_URL=http://127.0.0.1:3859 DULY_KEY=duly_… node worker.mjs [NAME] [POOL]
//
// It shows all that a worker does: register, lease by long poll, heartbeat, cancel, time out, complete, fail, checkpoint,
// log, and drain on SIGTERM. docs/reference/worker-protocol.md says why each step is as it is.

const url = (process.env.DULY_URL ?? "http://127.0.0.1:3859").replace(/\/$/, "");
const name = process.argv[2] ?? `node-${process.pid}`;
const pool = process.argv[3] ?? "default";
const slots = 8;
const graceMs = 10_000;

// ---------------------------------------------------------------- handlers: (payload, context) => result

const handlers = {
  "duly.echo": async (payload) => payload,

  "duly.sleep": async ({ seconds }, { signal }) => (await sleep(seconds * 1000, signal), { slept: seconds }),

  "duly.fail": async ({ times }, { attempt }) => {
    if (attempt <= times) throw new RangeError(`attempt ${attempt} fails, as the first ${times} are asked to`);
    return { failed: times };
  },

  // One of our own: counts, and keeps a checkpoint at each step, so that a second attempt goes on where the first one stopped.
  "node.count": async ({ to = 10, breakAt = null }, { checkpoint, last, log }) => {
    for (let n = (last?.data.n ?? 0) + 1; n <= to; n++) {
      await checkpoint({ n });
      await log(`counted to ${n}`, { n });
      if (n === breakAt && !last) throw new Error(`broke at ${n}`);
    }
    return { counted: to, from: (last?.data.n ?? 0) + 1 };
  },
};

// ---------------------------------------------------------------- the way to the server

class Refused extends Error {
  constructor(status, problem) {
    super(`${status} ${problem?.code ?? ""}: ${problem?.detail ?? "no problem document"}`);
    this.status = status;
  }
}

/** One request. Everything in the protocol may be sent again, so a server that is away is asked until it answers. */
async function post(path, body, { timeoutMs = 15_000, tries = Infinity, signal } = {}) {
  for (let n = 1; ; n++) {
    const call = new AbortController();
    const stop = () => call.abort(signal?.reason);
    const limit = setTimeout(stop, timeoutMs);
    signal?.addEventListener("abort", stop);
    try {
      const answer = await fetch(url + path, {
        method: "POST",
        headers: { authorization: `Bearer ${process.env.DULY_KEY ?? ""}`, "content-type": "application/json" },
        body: JSON.stringify(body),
        signal: call.signal,
      });
      if (answer.status === 204) return null;
      const content = await answer.json();
      if (answer.ok) return content;
      if (answer.status < 500 && answer.status !== 429) throw new Refused(answer.status, content);
    } catch (error) {
      if (error instanceof Refused || signal?.aborted) throw error;
    } finally {
      clearTimeout(limit);
      signal?.removeEventListener("abort", stop);
    }
    if (n >= tries) throw new Error(`no answer to ${path}`);
    await sleep(Math.min(100 * 2 ** n, 5000) * (0.5 + Math.random() / 2), signal);
  }
}

function sleep(ms, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => (clearTimeout(timer), reject(signal.reason));
    if (signal?.aborted) return reject(signal.reason);
    const timer = setTimeout(() => (signal?.removeEventListener("abort", stop), resolve(null)), ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

// ---------------------------------------------------------------- one life of the worker

const running = new Map(); // executionId -> { controller, fence, done }
const leaving = new AbortController();

async function live() {
  const about = { name, pool, handlers: Object.keys(handlers), slots, pid: process.pid, version: process.version };
  const asked = performance.now();
  const { workerId, heartbeatSec, trustedForSec } = await post("/v1/workers", about, { signal: leaving.signal });
  console.log(`registered as worker ${workerId} (${name}, pool ${pool})`);
  const lost = new AbortController(); // we may not trust our leases any more
  const over = new AbortController(); // lost, or leaving: no more polls
  for (const { signal } of [lost, leaving]) signal.addEventListener("abort", () => over.abort());
  if (leaving.signal.aborted) over.abort();
  const beating = beat(workerId, heartbeatSec, asked + trustedForSec * 1000, lost);
  try {
    while (!over.signal.aborted) await poll(workerId, over.signal);
  } catch (error) {
    if (!over.signal.aborted && error.status !== 410 && error.status !== 404) throw error;
  }
  if (leaving.signal.aborted && !lost.signal.aborted) await drain(workerId);
  lost.abort();
  for (const { controller } of running.values()) controller.abort("LOST");
  await beating;
}

/** The heartbeat says what to stop, and whether we still live. Counted from before the request: a slow answer must not lengthen our trust. */
async function beat(workerId, everySec, trusted, lost) {
  while (!lost.signal.aborted) {
    await sleep(everySec * 1000, lost.signal).catch(() => {});
    if (lost.signal.aborted) return;
    const asked = performance.now();
    try {
      const { stop, trustedForSec } = await post(`/v1/workers/${workerId}/heartbeat`, {}, { timeoutMs: everySec * 1000, tries: 1 });
      trusted = asked + trustedForSec * 1000;
      for (const { executionId } of stop) running.get(executionId)?.controller.abort("CANCELLED");
    } catch (error) {
      if (error.status === 410 || performance.now() > trusted) return lost.abort();
    }
  }
}

/** Take what there is room for. `known` tells the server what we have: a lease whose answer was lost is answered again. */
async function poll(workerId, life) {
  const room = slots - running.size;
  if (room === 0) return Promise.race([...running.values()].map(({ done }) => done));
  const known = [...new Set([...running.values()].map(({ fence }) => fence))];
  const lease = await post(`/v1/workers/${workerId}/lease`, { max: room, waitSec: 20, known }, { timeoutMs: 30_000, signal: life });
  for (const execution of lease?.executions ?? []) {
    const controller = new AbortController();
    const entry = { controller, fence: lease.leaseId };
    running.set(execution.executionId, entry);
    entry.done = run(workerId, lease.leaseId, execution, controller).finally(() => running.delete(execution.executionId));
  }
}

async function run(workerId, fence, execution, controller) {
  const say = (verb, body) => post(`/v1/executions/${execution.executionId}/${verb}`, { workerId, fence, ...body });
  let number = execution.checkpoint?.number ?? 0;
  const context = {
    ...execution,
    signal: controller.signal,
    last: execution.checkpoint,
    checkpoint: (data) => say("checkpoint", { number: ++number, data }),
    log: (message, fields = {}) => say("log", { lines: [{ message, fields }] }),
  };
  const began = performance.now();
  const limit = execution.timeoutSec && setTimeout(() => controller.abort("TIMED_OUT"), execution.timeoutSec * 1000);
  const ended = await handlers[execution.handler](execution.payload, context).then(
    (result) => ["complete", { result }],
    (error) => ["fail", { error: { type: error?.name ?? "Error", message: String(error?.message ?? error) } }],
  );
  clearTimeout(limit);
  let [verb, body] = ended;
  const why = controller.signal.reason;
  if (verb === "fail" && why === "LOST") return; // Nothing we say about it counts any more.
  if (verb === "fail" && why === "RELEASED") [verb, body] = ["release", {}];
  else {
    if (verb === "fail" && why) body = { outcome: why, error: { type: why, message: "the handler was stopped" } };
    body.tookSec = (performance.now() - began) / 1000;
  }
  await say(verb, body).catch((error) => console.error(`${execution.executionId}: ${error.message}`));
}

/** No more work; what runs may end within the grace; the rest is given back. */
async function drain(workerId) {
  console.log("draining");
  await post(`/v1/workers/${workerId}/drain`, {}, { tries: 3 }).catch(() => {});
  const all = () => Promise.all([...running.values()].map(({ done }) => done));
  await Promise.race([all(), sleep(graceMs)]);
  for (const { controller } of running.values()) controller.abort("RELEASED");
  await Promise.race([all(), sleep(graceMs)]);
  await post(`/v1/workers/${workerId}/drain`, { retire: true }, { tries: 3 }).catch(() => {});
}

for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => leaving.abort());
// A worker that was lost starts again as a new one.
while (!leaving.signal.aborted) await live().catch((error) => leaving.signal.aborted || Promise.reject(error));
console.log("stopped");
process.exit(0);
