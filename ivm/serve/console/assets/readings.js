// Rates and latencies from the server's counters, read again and again.

import { parseMetrics, quantile, total } from "./prometheus.js";

const WORK = new Set(["sql", "tables"]); // requests that are the users', not a look at the state

export class Readings {
  constructor() {
    this._before = null;
  }

  /**
   * What has happened since the reading before; null at the first one.
   * @param {number} time in seconds since 1970
   * @param {{epoch: number, maintenance_seconds: number}} state
   * @param {string|null} text of /metrics
   */
  add(time, { epoch, maintenance_seconds: seconds }, text) {
    const metrics = text === null ? new Map() : ofWork(parseMetrics(text));
    const now = { time, epoch, seconds, metrics, requests: total(metrics, "ivm_http_requests_total") };
    const before = this._before;
    this._before = now;
    if (before === null || time <= before.time) return null;
    const perSecond = (a, b) => (a === null || b === null ? null : Math.max(b - a, 0) / (time - before.time));
    const part = (share) => quantile(before.metrics, metrics, "ivm_http_request_seconds", share);
    return {
      time,
      commits: perSecond(before.epoch, epoch),
      maintenance: epoch > before.epoch ? Math.max(seconds - before.seconds, 0) / (epoch - before.epoch) : null,
      requests: perSecond(before.requests, now.requests),
      latency: [part(0.5), part(0.99)],
      sessions: total(metrics, "ivm_connections"),
      subscribers: total(metrics, "ivm_subscribers"),
    };
  }
}

/** The samples without those of requests that are not the users' work. */
function ofWork(metrics) {
  for (const [name, samples] of metrics) {
    metrics.set(name, samples.filter(({ labels }) => labels.request === undefined || WORK.has(labels.request)));
  }
  return metrics;
}
