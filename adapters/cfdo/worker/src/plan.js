import { TOLERANCE } from "./exact.js";

// Plan is a validated policy: one limit, or several that are charged together. Its
// methods are those of limit.Plan, as pure functions. state is a list with the state of
// each part; null means that nothing has been used.
export class Plan {
  constructor(parts) {
    this.parts = parts;
    this.shape = parts.map((part) => part.shape).join("+");
  }

  // decide decides whether cost fits at now. If it does and charge is set, it charges the
  // cost. next is the state to store until the instant full, or null if there is nothing
  // to write: so for every denial, unless the clock was set back.
  decide(state, now, cost, charge) {
    const before = this.complete(state);
    const views = this.look(before, now, cost);
    const fits = views.every((view) => view.fits);
    const charged = charge && fits;
    const corrected = views.some((view) => view.corrected);
    const after =
      charged || corrected
        ? this.parts.map((part, i) =>
            charged || views[i].corrected ? part.write(views[i], before[i], now, charged ? cost : 0) : before[i],
          )
        : before;
    const decision = this.answer(views, after, now, cost, charged);
    if (after === before) {
      return { decision, next: null, full: 0 };
    }
    return { decision, next: after, full: now + decision.resetAfter };
  }

  // refund gives back what taken has charged, by the rules of limit.Plan.Refund. reset is
  // the instant of the last reset of the key, or 0.
  refund(state, now, reset, taken) {
    if (state === null) {
      return { next: null, full: 0 };
    }
    const forgotten = reset > 0 && taken.at <= reset && reset - now <= TOLERANCE;
    const nothing = forgotten || taken.at - now > TOLERANCE;
    let wrote = false;
    const next = this.look(state, now, 1).map((view, i) => {
      const part = this.parts[i];
      const changed = view.corrected
        ? part.write(view, state[i], now, 0)
        : view.used === 0 || nothing
          ? null
          : part.refund(view, state[i], now, taken.charged, taken.at);
      wrote ||= changed !== null;
      return changed ?? state[i];
    });
    if (!wrote) {
      return { next: null, full: 0 };
    }
    return { next, full: now + this.answer(this.look(next, now, 1), next, now, 1, false).resetAfter };
  }

  // reset returns the instant until which a reset at now must be kept, or 0 if no charge
  // can be refunded.
  reset(state, now) {
    const views = this.look(this.complete(state), now, 1);
    return views.some((view) => view.used > 0) ? Math.max(...this.parts.map((part) => part.refundsEnd(now))) : 0;
  }

  complete(state) {
    return state ?? this.parts.map((part) => part.empty());
  }

  look(state, now, cost) {
    return this.parts.map((part, i) => {
      const view = part.look(state[i], now);
      view.fits = part.fits(view, cost);
      return view;
    });
  }

  // answer is the answer of the binding part, which is named by its index.
  answer(views, state, now, cost, charged) {
    let bound = null;
    let resetAfter = 0;
    let wait = 0;
    this.parts.forEach((part, i) => {
      const one = part.answer(views[i], state[i], now, cost, charged);
      one.allowed = views[i].fits;
      one.part = i;
      resetAfter = Math.max(resetAfter, one.resetAfter);
      wait = Math.max(wait, one.wait);
      if (bound === null || binds(one, bound)) {
        bound = one;
      }
    });
    return { ...bound, resetAfter, wait: bound.allowed ? wait : 0, at: now, charged: charged ? cost : 0 };
  }
}

// binds reports whether a is the limit to name, rather than b. If they are equal, b
// is.
export function binds(a, b) {
  if (a.impossible !== b.impossible) {
    return a.impossible;
  }
  if (a.allowed !== b.allowed) {
    return b.allowed;
  }
  return a.allowed ? a.remaining < b.remaining : a.retryAfter > b.retryAfter;
}
