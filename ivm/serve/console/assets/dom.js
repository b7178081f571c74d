// Makes and fills elements.

/**
 * Makes an element.
 * @param {string} tag
 * @param {Object} props attributes; functions under `onclick` and the like, `class`, `text`
 * @param {...(Node|string|null)} children null is left out
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  setProps(element, props);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** Makes an element of SVG. */
export function svg(tag, props = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  setProps(element, props);
  element.append(...children.flat().filter((child) => child !== null));
  return element;
}

function setProps(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
}

/** Replaces what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null));
  return element;
}

/** Writes a text, and touches the page only if it is another one. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A table with a heading for each column; `rows` hold cells or texts. */
export function grid(caption, headings, rows, props = {}) {
  const cell = (value) =>
    value instanceof Node && value.nodeName === "TD" ? value : h("td", {}, value ?? "");
  return h("table", { class: "grid", ...props },
    h("caption", { text: caption }),
    h("thead", {}, h("tr", {}, headings.map((text, i) => h("th", { scope: "col", text, class: alignment(rows[0]?.[i]) })))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell)))));
}

function alignment(value) {
  return value instanceof Element && value.classList.contains("number") ? "number" : null;
}

/** A cell with a number, set to the right. */
export function numberCell(text) {
  return h("td", { class: "number", text });
}
