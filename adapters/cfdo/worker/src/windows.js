import { TOLERANCE, ceilDiv, floorDiv } from "./exact.js";
import { Invalid } from "./invalid.js";

const MONTH = 31 * 86_400_000_000;

const fits = (window, view, cost) => cost <= window.limit - view.used;

const begin = (window, view, cost) => ({
  limit: window.limit,
  remaining: Math.max(0, window.limit - view.used),
  retryAfter: 0,
  wait: 0,
  resetAfter: 0,
  impossible: !view.fits && cost > window.limit,
});

// FixedWindow counts by the calendar: internal/engine/fixedwindow.go.
//
// State: [start, count].
export class FixedWindow {
  constructor(limit, window) {
    this.shape = "f";
    this.limit = limit;
    this.window = window;
  }

  empty() {
    return [0, 0];
  }

  // start is the start of the window of an instant, end its end.
  start(at) {
    return at - (at % this.window);
  }

  end(at) {
    return this.start(at) + this.window;
  }

  look([start, count], now) {
    const view = { used: 0, corrected: false, start: this.start(now) };
    if (start < view.start) {
      return view;
    }
    if (start !== view.start) {
      start = this.start(start); // it may have been written under another width
      if (start - now > TOLERANCE) {
        view.used = this.limit;
        view.corrected = true;
        return view;
      }
      view.start = start;
    }
    view.used = count;
    return view;
  }

  fits(view, cost) {
    return fits(this, view, cost);
  }

  write(view, state, now, cost) {
    view.used += cost;
    return [view.start, view.used];
  }

  answer(view, state, now, cost) {
    const answer = begin(this, view, cost);
    const left = this.end(view.start) - now;
    answer.resetAfter = view.used > 0 ? left : Math.max(0, view.start - now);
    if (!view.fits && !answer.impossible) {
      answer.retryAfter = left;
    }
    return answer;
  }

  // refund gives back only within the window of the charge.
  refund(view, state, now, cost, at) {
    if (view.start !== this.start(at)) {
      return null;
    }
    view.used -= Math.min(cost, view.used);
    return this.write(view, state, now, 0);
  }

  // refundsEnd is the instant from which on charges up to the instant at give nothing
  // back.
  refundsEnd(at) {
    return this.end(at);
  }
}

// Calendar is a fixed window of varying width: internal/engine/calendar.go. The asking process knows
// the time zones: it sends the starts of windows, the one before that of its clock, that
// one, and the two after it.
export class Calendar extends FixedWindow {
  constructor(limit, starts) {
    super(limit, 0);
    this.starts = starts;
  }

  look(state, now) {
    if (now < this.starts[0] || now >= this.starts.at(-1)) {
      throw new Invalid("starts must be around now: the clocks differ by more than a day");
    }
    return super.look(state, now);
  }

  start(at) {
    return this.starts.findLast((start) => start <= at) ?? 0;
  }

  // A window whose end is not known keeps its state for a month.
  end(at) {
    return this.starts.find((start) => start > at) ?? this.starts.at(-1) + MONTH;
  }
}

// SlidingWindow counts n sub-windows in full, and the one before them in
// proportion to the part of it that is still in the window: internal/engine/slidingwindow.go.
//
// State: [start, c0 … cn], ci counting the sub-window i before start.
export class SlidingWindow {
  constructor(limit, width, n) {
    this.shape = "s" + n;
    this.limit = limit;
    this.width = width;
    this.n = n;
  }

  empty() {
    return new Array(this.n + 2).fill(0);
  }

  // age is by how many sub-windows the counts must be moved so that the newest is
  // the one at start.
  age(state, start) {
    const first = state[0] - (state[0] % this.width); // it may have been written under another width
    return start <= first ? 0 : Math.min(floorDiv(start - first, this.width), this.n + 1);
  }

  // count is ci of a state after it is moved by age. A count above the limit was
  // written under a higher limit.
  count(state, i, age) {
    return i < age ? 0 : Math.min(state[1 + i - age], this.limit);
  }

  look(state, now) {
    const view = { used: 0, corrected: false, start: now - (now % this.width) };
    const first = state[0] - (state[0] % this.width);
    if (first > view.start) {
      if (first - now > TOLERANCE) {
        view.used = this.limit;
        view.corrected = true;
        return view;
      }
      view.start = first;
    }
    const age = this.age(state, view.start);
    for (let i = 0; i < this.n; i++) {
      view.used += this.count(state, i, age);
    }
    const left = this.width - Math.max(0, now - view.start);
    view.used += ceilDiv(this.count(state, this.n, age) * left, this.width);
    return view;
  }

  fits(view, cost) {
    return fits(this, view, cost);
  }

  write(view, state, now, cost) {
    const next = this.empty();
    next[0] = view.start;
    if (view.corrected) {
      next[1] = this.limit;
    } else {
      const age = this.age(state, view.start);
      for (let i = 0; i <= this.n; i++) {
        next[1 + i] = this.count(state, i, age);
      }
    }
    next[1] += cost;
    view.used += cost;
    return next;
  }

  // until is the instant from which on nothing in the state counts, at least start.
  until(state, start) {
    const age = this.age(state, start);
    for (let i = 0; i <= this.n; i++) {
      if (this.count(state, i, age) > 0) {
        return start + (this.n + 1 - i) * this.width;
      }
    }
    return start;
  }

  answer(view, state, now, cost) {
    const answer = begin(this, view, cost);
    answer.resetAfter = Math.max(0, this.until(state, view.start) - now);
    if (!view.fits && !answer.impossible) {
      answer.retryAfter = this.fitsAt(state, view.start, this.limit - cost) - now;
    }
    return answer;
  }

  // fitsAt is the first instant at which no more than free is used.
  fitsAt(state, start, free) {
    const age = this.age(state, start);
    let full = 0;
    for (let i = 0; i < this.n; i++) {
      full += this.count(state, i, age);
    }
    let j = 0;
    for (; full > free; j++) {
      full -= this.count(state, this.n - 1 - j, age);
    }
    const at = start + j * this.width;
    const c = this.count(state, this.n - j, age);
    return c > free - full ? at + this.width - floorDiv((free - full) * this.width, c) : at;
  }

  // refund gives back in the sub-window of the charge while it counts.
  refund(view, state, now, cost, at) {
    const first = at - (at % this.width);
    if (first > view.start || floorDiv(view.start - first, this.width) > this.n) {
      return null;
    }
    const i = floorDiv(view.start - first, this.width);
    const back = Math.min(cost, this.count(state, i, this.age(state, view.start)));
    if (back === 0) {
      return null;
    }
    const next = this.write(view, state, now, 0);
    next[1 + i] -= back;
    return next;
  }

  refundsEnd(at) {
    return at - (at % this.width) + (this.n + 1) * this.width;
  }
}

// SlidingLog stores every admission that still counts: internal/engine/slidinglog.go.
//
// State: [n, t1, c1 … tn, cn], c admitted at t, oldest first. Only the last may be 0.
export class SlidingLog {
  constructor(limit, window) {
    this.shape = "l";
    this.limit = limit;
    this.window = window;
  }

  empty() {
    return [0];
  }

  look(state, now) {
    const view = { used: 0, corrected: false };
    if (state[0] > 0 && state[state.length - 2] - now > TOLERANCE) {
      view.used = this.limit;
      view.corrected = true;
      return view;
    }
    for (let i = 1; i < state.length; i += 2) {
      if (now - state[i] < this.window) {
        view.used += state[i + 1];
      }
    }
    return view;
  }

  fits(view, cost) {
    return fits(this, view, cost);
  }

  write(view, state, now, cost) {
    if (view.corrected) {
      return [1, now, this.limit];
    }
    const next = this.young(state, now);
    view.used += cost;
    if (cost > 0) {
      if (next.length > 1 && next[next.length - 2] >= now) {
        next[next.length - 1] += cost;
      } else if (next.length > 1 && next[next.length - 1] === 0) {
        next.splice(-2, 2, now, cost);
      } else {
        next.push(now, cost);
      }
    }
    next[0] = (next.length - 1) / 2;
    return next;
  }

  // young is the state without the pairs that are too old.
  young(state, now) {
    let i = 1;
    while (i < state.length && now - state[i] >= this.window) {
      i += 2;
    }
    return [(state.length - i) / 2, ...state.slice(i)];
  }

  answer(view, state, now, cost) {
    const answer = begin(this, view, cost);
    const pairs = this.young(state, now);
    const last = pairs.length - 1;
    if (pairs[0] > 0 && pairs[last] > 0) {
      answer.resetAfter = pairs[last - 1] + this.window - now;
    } else if (pairs[0] > 0) {
      // A refunded pair: earlier pairs count, and its instant.
      const before = pairs[0] > 1 ? pairs[last - 3] + this.window : 0;
      answer.resetAfter = Math.max(0, pairs[last - 1] - now, before - now);
    }
    if (view.fits || answer.impossible) {
      return answer;
    }
    let over = view.used + cost - this.limit;
    for (let i = 1; i < pairs.length; i += 2) {
      over -= pairs[i + 1];
      if (over <= 0) {
        answer.retryAfter = pairs[i] + this.window - now;
        break;
      }
    }
    return answer;
  }

  // refund gives back from the pair of the charge while it counts.
  refund(view, state, now, cost, at) {
    if (now - at >= this.window) {
      return null;
    }
    const next = state.slice();
    for (let i = 1; i < next.length; i += 2) {
      if (next[i] !== at || next[i + 1] === 0) {
        continue;
      }
      next[i + 1] -= Math.min(cost, next[i + 1]);
      if (next[i + 1] === 0 && i < next.length - 2) {
        next.splice(i, 2);
        next[0]--;
      }
      return next;
    }
    return null;
  }

  refundsEnd(at) {
    return at + this.window;
  }
}
