// Shows the rate limit: the tokens that are left, and the result of a flood.

import { Bucket } from "./bucket.js";
import { byID, make, randomID, seconds } from "./dom.js";

const FLOOD = 500;
const TICK_MS = 100;

export class Limiter {
  #panel = byID("limit");
  #gauge = byID("gauge");
  #flood = byID("flood");
  #bucket = null;
  #send;
  #online = false;
  #running = false;

  /** @param {(message: object) => Promise} send sends one message and learns what became of it */
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

  /** The server said what the policy is and what is left of it. */
  open(policy) {
    this.#bucket = new Bucket(policy);
    const { capacity, perToken } = this.#bucket;
    this.#gauge.replaceChildren(...Array.from({ length: capacity }, () => make("span")));
    this.#gauge.ariaValueMax = String(capacity);
    byID("left-unit").textContent = `of ${capacity} messages left`;
    byID("explain").textContent = `The server keeps a bucket of ${capacity} tokens for this tab. A message takes one, `
      + `and one comes back every ${perToken / 1000} seconds. With none left, a message is turned away `
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

  accepted() {
    this.#bucket?.accepted();
  }

  /** A refusal corrects the picture, but only if this very bucket refused:
   * the limit of the whole address has a capacity of its own. */
  refused({ retryAfterMs, details }) {
    if (details?.limit !== undefined && details.limit !== this.#bucket?.capacity) return;
    this.#bucket?.refused(retryAfterMs);
  }

  #render() {
    if (!this.#bucket) return;
    const level = this.#bucket.level();
    const whole = Math.floor(level);
    const next = this.#bucket.untilNext();
    byID("left").textContent = whole;
    byID("refill").textContent = next === 0 ? "The bucket is full" : `Next one in ${seconds(next)}`;
    this.#panel.toggleAttribute("data-empty", whole === 0);
    this.#gauge.ariaValueNow = String(whole);
    this.#gauge.ariaValueText = `${whole} of ${this.#bucket.capacity}`;
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
