// The page's copy of its token bucket on the server.
//
// The server sends the policy once. Then the page computes the bucket itself, and every answer
// of the server corrects it.

export class Bucket {
  /** @param {{capacity: number, refill: number, perMs: number, left: number}} policy */
  constructor({ capacity, refill, perMs, left }) {
    this.capacity = capacity;
    this.perToken = perMs / refill; // milliseconds
    this.#set(left);
  }

  #level;
  #at;

  #set(level, now = performance.now()) {
    this.#level = Math.min(this.capacity, Math.max(0, level));
    this.#at = now;
  }

  /** Tokens in the bucket, with the fraction that is still filling. */
  level(now = performance.now()) {
    return Math.min(this.capacity, this.#level + (now - this.#at) / this.perToken);
  }

  /** How long until another whole token arrives; 0 when the bucket is full. */
  untilNext(now = performance.now()) {
    const level = this.level(now);
    return level >= this.capacity ? 0 : (Math.floor(level) + 1 - level) * this.perToken;
  }

  /** The server accepted a message. */
  accepted() {
    this.#set(this.level() - 1);
  }

  /** The server refused a message and said when one would fit: that instant
   * the bucket holds exactly one token, whatever was believed before. */
  refused(retryAfterMs) {
    this.#set(1 - retryAfterMs / this.perToken);
  }
}
