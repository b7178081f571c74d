// A chart of values over time, drawn by uPlot and told in words for those who do not see it.

import uPlot from "./vendor/uplot.js";
import { h, write } from "./dom.js";

const THEME_EVENTS = [[window, "themechange"], [matchMedia("(prefers-color-scheme: dark)"), "change"]];
const LEGEND = 28; // pixels
const MOST = 3600; // points: half an hour at two a second

export class Chart {
  /**
   * @param {string} title
   * @param {string[]} names of the series
   * @param {(value: number) => string} format of values
   * @param {boolean} fromZero whether the axis begins at 0
   */
  constructor(title, names, format, fromZero = true) {
    this._names = names;
    this._format = format;
    this._fromZero = fromZero;
    this._data = [[], ...names.map(() => [])];
    this._said = h("figcaption", { text: title });
    this._title = title;
    this._place = h("div", { class: "plot", role: "img", "aria-label": title });
    this.element = h("figure", { class: "chart" }, this._said, this._place);
    this._resize = new ResizeObserver(() => this._fit());
    this._resize.observe(this._place);
    this._repaint = () => this._remake();
    THEME_EVENTS.forEach(([target, name]) => target.addEventListener(name, this._repaint));
  }

  /** Adds a point: seconds since 1970, and a value (or null) of each series. */
  add(time, values) {
    [time, ...values].forEach((value, i) => {
      this._data[i].push(value);
      if (this._data[i].length > MOST) this._data[i].shift();
    });
    this._draw();
  }

  clear() {
    this._data.forEach((values) => values.splice(0));
    this._draw();
  }

  close() {
    this._resize.disconnect();
    THEME_EVENTS.forEach(([target, name]) => target.removeEventListener(name, this._repaint));
    this._plot?.destroy();
    this._plot = null;
    this._closed = true;
  }

  _draw() {
    if (this._pending || this._closed) return;
    this._pending = requestAnimationFrame(() => {
      this._pending = null;
      if (this._closed) return;
      this._say();
      if (!this._plot) this._make();
      else this._plot.setData(this._data);
    });
  }

  _say() {
    const last = this._data.slice(1).map((values) => values.at(-1));
    const told = last.map((value, i) => {
      const text = value === null || value === undefined ? "–" : this._format(value);
      return this._names.length > 1 ? `${this._names[i]} ${text}` : text;
    });
    write(this._said, `${this._title}: ${told.join(", ")}`);
    this._place.setAttribute("aria-label", this._said.textContent);
  }

  _make() {
    // Of one point uPlot makes an axis without end.
    if (this._data[0].length < 2 || !this._place.isConnected || !this._place.clientWidth) return;
    this._plot = new uPlot(this._options(), this._data, this._place);
  }

  /** Draws with the colours that hold now. */
  _remake() {
    this._plot?.destroy();
    this._plot = null;
    this._draw();
  }

  _fit() {
    const width = this._place.clientWidth;
    if (!width) return;
    if (this._plot) this._plot.setSize({ width, height: this._height() });
    else this._make();
  }

  _height() {
    return this._place.clientHeight - (this._names.length > 1 ? LEGEND : 0);
  }

  _options() {
    const colour = (name) => computed(this._place, name);
    const axis = {
      stroke: colour("--soft"),
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { stroke: colour("--line"), width: 1 },
      font: "11px system-ui, sans-serif",
    };
    return {
      width: this._place.clientWidth,
      height: this._height(),
      legend: { show: this._names.length > 1, live: false },
      cursor: { drag: { x: true, y: false } },
      scales: { y: { range: (_, low, high) => bounds(low, high, this._fromZero) } },
      axes: [{ ...axis, space: 80, size: 32, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 64, values: (_, ticks) => ticks.map((t) => this._format(t)) }],
      series: [{}, ...this._names.map((label, i) => ({
        label,
        stroke: colour(["--accent", "--second", "--third"][i % 3]),
        width: 1.5,
        dash: [[], [6, 3], [2, 3]][i % 3],
        spanGaps: false,
        points: { show: false },
      }))],
    };
  }
}

/** The ends of an axis; nothing is drawn at its rim. */
function bounds(low, high, fromZero) {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
  const room = (high - low || Math.abs(high) || 1) * 0.1;
  return [fromZero && low >= 0 ? 0 : low - room, high + room];
}

function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}

/** A colour of the style sheet as a canvas takes it. */
function computed(place, name) {
  const probe = h("span");
  probe.style.color = `var(${name})`;
  place.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
