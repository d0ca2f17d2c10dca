// Shows the rate limit: the tokens that are left, and the result of a flood.

import { byID, make, randomID, seconds } from "./dom.js";
import { followLimits } from "./limits.js"; // of clients/typescript, too

const FLOOD = 500;
const TICK_MS = 100;
const MESSAGES = "messages"; // the name in limits.go

export class Limiter {
  #panel = byID("limit");
  #gauge = byID("gauge");
  #flood = byID("flood");
  #limits = null; // the server sends what is left when it changes
  #send;
  #online = false;
  #running = false;

  /** @param {(message: object) => Promise} send sends one message and returns its outcome */
  constructor(send) {
    this.#send = send;
    this.#flood.addEventListener("click", () => this.#run());
    this.#show();
    const how = byID("how");
    how.addEventListener("click", () => {
      how.ariaExpanded = String(this.#panel.toggleAttribute("data-explained"));
    });
    setInterval(() => this.#render(), TICK_MS);
  }

  /** Shows the limit of messages from now on. */
  follow(client) {
    this.#limits = followLimits(client, ["chat.send"]);
    this.#limits.subscribe(() => this.#changed());
  }

  /** The limit of messages, when the server sent it last; undefined before. */
  #limit() {
    return this.#limits?.get().find(({ name }) => name === MESSAGES);
  }

  #changed() {
    const limit = this.#limit();
    if (!limit) return;
    if (this.#gauge.childElementCount !== limit.limit) {
      this.#gauge.replaceChildren(...Array.from({ length: limit.limit }, () => make("span")));
      this.#gauge.ariaValueMax = String(limit.limit);
    }
    byID("left-unit").textContent = `of ${limit.limit} messages left`;
    byID("explain").textContent = `The server keeps a bucket of ${limit.limit} tokens for this tab. A message takes one, `
      + `and one comes back every ${limit.perMs / limit.refill / 1000} seconds. With none left, a message is turned away `
      + "before its content is parsed, and the answer says how long to wait.";
    this.#render();
  }

  /** There is a connection, or none. */
  online(online) {
    this.#online = online;
    this.#show();
  }

  #show() {
    this.#flood.ariaDisabled = String(this.#running || !this.#online);
  }

  #render() {
    const limit = this.#limit();
    if (!limit) return;
    const level = this.#limits.left(MESSAGES);
    const whole = Math.floor(level);
    const next = (whole + 1 - level) * limit.perMs / limit.refill;
    byID("left").textContent = whole;
    byID("refill").textContent = whole === limit.limit ? "The bucket is full" : `Next one in ${seconds(next)}`;
    this.#panel.toggleAttribute("data-empty", whole === 0);
    this.#gauge.ariaValueNow = String(whole);
    this.#gauge.ariaValueText = `${whole} of ${limit.limit}`;
    for (const [i, pip] of [...this.#gauge.children].entries()) {
      pip.classList.toggle("whole", i < whole);
      pip.style.setProperty("--fill", Math.min(1, Math.max(0, level - i)).toFixed(2));
    }
  }

  async #run() {
    if (this.#flood.ariaDisabled === "true") return;
    this.#running = true;
    this.#show();
    const started = performance.now();
    const count = { accepted: 0, refused: 0, lost: 0 };
    await Promise.all(Array.from({ length: FLOOD }, (_, i) =>
      this.#send({ id: randomID(), text: `Flood: message ${i + 1} of ${FLOOD}` }).then(
        () => count.accepted++,
        (error) => (error.code === "RESOURCE_EXHAUSTED" ? count.refused++ : count.lost++))));
    this.#tell(count, performance.now() - started);
    this.#running = false;
    this.#show();
  }

  #tell({ accepted, refused, lost }, ms) {
    byID("accepted").textContent = accepted;
    byID("refused").textContent = refused;
    byID("took").textContent = (lost > 0 ? `and ${lost} without an answer ` : "") + `in ${Math.round(ms)} ms`;
    byID("split-accepted").style.setProperty("--share", accepted);
    byID("split-refused").style.setProperty("--share", refused);
    byID("outcome").hidden = false;
  }
}
