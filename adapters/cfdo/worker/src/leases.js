import { TOLERANCE } from "./exact.js";

// MAX_LEASES is how many leases a key has at most: they share a row.
export const MAX_LEASES = 4096;

// Leases are those of a key, as limit.LeaseStore defines them. State: a list of [id, the
// instant at which it ends].
export class Leases {
  constructor(state, now) {
    this.now = now;
    // A lease is kept for longer than it lasts, because the clock may be set back.
    this.ends = new Map((state ?? []).filter(([, end]) => end > now - TOLERANCE));
  }

  // held returns the ids of the leases that last.
  held() {
    return [...this.ends].filter(([, end]) => end > this.now).map(([id]) => id);
  }

  // acquire takes a lease if fewer than limit others are held, and returns how many others were.
  acquire(id, limit, lease) {
    const others = this.held().filter((other) => other !== id).length;
    if (others < limit) {
      this.renew([id], lease);
    }
    return others;
  }

  renew(ids, lease) {
    for (const id of ids) {
      this.ends.set(id, this.now + lease);
    }
    if (this.ends.size > MAX_LEASES) {
      throw new RangeError(`a key has ${this.ends.size} leases; at most ${MAX_LEASES} are possible`);
    }
  }

  // release reports whether one of the leases was there.
  release(ids) {
    return ids.filter((id) => this.ends.delete(id)).length > 0;
  }

  // first is the instant at which the first of the leases that last ends, or 0.
  first() {
    const ends = [...this.ends.values()].filter((end) => end > this.now);
    return ends.length === 0 ? 0 : ends.reduce((a, b) => Math.min(a, b));
  }

  // state is what is stored, null without a lease.
  state() {
    return this.ends.size === 0 ? null : [...this.ends];
  }

  // last is the instant at which the last lease ends.
  last() {
    return [...this.ends.values()].reduce((a, b) => Math.max(a, b), 0);
  }
}
