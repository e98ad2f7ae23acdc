// The frame of a program for Node: the same commands as frame.py, the same work as ../work.py.
'use strict';
const fs = require('fs');
const { now, keepFlushing } = require('./marks');

const PAGE = 1000;
const PAD = 48;
const LARGE_PAD = 10000;
const TENANTS = 1000;
const MIXED_MS = [...Array(16).fill(0), ...Array(3).fill(2), 40];
const KIND = process.env.BENCH_WORK || 'noop';

const setting = (name, otherwise) => process.env[`BENCH_${name}`] || otherwise;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const pad = 'x'.repeat(KIND === 'large' ? LARGE_PAD : PAD);

function payload(i, t) {
  const made = { i, t: t === undefined ? now() : t, pad };
  if (KIND === 'mixed') made.ms = MIXED_MS[i % MIXED_MS.length];
  if (KIND === 'failures') made.fails = i % 2 === 1;
  return made;
}

const tenant = (i) => `t${i % TENANTS}`;

const numbers = (start, end) => Array.from({ length: end - start }, (_, n) => start + n);

async function forSeconds(seconds, size, call) {
  // The first one connects, prepares and warms up.
  await call(0);
  const began = now();
  let count = 0;
  while (now() - began < seconds) {
    await call(count);
    count += size;
  }
  return { count, seconds: now() - began };
}

const produce = {
  async fill(producer, count) {
    for (let start = 0; start < +count; start += PAGE) {
      await producer.addMany(numbers(start, Math.min(start + PAGE, +count)).map((i) => payload(i)));
    }
    return {};
  },
  single: (producer, seconds) => forSeconds(+seconds, 1, (i) => producer.add(payload(i))),
  bulk: (producer, seconds) => forSeconds(+seconds, PAGE, (i) => producer.addMany(numbers(i, i + PAGE).map((n) => payload(n)))),
  async paced(producer, count, rate) {
    const began = now();
    for (let i = 0; i < +count; i++) {
      const wait = began + i / +rate - now();
      if (wait > 0) await sleep(1000 * wait);
      await producer.add(payload(i));
    }
    return {};
  },
  async at(producer) {
    const dues = JSON.parse(fs.readFileSync(0, 'utf8'));
    await producer.addAt(dues.map((due, i) => [due, payload(i, due)]));
    return { at: now() };
  },
};

// `open` answers a producer: add, addMany and addAt.
async function main({ setup, open, worker }) {
  const [command, ...words] = process.argv.slice(2);
  if (command === 'worker') {
    keepFlushing();
    process.on('SIGTERM', () => process.exit(0));
    await worker();
    return;
  }
  let result = {};
  if (command === 'setup') await setup();
  else result = await produce[command](await open(), ...words);
  console.log(`RESULT ${JSON.stringify(result)}`);
  process.exit(0);
}

module.exports = { main, payload, setting, sleep, tenant };
