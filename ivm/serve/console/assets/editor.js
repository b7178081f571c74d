// The SQL editor: CodeMirror in a shadow tree, whose styles need no exception of the page's policy.

import {
  autocompletion, bracketMatching, closeBrackets, closeBracketsKeymap, closeCompletion, completionKeymap, defaultKeymap,
  drawSelection, EditorState, EditorView, HighlightStyle, history, historyKeymap, keymap, lineNumbers,
  placeholder, setDiagnostics, sql, SQLDialect, syntaxHighlighting, tags,
} from "./vendor/codemirror.js";
import { h } from "./dom.js";
import { isNumeric, parts, written } from "./format.js";

const LOOKS = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--third)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--second)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--accent)" },
  { tag: tags.comment, color: "var(--soft)", fontStyle: "italic" },
  { tag: tags.typeName, color: "var(--accent)" },
]);
const THEME = EditorView.theme({
  "&": { backgroundColor: "transparent", color: "var(--text)", fontSize: "14px" },
  "&.cm-focused": { outline: "none" },
  ".cm-content": { fontFamily: "var(--mono)", minHeight: "9rem", caretColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--soft)", border: "none" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 28%, transparent)",
  },
  ".cm-tooltip": { backgroundColor: "var(--sheet)", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--sheet)" },
  ".cm-matchingBracket": { backgroundColor: "var(--line)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)" },
  ".cm-diagnostic": { fontFamily: "var(--mono)", whiteSpace: "pre-wrap" },
});

export class Editor {
  /**
   * @param {{keywords: string[], functions: string[]}} language what there is beside relations
   * @param {() => Object[]} relations that there are now
   * @param {() => void} onrun called by Ctrl+Enter
   */
  constructor(language, relations, onrun) {
    this.element = h("div", { class: "editor" });
    const root = this.element.attachShadow({ mode: "open" });
    const place = document.createElement("div");
    root.append(place);
    this._view = new EditorView({
      root,
      parent: place,
      state: EditorState.create({ extensions: extensions(language, relations, onrun) }),
    });
  }

  /** The text that is selected, else all; and where it begins. */
  get chosen() {
    const { from, to, empty } = this._view.state.selection.main;
    const all = this._view.state.doc.toString();
    return empty ? { text: all, from: 0 } : { text: all.slice(from, to), from };
  }

  get text() {
    return this._view.state.doc.toString();
  }

  set text(text) {
    this._view.dispatch({ changes: { from: 0, to: this._view.state.doc.length, insert: text } });
  }

  insert(text) {
    this._view.dispatch(this._view.state.replaceSelection(text));
    this.focus();
  }

  focus() {
    this._view.focus();
  }

  /** Marks the word at an offset as wrong; null takes all marks away. */
  mark(offset, message) {
    const doc = this._view.state.doc;
    const marks = [];
    if (offset !== null && offset <= doc.length) {
      const word = doc.sliceString(offset).match(/^("[^"]*"|\w+|\S?)/)[0];
      marks.push({ from: offset, to: Math.min(offset + Math.max(word.length, 1), doc.length), severity: "error", message });
    }
    this._view.dispatch(setDiagnostics(this._view.state, marks));
  }

  close() {
    this._view.destroy();
  }
}

function extensions(language, relations, onrun) {
  const dialect = SQLDialect.define({
    keywords: language.keywords.join(" ").toLowerCase(),
    types: language.types.join(" ").toLowerCase(),
    doubleDollarQuotedStrings: true,
    identifierQuotes: '"',
  });
  const run = { key: "Ctrl-Enter", mac: "Cmd-Enter", preventDefault: true, run: (view) => (closeCompletion(view), onrun(), true) };
  return [
    keymap.of([run, ...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
    lineNumbers(), history(), drawSelection(), bracketMatching(), closeBrackets(),
    placeholder("SELECT … or CREATE MATERIALIZED VIEW … – Ctrl+Enter runs all, or what is selected"),
    sql({ dialect }).language,
    autocompletion({ override: [(context) => complete(context, language, relations())], icons: false }),
    syntaxHighlighting(LOOKS), THEME, EditorView.lineWrapping,
    EditorView.contentAttributes.of({ "aria-label": "SQL" }),
  ];
}

const RELATION_NEXT = /\b(from|join|into|update|table|view|describe|summarize)\s+("?[\w.]*)$/i;
const QUALIFIED = /("[^"]+"|\w+)\.("?\w*)$/;

/** What may stand at the cursor: columns after `alias.`, relations after FROM and the like, else all. */
function complete(context, language, relations) {
  const statement = context.state.doc.toString();
  const before = statement.slice(0, context.pos);
  const word = context.matchBefore(/"?\w*$/);
  if (!context.explicit && word.from === word.to && !before.endsWith(".")) return null;
  const options = optionsFor(before, statement, language, relations);
  return { from: word.from, options, validFor: /^"?\w*$/ };
}

function optionsFor(before, statement, language, relations) {
  const qualified = before.match(QUALIFIED);
  if (qualified) return columnsOf(named(qualified[1], statement, relations), 2);
  const names = relations.map((r) => ({
    label: parts(r.name).map((part) => written(part)).join("."), type: "class", detail: r.kind, boost: 3,
  }));
  if (RELATION_NEXT.test(before)) return names;
  const seen = relations.filter((r) => mentions(statement, r.name));
  return [
    ...columnsOf(seen.length ? seen : relations, 2), ...names,
    ...language.keywords.map((label) => ({ label, type: "keyword", boost: 1 })),
    ...language.functions.map((label) => ({ label, type: "function", detail: "function", apply: `${label}(`, boost: -1 })),
  ];
}

function columnsOf(relations, boost) {
  const found = new Map();
  for (const { name, columns } of relations) {
    for (const column of columns) {
      found.set(column.name, { label: written(column.name), type: "property", detail: `${column.type.toLowerCase()}  ${name}`, boost: boost + (isNumeric(column.type) ? 0 : 0.1) });
    }
  }
  return [...found.values()];
}

/** The relation of a name or an alias in a statement. */
function named(word, statement, relations) {
  const plain = word.replaceAll('"', "").toLowerCase();
  const direct = relations.filter((r) => parts(r.name).at(-1).toLowerCase() === plain);
  if (direct.length) return direct;
  return relations.filter((r) => {
    const last = RegExp.escape ? RegExp.escape(parts(r.name).at(-1)) : parts(r.name).at(-1).replace(/\W/g, "\\$&");
    return new RegExp(`\\b${last}"?\\s+(as\\s+)?"?${plain.replace(/\W/g, "\\$&")}\\b`, "i").test(statement);
  });
}

function mentions(statement, name) {
  return statement.toLowerCase().includes(parts(name).at(-1).toLowerCase());
}
