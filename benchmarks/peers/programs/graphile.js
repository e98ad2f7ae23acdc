'use strict';
const { Logger, makeWorkerUtils, run } = require('graphile-worker');
const { hit } = require('./marks');
const { main, setting, sleep, tenant } = require('./frame');

const connectionString = process.env.BENCH_DSN;
// Only what goes wrong, and that the tasks of `failures` fail is meant.
const logger = new Logger(() => (level, message) => {
  if (level === 'error' && !message.includes('fails once')) console.error(message);
});
const utils = () => makeWorkerUtils({ connectionString, logger });
const byTenant = setting('QUEUES', '') === 'tenant';

function options(job) {
  const made = { maxAttempts: job.fails === undefined ? undefined : 2 };
  if (byTenant) made.queueName = tenant(job.i);
  return made;
}

async function noop(job, helpers) {
  hit(job.t);
  if (job.ms) await sleep(job.ms);
  if (job.fails && helpers.job.attempts === 1) throw new Error('fails once');
}

main({
  async setup() {
    await (await utils()).migrate();
  },
  async open() {
    const { addJob, addJobs } = await utils();
    return {
      add: (job) => addJob('noop', job, options(job)),
      addMany: (jobs) => addJobs(jobs.map((job) => ({ identifier: 'noop', payload: job, ...options(job) }))),
      addAt: (jobs) => addJobs(jobs.map(([due, job]) => ({ identifier: 'noop', payload: job, runAt: new Date(1000 * due) }))),
    };
  },
  async worker() {
    const worker = {
      connectionString,
      logger,
      concurrentJobs: +setting('CONCURRENT_JOBS', '1'),
      maxPoolSize: +setting('POOL', '10'),
      pollInterval: +setting('POLL_MS', '2000'),
    };
    if (setting('LOCAL_QUEUE', '')) worker.localQueue = { size: +setting('LOCAL_QUEUE') };
    if (setting('BATCH_DELAY_MS', '')) {
      worker.completeJobBatchDelay = +setting('BATCH_DELAY_MS');
      worker.failJobBatchDelay = +setting('BATCH_DELAY_MS');
    }
    await run({ preset: { worker }, taskList: { noop } });
  },
});
