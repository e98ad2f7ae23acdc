// The same marks as ../marks.py. Node has no shared memory between processes: marks are gathered for a few milliseconds and then written,
// because two system calls for every job would slow down exactly those systems that are measured here. Their times are exact.
'use strict';
const fs = require('fs');
const path = require('path');

const ROOM = 4096;
const EVERY_MS = 5;

let file = null;
let written = 0;
let waiting = 0;
const pairs = new Float64Array(2 * ROOM);
const head = new Float64Array(1);

const now = () => (performance.timeOrigin + performance.now()) / 1000;

function flush() {
  if (waiting === 0) return;
  if (file === null) file = fs.openSync(path.join(process.env.BENCH_MARKS, `${process.pid}.marks`), 'w+');
  fs.writeSync(file, pairs, 0, 16 * waiting, 8 + 16 * written);
  written += waiting;
  waiting = 0;
  // Last, so that whoever reads the count finds the marks.
  head[0] = written;
  fs.writeSync(file, head, 0, 8, 0);
}

// The first line of every handler.
function hit(t) {
  pairs[2 * waiting] = now();
  pairs[2 * waiting + 1] = t;
  waiting += 1;
  if (waiting === ROOM) flush();
}

function keepFlushing() {
  setInterval(flush, EVERY_MS);
  process.on('exit', flush);
}

module.exports = { hit, now, keepFlushing };
