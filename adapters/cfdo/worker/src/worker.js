import { admits } from "./auth.js";
import { Invalid } from "./invalid.js";
import { batch, question, readJSON } from "./request.js";
import { Routes, shardKey } from "./route.js";

// serve answers a request. Every failure is answered as
// {"error": {"code", "message"}} with a status other than 200.
export async function serve(request, env) {
  try {
    const { pathname } = new URL(request.url);
    if (pathname !== "/v1/batch" && pathname !== "/v1/check") {
      throw new Invalid("there are /v1/batch and /v1/check", 404, "not_found");
    }
    if (request.method !== "POST") {
      throw new Invalid("the method must be POST", 405, "method_not_allowed");
    }
    if (!(await admits(request, env.SECRET))) {
      throw new Invalid("send the Worker's secret as a bearer token; a Worker without a secret refuses every request", 401, "unauthorized");
    }
    const body = await readJSON(request);
    return pathname === "/v1/batch" ? await answerBatch(batch(body), env) : await answerCheck(question(body), env);
  } catch (err) {
    if (err instanceof Invalid) {
      return failure(err.status, err.code, err.message);
    }
    console.error(err);
    return failure(500, "internal", "the Worker failed; its log says how");
  }
}

// answerBatch answers each call independently: a call that is invalid, or whose object
// fails, is answered with a code, and the others with their decisions.
async function answerBatch(asked, env) {
  return Response.json({ answers: await decide(asked, env) });
}

// answerCheck answers one question with named fields, for other Workers.
async function answerCheck(asked, env) {
  const [answer] = await decide(asked, env);
  if (typeof answer === "string") {
    return failure(503, answer, "the object that keeps this limit did not answer");
  }
  const [allowed, impossible, limit, remaining, retryAfter, wait, resetAfter, at] = answer;
  const millis = (micros) => Math.ceil(micros / 1000);
  return Response.json({
    allowed: allowed === 1,
    remaining,
    resetAt: millis(at + resetAfter),
    limit,
    retryAfterMs: impossible === 1 ? null : millis(retryAfter),
    waitMs: millis(wait),
  });
}

// decide calls the objects, each once and concurrently.
async function decide({ policies, calls, refused }, env) {
  const routes = new Routes(env, await shardKey(env.SECRET));
  const answers = new Array(calls.length);
  const groups = new Map(); // object → its calls, and their indexes
  calls.forEach((call, i) => {
    if (refused.has(i)) {
      answers[i] = `invalid: ${refused.get(i)}`;
      return;
    }
    const object = call.op === "all" ? together(routes, call.asks) : routes.object(call);
    if (object === null) {
      answers[i] = "apart";
      return;
    }
    if (!groups.has(object)) {
      groups.set(object, { places: [], calls: [] });
    }
    groups.get(object).places.push(i);
    groups.get(object).calls.push(call);
  });
  await Promise.all(
    Array.from(groups, async ([object, group]) => {
      const found = await ask(env, object, { policies, calls: group.calls });
      group.places.forEach((place, i) => {
        answers[place] = typeof found === "string" ? found : found[i];
      });
    }),
  );
  return answers;
}

// together is the object of several keys, or null if they are in several objects: only
// one object can charge all or none.
function together(routes, asks) {
  const objects = new Set(asks.map((ask) => routes.object(ask)));
  return objects.size === 1 ? objects.values().next().value : null;
}

// ask returns an object's answers, or the code of its failure.
async function ask(env, object, asked) {
  try {
    return await env.LIMITS.get(env.LIMITS.idFromName(object)).decide(asked);
  } catch (err) {
    console.error(object, err);
    return err?.overloaded ? "overloaded" : "failed";
  }
}

function failure(status, code, message) {
  return Response.json({ error: { code, message } }, { status });
}
