import { MAX_NUMBER } from "./exact.js";
import { Invalid, record, whole } from "./invalid.js";
import { MAX_LEASES } from "./leases.js";
import { compile } from "./policy.js";

// The limits of one request.
export const MAX_BODY = 1 << 20; // bytes
export const MAX_ASKS = 1000; // asks, including those in an "all": each may be for a different object
export const MAX_TOGETHER = 64; // asks within one "all": limit.MaxAsks
export const MAX_POLICIES = MAX_ASKS;
export const MAX_KEY = 1024; // characters
export const MAX_TENANT = 256; // characters
export const MAX_ID = 2048; // characters of the id of a lease
export const MAX_IDS = 100; // ids of one call
const MAX_INSTANT = 2 ** 52;
const MIN_LEASE = 1000; // microseconds

// readJSON reads a body of at most MAX_BODY bytes. It does not trust the header for the
// length.
export async function readJSON(request) {
  if (!(request.headers.get("content-type") ?? "").toLowerCase().startsWith("application/json")) {
    throw new Invalid("the content type must be application/json", 415);
  }
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let size = 0;
  let text = "";
  try {
    for await (const chunk of request.body ?? []) {
      size += chunk.byteLength;
      if (size > MAX_BODY) {
        throw new Invalid(`the body must have at most ${MAX_BODY} bytes`, 413);
      }
      text += decoder.decode(chunk, { stream: true });
    }
    return JSON.parse(text + decoder.decode());
  } catch (err) {
    if (err instanceof Invalid) {
      throw err;
    }
    throw new Invalid("the body must be JSON in UTF-8");
  }
}

// batch checks the body of /v1/batch. It throws if the body as a whole is invalid. An
// invalid call fails alone: refused has the reason under its index, and the call goes to
// no object.
export function batch(body) {
  const { policies, calls } = record(body, "the body", ["policies", "calls"]);
  if (!Array.isArray(policies) || policies.length > MAX_POLICIES) {
    throw new Invalid(`policies must be a list of at most ${MAX_POLICIES}`);
  }
  if (!Array.isArray(calls) || calls.length < 1 || calls.length > MAX_ASKS) {
    throw new Invalid(`calls must be a list of 1 to ${MAX_ASKS}`);
  }
  const valid = policies.map(complaint);
  const refused = new Map();
  let asks = 0;
  calls.forEach((one, i) => {
    try {
      asks += call(one, valid);
    } catch (err) {
      refused.set(i, reason(err));
    }
  });
  if (asks > MAX_ASKS) {
    throw new Invalid(`a request may hold at most ${MAX_ASKS} asks`);
  }
  return { policies, calls, refused };
}

// complaint returns what is wrong with a policy, or null.
function complaint(policy) {
  try {
    compile(policy);
    return null;
  } catch (err) {
    return reason(err);
  }
}

const reason = (err) => (err instanceof Invalid ? err.message : "it cannot be read");

// call checks one call and returns how many asks it has. policies has the complaint about
// each policy.
function call(one, policies) {
  switch (one?.op) {
    case "take":
    case "peek":
      ask(record(one, one.op, ["op", "tenant", "key", "policy", "cost"]), policies);
      return 1;
    case "refund":
      record(one, "refund", ["op", "tenant", "key", "policy", "taken"]);
      subject(one, policies);
      record(one.taken, "taken", ["charged", "at"]);
      whole(one.taken.charged, "charged", 1, MAX_NUMBER);
      whole(one.taken.at, "at", 0, MAX_INSTANT);
      return 1;
    case "reset":
      subject(record(one, "reset", ["op", "tenant", "key", "policy"]), policies);
      return 1;
    case "all":
      record(one, "all", ["op", "asks"]);
      if (!Array.isArray(one.asks) || one.asks.length < 1 || one.asks.length > MAX_TOGETHER) {
        throw new Invalid(`asks must be a list of 1 to ${MAX_TOGETHER}`);
      }
      for (const part of one.asks) {
        ask(record(part, "an ask", ["tenant", "key", "policy", "cost"]), policies);
      }
      return one.asks.length;
    case "acquire":
      leases(record(one, "acquire", ["op", "tenant", "key", "ids", "limit", "lease"]), 1);
      whole(one.limit, "limit", 1, MAX_NUMBER);
      whole(one.lease, "lease", MIN_LEASE, MAX_INSTANT);
      return 1;
    case "renew":
      leases(record(one, "renew", ["op", "tenant", "key", "ids", "lease"]), MAX_IDS);
      whole(one.lease, "lease", MIN_LEASE, MAX_INSTANT);
      return one.ids.length;
    case "release":
      leases(record(one, "release", ["op", "tenant", "key", "ids"]), MAX_IDS);
      return one.ids.length;
    case "held":
      place(record(one, "held", ["op", "tenant", "key", "most"]));
      whole(one.most, "most", 0, MAX_LEASES);
      return 1;
    default:
      throw new Invalid("op must be take, peek, refund, reset, all, acquire, renew, release or held");
  }
}

function ask(one, policies) {
  subject(one, policies);
  whole(one.cost, "cost", 1, MAX_NUMBER);
}

// leases checks the key and the ids of leases.
function leases(one, most) {
  place(one);
  if (!Array.isArray(one.ids) || one.ids.length < 1 || one.ids.length > most) {
    throw new Invalid(`ids must be a list of 1 to ${most}`);
  }
  for (const id of one.ids) {
    text(id, "an id", 1, MAX_ID);
  }
}

// place checks the key and the tenant, which is optional.
function place({ key, tenant }) {
  text(key, "key", 0, MAX_KEY);
  if (tenant !== undefined) {
    text(tenant, "tenant", 1, MAX_TENANT);
  }
}

// subject checks the key, the tenant and the policy.
function subject({ key, tenant, policy }, policies) {
  place({ key, tenant });
  whole(policy, "policy", 0, policies.length - 1);
  if (policies[policy] !== null) {
    throw new Invalid(policies[policy]);
  }
}

function text(value, name, least, most) {
  if (typeof value !== "string" || value.length < least || value.length > most || !value.isWellFormed()) {
    throw new Invalid(`${name} must be a text of ${least} to ${most} characters`);
  }
}

// question checks the body of /v1/check and makes a batch of it.
export function question(body) {
  const { tenant, key, policy, cost = 1, peek = false } = record(body, "the body", [
    "tenant",
    "key",
    "policy",
    "cost",
    "peek",
  ]);
  if (typeof peek !== "boolean") {
    throw new Invalid("peek must be true or false");
  }
  const asked = batch({ policies: [policy], calls: [{ op: peek ? "peek" : "take", tenant, key, policy: 0, cost }] });
  if (asked.refused.size > 0) {
    throw new Invalid(asked.refused.get(0));
  }
  return asked;
}
