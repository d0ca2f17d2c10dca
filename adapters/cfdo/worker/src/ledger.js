import { Leases } from "./leases.js";
import { compile } from "./policy.js";
import { binds } from "./plan.js";

// MAX_TOLD is the longest state that is sent with an allowed decision.
const MAX_TOLD = 16;

// Ledger answers calls, in order, at one instant. It reads states through a function,
// and collects the changes, which are then written at once.
export class Ledger {
  // read returns the state of a row, or null.
  constructor(read, now, policies) {
    this.read = read;
    this.now = now;
    this.policies = policies;
    this.plans = [];
    this.states = new Map();
    this.writes = new Map(); // row → { state, full }; null deletes it
  }

  // answer answers one call. A call that cannot be answered, for example because its row
  // is damaged, changes nothing and fails alone.
  answer(call) {
    const { states, writes } = this;
    try {
      return this.answerOne(call);
    } catch (err) {
      console.error(err);
      this.states = states;
      this.writes = writes;
      return "failed";
    }
  }

  answerOne(call) {
    switch (call.op) {
      case "take":
        return this.encode(call, this.decide(call, true));
      case "peek":
        return this.encode(call, this.peek(call));
      case "refund":
        return this.refund(call);
      case "reset":
        return this.reset(call);
      case "all":
        return this.all(call.asks);
      case "acquire":
      case "renew":
      case "release":
      case "held":
        return this.lease(call);
    }
    throw new TypeError(`no operation ${call.op}`);
  }

  plan({ policy }) {
    return (this.plans[policy] ??= compile(this.policies[policy]));
  }

  // row names the row of a key. States of different shapes are different rows; no shape
  // contains a space.
  row(ask) {
    return `${this.plan(ask).shape} ${ask.key}`;
  }

  // resetRow names the row with the instant at which a row was reset.
  resetRow(row) {
    return `reset ${row}`;
  }

  state(row) {
    let state = this.states.get(row);
    if (state === undefined) {
      state = this.read(row);
      this.states.set(row, state);
    }
    return state;
  }

  keep(row, { next, full }) {
    if (next !== null) {
      this.states.set(row, next);
      this.writes.set(row, { state: next, full });
    }
  }

  decide(ask, charge) {
    const row = this.row(ask);
    const result = this.plan(ask).decide(this.state(row), this.now, ask.cost, charge);
    this.keep(row, result);
    return result.decision;
  }

  peek(ask) {
    return this.plan(ask).decide(this.state(this.row(ask)), this.now, ask.cost, false).decision;
  }

  refund(call) {
    const row = this.row(call);
    if (this.state(row) !== null) {
      const [reset] = this.state(this.resetRow(row)) ?? [0];
      this.keep(row, this.plan(call).refund(this.state(row), this.now, reset, call.taken));
    }
    return [];
  }

  reset(call) {
    const row = this.row(call);
    if (this.state(row) !== null) {
      const full = this.plan(call).reset(this.state(row), this.now);
      if (full > 0) {
        this.keep(this.resetRow(row), { next: [this.now], full });
      }
      this.states.set(row, null);
      this.writes.set(row, null);
    }
    return [];
  }

  // lease answers an operation on the leases of a key.
  lease({ op, key, ids, limit, lease, most }) {
    const row = `leases ${key}`; // no shape is "leases"
    const leases = new Leases(this.state(row), this.now);
    const keep = () => {
      const state = leases.state();
      this.states.set(row, state);
      this.writes.set(row, state === null ? null : { state, full: leases.last() });
    };
    switch (op) {
      case "acquire": {
        const others = leases.acquire(ids[0], limit, lease);
        if (others < limit) {
          keep();
        }
        return [this.now, others, leases.first()];
      }
      case "renew":
        leases.renew(ids, lease);
        keep();
        return [];
      case "release":
        if (leases.release(ids)) {
          keep();
        }
        return [];
    }
    const held = leases.held();
    return [this.now, held.length, leases.first(), ...held.slice(0, most)];
  }

  // all charges every ask or none, as limit.TakeAll does.
  all(asks) {
    const { states, writes } = this;
    this.states = new Map(states);
    this.writes = new Map(writes);
    const answers = [];
    for (const ask of asks) {
      const decision = this.decide(ask, true);
      answers.push(decision);
      if (!decision.allowed) {
        this.states = states;
        this.writes = writes;
        return this.explain(asks, answers);
      }
    }
    return [binding(answers), ...answers.map((decision, i) => this.encode(asks[i], decision))];
  }

  // explain answers each ask as if it were the only one, and charges nothing. The denied
  // one, the last of answers, keeps its answer, because the asks before it may be the
  // reason for its denial.
  explain(asks, answers) {
    const denied = answers.length - 1;
    asks.forEach((ask, i) => {
      const decision = this.decide(ask, false); // for corrections
      if (i !== denied) {
        answers[i] = decision;
      }
    });
    const none = { allowed: false, wait: 0 };
    return [binding(answers), ...answers.map((decision, i) => this.encode(asks[i], { ...decision, ...none }))];
  }

  // encode writes a decision as a list, which is the shortest form: nine numbers and the
  // state after it, from which a denied caller can compute how long it is denied. A long
  // state is sent with denials only.
  encode(ask, d) {
    const answer = [
      d.allowed ? 1 : 0,
      d.impossible ? 1 : 0,
      d.limit,
      d.remaining,
      d.retryAfter,
      d.wait,
      d.resetAfter,
      d.at,
      d.part,
    ];
    const state = this.state(this.row(ask))?.flat() ?? [];
    return d.allowed && state.length > MAX_TOLD ? answer : answer.concat(state);
  }
}

function binding(answers) {
  return answers.reduce((bound, answer, i) => (binds(answer, answers[bound]) ? i : bound), 0);
}
