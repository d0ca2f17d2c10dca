// The unit tests of the Worker, which workerd runs: every export with a test.
import assert from "node:assert/strict";

import { admits } from "../src/auth.js";
import { MAX_NUMBER, ceilDiv, floorDiv, gcd } from "../src/exact.js";
import { Invalid } from "../src/invalid.js";
import { Ledger } from "../src/ledger.js";
import { compile } from "../src/policy.js";
import { MAX_ASKS, MAX_BODY, MAX_KEY, batch, question, readJSON } from "../src/request.js";
import { Routes, shardKey } from "../src/route.js";
import { halfSipHash } from "../src/siphash.js";
import { serve } from "../src/worker.js";
import { calendars, replayObject, replayPure, timelines } from "./vectors.js";

export { Timed } from "./vectors.js";

const bucket = { kind: "token_bucket", capacity: 10, refill: 1, per: 1_000_000 };

export const vectorsOfTheArithmetic = {
  test() {
    assert.ok(timelines.length >= 25, `${timelines.length} timelines`);
    timelines.forEach(replayPure);
  },
};

export const vectorsOfTheObject = {
  async test(ctrl, env) {
    for (const timeline of timelines) {
      await replayObject(timeline, env.LIMITS);
    }
  },
};

export const divisionIsExact = {
  test() {
    for (const b of [1, 2, 3, 7, 999_983, 2 ** 26 + 1, 2 ** 51, MAX_NUMBER]) {
      for (const a of [0, 1, b - 1, b, b + 1, MAX_NUMBER - 1, MAX_NUMBER, 2 ** 52 - 1]) {
        const [x, y] = [BigInt(a), BigInt(b)];
        assert.equal(BigInt(floorDiv(a, b)), x / y, `⌊${a}/${b}⌋`);
        assert.equal(BigInt(ceilDiv(a, b)), (x + y - 1n) / y, `⌈${a}/${b}⌉`);
      }
    }
    assert.equal(gcd(3_000_000, 7), 1);
    assert.equal(gcd(1_000_000, 100_000), 100_000);
  },
};

// The time zones of the runtime know where days, weeks and months begin, too.
export const calendarsBeginWhereTheyBegin = {
  test() {
    assert.ok(calendars.length >= 6, `${calendars.length} calendars`);
    for (const { name, period, location, starts } of calendars) {
      const format = new Intl.DateTimeFormat("en-CA", { timeZone: location, dateStyle: "short" });
      const number = (instant) => {
        const date = format.format(Math.floor(instant / 1000));
        const days = Date.parse(date) / 86_400_000;
        return { day: days, week: Math.floor((days + 3) / 7), month: date.slice(0, 7) }[period];
      };
      starts.slice(1).forEach((end, i) => {
        const where = `${name}, from ${new Date(starts[i] / 1000).toISOString()}`;
        assert.equal(number(end - 1), number(starts[i]), where);
        assert.notEqual(number(end), number(end - 1), where);
      });
    }
  },
};

export const aCalendarOfAnotherTimeIsRefused = {
  test() {
    const plan = compile({ kind: "calendar", limit: 1, starts: [1, 2, 3, 4] });
    for (const now of [0, 4]) {
      assert.throws(() => plan.decide(null, now, 1, true), { name: "Error", message: /clocks differ/ });
    }
    assert.equal(plan.decide(null, 3, 1, true).decision.allowed, true);
  },
};

const refused = (body, what) =>
  assert.throws(body, (err) => err instanceof Invalid && err.status >= 400 && err.status < 500 && err.message.length > 10, what);

export const invalidPoliciesAreRefused = {
  test() {
    const fixed = { kind: "fixed_window", limit: 1, window: 1000 };
    const calendar = { kind: "calendar", limit: 1, starts: [0, 1, 2, 3] };
    const sliding = { kind: "sliding_window", limit: 1, window: 3_000_000, buckets: 3 };
    const log = { kind: "sliding_log", limit: 1, window: 1000 };
    const pacer = { kind: "pacer", burst: 1, refill: 1, per: 1000, maxWait: 1 };
    for (const good of [bucket, fixed, calendar, sliding, log, pacer, { kind: "all", parts: [fixed, log] }]) {
      compile(good);
      refused(() => compile({ ...good, unknown: 1 }), "a field that is not known");
      for (const field of Object.keys(good).filter((field) => typeof good[field] === "number" && field !== "buckets")) {
        for (const bad of [0, -1, 0.5, NaN, Infinity, 2 ** 53, "1", null, undefined, [1], true]) {
          refused(() => compile({ ...good, [field]: bad }), `${good.kind}.${field} = ${bad}`);
        }
      }
    }
    for (const bad of [
      undefined,
      null,
      1,
      "token_bucket",
      [],
      {},
      { kind: "toString" },
      { kind: "__proto__" },
      { ...bucket, per: 999 },
      { ...bucket, refill: 999_999_937 },
      { ...bucket, capacity: 2 ** 51, refill: 1 },
      { ...fixed, window: 2 ** 51 + 1 },
      { ...calendar, starts: undefined },
      { ...calendar, starts: [1] },
      { ...calendar, starts: [1, "2"] },
      { ...calendar, starts: [2, 1] },
      { ...calendar, starts: new Array(65).fill(1) },
      { ...sliding, buckets: -1 },
      { ...sliding, buckets: 1441 },
      { ...sliding, buckets: 7 },
      { ...sliding, limit: 2 ** 51 },
      { ...log, limit: 1001 },
      { ...pacer, maxWait: 2 ** 51 },
      { kind: "all" },
      { kind: "all", parts: [] },
      { kind: "all", parts: new Array(9).fill(bucket) },
      { kind: "all", parts: [{ kind: "all", parts: [bucket] }] },
      { kind: "all", parts: [bucket, null] },
    ]) {
      refused(() => compile(bad), JSON.stringify(bad));
    }
  },
};

export const invalidRequestsAreRefused = {
  test() {
    const take = { op: "take", key: "k", policy: 0, cost: 1 };
    const refund = { op: "refund", key: "k", policy: 0, taken: { charged: 1, at: 1 } };
    const all = { op: "all", asks: [{ key: "k", policy: 0, cost: 1 }] };
    const reset = { op: "reset", key: "k", policy: 0 };
    const of = (...calls) => batch({ policies: [bucket], calls });
    const good = of(take, refund, all, reset, { ...take, op: "peek", tenant: "acme" }, { ...take, key: "" });
    assert.equal(good.refused.size, 0);
    for (const bad of [
      undefined,
      null,
      1,
      [],
      {},
      { calls: [take] },
      { policies: [bucket] },
      { policies: {}, calls: [take] },
      { policies: [bucket], calls: [] },
      { policies: [bucket], calls: take },
      { policies: [bucket], calls: [take], more: 1 },
      { policies: [bucket], calls: new Array(MAX_ASKS + 1).fill(take) },
      { policies: new Array(MAX_ASKS + 1).fill(bucket), calls: [take] },
      { policies: [bucket], calls: new Array(17).fill({ op: "all", asks: new Array(64).fill(all.asks[0]) }) },
    ]) {
      refused(() => batch(bad), JSON.stringify(bad)?.slice(0, 100));
    }
    // A bad policy fails the calls that name it.
    const { refused: mixed } = batch({ policies: [bucket, {}, null], calls: [take, { ...take, policy: 1 }, { ...take, policy: 2 }, take] });
    assert.deepEqual([...mixed.keys()], [1, 2]);
    for (const bad of [
      null,
      1,
      {},
      { ...take, op: "give" },
      { ...take, key: 1 },
      { ...take, key: "x".repeat(MAX_KEY + 1) },
      { ...take, key: "\ud800" },
      { ...take, tenant: "" },
      { ...take, tenant: "x".repeat(257) },
      { ...take, tenant: "\udfff" },
      { ...take, tenant: null },
      { ...take, policy: 1 },
      { ...take, policy: -1 },
      { ...take, policy: "0" },
      { ...take, cost: 0 },
      { ...take, cost: -1 },
      { ...take, cost: 1.5 },
      { ...take, cost: 2 ** 53 },
      { ...take, cost: "1" },
      { ...take, costs: 1 },
      { ...refund, cost: 1 },
      { ...refund, taken: null },
      { ...refund, taken: { charged: -1, at: 1 } },
      { ...refund, taken: { charged: 1, at: 2 ** 53 } },
      { ...refund, taken: { charged: 1 } },
      { ...reset, policy: undefined },
      { op: "all", asks: [] },
      { op: "all", asks: [{ ...take }] },
      { op: "all", asks: new Array(65).fill(all.asks[0]) },
      { op: "all", asks: [{ key: "k", policy: 0, cost: 0 }] },
    ]) {
      const { refused } = of(take, bad, take);
      assert.deepEqual([...refused.keys()], [1], JSON.stringify(bad)?.slice(0, 100));
      assert.ok(refused.get(1).length > 10);
    }
    for (const bad of [null, {}, { key: "k" }, { key: "k", policy: bucket, cost: -1 }, { key: "k", policy: bucket, peek: 1 }]) {
      refused(() => question(bad), JSON.stringify(bad));
    }
  },
};

// A row that is damaged fails the calls for its key and changes nothing.
export const damagedRowsFailAlone = {
  test() {
    const read = (row) => {
      if (row.endsWith("damaged")) {
        throw new SyntaxError("no JSON");
      }
      return null;
    };
    const ledger = new Ledger(read, 1_000_000, [bucket]);
    const take = (key) => ({ op: "take", key, policy: 0, cost: 1 });
    assert.equal(ledger.answer(take("a"))[3], 9);
    assert.equal(ledger.answer(take("damaged")), "failed");
    assert.equal(ledger.answer({ op: "all", asks: [take("a"), take("damaged")] }), "failed");
    assert.equal(ledger.answer(take("a"))[3], 8, "what failed was charged");
    assert.deepEqual([...ledger.writes.keys()], ["b a"]);
  },
};

const post = (body, headers) =>
  new Request("https://limits.example/v1/batch", {
    method: "POST",
    body,
    headers: { "content-type": "application/json", authorization: "Bearer sesame", ...headers },
  });

export const bodiesAreBounded = {
  async test() {
    assert.deepEqual(await readJSON(post('{"a":"ä€😀"}')), { a: "ä€😀" });
    const endless = () =>
      new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1 << 16).fill(32)) });
    for (const [body, status, headers] of [
      [" ".repeat(MAX_BODY + 1), 413],
      [endless(), 413],
      ["{", 400],
      ["", 400],
      [undefined, 400],
      [new Uint8Array([34, 0xff, 34]), 400],
      ["\ufeff{}", 400],
      ["{}", 415, { "content-type": "text/plain" }],
    ]) {
      await assert.rejects(readJSON(post(body, headers)), { status }, `${String(body).slice(0, 20)}: ${status}`);
    }
  },
};

export const anUnsetSecretAdmitsNobody = {
  async test() {
    const asking = (authorization) => new Request("https://limits.example/", { headers: authorization ? { authorization } : {} });
    for (const secret of [undefined, null, "", 0, {}]) {
      for (const token of ["Bearer ", "Bearer null", "Bearer undefined", "Bearer", "Bearer 0", "Bearer [object Object]", undefined]) {
        assert.equal(await admits(asking(token), secret), false, `${token} for ${secret}`);
      }
    }
    for (const token of ["Bearer sesam", "Bearer sesame1", "Bearer Sesame", "Basic sesame", "sesame", "bearer sesame", "Bearer  sesame", undefined]) {
      assert.equal(await admits(asking(token), "sesame"), false, token);
    }
    assert.equal(await admits(asking("Bearer sesame"), "sesame"), true);
  },
};

// A request without the secret is refused before its body is read, so that it costs no
// more than that.
export const whoIsRefusedTouchesNothing = {
  async test() {
    const env = {
      SECRET: "sesame",
      get LIMITS() {
        throw new Error("an object was asked");
      },
    };
    const body = new ReadableStream({
      pull() {
        throw new Error("the body was read");
      },
    });
    const answer = await serve(post(body, { authorization: "Bearer wrong" }), env);
    assert.equal(answer.status, 401);
    assert.equal((await answer.json()).error.code, "unauthorized");
    for (const [method, path, status] of [
      ["GET", "/v1/batch", 405],
      ["POST", "/", 404],
      ["POST", "/v1/batch/", 404],
    ]) {
      const answer = await serve(new Request("https://limits.example" + path, { method }), env);
      assert.equal(answer.status, status, path);
      assert.ok((await answer.json()).error.message);
    }
  },
};

// The vectors of the reference implementation: the hashes of the empty input, 0, 0 1,
// 0 1 2, … with the key 0 1 2 3 4 5 6 7.
export const shardsAreChosenByHalfSipHash = {
  test() {
    [0x5b9f35a9, 0xb85a4727, 0x03a662fa, 0x04e7fe8a, 0x89466e2a, 0x69b6fac5, 0x23fc6358, 0xc563cf8b, 0x8f84b8d0].forEach((want, n) => {
      assert.equal(halfSipHash(Uint8Array.from({ length: n }, (_, i) => i), [0x03020100, 0x07060504]), want, `of ${n} bytes`);
    });
  },
};

export const objectsAreNamedApart = {
  async test() {
    const key = await shardKey("sesame");
    assert.deepEqual(await shardKey("sesame"), key);
    assert.notDeepEqual(await shardKey("another"), key);
    const routes = new Routes({ SHARDS: 16, TENANT_SHARDS: { "*": 2, big: 8 } }, key);
    const keys = Array.from({ length: 10_000 }, (_, i) => `wskit:m:${i}`);
    const count = (tenant) => new Set(keys.map((key) => routes.object({ tenant, key }))).size;
    assert.deepEqual([count(undefined), count("acme"), count("big")], [16, 2, 8]);
    const names = new Set();
    for (const tenant of ["a", "a:0", "a%3A0", "shard", "", "é", "e\u0301", "*", "../a", "a/b", "%"]) {
      for (const key of keys.slice(0, 100)) {
        const name = routes.object({ tenant, key });
        assert.match(name, /^tenant:[^:]*:[01]$/);
        names.add(name.replace(/:[01]$/, ""));
      }
    }
    assert.equal(names.size, 11);
    const load = new Map();
    const many = new Routes({}, key);
    for (const key of keys) {
      const object = many.object({ key });
      load.set(object, (load.get(object) ?? 0) + 1);
    }
    assert.ok(load.size === 128 && Math.max(...load.values()) < 2 * (10_000 / 128), "the keys are spread evenly");
    for (const bad of [0, -1, 1.5, "many", 100_001]) {
      assert.throws(() => new Routes({ SHARDS: bad }, key), /SHARDS/);
      assert.throws(() => new Routes({ TENANT_SHARDS: { acme: bad } }, key), /TENANT_SHARDS/);
    }
  },
};
