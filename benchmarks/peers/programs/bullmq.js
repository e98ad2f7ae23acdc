'use strict';
const { Queue, Worker } = require('bullmq');
const { hit } = require('./marks');
const { main, setting, sleep } = require('./frame');

const url = new URL(process.env.BENCH_REDIS);
const connection = { host: url.hostname, port: +url.port, maxRetriesPerRequest: null };
const defaultJobOptions = { removeOnComplete: true, removeOnFail: true };

main({
  async setup() {},
  async open() {
    const queue = new Queue('noop', { connection, defaultJobOptions });
    await queue.waitUntilReady();
    return {
      add: (job) => queue.add('noop', job),
      addMany: (jobs) => queue.addBulk(jobs.map((data) => ({ name: 'noop', data }))),
      // It takes a delay, not a time.
      addAt: (jobs) => queue.addBulk(
        jobs.map(([due, data]) => ({ name: 'noop', data, opts: { delay: Math.max(0, Math.round(1000 * due - Date.now())) } })),
      ),
    };
  },
  async worker() {
    const noop = async ({ data }) => {
      hit(data.t);
      if (data.ms) await sleep(data.ms);
    };
    new Worker('noop', noop, { connection, concurrency: +setting('CONCURRENCY', '1') });
  },
});
