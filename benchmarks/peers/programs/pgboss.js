'use strict';
const { PgBoss } = require('pg-boss');
const { hit } = require('./marks');
const { main, setting, sleep } = require('./frame');

const useListenNotify = setting('NOTIFY', '') === 'yes';

async function boss(isWorker) {
  const made = new PgBoss({ connectionString: process.env.BENCH_DSN, supervise: isWorker, schedule: isWorker, useListenNotify });
  made.on('error', (error) => console.error(error));
  await made.start();
  return made;
}

async function one({ data }) {
  hit(data.t);
  if (data.ms) await sleep(data.ms);
}

const noop = (jobs) => Promise.all(jobs.map(one));

main({
  async setup() {
    await (await boss(false)).createQueue('noop', { notify: useListenNotify });
  },
  async open() {
    const made = await boss(false);
    return {
      add: (job) => made.send('noop', job),
      addMany: (jobs) => made.insert('noop', jobs.map((job) => ({ data: job }))),
      addAt: (jobs) => made.insert('noop', jobs.map(([due, job]) => ({ data: job, startAfter: new Date(1000 * due) }))),
    };
  },
  async worker() {
    const made = await boss(true);
    const batchSize = +setting('BATCH', '1');
    if (setting('FETCH_LOOP', '') !== 'yes') {
      const options = { batchSize, pollingIntervalSeconds: +setting('POLL_S', '2') };
      // NOTIFY tells of new jobs only: what becomes due is polled for.
      if (useListenNotify) options.notifyPollingIntervalSeconds = options.pollingIntervalSeconds;
      await made.work('noop', options, noop);
      return;
    }
    for (;;) {
      const jobs = await made.fetch('noop', { batchSize });
      if (jobs.length === 0) {
        await sleep(100);
        continue;
      }
      await noop(jobs);
      await made.complete('noop', jobs.map((job) => job.id));
    }
  },
});
