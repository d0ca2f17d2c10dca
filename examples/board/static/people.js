// The members of the board: their names in the head, and their cursors on the sheet.

import { WIDTH } from "./drawing.js";

const SHOWN = 6;
const IDLE_MS = 6_000; // a cursor that does not move is hidden

export class People {
  #list;
  #sheet;
  /** @type {Map<string, {name: string, hue: number}>} */
  #present = new Map();
  /** @type {Map<string, {element: HTMLElement, timer?: number}>} */
  #cursors = new Map();
  me = "";

  constructor(list, sheet) {
    this.#list = list;
    this.#sheet = sheet;
  }

  name(id) {
    return this.#present.get(id)?.name ?? "";
  }

  /**
   * Takes an event of the presence. It returns who has come and gone since the list.
   * @param {import("./wskit.js").Presence} change
   */
  change({ members, joined = [], changed = [], left = [] }) {
    if (members) this.#present.clear();
    for (const { user, data } of [...(members ?? []), ...joined, ...changed]) this.#present.set(user, data);
    for (const { user } of left) this.#present.delete(user);
    for (const id of this.#cursors.keys()) if (!this.#present.has(id)) this.#hide(id);
    this.#render();
  }

  /** Shows the cursor of a member. */
  move(id, x, y) {
    const person = this.#present.get(id);
    if (!person) return;
    let cursor = this.#cursors.get(id);
    if (!cursor) {
      const element = document.createElement("div");
      element.append(document.createElement("span"));
      this.#sheet.append(element);
      this.#cursors.set(id, (cursor = { element }));
    }
    const { element } = cursor;
    element.firstElementChild.textContent = person.name;
    element.style.setProperty("--hue", String(person.hue));
    const side = this.#sheet.clientWidth / WIDTH;
    element.style.transform = `translate(${x * side}px, ${y * side}px)`;
    clearTimeout(cursor.timer);
    cursor.timer = setTimeout(() => this.#hide(id), IDLE_MS);
  }

  #hide(id) {
    const cursor = this.#cursors.get(id);
    clearTimeout(cursor?.timer);
    cursor?.element.remove();
    this.#cursors.delete(id);
  }

  #render() {
    const present = [...this.#present].sort((a, b) => Number(b[0] === this.me) - Number(a[0] === this.me) || a[1].name.localeCompare(b[1].name));
    this.#list.replaceChildren(...present.slice(0, SHOWN).map(([id, { name, hue }]) => {
      const item = document.createElement("li");
      item.textContent = name;
      item.title = id === this.me ? `${name} (you)` : name;
      if (id === this.me) item.className = "you";
      item.style.setProperty("--hue", String(hue));
      return item;
    }));
    if (present.length <= SHOWN) return;
    const more = document.createElement("li");
    more.className = "more";
    more.textContent = `+${present.length - SHOWN}`;
    this.#list.append(more);
  }
}
