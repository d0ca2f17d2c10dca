import { expect, test, vi } from "vitest";
import { followLimits } from "../dist/limits.js";
import { UnknownOutcome, WskitError } from "../dist/wskit.js";
import { scenario } from "./scenario.js";
import { atEnd, isOpen, numbers, rejection, sleep, start, until } from "./server.js";

scenario("request", async () => {
  const client = (await start()).connect();
  const replies = await Promise.all(numbers(1, 100).map((n) => client.request("echo", { id: `e${n}`, n })));
  expect(replies).toEqual(numbers(1, 100).map((n) => ({ id: `e${n}`, n })));
  const error = await rejection(client.request("fail", { text: "NOT_FOUND" }));
  expect(error).toBeInstanceOf(WskitError);
  expect(error).not.toBeInstanceOf(UnknownOutcome);
  expect(error).toMatchObject({ code: "NOT_FOUND", message: "as asked", retryable: false, retryAfterMs: null, type: "fail" });
  expect(await rejection(client.request("fail", { text: "DOOR_IS_RED", ms: 70 }))).toMatchObject({
    code: "DOOR_IS_RED",
    retryable: true,
    retryAfterMs: 70,
  });
});

scenario("abort", async () => {
  const server = await start();
  const client = server.connect();
  await isOpen(client);
  const open = new AbortController();
  const call = client.request("slow", { id: "a", ms: 60_000 }, { signal: open.signal });
  await until(async () => (await server.received("slow")).length);
  open.abort(new Error("enough"));
  const error = await rejection(call);
  expect(error).toMatchObject({ code: "CANCELLED", cause: { message: "enough" } });
  expect(error).toBeInstanceOf(UnknownOutcome); // it may have been handled
  await until(async () => (await server.received("$ws:abort")).length);
  const [aborted] = await server.received("$ws:abort");
  expect(aborted!.correlationId).toBe((await server.received("slow"))[0]!.correlationId);

  await server.do("/stop");
  await until(() => client.state.get().status !== "open");
  const early = new AbortController();
  const unsent = client.request("slow", { id: "b" }, { signal: early.signal });
  early.abort();
  const unsentError = await rejection(unsent);
  expect(unsentError).toMatchObject({ code: "CANCELLED" });
  expect(unsentError).not.toBeInstanceOf(UnknownOutcome);
  expect(await rejection(client.request("slow", { id: "c" }, { signal: AbortSignal.abort() }))).toMatchObject({ code: "CANCELLED" });
  await server.do("/start");
  await client.request("echo", {});
  expect((await server.received("slow")).length).toBe(1);
});

scenario("progress", async () => {
  const client = (await start()).connect();
  const called: number[] = [];
  const call = client.request("progress", { n: 20 }, { onProgress: ({ n }) => called.push(n) });
  const iterated: number[] = [];
  for await (const { n } of call.progress) iterated.push(n);
  expect(iterated).toEqual(numbers(1, 20));
  expect(called).toEqual(numbers(1, 20));
  expect(await call).toEqual({ n: 20 });

  const late = client.request("progress", { n: 20 });
  await late;
  const later: number[] = [];
  for await (const { n } of late.progress) later.push(n);
  expect(later).toEqual(numbers(1, 20));

  const signal = new AbortController();
  const aborted = client.request("progress", { n: 1000, ms: 10 }, { signal: signal.signal });
  const iteration = (async () => {
    for await (const { n } of aborted.progress) if (n === 2) signal.abort();
  })();
  // The promise itself is not awaited: its error is thrown once, by the iteration.
  expect(await rejection(iteration)).toMatchObject({ code: "CANCELLED" });
});

scenario("time out", async () => {
  const server = await start();
  const client = server.connect();
  await isOpen(client);
  const since = Date.now();
  const error = await rejection(client.request("slow", { id: "t", ms: 60_000 }, { timeout: 200 }));
  expect(error.code).toBe("DEADLINE_EXCEEDED");
  expect(Date.now() - since).toBeGreaterThanOrEqual(199);
  await until(async () => (await server.received("slow")).length);
  const { timeoutMs } = JSON.parse((await server.received("slow"))[0]!.text).meta;
  expect(timeoutMs).toBeGreaterThan(0);
  expect(timeoutMs).toBeLessThanOrEqual(200);
  await server.do("/stall");
  const stalled = await rejection(client.request("echo", { id: "late" }, { timeout: 200 }));
  expect(stalled).toMatchObject({ code: "DEADLINE_EXCEEDED", retryable: false });
  expect(stalled).toBeInstanceOf(UnknownOutcome);
  await server.do("/resume");
  expect(await client.request("echo", { id: "next" })).toEqual({ id: "next" });
});

scenario("flood and wait", async () => {
  const server = await start();
  await server.do("/flood-limit", { capacity: 5, refill: 5, perMs: 500 });
  const client = server.connect();
  const ids = numbers(1, 20).map(String);
  const replies = await Promise.all(ids.map((id) => client.request("limited", { id }, { onLimit: "wait" })));
  expect(replies.map(({ id }) => id)).toEqual(ids);
  const log = await server.log();
  expect(log.executed.map(({ id }) => id)).toEqual(ids);
  for (const refusal of log.sent.filter((f) => f.type === "RPC_ERROR")) {
    const wait: number = JSON.parse(refusal.text).payload.retryAfterMs;
    const again = log.received.find((f) => f.correlationId === refusal.correlationId && f.atMs > refusal.atMs);
    expect(again!.atMs - refusal.atMs).toBeGreaterThanOrEqual(wait - 1); // the clocks differ by rounding
  }
});

scenario("follow limits", async () => {
  const server = await start();
  await server.do("/flood-limit", { capacity: 5, refill: 1, perMs: 3_600_000 });
  const client = server.connect();
  await client.request("limited", {});
  await client.request("limited", {});
  expect((await server.log()).sent.filter(({ type }) => type === "$ws:limits")).toEqual([]);

  const limits = followLimits(client, ["limited"]);
  let changes = 0;
  limits.subscribe(() => changes++);
  await until(() => limits.fits("limited") !== undefined);
  expect(limits.fits("limited")).toBe(3);
  expect(limits.get()).toMatchObject([{ name: "flood", types: { limited: 1 }, limit: 5 }]);
  const three = numbers(1, 3).map(() => client.request("limited", {}));
  expect(limits.fits("limited")).toBe(0); // before the server has counted them
  await Promise.all(three);
  expect(limits.fits("limited")).toBe(0);
  expect(limits.wait("limited")).toBeGreaterThan(3_000_000);
  expect(await rejection(client.request("limited", {}))).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  const before = changes;
  await server.do("/cut-now");
  await until(() => client.state.get().connections === 2 && changes > before);
  expect(limits.fits("limited")).toBe(0);
  expect(limits.left("flood")).toBeLessThan(1);
  expect(limits.left("other")).toBeUndefined();

  limits.stop();
  await server.do("/flood-limit", { capacity: 3, refill: 3, perMs: 300 });
  const next = followLimits(client, ["limited"]);
  await until(() => next.fits("limited") === 3);
  const ids = numbers(1, 12).map((n) => `paced${n}`);
  const replies = await Promise.all(ids.map((id) => next.pace("limited", () => client.request("limited", { id }))));
  expect(replies.map(({ id }) => id)).toEqual(ids);
  await server.do("/cut-now");
  await until(() => client.state.get().connections === 3 && next.fits("limited") === 3);
});

test("several follow the limits of a client, each its own, and what the server refuses is told", async () => {
  const server = await start();
  const client = server.connect();
  const first = followLimits(client, ["limited"]);
  await until(() => first.fits("limited") !== undefined);
  const other = followLimits(client, ["echo"]); // has no limit
  await until(async () => (await server.received("$ws:limits")).length > 1);
  let changes = 0;
  other.subscribe(() => changes++);
  await client.request("limited", {});
  await until(() => changes > 0);
  expect(first.get()).toMatchObject([{ name: "flood" }]);
  expect(other.get()).toEqual([]);
  first.stop();
  const before = changes;
  await server.do("/cut-now");
  await until(() => changes > before);
  other.stop();

  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  atEnd(() => warn.mockRestore());
  followLimits(client, numbers(1, 17).map(String));
  await until(() => warn.mock.calls.length > 0);
  expect(warn.mock.calls).toMatchObject([["wskit: limits are not followed:", { code: "INVALID_ARGUMENT" }]]);
});

scenario("flood and fail", async () => {
  const server = await start();
  await server.do("/flood-limit", { capacity: 5, refill: 5, perMs: 60_000 });
  const client = server.connect();
  const results = await Promise.allSettled(numbers(1, 20).map((n) => client.request("limited", { id: `f${n}` })));
  const refused = results.filter((r) => r.status === "rejected").map((r) => r.reason);
  expect(results.length - refused.length).toBe(5);
  for (const error of refused) {
    expect(error).toMatchObject({ code: "RESOURCE_EXHAUSTED", retryable: true, details: { kind: "rate", limit: 5 } });
    expect(error.retryAfterMs).toBeGreaterThan(0);
  }
  expect((await server.received("limited")).length).toBe(20);
});

test("a request that waits for a limit is rejected when its time is over before that", async () => {
  const server = await start();
  await server.do("/flood-limit", { capacity: 1, refill: 1, perMs: 60_000 });
  const client = server.connect();
  await client.request("limited", {});
  const since = Date.now();
  expect(await rejection(client.request("limited", {}, { onLimit: "wait", timeout: 50_000 }))).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  expect(Date.now() - since).toBeLessThan(50_000);
});

scenario("idempotent retry", async () => {
  const server = await start();
  const client = server.connect();
  await isOpen(client);
  await server.do("/cut", { type: "count.once.reply", at: 3 });
  expect(await client.request("count.once", { id: "k" }, { idempotencyKey: "k1" })).toMatchObject({ n: 1 });
  expect((await server.log()).executions["k"]).toBe(1);
  expect((await server.received("count.once")).map((f) => f.idempotencyKey)).toEqual(["k1", "k1"]);
});

scenario("unknown outcome", async () => {
  const server = await start();
  const client = server.connect();
  await isOpen(client);
  await server.do("/cut", { type: "count.reply", at: 3 });
  const error = await rejection(client.request("count", { id: "u" }));
  expect(error).toBeInstanceOf(UnknownOutcome);
  expect(error).toMatchObject({ code: "UNAVAILABLE", retryable: false });
  await client.request("echo", {});
  await sleep(200);
  expect((await server.received("count")).length).toBe(1);
  expect((await server.log()).executions["u"]).toBe(1);
});

scenario("never written", async () => {
  const server = await start();
  await server.do("/stop");
  const client = server.connect();
  const patient = client.request("count", { id: "p" });
  const error = await rejection(client.request("count", { id: "q" }, { timeout: 200 }));
  expect(error).toMatchObject({ code: "DEADLINE_EXCEEDED", retryable: true });
  expect(error).not.toBeInstanceOf(UnknownOutcome);
  await sleep(300);
  await server.do("/start");
  expect(await patient).toMatchObject({ n: 1 });
  expect((await server.log()).executions).toEqual({ p: 1 });
});

test("what waits for an answer that was lost has an unknown outcome when its time is over", async () => {
  const server = await start();
  const client = server.connect();
  await isOpen(client);
  await server.do("/refuse", { tcp: true });
  await server.do("/cut", { type: "count.once.reply", at: 0 });
  const call = client.request("count.once", { id: "k" }, { idempotencyKey: "k1", timeout: 1_000 });
  expect(await rejection(call)).toBeInstanceOf(UnknownOutcome);
});

for (const overflow of ["newest", "oldest"] as const) {
  const name = "queue overflow";
  const body = async () => {
    const server = await start();
    const client = server.connect({ queue: { messages: 5, bytes: 4096, overflow } });
    await isOpen(client);
    await server.do("/stop");
    await until(() => client.state.get().status !== "open");
    const ids = numbers(1, 40).map((n) => `q${n}`);
    const outcomes = new Map<string, string>();
    const made = ids.map((id, i) => {
      const text = i === 20 ? "x".repeat(1 << 20) : "";
      const promise: Promise<unknown> = i % 2 ? client.send("note", { id, text }) : client.request("count", { id, text });
      return promise.then(
        () => outcomes.set(id, "done"),
        (error) => outcomes.set(id, error.code),
      );
    });
    await sleep(0);
    expect(outcomes.size).toBe(35); // the others are refused at once
    expect([...outcomes.values()].every((code) => code === "RESOURCE_EXHAUSTED")).toBe(true);
    await server.do("/start");
    await Promise.all(made);
    const kept = overflow === "oldest" ? ids.slice(-5) : ids.slice(0, 5);
    expect(ids.filter((id) => outcomes.get(id) === "done")).toEqual(kept);
    await until(async () => Object.keys((await server.log()).executions).length === 5);
    expect((await server.log()).executed.map(({ id }) => id)).toEqual(kept);
  };
  if (overflow === "newest") scenario(name, body);
  else test(`${name}: ${overflow}`, body);
}

scenario("order kept", async () => {
  const server = await start();
  await server.do("/flood-limit", { capacity: 10, refill: 10, perMs: 300 });
  const client = server.connect();
  const made: Promise<unknown>[] = [];
  for (let i = 0; i < 200; i++) {
    const id = `o${String(i).padStart(3, "0")}`;
    const call = i % 2 ? client.send("note", { id }) : i % 10 ? client.request("echo", { id }) : client.request("limited", { id }, { onLimit: "wait" });
    made.push(call.catch(() => {}));
    if (i % 40 === 39) {
      await sleep(20);
      await server.do("/cut-now");
    }
  }
  await Promise.all(made);
  const log = await server.log();
  // Those that wait for a limit keep their order among each other, and do not keep others waiting.
  for (const types of [["echo", "note"], ["limited"]]) {
    const ids = log.executed.filter(({ type }) => types.includes(type)).map(({ id }) => id);
    expect(ids).toEqual([...ids].sort());
    expect(new Set(ids).size).toBe(ids.length);
  }
});

scenario("large frames", async () => {
  const server = await start();
  const client = server.connect();
  expect((await client.request("big", { n: 1 << 20 })).text.length).toBe(1 << 20);
  expect(await rejection(client.request("echo", { text: "x".repeat(1 << 20) }))).toMatchObject({
    code: "RESOURCE_EXHAUSTED",
    retryable: false,
    retryAfterMs: null,
  });
  await client.request("echo", {});
  expect((await server.log()).attempts.length).toBe(1);
});

scenario("duplicate answers", async () => {
  const server = await start();
  const client = server.connect();
  const events: number[] = [];
  client.on("said", ({ n }) => events.push(n));
  await client.request("join", { topic: "history:a" });
  await server.do("/alter", { type: "echo.reply", do: "twice", times: -1 });
  await server.do("/alter", { type: "said", do: "twice", times: -1 });
  await server.do("/alter", { type: "$ws:rpc-progress", do: "twice", times: -1 });
  expect(await Promise.all(numbers(1, 5).map((n) => client.request("echo", { n })))).toEqual(numbers(1, 5).map((n) => ({ n })));
  await server.do("/publish", { topic: "history:a", n: 10 });
  expect(await client.request("progress", { n: 3 })).toEqual({ n: 3 });
  await until(() => events.length >= 10);
  await client.request("echo", {});
  expect(events).toEqual(numbers(1, 10));
});
