// Replays limit/testdata, with the pure functions and through an object.
import assert from "node:assert/strict";

import { Limits } from "../src/object.js";
import { compile } from "../src/policy.js";
import all from "../vectors/all.json";
import calendar from "../vectors/calendar.json";
import fixedWindow from "../vectors/fixed_window.json";
import pacer from "../vectors/pacer.json";
import slidingLog from "../vectors/sliding_log.json";
import slidingWindow from "../vectors/sliding_window.json";
import together from "../vectors/together.json";
import tokenBucket from "../vectors/token_bucket.json";

const files = { all, calendar, fixedWindow, pacer, slidingLog, slidingWindow, together, tokenBucket };

// wire is a policy as the Worker is sent it: of a calendar the starts alone.
const wire = ({ period, location, ...policy }) => policy;

export const timelines = Object.values(files)
  .flatMap((file) => file.timelines)
  .map((timeline) => ({ ...timeline, policies: timeline.policies.map(wire) }));

export const calendars = calendar.timelines.map(({ policies }) => policies[0]);

// Timed is the object with a clock that is set.
export class Timed extends Limits {
  at(clock, asked) {
    this.clock = clock;
    return this.decide(asked);
  }

  now() {
    return this.clock;
  }
}

const forecast = (d, cost) => ({
  fits: d.allowed ? Math.floor(d.remaining / cost) : 0,
  nextAfter: d.retryAfter,
  fullAfter: d.resetAfter,
  impossible: d.impossible,
});

// named is a decision with the field names of the vectors.
function named({ part, ...d }, policy) {
  return { ...d, policy: policy.kind === "all" ? policy.parts[part].name : policy.name };
}

// replayPure replays a timeline with the plan alone.
export function replayPure({ name, policies, steps }) {
  const plans = policies.map(compile);
  let state = null;
  let reset = 0;
  steps.forEach((step, i) => {
    const plan = plans[step.policy];
    const where = `${name}, step ${i}: ${step.op}`;
    let next = null;
    switch (step.op) {
      case "take": {
        const result = plan.decide(state, step.now, step.cost, true);
        assert.deepEqual(named(result.decision, policies[step.policy]), step.decision, where);
        ({ next } = result);
        break;
      }
      case "peek":
        assert.deepEqual(
          named(plan.decide(state, step.now, step.cost, false).decision, policies[step.policy]),
          step.decision,
          where,
        );
        return;
      case "forecast":
        assert.deepEqual(
          forecast(plan.decide(state, step.now, step.cost, false).decision, step.cost),
          step.forecast,
          where,
        );
        return;
      case "refund":
        ({ next } = plan.refund(state, step.now, reset, step.taken));
        break;
      case "reset":
        if (plan.reset(state, step.now) > 0) {
          reset = step.now;
        }
        state = null;
        return;
      default:
        return; // several keys: only an object has these
    }
    assert.equal(next !== null, step.write, `${where}: write`);
    state = next ?? state;
    assert.deepEqual(state?.flat(), step.state, `${where}: state`);
  });
}

const decode = ([allowed, impossible, limit, remaining, retryAfter, wait, resetAfter, at, part], cost, took) => ({
  allowed: allowed === 1,
  impossible: impossible === 1,
  limit,
  remaining,
  retryAfter,
  wait,
  resetAfter,
  charged: took && allowed === 1 ? cost : 0,
  at,
  part,
});

// replayObject replays a timeline with an object, as the Worker calls it.
export async function replayObject({ name, policies, steps }, namespace) {
  const object = namespace.get(namespace.idFromName(name + steps.length));
  for (const [i, step] of steps.entries()) {
    const where = `${name}, step ${i}: ${step.op}`;
    const ask = (one) => object.at(step.now, { policies, calls: [one] });
    const policy = policies[step.policy];
    switch (step.op) {
      case "take":
      case "peek": {
        const [answer] = await ask({ op: step.op, key: "k", policy: step.policy, cost: step.cost });
        assert.deepEqual(named(decode(answer, step.cost, step.op === "take"), policy), step.decision, where);
        break;
      }
      case "forecast": {
        const [answer] = await ask({ op: "peek", key: "k", policy: step.policy, cost: step.cost });
        assert.deepEqual(forecast(decode(answer, step.cost, false), step.cost), step.forecast, where);
        break;
      }
      case "refund":
        await ask({ op: "refund", key: "k", policy: step.policy, taken: step.taken });
        break;
      case "reset":
        await ask({ op: "reset", key: "k", policy: step.policy });
        break;
      case "take_many": {
        const calls = step.asks.map((one) => ({ op: "take", ...one }));
        const answers = await object.at(step.now, { policies, calls });
        answers.forEach((answer, j) => {
          const { cost, policy } = step.asks[j];
          assert.deepEqual(named(decode(answer, cost, true), policies[policy]), step.answers[j], `${where}, ask ${j}`);
        });
        break;
      }
      case "take_all": {
        const [[bound, ...answers]] = await ask({ op: "all", asks: step.asks });
        assert.equal(bound, step.bound, `${where}: bound`);
        answers.forEach((answer, j) => {
          const { cost, policy } = step.asks[j];
          assert.deepEqual(named(decode(answer, cost, true), policies[policy]), step.answers[j], `${where}, ask ${j}`);
        });
        break;
      }
    }
  }
}
