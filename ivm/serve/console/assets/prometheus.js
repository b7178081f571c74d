// Reads the text of Prometheus, as /metrics has it.

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/**
 * The samples of a text by the name of their metric: {labels, value} each.
 * @returns {Map<string, {labels: Object, value: number}[]>}
 */
export function parseMetrics(text) {
  const found = new Map();
  for (const line of text.split("\n")) {
    const match = line.startsWith("#") ? null : line.match(SAMPLE);
    if (!match) continue;
    const [, name, labels, value] = match;
    if (!found.has(name)) found.set(name, []);
    found.get(name).push({ labels: parseLabels(labels ?? ""), value: Number(value) });
  }
  return found;
}

function parseLabels(text) {
  const labels = {};
  for (const [, name, value] of text.matchAll(LABEL)) {
    labels[name] = value.replace(/\\(.)/g, (_, sign) => (sign === "n" ? "\n" : sign));
  }
  return labels;
}

/** The sum of a metric's samples; null if it is not there. */
export function total(metrics, name) {
  const samples = metrics.get(name);
  return samples ? samples.reduce((sum, sample) => sum + sample.value, 0) : null;
}

/**
 * A quantile of what a histogram has counted between two readings, as the bound of its bucket.
 * @returns {number|null} null if nothing was counted
 */
export function quantile(before, now, name, part) {
  const older = buckets(before, name);
  const counted = [...buckets(now, name)].map(([bound, n]) => [bound, n - (older.get(bound) ?? 0)]);
  const all = counted.at(-1)?.[1] ?? 0;
  if (!all) return null;
  const [bound] = counted.find(([, n]) => n >= all * part);
  return Number.isFinite(bound) ? bound : counted.at(-2)?.[0] ?? null;
}

/** How many were counted up to each bound, over all labels, in the order of the bounds. */
function buckets(metrics, name) {
  const found = new Map();
  for (const { labels, value } of metrics.get(`${name}_bucket`) ?? []) {
    const bound = labels.le === "+Inf" ? Infinity : Number(labels.le);
    found.set(bound, (found.get(bound) ?? 0) + value);
  }
  return new Map([...found].sort(([a], [b]) => a - b));
}
