// The pen: turns the pointer's movements into lines.

import { HEIGHT, WIDTH } from "./drawing.js";

/** @import { Line } from "./contract.js" */

const MOST_POINTS = 128; // the server takes no more; a longer stroke goes on as another one
const LEAST_STEP = 6;

export class Pen {
  colour = 0;
  width = 28;
  /** A line is finished. @type {(line: Line) => void} */
  ondone = () => {};
  /** The pointer has moved; there is a line while the pen is down. @type {(x: number, y: number, line: Line | null) => void} */
  onmove = () => {};
  /** Whether the pen may be put down. */
  allowed = () => true;

  #sheet;
  /** @type {Line | null} */
  #line = null;

  /** @param {HTMLElement} sheet */
  constructor(sheet) {
    this.#sheet = sheet;
    sheet.addEventListener("pointerdown", (event) => this.#down(event));
    sheet.addEventListener("pointermove", (event) => this.#move(event));
    for (const type of ["pointerup", "pointercancel"]) sheet.addEventListener(type, () => this.#up());
  }

  #down(event) {
    if (event.button !== 0 || !event.isPrimary || !this.allowed()) return;
    event.preventDefault();
    this.#sheet.setPointerCapture(event.pointerId);
    this.#begin(this.#at(event));
  }

  #begin(points) {
    this.#line = { colour: this.colour, width: this.width, points };
    this.onmove(points[0], points[1], this.#line);
  }

  #move(event) {
    if (!event.isPrimary) return;
    const [x, y] = this.#at(event);
    if (this.#line) {
      const all = event.getCoalescedEvents?.() ?? [];
      for (const one of all.length ? all : [event]) this.#extend(...this.#at(one));
    }
    this.onmove(x, y, this.#line);
  }

  #extend(x, y) {
    const { points } = this.#line;
    if (Math.hypot(x - points.at(-2), y - points.at(-1)) < LEAST_STEP) return;
    points.push(x, y);
    if (points.length < 2 * MOST_POINTS) return;
    this.ondone(this.#line);
    this.#begin([x, y]);
  }

  #up() {
    const line = this.#line;
    if (!line) return;
    this.#line = null;
    this.ondone(line);
    this.onmove(line.points.at(-2), line.points.at(-1), null);
  }

  /** @returns {[number, number]} */
  #at({ clientX, clientY }) {
    const { left, top, width, height } = this.#sheet.getBoundingClientRect();
    const unit = (part, units) => Math.min(units - 1, Math.max(0, Math.round(part * units)));
    return [unit((clientX - left) / width, WIDTH), unit((clientY - top) / height, HEIGHT)];
  }
}
