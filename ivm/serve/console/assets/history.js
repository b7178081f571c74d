// The statements that were run in this browser, the newest first.

const KEY = "ivm.history";
const MOST = 200;
const SECRET = /\b(password|secret|token)\b/i; // such statements are not kept

/** The statements, the newest first. */
export function statements() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((text) => typeof text === "string") : [];
  } catch {
    return []; // something else has written there
  }
}

/** Keeps a statement, once. */
export function keep(text) {
  const plain = text.trim();
  if (!plain || SECRET.test(plain)) return;
  const all = [plain, ...statements().filter((other) => other !== plain)].slice(0, MOST);
  localStorage.setItem(KEY, JSON.stringify(all));
}

export function forget() {
  localStorage.removeItem(KEY);
}
