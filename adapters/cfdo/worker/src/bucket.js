import { TOLERANCE, ceilDiv, floorDiv } from "./exact.js";

// Bucket is a token bucket, or a pacer when a part of it is a queue. See
// internal/engine/bucket.go for the arithmetic.
//
// State: [t, f], full again at t + f/q µs, 0 ≤ f < q.
export class Bucket {
  // A token is worth p units, and q units pass per microsecond. The capacity is count
  // tokens plus queue units.
  constructor(p, q, count, queue) {
    this.shape = "b";
    this.p = p;
    this.q = q;
    this.full = count * p + queue;
    this.queue = queue;
    this.limit = queue > 0 ? floorDiv(this.full, p) : count;
    this.horizon = ceilDiv(this.full, q) + TOLERANCE;
  }

  empty() {
    return [0, 0];
  }

  look([t, f], now) {
    if (f >= this.q) {
      f = this.q - 1; // written under another rate: keep it under the next microsecond
    }
    if (now > t || (now === t && f === 0)) {
      return { used: 0, corrected: false };
    }
    if (t - now > this.horizon) {
      return { used: this.full, corrected: true };
    }
    return { used: (t - now) * this.q + f, corrected: false };
  }

  fits(view, cost) {
    return cost <= this.limit && cost * this.p <= this.full - view.used;
  }

  write(view, state, now, cost) {
    view.used += cost * this.p;
    return [now + floorDiv(view.used, this.q), view.used % this.q];
  }

  answer(view, state, now, cost, charged) {
    const answer = {
      limit: this.limit,
      remaining: view.used < this.full ? floorDiv(this.full - view.used, this.p) : 0,
      retryAfter: 0,
      wait: 0,
      resetAfter: ceilDiv(view.used, this.q),
      impossible: false,
    };
    if (!view.fits) {
      if (cost > this.limit) {
        answer.impossible = true;
      } else {
        answer.retryAfter = ceilDiv(view.used + cost * this.p - this.full, this.q);
      }
    } else if (this.queue > 0) {
      const ahead = view.used - (this.full - this.queue) + (charged ? 0 : cost * this.p);
      answer.wait = ahead > 0 ? ceilDiv(ahead, this.q) : 0;
    }
    return answer;
  }

  // refund gives back a charge made at the instant at, less what has flowed in since.
  refund(view, state, now, cost, at) {
    const charge = Math.min(cost, this.limit) * this.p;
    const since = Math.max(0, now - at);
    if (since > floorDiv(charge, this.q)) {
      return null;
    }
    const back = Math.min(charge - since * this.q, view.used);
    if (back === 0) {
      return null;
    }
    view.used -= back;
    return this.write(view, state, now, 0);
  }

  refundsEnd(at) {
    return at + ceilDiv(this.full, this.q);
  }
}
