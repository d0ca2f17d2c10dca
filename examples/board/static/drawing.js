// The drawing: its strokes, and how they are painted. Those that the server has are painted once; the others,
// which are about to change, in each frame.

/** @import { Line, Stroke, Drawn } from "./contract.js" */

/** The sheet is as many units wide, and as many high. */
export const WIDTH = 4096;
export const HEIGHT = 3072;
const MOST_STROKES = 2000; // as many as the server keeps

export class Drawing {
  /** @type {Map<string, Drawn>} the strokes that the server has, in order */
  #strokes = new Map();
  /** @type {Map<string, Stroke>} those of this page that it does not have yet */
  #pending = new Map();
  /** @type {Map<string, Line>} what is being drawn, by member */
  #current = new Map();
  #base;
  #live;
  #colours = [];
  #planned = false;
  #stale = true; // the base has to be painted anew

  /** Called when the sheet becomes empty, or is not empty any more. @type {(empty: boolean) => void} */
  onempty = () => {};

  /**
   * @param {HTMLCanvasElement} base
   * @param {HTMLCanvasElement} live
   */
  constructor(base, live) {
    this.#base = base.getContext("2d");
    this.#live = live.getContext("2d");
    new ResizeObserver(() => this.#measure()).observe(base);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#measure());
    this.#measure();
  }

  get size() {
    return this.#strokes.size;
  }

  get pending() {
    return this.#pending.size;
  }

  /** What the sheet shows, for tests and for those that take it further. */
  get strokes() {
    return [...this.#strokes.values()];
  }

  /** The server has a stroke. */
  add(stroke) {
    this.#pending.delete(stroke.id);
    const key = keyOf(stroke.by, stroke.id);
    if (this.#strokes.has(key)) return;
    this.#strokes.set(key, stroke);
    if (!this.#stale) this.#paint(this.#base, stroke);
    if (this.#strokes.size > MOST_STROKES) {
      this.#strokes.delete(this.#strokes.keys().next().value);
      this.#stale = true;
    }
    this.#plan();
  }

  remove(by, id) {
    if (this.#strokes.delete(keyOf(by, id))) this.#stale = true;
    this.#plan();
  }

  clear() {
    this.#strokes.clear();
    this.#current.clear();
    this.#stale = true;
    this.#plan();
  }

  /** The last stroke of a member. */
  lastOf(by) {
    return this.strokes.findLast((stroke) => stroke.by === by);
  }

  /** A stroke is on its way to the server. */
  expect(stroke) {
    this.#pending.set(stroke.id, stroke);
    this.#plan();
  }

  /** A stroke will not reach the server. */
  drop(id) {
    this.#pending.delete(id);
    this.#plan();
  }

  /** A member is drawing a line, or has stopped. */
  show(by, line) {
    if (line) this.#current.set(by, line);
    else this.#current.delete(by);
    this.#plan();
  }

  #measure() {
    const style = getComputedStyle(document.documentElement);
    this.#colours = Array.from({ length: 8 }, (_, i) => style.getPropertyValue(`--c${i}`).trim());
    for (const { canvas } of [this.#base, this.#live]) {
      const width = Math.max(1, Math.round(canvas.clientWidth * devicePixelRatio));
      if (canvas.width === width) continue;
      canvas.width = width;
      canvas.height = Math.round((width * HEIGHT) / WIDTH);
    }
    this.#stale = true;
    this.#plan();
  }

  #plan() {
    if (this.#planned) return;
    this.#planned = true;
    requestAnimationFrame(() => {
      this.#planned = false;
      this.#frame();
    });
  }

  #frame() {
    if (this.#stale) {
      this.#stale = false;
      erase(this.#base);
      for (const stroke of this.#strokes.values()) this.#paint(this.#base, stroke);
    }
    erase(this.#live);
    for (const line of [...this.#pending.values(), ...this.#current.values()]) this.#paint(this.#live, line);
    this.onempty(this.#strokes.size + this.#pending.size + this.#current.size === 0);
  }

  /** Paints a line through its points, rounded. */
  #paint(context, { colour, width, points }) {
    const scale = context.canvas.width / WIDTH;
    const x = (i) => points[2 * i] * scale;
    const y = (i) => points[2 * i + 1] * scale;
    const last = points.length / 2 - 1;
    context.strokeStyle = this.#colours[colour];
    context.lineWidth = Math.max(1, width * scale);
    context.lineCap = context.lineJoin = "round";
    context.beginPath();
    context.moveTo(x(0), y(0));
    for (let i = 1; i < last; i++) context.quadraticCurveTo(x(i), y(i), (x(i) + x(i + 1)) / 2, (y(i) + y(i + 1)) / 2);
    context.lineTo(x(last), y(last));
    context.stroke();
  }
}

const keyOf = (by, id) => `${by}/${id}`;

function erase(context) {
  context.clearRect(0, 0, context.canvas.width, context.canvas.height);
}
