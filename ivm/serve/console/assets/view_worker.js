// Follows a view in a thread of its own, so that the page stays free however much comes.
//
// Contract: the page gets one frame for each time it says that it has drawn the one before, and
// only if there is something new. A frame holds the rows that are shown, never all.

import { Api } from "./api.js";
import { follow } from "./feed.js";
import { LargeView } from "./large_view.js";
import { Seen } from "./seen.js";
import { SmallView } from "./small_view.js";

const FADE_MS = 500; // between two looks at marks that are old
const SAMPLE_MS = 500; // between two points of the charts
const MOST_HELD = 100_000; // rows; of a view with more, only those that are shown are held

let view = null;
let shown = { filter: "", sort: null, limit: 200 };
let ready = true;
let dirty = false;
let paused = false;
let status = { state: "connecting", reason: "" };
let measure = null;
let loaded = false; // whether there were rows, which charts wait for

const stop = new AbortController();
const seen = new Seen();

self.onmessage = ({ data }) => {
  if (data.type === "open") open(data);
  else if (data.type === "show") show(data.shown);
  else if (data.type === "ready") answer(() => (ready = true));
  else if (data.type === "pause") answer(() => (paused = data.on));
  else if (data.type === "seen") seen.set(data.on);
  else if (data.type === "measure") measure = data.measure;
  else if (data.type === "close") stop.abort();
};

function answer(act) {
  act();
  draw();
}

function show(next) {
  shown = next;
  view?.show(shown);
  touch(true);
}

async function open({ name, columns, identity, rows, authorization }) {
  const api = new Api(authorization);
  setInterval(() => view.fade(Date.now()) && touch(), FADE_MS);
  setInterval(sample, SAMPLE_MS);
  const small = new SmallView(columns, identity);
  const isLarge = rows > MOST_HELD || (await run(api, name, columns, small, true));
  if (isLarge) await run(api, name, columns, new LargeView(api, name, columns, () => touch()), false);
}

/** Follows a view until the page closes it; returns whether it has grown too large to be held. */
async function run(api, name, columns, next, held) {
  const ending = new AbortController();
  stop.signal.addEventListener("abort", () => ending.abort());
  view = next;
  view.show(shown);
  await follow(api, { name, columns }, held, ending.signal, seen, {
    rows: (delta, isSnapshot, epoch) => {
      loaded = true;
      view.apply(delta, isSnapshot ? null : Date.now(), epoch);
      if (held && view.total > MOST_HELD) ending.abort();
      else touch();
    },
    restart: () => view.clear(),
    status: (state, reason) => {
      status = { state, reason };
      touch(true);
    },
  });
  return ending.signal.aborted && !stop.signal.aborted;
}

/** Something is new; `asked` for by the user, it is shown in a pause too. */
function touch(asked = false) {
  dirty = true;
  draw(asked);
}

function draw(asked = false) {
  if (!ready || !dirty || view === null || (paused && !asked)) return;
  ready = dirty = false;
  self.postMessage({ type: "frame", ...view.frame(), status });
}

async function sample() {
  if (!seen.on || (!loaded && view.total === 0)) return;
  const value = measure === null ? null : await view.measure(measure).catch(() => null);
  self.postMessage({ type: "sample", time: Date.now() / 1000, rows: view.total, value });
}
