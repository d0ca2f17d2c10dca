import { expect, test } from "vitest";
import { UnknownOutcome } from "../dist/wskit.js";
import { scenario } from "./scenario.js";
import { atEnd, isOpen, numbers, rejection, sleep, start, until, type Server } from "./server.js";

/** The states that a client goes through. */
function follow(client: { state: { get: () => { status: string }; subscribe: (f: () => void) => () => void } }) {
  const seen = [client.state.get().status];
  client.state.subscribe(() => seen.push(client.state.get().status));
  return seen;
}

/** By how much what may happen in two seconds is more in a longer time. */
const perTwoSeconds = (ms: number) => Math.max(1, ms / 2_000);

scenario("connect", async () => {
  const server = await start();
  const client = server.connect();
  const states = follow(client);
  expect(await client.request("whoami", {})).toBe("ann");
  expect(await client.request("echo", { text: "hi" })).toEqual({ text: "hi" });
  await client.send("note", { id: "n" });
  await until(async () => (await server.log()).executions["n"]);
  expect(states).toEqual(["connecting", "open"]);
  const { attempts, executions } = await server.log();
  expect(executions).toEqual({ n: 1 });
  expect(attempts).toMatchObject([{ token: "ann", path: "/ws" }]);
});

test("a token may be sent in the URL", async () => {
  const server = await start();
  const client = server.connect({ token: () => "ann with a space", tokenIn: "query" });
  expect(await client.request("whoami", {})).toBe("ann with a space");
});

scenario("refuse", async () => {
  for (const code of ["PERMISSION_DENIED", "UNAUTHENTICATED", "RESOURCE_EXHAUSTED"]) {
    const server = await start();
    await server.do("/refuse", { code, retryAfterMs: 300, times: 3 });
    const client = server.connect({ backoff: { first: 50, most: 100 } });
    // A page does not see the status, so this client does not use it in Node either.
    await client.request("echo", {});
    const answered = (await server.log()).attempts.filter((a) => a.outcome); // a busy machine may end others before
    expect(answered.map((a) => a.outcome)).toEqual([code[0] === "P" ? "403" : code[0] === "U" ? "401" : "429", expect.anything(), expect.anything(), "101"]);
  }
});

test("requests that wait are rejected with the reason when the client ends", async () => {
  const server = await start();
  await server.script([{ close: 4403, reason: '{"retryAfterMs":null,"message":"your account is suspended"}' }]);
  const client = server.connect();
  expect(await rejection(client.request("echo", {}))).toMatchObject({ code: "PERMISSION_DENIED", message: "your account is suspended" });
  expect(client.state.get()).toMatchObject({ status: "closed", closeCode: 4403, error: { code: "PERMISSION_DENIED", retryable: false } });
  expect(await rejection(client.request("echo", {}))).toMatchObject({ code: "PERMISSION_DENIED" });
  client.reconnect();
  expect(await client.request("whoami", {})).toBe("ann");
});

test("what was sent on a connection that is refused after it was accepted is sent again", async () => {
  const server = await start();
  // The close frame comes when the request was sent, as the network is slow.
  await server.script([{ expect: "count" }, { close: 4429, reason: '{"retryAfterMs":100}' }]);
  const client = server.connect();
  expect(await client.request("count", { id: "c" })).toMatchObject({ n: 1 });
  // But not if the server has answered anything.
  await server.do("/stop");
  await until(() => client.state.get().status !== "open");
  await server.script([{ expect: "__heartbeat" }, { send: '{"type":"__heartbeat_ack"}' }, { expect: "count" }, { close: 4429, reason: '{"retryAfterMs":100}' }]);
  expect(await rejection(client.request("count", { id: "d" }))).toBeInstanceOf(UnknownOutcome);
});

scenario("expire", async () => {
  const server = await start();
  await server.do("/token", { ttlMs: 10_000 }); // enough for a busy machine to connect and ask
  const client = server.connect({ token: server.token });
  expect(await client.request("whoami", {})).toBe("ann");
  await server.do("/token", { mode: "fail" });
  await until(() => client.state.get().closeCode === 4401);
  await until(async () => (await server.log()).tokens.some((t) => t.mode === "fail"));
  await server.do("/token", { mode: "ok" });
  expect(await client.request("whoami", {})).toBe("ann");
  const { attempts } = await server.log();
  expect(new Set(attempts.map((a) => a.token)).size).toBe(attempts.length);
});

scenario("renew", async () => {
  const life = 30_000; // a busy machine has half of it to renew
  const server = await start({ expiryNoticeMs: life });
  await server.do("/token", { ttlMs: life });
  const client = server.connect({ token: server.token });
  // Until it has renewed twice, and the first token has expired.
  await until(async () => {
    expect(await client.request("whoami", {})).toBe("ann");
    const log = await server.log();
    expect(log.attempts.length).toBe(1);
    return log.received.filter((f) => f.type === "$ws:renew").length >= 2 && log.nowMs > log.attempts[0]!.atMs + life;
  });
});

test("a token that is not accepted, and is given again, ends the client", async () => {
  const server = await start();
  await server.script([{ close: 4401 }], -1);
  let asked: boolean[] = [];
  const client = server.connect({ token: ({ refused }) => (asked.push(refused), "old") });
  expect(await rejection(client.request("echo", {}))).toMatchObject({ code: "UNAUTHENTICATED" });
  expect(asked).toEqual([false, ...Array(5).fill(true)]);
  expect((await server.log()).attempts.length).toBe(1);
  asked = [];
  const other = server.connect({ token: ({ refused }) => (asked.push(refused), `new${asked.length}`) });
  await until(() => asked.length > 3);
  expect(asked.slice(0, 3)).toEqual([false, true, true]);
  expect(other.state.get().status).not.toBe("closed");
});

scenario("token that cannot be fetched", async () => {
  const server = await start({ needToken: true });
  await server.do("/token", { mode: "fail" });
  const client = server.connect({ token: server.token, connectTimeout: 300 });
  for (const mode of ["fail", "garbage", "drop", "hang"]) {
    await server.do("/token", { mode });
    await until(async () => (await server.log()).tokens.filter((t) => t.mode === mode).length > 1);
  }
  const log = await server.log();
  expect(log.attempts).toEqual([]);
  expect(log.tokens.length).toBeLessThan(60 * perTwoSeconds(log.nowMs));
  expect(client.state.get().error?.message).toBeTruthy();
  await server.do("/token", { mode: "ok" });
  expect(await client.request("whoami", {})).toBe("ann");
});

scenario("server restart", async () => {
  const server = await start();
  const client = server.connect();
  const outcomes: (string | number)[] = [];
  for (const n of numbers(1, 20)) {
    const call = client.request("count", { id: `r${n}` }).then(
      (reply) => outcomes.push(reply.n),
      (error) => outcomes.push(error.name),
    );
    if (n === 5) await server.do("/restart", { kill: true, downMs: 300 });
    await call;
  }
  expect(outcomes.length).toBe(20);
  expect(outcomes.filter((o) => o !== 1 && o !== "UnknownOutcome")).toEqual([]);
  expect(Object.values((await server.log()).executions).filter((n) => n > 1)).toEqual([]);
});

scenario("drain with advice", async () => {
  const server = await start();
  const client = server.connect();
  await isOpen(client);
  const open = client.request("slow", { id: "s", ms: 1_000 }); // until then the server drains
  await until(async () => (await server.log()).executions["s"]);
  const drained = server.do("/drain");
  const count = (): Promise<unknown> =>
    client.request("count", { id: "c" }).catch(async (error) => {
      // The server has said that it shuts down: it has not handled the request.
      expect(error).toMatchObject({ code: "UNAVAILABLE", retryable: true, retryAfterMs: expect.any(Number) });
      expect(error).not.toBeInstanceOf(UnknownOutcome);
      await until(() => client.state.get().connections > 1); // sent before, it could cross the close frame
      return count();
    });
  const next = count();
  expect(await open).toMatchObject({ id: "s" });
  await next;
  await drained;
  expect((await server.log()).executions).toEqual({ s: 1, c: 1 });

  client.close();
  const other = server.connect();
  await other.request("echo", {}); // then the server knows the connection that it closes
  await server.do("/log/clear");
  await server.do("/close", { code: 1001, reason: '{"retryAfterMs":700}' });
  await until(() => other.state.get().closeCode === 1001);
  await other.request("echo", {});
  await until(async () => (await server.log()).attempts.length > 0); // it is logged when the handshake is over
  const log = await server.log();
  const close = log.closes.find((c) => c.dir === "down")!;
  expect(log.attempts[0]!.atMs - close.atMs).toBeGreaterThanOrEqual(699);
});

scenario("door full", async () => {
  const server = await start();
  await server.do("/door", { maxPerUser: 1 });
  const first = server.connect();
  await isOpen(first);
  const second = server.connect();
  await until(async () => (await server.log()).attempts[1]?.outcome);
  expect(second.state.get().status).not.toBe("open");
  first.close();
  await isOpen(second);
});

scenario("ban", async () => {
  const server = await start();
  const client = server.connect();
  await isOpen(client);
  await server.do("/ban", { ms: 800 });
  await until(() => client.state.get().closeCode === 4429);
  // Neither the application nor the page makes it faster.
  for (let i = 0; i < 5; i++) client.reconnect();
  await isOpen(client);
  const log = await server.log();
  const close = log.closes.find((c) => c.code === 4429)!;
  expect(log.attempts[1]!.atMs - close.atMs).toBeGreaterThanOrEqual(799);

  await server.do("/stop");
  await until(() => client.state.get().status !== "open");
  await server.script([{ expect: "echo" }, { send: '{"type":"x"}' }, { close: 4429, reason: '{"retryAfterMs":null}' }]);
  const call = client.request("echo", {});
  expect(await rejection(call)).toBeInstanceOf(UnknownOutcome);
  expect(client.state.get()).toMatchObject({ status: "closed", closeCode: 4429, error: { code: "RESOURCE_EXHAUSTED" } });
  expect(await rejection(client.request("echo", {}))).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
});

scenario("zombie", async () => {
  const server = await start();
  const client = server.connect({ heartbeat: { after: 300, timeout: 200 } });
  await isOpen(client);
  await server.do("/zombie");
  expect(await client.request("count.once", { id: "z" }, { idempotencyKey: "z" })).toMatchObject({ n: 1 });
  expect((await server.log()).executions["z"]).toBe(1);
});

scenario("zombie without traffic", async () => {
  const server = await start();
  const client = server.connect({ heartbeat: { after: 300, timeout: 200 } });
  const events: number[] = [];
  client.on("said", ({ n }) => events.push(n));
  const join = () => client.request("join", { topic: "history:a" });
  await until(() => join().then(() => true, () => false)); // a busy machine may be too late for a heartbeat, too
  await server.do("/zombie");
  await server.do("/publish", { topic: "history:a", n: 1 });
  await until(() => events.length);
  await client.request("echo", {});
  expect(events).toEqual([1]);
});

scenario("slow network", async () => {
  const server = await start();
  const client = server.connect({ heartbeat: { after: 500, timeout: 5_000 } });
  const events: number[] = [];
  client.on("said", ({ n }) => events.push(n));
  await isOpen(client);
  await server.do("/slow", { bytesPerSecond: 2000, latencyMs: 50 });
  const text = "x".repeat(500);
  await Promise.all([
    ...numbers(1, 10).map((n) => client.request("echo", { n, text })),
    client.request("join", { topic: "history:a" }).then(() => server.do("/publish", { topic: "history:a", n: 10 })),
  ]);
  await until(() => events.length === 10);
  expect(events).toEqual(numbers(1, 10));
  expect((await server.log()).attempts.length).toBe(1);
});

scenario("storm with jitter", async () => {
  const server = await start();
  const clients = numbers(1, 30).map((n) => server.connect({ token: () => `user${n}`, backoff: { first: 2_000, most: 2_000 } }));
  await Promise.all(clients.map(isOpen));
  await server.do("/log/clear");
  await server.do("/restart", { kill: true, downMs: 1500 });
  await Promise.all(clients.map(isOpen));
  const log = await server.log();
  const first = log.attempts.slice(0, 30).map((a) => a.atMs);
  expect(Math.max(...first) - Math.min(...first)).toBeGreaterThan(200);
});

scenario("refused for ever by TCP", async () => {
  const server = await start();
  await server.do("/refuse", { tcp: true });
  const client = server.connect({ backoff: { first: 40, most: 400 } });
  await sleep(2_000);
  await until(async () => (await server.log()).attempts.length > 4);
  const log = await server.log();
  expect(log.attempts.length).toBeLessThan(40 * perTwoSeconds(log.nowMs));
  await server.do("/resume");
  await isOpen(client);
});

test("attempts are never faster than the server's gate allows, whatever asks for them", async () => {
  const server = await start();
  await server.do("/refuse", { tcp: true });
  const at: number[] = []; // by the clock of the client
  class Timed extends WebSocket {
    constructor(url: string | URL, protocols?: string | string[]) {
      super(url, protocols);
      at.push(performance.now());
    }
  }
  const before = performance.now(); // the gate counts an attempt before its socket exists
  const client = server.connect({ attempts: { burst: 3, perMinute: 60 }, backoff: { first: 1, most: 1 }, WebSocket: Timed });
  const asking = setInterval(() => client.reconnect(), 1);
  atEnd(() => clearInterval(asking));
  await until(() => at.length >= 5);
  expect(at[3]! - before).toBeGreaterThan(900);
  expect(at[4]! - before).toBeGreaterThan(1_900);
});

scenario("handshake that hangs", async () => {
  const server = await start();
  await server.do("/stall");
  const client = server.connect({ connectTimeout: 300 });
  await until(async () => (await server.log()).attempts.length > 1);
  expect(client.state.get().status).not.toBe("open");
  await server.do("/resume");
  await isOpen(client);
});
