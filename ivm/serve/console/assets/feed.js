// Follows the changes of a view, and takes up the thread again where a connection has ended.
//
// Law: the rows of the snapshot and the deltas that are passed on add up to the view's rows. Where
// the server has not kept what came meanwhile, all begins anew with a snapshot.

import { parseExact, ServerError } from "./api.js";
import { events } from "./sse.js";

const FIRST_WAIT_MS = 300;
const LONGEST_WAIT_MS = 3000;

/**
 * Follows a view until the signal ends it.
 * @param {Api} api
 * @param {{name: string, columns: Object[]}} view
 * @param {boolean} snapshot whether the rows that it has come first
 * @param {AbortSignal} signal
 * @param {Seen} seen whether somebody looks: only then there is a connection
 * @param {{rows: Function, restart: Function, status: Function}} take `rows(delta, isSnapshot,
 *   epoch)` with [weight, cells] of each row; `restart()` before another snapshot; `status(state,
 *   reason)` with "live", "connecting" or "failed"
 */
export async function follow(api, view, snapshot, signal, seen, take) {
  let after = null;
  let wait = FIRST_WAIT_MS;
  while (!signal.aborted) {
    await seen.wait();
    const hidden = seen.signal;
    try {
      if (!snapshot) after ??= await api.epochOf(view.name);
      const response = await api.changes(view.name, { after, signal: AbortSignal.any([signal, hidden]) });
      take.status("live", "");
      for await (const event of events(response)) {
        if (signal.aborted) return;
        if (event.event === "snapshot" && !snapshot) {
          after = null; // not all changes are kept: on from now
          break;
        }
        wait = FIRST_WAIT_MS;
        after = pass(event, view.columns, take, after);
      }
      take.status("connecting", "the connection has ended");
    } catch (error) {
      if (signal.aborted) return;
      if (hidden.aborted) continue;
      if (isFinal(error)) return take.status("failed", error.message);
      take.status("connecting", error.message);
    }
    await new Promise((done) => setTimeout(done, wait * (0.5 + Math.random())));
    wait = Math.min(wait * 2, LONGEST_WAIT_MS);
  }
}

function pass(event, columns, take, after) {
  if (event.event === "error") throw new ServerError(0, JSON.parse(event.data));
  if (event.event !== "snapshot" && event.event !== "changes") return after;
  const { epoch, part, rows } = parseExact(event.data);
  const isSnapshot = event.event === "snapshot";
  if (isSnapshot && part === 0) take.restart();
  const delta = rows.map((row) => [row._weight, columns.map(({ name }) => row[name])]);
  take.rows(delta, isSnapshot, epoch);
  return event.id === null ? after : Number(event.id);
}

/** A view that is not there, or not for this user, does not come by asking again. */
function isFinal(error) {
  return error instanceof ServerError && error.status >= 400 && error.status < 500 && ![408, 429].includes(error.status);
}
