// Writes numbers, sizes and values as people read them.

const COUNT = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });

/** A number with separators; "–" where there is none. */
export function count(number) {
  return number === null || number === undefined ? "–" : COUNT.format(number);
}

/** A number of things: "1 row", "1,000 rows". */
export function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** Bytes with a unit. */
export function size(bytes) {
  for (const unit of ["B", "kB", "MB"]) {
    if (bytes < 1000) return `${bytes < 10 && unit !== "B" ? bytes.toFixed(1) : Math.round(bytes)} ${unit}`;
    bytes /= 1000;
  }
  return `${bytes.toFixed(1)} GB`;
}

/** Seconds with a unit that fits. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toPrecision(3)} ms`;
  if (seconds < 120) return `${seconds.toPrecision(3)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

/** A rate per second. */
export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return "–";
  return `${perSecond < 10 ? Number(perSecond.toFixed(1)) : count(Math.round(perSecond))}/s`;
}

const NUMBERS = /^(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DECIMAL\b.*|FLOAT|DOUBLE|REAL)$/;

/** Whether values of a DuckDB type are numbers. */
export function isNumeric(type) {
  return NUMBERS.test(type.toUpperCase());
}

/** A value of a row as text, decimals with all their digits; null stays null. */
export function valueText(value, type) {
  if (value === null || value === undefined) return null;
  if (typeof value === "object") return JSON.stringify(value);
  const scale = type.match(/^DECIMAL\(\d+,\s*(\d+)\)$/i)?.[1];
  return scale === undefined ? String(value) : padded(String(value), Number(scale));
}

function padded(text, scale) {
  const [whole, part = ""] = text.split(".");
  return scale && !text.includes("e") ? `${whole}.${part.padEnd(scale, "0")}` : text;
}

const PLAIN = /^[a-z_][a-z0-9_]*$/i;

/** A canonical name as SQL writes it, each part in quotes. */
export function quoted(name) {
  return parts(name).map((part) => `"${part.replaceAll('"', '""')}"`).join(".");
}

/** A name as people write it, in quotes where it needs them. */
export function written(part, reserved = new Set()) {
  return PLAIN.test(part) && !reserved.has(part.toLowerCase()) ? part : `"${part.replaceAll('"', '""')}"`;
}

/** The parts of a canonical name: dots part them, but not within quotes. */
export function parts(name) {
  const found = name.match(/"(?:[^"]|"")*"|[^."]+/g) ?? [name];
  return found.map((part) => (part.startsWith('"') ? part.slice(1, -1).replaceAll('""', '"') : part));
}
