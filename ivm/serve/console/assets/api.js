// What the console asks of the server; the one place that knows its addresses and forms.
//
// Addresses are relative to the console's own, which may stand behind another path.
// Whoever logs in is held in memory alone: a page that is loaded anew asks again.

/** An answer that is an error: what is wrong, `hint` what to do, `position` the place in the SQL. */
export class ServerError extends Error {
  constructor(status, told) {
    super(told.what ?? `the server answers with status ${status}`);
    this.status = status;
    this.hint = told.hint ?? "";
    this.position = told.position ?? null;
  }
}

const MOST_HELD_BACK = 10; // seconds: after a wrong password the server refuses the next for up to 8

export class Api {
  /** @param {string|null} authorization the header's value; null for nobody */
  constructor(authorization = null) {
    this.authorization = authorization;
  }

  /** Asks with a password, or with a token where there is no user; throws a ServerError if refused. */
  static async login(user, secret) {
    const pair = btoa(String.fromCharCode(...new TextEncoder().encode(`${user}:${secret}`)));
    const api = new Api(user ? `Basic ${pair}` : `Bearer ${secret}`);
    for (let left = MOST_HELD_BACK; ; left -= 1) {
      try {
        await api.state();
        return api;
      } catch (error) {
        if (!(error instanceof ServerError && error.status === 503 && left > 0)) throw error;
      }
      await new Promise((go) => setTimeout(go, 1000));
    }
  }

  /** Runs SQL: {columns: {name, type}[], rows, …}. */
  async sql(text, { signal, ...limits } = {}) {
    const response = await this._ask("/sql", {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: JSON.stringify({ sql: text, ...limits }),
      signal,
    });
    const { text: told, isCut } = await firstPart(response);
    return { ...parseExact(told), isCut };
  }

  /** The one text of the one row that a statement gives, such as EXPLAIN's. */
  async explain(text) {
    const { rows } = await this.sql(text);
    return rows.at(-1)[1];
  }

  /** The epoch after which the changes of a view are kept from now on. */
  async epochOf(view) {
    const response = await this._ask(`/views/${encodeURIComponent(view)}?limit=0`, {});
    return Number(response.headers.get("Ivm-Epoch"));
  }

  /** The changes of a view as a stream of events: after an epoch, else after a snapshot. */
  async changes(view, { after, signal }) {
    const headers = { Accept: "text/event-stream" };
    if (after !== null) headers["Last-Event-ID"] = String(after);
    return this._ask(`/views/${encodeURIComponent(view)}/changes`, { headers, signal });
  }

  /** Relations, sources, sinks, fills and troubles, as `/console/state` has them. */
  async state() {
    return (await this._ask("/console/state", {})).json();
  }

  /** The text of /metrics; null for who may not read it. */
  async metrics() {
    try {
      return await (await this._ask("/metrics", {})).text();
    } catch (error) {
      if (error instanceof ServerError && [401, 403].includes(error.status)) return null;
      throw error;
    }
  }

  async _ask(path, options) {
    const headers = { ...options.headers };
    if (this.authorization) headers.Authorization = this.authorization;
    // Without `omit` a browser would ask for a password by a window of its own.
    const response = await fetch(`..${path}`, { cache: "no-store", credentials: "omit", ...options, headers });
    if (!response.ok) throw new ServerError(response.status, await told(response));
    return response;
  }
}

async function told(response) {
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch {
    return { what: text.trim() || response.statusText };
  }
}

const MOST = 16e6; // characters of a result: more would keep the page busy for seconds

/** The text of a result, or as many of its first rows as the page takes: each ends a line. */
async function firstPart(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const pieces = [];
  for (let size = 0; size < MOST; ) {
    const { value, done } = await reader.read();
    if (done) return { text: pieces.join(""), isCut: false };
    pieces.push(value);
    size += value.length;
  }
  await reader.cancel();
  const text = pieces.join("");
  return { text: `${text.slice(0, text.lastIndexOf(",\n"))}]}`, isCut: true };
}

const LONG = /[0-9][0-9.]{15}/;

/** JSON whose numbers stay exact: those that a double does not hold become texts. */
export function parseExact(text) {
  if (!LONG.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_, value, context) => {
    const source = context?.source ?? "";
    const isCut = typeof value === "number" && source.length > 15 && /^-?[\d.]+$/.test(source) && String(value) !== source;
    return isCut ? source : value;
  });
}
