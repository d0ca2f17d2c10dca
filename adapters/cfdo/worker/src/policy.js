import { Bucket } from "./bucket.js";
import { MAX_NUMBER, MAX_TERM, TOLERANCE, floorDiv, gcd } from "./exact.js";
import { Invalid, record, whole } from "./invalid.js";
import { Plan } from "./plan.js";
import { Calendar, FixedWindow, SlidingLog, SlidingWindow } from "./windows.js";

const MAX_PARTS = 8;
const MAX_BUCKETS = 1440;
const MAX_LOG = 1000;
const MAX_STARTS = 64;
const MIN_SPAN = 1000;

// compile checks a policy, in the form of limit/testdata/vectors.schema.json, and makes
// a plan of it. It refuses what limit.Compile refuses: neither 0 nor a number beyond the
// exact range means unlimited.
export function compile(policy) {
  if (policy?.kind !== "all") {
    return new Plan([part(policy)]);
  }
  const { parts } = record(policy, "policy", ["kind", "name", "parts"]);
  if (!Array.isArray(parts) || parts.length < 1 || parts.length > MAX_PARTS) {
    throw new Invalid(`parts must be a list of 1 to ${MAX_PARTS} policies`);
  }
  return new Plan(parts.map(part));
}

const kinds = {
  token_bucket(policy) {
    record(policy, "policy", ["kind", "name", "capacity", "refill", "per"]);
    return bucket(policy, "capacity", 0);
  },
  pacer(policy) {
    record(policy, "policy", ["kind", "name", "burst", "refill", "per", "maxWait"]);
    return bucket(policy, "burst", whole(policy.maxWait, "maxWait", 1, MAX_TERM));
  },
  fixed_window(policy) {
    record(policy, "policy", ["kind", "name", "limit", "window"]);
    const window = whole(policy.window, "window", MIN_SPAN, MAX_TERM);
    return new FixedWindow(whole(policy.limit, "limit", 1, MAX_TERM), window);
  },
  calendar(policy) {
    const { starts } = record(policy, "policy", ["kind", "name", "limit", "starts"]);
    if (!Array.isArray(starts) || starts.length < 2 || starts.length > MAX_STARTS) {
      throw new Invalid(`starts must be a list of 2 to ${MAX_STARTS} instants`);
    }
    starts.forEach((start, i) => whole(start, "starts", i && starts[i - 1], MAX_NUMBER));
    return new Calendar(whole(policy.limit, "limit", 1, MAX_TERM), starts);
  },
  sliding_window(policy) {
    record(policy, "policy", ["kind", "name", "limit", "window", "buckets"]);
    const window = whole(policy.window, "window", MIN_SPAN, MAX_TERM);
    const n = whole(policy.buckets ?? 1, "buckets", 0, MAX_BUCKETS) || 1;
    const width = window / n;
    if (!Number.isInteger(width) || width < MIN_SPAN) {
      throw new Invalid(`window must be a whole number of microseconds, at least ${MIN_SPAN}, for each of the buckets`);
    }
    return new SlidingWindow(whole(policy.limit, "limit", 1, floorDiv(MAX_TERM, width)), width, n);
  },
  sliding_log(policy) {
    record(policy, "policy", ["kind", "name", "limit", "window"]);
    const window = whole(policy.window, "window", MIN_SPAN, MAX_TERM);
    return new SlidingLog(whole(policy.limit, "limit", 1, MAX_LOG), window);
  },
};

function part(policy) {
  if (typeof policy?.kind !== "string" || !Object.hasOwn(kinds, policy.kind)) {
    throw new Invalid(`policy must have a kind: ${Object.keys(kinds).join(", ")}, or all of several of these`);
  }
  return kinds[policy.kind](policy);
}

function bucket(policy, field, maxWait) {
  const refill = whole(policy.refill, "refill", 1, MAX_NUMBER);
  const per = whole(policy.per, "per", MIN_SPAN, MAX_NUMBER);
  const g = gcd(refill, per);
  const p = per / g;
  const q = refill / g;
  // The largest intermediate values: (τ + H)·q + q, and what can be owed plus a cost.
  const most = floorDiv(MAX_TERM, TOLERANCE + 2);
  if (q > most) {
    throw new Invalid(`refill in lowest terms of per must be at most ${most}`);
  }
  const count = whole(policy[field], field, 1, floorDiv(MAX_TERM, p));
  if (maxWait > floorDiv(MAX_TERM - count * p, q)) {
    throw new Invalid(`maxWait must be at most ${floorDiv(MAX_TERM - count * p, q)}`);
  }
  return new Bucket(p, q, count, maxWait * q);
}
