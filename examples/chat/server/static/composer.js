// The message box. Text stays in it until the server has accepted the message.

import { byID, randomID, seconds } from "./dom.js";

const HINT = matchMedia("(pointer: coarse)").matches ? "" : "Enter sends, Shift+Enter starts a new line";
const LONGEST = 500;
const TELL_LENGTH_FROM = 400;
const TICK_MS = 100;

export class Composer {
  #form = byID("composer");
  #text = byID("text");
  #button = byID("send");
  #label = byID("send-text");
  #notice = byID("notice");
  #send;
  #countdown = null;
  #unanswered = null; // the message that may or may not have arrived
  #online = false;

  /** @param {(message: object) => Promise} send */
  constructor(send) {
    this.#send = send;
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#text.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#submit();
    });
    this.#text.addEventListener("input", () => this.#measure());
    this.#show("idle");
  }

  focus() {
    this.#text.focus();
  }

  /** @param {(id: string) => boolean} delivered whether the room has a message of that id */
  connected(delivered) {
    this.#online = true;
    if (this.#unanswered && delivered(this.#unanswered.id)) this.#clear(this.#unanswered);
    this.#unanswered = null;
    if (this.#countdown === null) this.#show("idle");
  }

  disconnected() {
    this.#online = false;
    if (this.#countdown === null) this.#show("offline");
  }

  async #submit() {
    const text = this.#text.value.trim();
    if (!text || this.#button.ariaDisabled === "true") return;
    // Sent again, it has the same id: the room gets it once.
    const message = this.#unanswered?.text === text ? this.#unanswered : { id: randomID(), text };
    this.#show("sending");
    try {
      await this.#send(message);
      this.#unanswered = null;
      this.#clear(message);
      this.#show("idle");
    } catch (error) {
      this.#failed(error, message);
    }
  }

  #failed(error, message) {
    if (error.code === "RESOURCE_EXHAUSTED" && error.retryAfterMs > 0) {
      this.#wait(error.retryAfterMs);
      return;
    }
    this.#unanswered = message;
    if (this.#online) this.#show("failed", `Not sent: ${error.message}. Your message is kept.`);
    else this.#show("offline");
  }

  /** Counts down to the instant the refused message may be sent. */
  #wait(ms) {
    const until = performance.now() + ms;
    this.#show("refused", "Too fast. Kept here until you can send it.");
    const tick = () => {
      const left = until - performance.now();
      if (left <= 0) {
        clearInterval(this.#countdown);
        this.#countdown = null;
        this.#show(this.#online ? "ready" : "offline");
        return;
      }
      this.#label.textContent = seconds(left);
      this.#button.style.setProperty("--done", 1 - left / ms);
    };
    this.#countdown = setInterval(tick, TICK_MS);
    tick();
  }

  #show(state, notice = NOTICES[state]) {
    this.#form.dataset.state = state;
    this.#button.ariaDisabled = String(state === "sending" || state === "refused" || state === "offline");
    this.#text.readOnly = state === "sending";
    if (state !== "refused") this.#label.textContent = "Send";
    this.#notice.textContent = notice;
  }

  /** Empties the box, unless something else was written meanwhile. */
  #clear(message) {
    if (this.#text.value.trim() !== message.text) return;
    this.#text.value = "";
    this.#measure();
  }

  #measure() {
    const length = [...this.#text.value].length;
    if (this.#form.dataset.state === "failed" || this.#form.dataset.state === "ready") this.#show("idle");
    if (this.#form.dataset.state === "idle") {
      this.#notice.textContent = length >= TELL_LENGTH_FROM ? `${LONGEST - length} characters left` : HINT;
    }
    // For browsers without field-sizing.
    if (CSS.supports("field-sizing", "content")) return;
    this.#text.style.height = "auto";
    this.#text.style.height = `${this.#text.scrollHeight}px`;
  }
}

const NOTICES = {
  idle: HINT,
  sending: HINT,
  ready: "You can send it now.",
  offline: "Not connected. What you write stays here.",
};
