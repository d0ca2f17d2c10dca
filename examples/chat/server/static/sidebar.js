// The list of rooms, the members of this room, and the drawer with both on a phone.

import { avatar, byID, make, nameOf } from "./dom.js";

// After a server restart all members reconnect within a moment. A missing member counts as
// left only after this time.
const GRACE_MS = 8_000;
const NAMES_IN_HEAD = 8;

export class Rooms {
  #list = byID("rooms");
  #counts = new Map();
  #current = "";

  open(current, rooms) {
    this.#current = current;
    this.#counts = new Map(rooms.map(({ name, members }) => [name, members]));
    this.#render();
  }

  /** The server has sent new sizes; removed rooms have no members. */
  change({ rooms, removed }) {
    for (const { name, members } of rooms ?? []) this.#counts.set(name, members);
    for (const name of removed ?? []) this.#counts.delete(name);
    this.#render();
  }

  #render() {
    this.#list.replaceChildren(...[...this.#counts].sort().map(([name, members]) => {
      const link = make("a", { href: `#${name}` }, make("span", {}, name));
      if (name === this.#current) link.ariaCurrent = "page";
      link.append(make("span", { className: "count", title: `${members} here` }, members > 0 ? String(members) : ""));
      return make("li", {}, link);
    }));
  }
}

export class People {
  #list = byID("people");
  #size = byID("room-size");
  #present = new Map(); // id → name
  #away = new Map(); // id → timer, for members that may reconnect
  #me = "";

  /**
   * Called with a name, and what has changed: "joined", "left", "is now Ada".
   * @type {(name: string, change: string) => void}
   */
  onchange = () => {};

  /**
   * Asks for what a moderator may do; nothing: this tab is none.
   * @type {((type: "member.remove" | "member.ban", who: { id: string }) => void) | false | undefined}
   */
  moderated = false;

  /** This tab has entered a room: its members do not count as joined. */
  open(me, members) {
    for (const timer of this.#away.values()) clearTimeout(timer);
    this.#away.clear();
    this.#me = me;
    this.#present = new Map(members.map(({ id, name }) => [id, name]));
    this.#render();
  }

  /** The same room again after a reconnect: missing members get time to return. */
  reopen(me, members) {
    const before = this.#present;
    before.delete(this.#me);
    this.open(me, members);
    for (const [id, name] of before) {
      if (this.#present.has(id)) continue;
      this.#present.set(id, name);
      this.#away.set(id, setTimeout(() => this.leave({ id }), GRACE_MS));
    }
    this.#render();
  }

  join({ id, name }) {
    const known = this.#present.get(id);
    clearTimeout(this.#away.get(id));
    this.#away.delete(id);
    this.#present.set(id, name);
    this.#render();
    if (known === undefined) this.onchange(name, "joined");
    else if (known !== name) this.onchange(known, `is now ${name}`);
  }

  leave({ id }) {
    const name = this.#present.get(id);
    this.#away.delete(id);
    if (!this.#present.delete(id)) return;
    this.#render();
    this.onchange(name, "left");
  }

  #button(label, type, id) {
    const button = make("button", { className: "quiet moderate", type: "button", ariaLabel: `${label} ${this.#present.get(id)}` }, label);
    button.addEventListener("click", () => this.moderated && this.moderated(type, { id }));
    return button;
  }

  #render() {
    const order = (a, b) => Number(b[0] === this.#me) - Number(a[0] === this.#me) || a[1].localeCompare(b[1]);
    const present = [...this.#present].sort(order);
    this.#list.replaceChildren(...present.map(([id, name]) => {
      const item = make("li", { className: this.#away.has(id) ? "away" : "" },
        avatar({ id, name }), nameOf({ id, name }));
      if (id === this.#me) item.append(make("span", { className: "you" }, "you"));
      else if (this.moderated) item.append(this.#button("Remove", "member.remove", id), this.#button("Ban", "member.ban", id));
      return item;
    }));
    const here = this.#present.size;
    if (here === 1) {
      this.#size.textContent = "Only you are here";
      return;
    }
    // The names are shown where the list is hidden.
    const names = present.slice(0, NAMES_IN_HEAD).map(([id, name]) => (id === this.#me ? "you" : name)).join(", ");
    this.#size.replaceChildren(`${here} people here`, make("span", { className: "names" }, `: ${names}${here > NAMES_IN_HEAD ? ", …" : ""}`));
  }
}

/** On a phone the sidebar slides in over the chat. */
export function drawer() {
  const app = byID("app");
  const menu = byID("menu");
  const set = (open) => {
    app.dataset.side = open ? "open" : "closed";
    menu.ariaExpanded = String(open);
    byID("chat").inert = open; // Tab stays in the drawer
  };
  menu.addEventListener("click", () => {
    set(true);
    byID("rooms").querySelector("a")?.focus();
  });
  byID("scrim").addEventListener("click", () => set(false));
  byID("rooms").addEventListener("click", (event) => /** @type {Element} */ (event.target).closest("a") && set(false));
  byID("me").addEventListener("click", () => set(false));
  matchMedia("(min-width: 760px) and (min-height: 481px)").addEventListener("change", () => set(false));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || app.dataset.side !== "open") return;
    set(false);
    menu.focus();
  });
}
