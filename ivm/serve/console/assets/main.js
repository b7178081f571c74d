// Starts the console: who is there, which page, light or dark.

import { Api, ServerError } from "./api.js";
import { Database } from "./database.js";
import { fill, h } from "./dom.js";
import { loginForm } from "./login.js";
import { startTheme } from "./theme.js";

// A page is loaded when it is first shown: the first paint waits for none of them.
const PAGES = {
  views: () => import("./relations_page.js"),
  view: () => import("./view_page.js"),
  sql: () => import("./sql_page.js"),
  state: () => import("./state_page.js"),
};

const place = document.getElementById("page");
const alertBox = document.getElementById("alert");
const leave = document.getElementById("leave");
let database = null;
let page = null;
let shows = 0;

/** Says what has gone wrong above the page; an empty text takes it away. */
function tell(text) {
  alertBox.hidden = !text;
  alertBox.textContent = text;
}

async function begin(api) {
  const found = new Database(api, tell, () => enter("Your login is no longer good."));
  await found.refresh();
  database = found;
  leave.hidden = api.authorization === null;
  database.start(document.getElementById("epoch"));
  await show();
}

/** Asks who is there, unless the server lets this machine in without. */
function enter(reason = "") {
  database?.stop();
  page?.close();
  database = page = null;
  leave.hidden = true;
  tell("");
  fill(place, loginForm(reason, begin));
  place.querySelector("input")?.focus();
}

async function show() {
  if (database === null) return;
  const [, name = "views", ...rest] = location.hash.split("/");
  const number = ++shows;
  const { open } = await (PAGES[name] ?? PAGES.views)();
  if (number !== shows || database === null) return; // another page was asked for meanwhile
  page?.close();
  tell("");
  markLink(PAGES[name] ? name : "views");
  const element = h("div");
  fill(place, element);
  page = open(element, database, rest.map(decodeURIComponent), tell);
  if (number > 1) place.focus({ preventScroll: true });
  document.title = `${element.querySelector("h1")?.textContent ?? "ivm"} – ivm console`;
}

function markLink(name) {
  const wanted = name === "view" ? "views" : name;
  for (const link of document.querySelectorAll(".bar nav a")) {
    if (link.hash === `#/${wanted}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

async function start() {
  startTheme(document.getElementById("theme"));
  leave.addEventListener("click", () => enter());
  window.addEventListener("hashchange", () => show().catch((error) => tell(error.message)));
  try {
    await begin(new Api());
  } catch (error) {
    if (error instanceof ServerError && error.status === 401) return enter();
    fill(place, h("p", { text: "The server cannot be reached, or has a fault." }));
    tell(error.message);
  }
}

start();
