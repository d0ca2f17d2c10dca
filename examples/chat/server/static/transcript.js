// The messages of the room, and notes about joins and leaves.

import { avatar, byID, make, nameOf } from "./dom.js";
import { linked } from "./links.js";

const MOST_ENTRIES = 200;
const SAME_BREATH_MS = 5 * 60_000; // messages this close together share one name
const NEAR_THE_END_PX = 48;

const GAPS = {
  epoch: "The server has restarted. It has no messages from before: those above are on this page only.",
  trimmed: "Messages are missing here: there were more than the server keeps.",
  tooFar: "Messages are missing here: there were more than the server keeps.",
  rewound: "The server has lost some of the messages above. They are on this page only.",
};

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

export class Transcript {
  #log = byID("log");
  #list = byID("messages");
  #latest = byID("latest");
  #shown = new Map(); // message id → its element
  /**
   * Called with the position of a message that the moderator of this page removes; nothing: it is none.
   * @type {((pos: string) => void) | false | undefined}
   */
  moderated = false;
  #last = null; // the message a further one may be grouped under
  #atEnd = true;

  constructor() {
    this.#log.addEventListener("scroll", () => {
      this.#atEnd = this.#log.scrollHeight - this.#log.scrollTop - this.#log.clientHeight < NEAR_THE_END_PX;
      if (this.#atEnd) this.#latest.hidden = true;
    });
    this.#latest.addEventListener("click", () => {
      this.#scrollToEnd();
      this.#log.focus();
    });
    // The box grows, the keyboard opens: the last message stays in view.
    new ResizeObserver(() => this.#atEnd && this.#scrollToEnd()).observe(this.#log);
  }

  /** Shows another room from its beginning. */
  open(room, messages, me) {
    this.#list.replaceChildren();
    this.#shown.clear();
    this.#last = null;
    this.#atEnd = true;
    if (messages.length === 0) {
      this.#list.append(make("li", { className: "empty" },
        make("b", {}, `This is the start of #${room}.`),
        "Say something", make("span", { className: "second-tab" }, ", or open a second tab and talk to yourself"), "."));
    }
    this.merge(messages, me);
  }

  /** Adds those messages that are not shown yet: after a reconnect, the rest. */
  merge(messages, me) {
    this.#log.ariaBusy = "true"; // a screen reader need not read out the history
    for (const message of messages) this.add(message, me);
    this.#log.ariaBusy = "false";
    this.#scrollToEnd();
  }

  has(id) {
    return this.#shown.has(id);
  }

  add(message, me) {
    if (this.#shown.has(message.id)) return;
    const at = new Date(message.at);
    const first = !this.#last || this.#last.from.id !== message.from.id
      || this.#last.from.name !== message.from.name || at.getTime() - Date.parse(this.#last.at) > SAME_BREATH_MS;
    const mine = message.from.id === me;
    const item = make("li", { className: `message${first ? " first" : ""}${mine ? " mine" : ""}` });
    item.dataset.pos = message.pos;
    if (first) {
      item.append(avatar(message.from), make("div", {},
        make("header", {},
          nameOf(message.from),
          make("time", { dateTime: at.toISOString() }, clock.format(at))),
        make("p", { className: "body" }, ...linked(message.text))));
    } else {
      item.append(make("p", { className: "body" }, ...linked(message.text)));
    }
    if (this.moderated) {
      const remove = make("button", { className: "quiet moderate", type: "button" }, "Remove");
      remove.addEventListener("click", () => this.moderated && this.moderated(message.pos));
      item.append(remove);
    }
    this.#last = message;
    this.#shown.set(message.id, item);
    this.#append(item, mine);
  }

  /** A moderator has removed the message at a position. */
  remove(pos) {
    const item = [...this.#list.children].find((each) => /** @type {HTMLElement} */ (each).dataset.pos === pos);
    if (!item) return;
    item.classList.add("removed");
    item.querySelector(".body").textContent = "Removed by a moderator";
    item.querySelector(".moderate")?.remove();
  }

  /** A quiet line about a person: note("Ada", "joined"). */
  note(name, what) {
    this.#last = null;
    this.#append(make("li", { className: "note" }, make("span", { className: "name" }, name), ` ${what}`), false);
  }

  /** A line where messages are missing, and why: a reason of the server. */
  gap(reason) {
    this.#last = null;
    this.#append(make("li", { className: "gap" }, GAPS[reason] ?? "Messages may be missing here."), false);
  }

  #append(item, follow) {
    this.#list.append(item);
    if (this.#atEnd || follow) this.#scrollToEnd();
    else this.#latest.hidden = false;
    while (this.#list.childElementCount > MOST_ENTRIES) this.#forget(this.#list.firstElementChild);
  }

  #forget(item) {
    for (const [id, element] of this.#shown) {
      if (element === item) {
        this.#shown.delete(id);
        break; // the oldest comes first: this ends at once
      }
    }
    item.remove();
  }

  #scrollToEnd() {
    this.#log.scrollTop = this.#log.scrollHeight;
    this.#atEnd = true;
    this.#latest.hidden = true;
  }
}
