import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { connect, type Client } from "../dist/wskit.js";

// The life of a page and the clock are faked here; e2e has them in a real browser.

let sockets: FakeSocket[] = [];
let client: Client;

class FakeSocket {
  readyState = 0;
  bufferedAmount = 0;
  onopen?: (event: unknown) => void;
  onmessage?: (event: unknown) => void;
  onclose?: (event: unknown) => void;
  onerror?: (event: unknown) => void;
  sent: { type: string; meta?: { correlationId?: string } }[] = [];
  closedWith: number | undefined;
  answers = true;

  constructor(readonly url: unknown) {
    sockets.push(this);
  }
  send(text: string) {
    const frame = JSON.parse(text);
    this.sent.push(frame);
    if (frame.type === "__heartbeat" && this.answers) setTimeout(() => this.receive({ type: "__heartbeat_ack" }), 5);
  }
  close(code?: number) {
    this.closedWith = code;
    this.readyState = 3;
  }
  open() {
    this.readyState = 1;
    this.onopen?.({});
  }
  receive(frame: object) {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }
  end(code: number, reason = "") {
    this.readyState = 3;
    this.onclose?.({ code, reason });
  }
  get heartbeats() {
    return this.sent.filter((f) => f.type === "__heartbeat").length;
  }
}

let events: EventTarget;

beforeEach(() => {
  vi.useFakeTimers();
  sockets = [];
  events = new EventTarget();
  const add = events.addEventListener.bind(events);
  vi.stubGlobal("addEventListener", add);
  vi.stubGlobal("document", Object.assign(new EventTarget(), { visibilityState: "visible" }));
});

afterEach(() => {
  client?.close();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

async function start(options = {}): Promise<FakeSocket> {
  client = connect({ url: "ws://fake", WebSocket: FakeSocket as never, ...options });
  await vi.advanceTimersByTimeAsync(1); // a connection that opened at 0 would count as not open
  sockets[0]!.open();
  return sockets[0]!;
}

/** Lets time pass until something is true. */
async function passUntil(ready: () => boolean) {
  while (!ready()) await vi.advanceTimersByTimeAsync(50);
}

const status = () => client.state.get().status;

test("a silent connection is asked for a sign of life, and given up without one", async () => {
  const socket = await start();
  await vi.advanceTimersByTimeAsync(19_000);
  expect(socket.heartbeats).toBe(0);
  await vi.advanceTimersByTimeAsync(61_000);
  expect(socket.heartbeats).toBeGreaterThanOrEqual(3);
  expect(status()).toBe("open");
  socket.answers = false;
  await vi.advanceTimersByTimeAsync(31_000);
  expect(socket.closedWith).not.toBe(1000);
  expect(socket.readyState).toBe(3);
  expect(status()).not.toBe("open");
});

test("timers of a hidden tab that fire late are no false alarm", async () => {
  const socket = await start();
  // The browser lets timers fire once a minute, and delivers what has come before or after them.
  for (let minute = 0; minute < 30; minute++) {
    vi.setSystemTime(Date.now() + 60_000);
    await vi.advanceTimersToNextTimerAsync();
    await vi.advanceTimersByTimeAsync(10);
  }
  expect(status()).toBe("open");
  expect(sockets.length).toBe(1);
  expect(socket.heartbeats).toBeGreaterThan(5);
});

test("after sleep a connection that is dead is found soon, and one that lives is kept", async () => {
  const socket = await start();
  vi.setSystemTime(Date.now() + 8 * 3_600_000);
  document.dispatchEvent(new Event("resume"));
  await vi.advanceTimersByTimeAsync(100);
  expect(status()).toBe("open");
  socket.answers = false;
  vi.setSystemTime(Date.now() + 8 * 3_600_000);
  events.dispatchEvent(new Event("online"));
  await vi.advanceTimersByTimeAsync(21_000);
  expect(sockets.length).toBeGreaterThan(1);
});

test("a machine that sleeps while an answer is waited for asks once more", async () => {
  const socket = await start();
  socket.answers = false;
  await vi.advanceTimersByTimeAsync(20_001);
  expect(socket.heartbeats).toBe(1);
  vi.setSystemTime(Date.now() + 3_600_000);
  socket.answers = true;
  await vi.advanceTimersByTimeAsync(10_001);
  expect(socket.heartbeats).toBe(2);
  expect(status()).toBe("open");
});

test("a page that was asleep for a while without any event finds a dead connection by its own clock", async () => {
  const socket = await start();
  socket.answers = false;
  vi.setSystemTime(Date.now() + 3_600_000);
  await vi.advanceTimersByTimeAsync(51_000);
  expect(status()).not.toBe("open");
});

test("a page that is left has no connection, and connects again when it is shown", async () => {
  const socket = await start();
  events.dispatchEvent(new Event("pagehide"));
  expect(socket.closedWith).toBe(1000);
  expect(client.state.get()).toMatchObject({ status: "waiting", retryAt: null });
  await vi.advanceTimersByTimeAsync(600_000);
  expect(sockets.length).toBe(1);
  events.dispatchEvent(new Event("pageshow"));
  await vi.advanceTimersByTimeAsync(0);
  expect(sockets.length).toBe(2);
});

test("an offline page makes few attempts, and one at once when it is online again", async () => {
  const socket = await start();
  vi.stubGlobal("navigator", { onLine: false });
  socket.end(1006);
  await vi.advanceTimersByTimeAsync(29_000);
  expect(sockets.length).toBe(1);
  vi.stubGlobal("navigator", { onLine: true });
  events.dispatchEvent(new Event("online"));
  await vi.advanceTimersByTimeAsync(0);
  expect(sockets.length).toBe(2);
});

test("a wait that the server asks for is not made shorter by the page", async () => {
  const socket = await start();
  socket.end(1013, '{"retryAfterMs":60000}');
  for (let i = 0; i < 59; i++) {
    events.dispatchEvent(new Event("online"));
    document.dispatchEvent(new Event("visibilitychange"));
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect(sockets.length).toBe(1);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(sockets.length).toBe(2);
});

test("waits are random below a ceiling that doubles, and short again after a connection that lasted", async () => {
  vi.spyOn(Math, "random").mockReturnValue(0.999);
  const socket = await start({ attempts: { burst: 1_000 } });
  await vi.advanceTimersByTimeAsync(10_000);
  socket.end(1006);
  const waits: number[] = [];
  for (let i = 0; i < 9; i++) {
    waits.push(client.state.get().retryAt! - Date.now());
    await vi.advanceTimersByTimeAsync(waits.at(-1)! + 1);
    sockets.at(-1)!.end(1006);
  }
  for (const [i, most] of [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000].entries()) {
    expect(waits[i]).toBeLessThanOrEqual(most);
    expect(waits[i]).toBeGreaterThan(most * 0.99);
  }
  await vi.advanceTimersByTimeAsync(30_001);
  sockets.at(-1)!.open();
  await vi.advanceTimersByTimeAsync(6_000);
  sockets.at(-1)!.end(1006);
  expect(client.state.get().retryAt! - Date.now()).toBeLessThanOrEqual(500);
  vi.mocked(Math.random).mockRestore();
});

test("by default there are at most 5 attempts at once and 10 a minute, although each connection opens", async () => {
  await start();
  const at: number[] = [performance.now()];
  for (let i = 0; i < 40; i++) {
    const n = sockets.length;
    sockets.at(-1)!.end(1011);
    client.reconnect();
    await passUntil(() => sockets.length > n);
    at.push(performance.now());
    sockets.at(-1)!.open();
  }
  for (const from of at) expect(at.filter((t) => t >= from && t < from + 60_000).length).toBeLessThanOrEqual(15);
  expect(at.filter((t) => t < at[0]! + 5_900).length).toBe(5);
});

test.each([1, -1])("the wall clock may be set by %d hours: what waits neither fails nor waits longer", async (hours) => {
  const socket = await start();
  const settled: string[] = [];
  const request = (name: string, options: object) =>
    client.request(name, {}, options as never).then(
      () => settled.push(name),
      () => settled.push(`${name} failed`),
    );
  const refuse = (ms: number) => {
    const { meta } = socket.sent.at(-1)!;
    const payload = { code: "RESOURCE_EXHAUSTED", message: "", retryable: true, retryAfterMs: ms };
    socket.receive({ type: "RPC_ERROR", meta, payload });
  };
  const numberOf = (name: string) => socket.sent.filter((f) => f.type === name).length;
  request("waits", { onLimit: "wait", timeout: 20_000 });
  await vi.advanceTimersByTimeAsync(0);
  refuse(5_000);
  vi.setSystemTime(Date.now() + hours * 3_600_000);
  await vi.advanceTimersByTimeAsync(4_000);
  expect(settled).toEqual([]);
  expect(numberOf("waits")).toBe(1);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(numberOf("waits")).toBe(2);
  await vi.advanceTimersByTimeAsync(20_000);
  expect(settled).toEqual(["waits failed"]); // in its time
});

test("the time that is left for a request is a whole number", async () => {
  const socket = await start();
  await vi.advanceTimersByTimeAsync(1.5);
  client.request("a", {}, { timeout: 1234.5 }).catch(() => {});
  await vi.advanceTimersByTimeAsync(0);
  const { timeoutMs } = socket.sent.at(-1)!.meta as { timeoutMs: number };
  expect(Number.isInteger(timeoutMs)).toBe(true);
});

test("a renewal that fails is tried again, until it works", async () => {
  let calls = 0;
  const token = async () => {
    if (++calls === 2 || calls === 3) throw new Error("the network blinks");
    return `token ${calls}`;
  };
  const socket = await start({ token });
  client.onError(() => {});
  socket.receive({ type: "$ws:expiring", payload: { inMs: 60_000 } });
  await vi.advanceTimersByTimeAsync(59_000);
  const renewals = socket.sent.filter((f) => f.type === "$ws:renew");
  expect(renewals.length).toBe(1);
  expect(calls).toBe(4);
});

test("a notice that comes before the answer to a renewal is about the identity after it", async () => {
  const socket = await start({ token: async () => "a short one" });
  const notice = { type: "$ws:expiring", payload: { inMs: 60_000 } };
  let renewals = 0;
  const answer = setInterval(() => {
    for (const f of socket.sent.splice(0).filter((f) => f.type === "$ws:renew")) {
      renewals++;
      socket.receive(notice);
      socket.receive({ type: "$ws:renewed", meta: f.meta, payload: {} });
    }
  }, 100);
  socket.receive(notice);
  await vi.advanceTimersByTimeAsync(600_000);
  clearInterval(answer);
  expect(renewals).toBeGreaterThanOrEqual(10); // one before each of them expires
});

test("a renewal that fails after its connection has ended causes none on the next one", async () => {
  const [early, late] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()]; // what the renewals get
  const tokens = ["first", early.promise, "second", late.promise];
  let calls = 0;
  const token = async () => tokens[calls++]!;
  const notice = { type: "$ws:expiring", payload: { inMs: 1_000 } };
  const first = await start({ token });
  client.onError(() => {});
  first.receive(notice);
  await passUntil(() => calls === 2);
  first.end(1006);
  await passUntil(() => sockets.length === 2);
  const next = sockets[1]!;
  next.open();
  next.receive(notice);
  await passUntil(() => calls === 4);
  early.reject(new Error("the network blinks"));
  late.resolve("third");
  await passUntil(() => next.sent.some((f) => f.type === "$ws:renew"));
  const { meta } = next.sent.find((f) => f.type === "$ws:renew")!;
  next.receive({ type: "$ws:renewed", meta, payload: {} });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(calls).toBe(4);
});

test("a server that says again and again that the identity expires causes few renewals", async () => {
  const socket = await start({ token: async () => "the same" });
  const answer = setInterval(() => {
    for (const f of socket.sent.splice(0)) {
      if (f.type === "$ws:renew") socket.receive({ type: "$ws:renewed", meta: f.meta, payload: {} });
      if (f.type === "$ws:renew") renewals++;
    }
    socket.receive({ type: "$ws:expiring", payload: { inMs: 0 } });
  }, 1);
  let renewals = 0;
  await vi.advanceTimersByTimeAsync(10_000);
  clearInterval(answer);
  expect(renewals).toBeGreaterThanOrEqual(8);
  expect(renewals).toBeLessThanOrEqual(11);
});

test.each([
  [1, "open"],
  [4, "open"],
  [1000, "closed"],
])("a token that was refused and comes again %d times leaves the client %s", async (times, end) => {
  let calls = 0;
  const socket = await start({ token: async () => (++calls <= 1 + times ? "stale" : "fresh") });
  client.onError(() => {});
  socket.end(4401);
  for (let i = 0; i < 200 && status() !== "closed" && calls <= 1 + times; i++) await vi.advanceTimersByTimeAsync(1_000);
  await vi.advanceTimersByTimeAsync(0);
  if (end === "open") sockets.at(-1)!.open();
  await vi.advanceTimersByTimeAsync(0);
  expect(status()).toBe(end);
  expect(sockets.length).toBe(end === "open" ? 2 : 1);
  if (end === "closed") expect(client.state.get().error!.code).toBe("UNAUTHENTICATED");
});

test("the URL is given to the WebSocket as a text", async () => {
  const socket = await start({ url: new URL("ws://fake/path") });
  expect(socket.url).toBe("ws://fake/path");
});

test("topics that are too many for one frame are resumed one by one", async () => {
  const lost: unknown[] = [];
  const socket = await start();
  client.onLoss((l) => lost.push(l));
  for (let i = 0; i < 60; i++) {
    socket.receive({ type: "$ws:subscribed", payload: { topic: `t${i}`, pos: "p", ticket: "t".repeat(100) } });
  }
  socket.end(1001);
  await vi.advanceTimersByTimeAsync(1_000);
  const next = sockets.at(-1)!;
  next.open();
  for (let i = 0; i < 70; i++) {
    await vi.advanceTimersByTimeAsync(0);
    for (const f of next.sent.splice(0) as { type: string; meta?: object; payload?: { topics: unknown[] } }[]) {
      if (f.type !== "$ws:resume") continue;
      const topics = f.payload!.topics;
      next.receive(
        topics.length > 10
          ? { type: "RPC_ERROR", meta: f.meta, payload: { code: "RESOURCE_EXHAUSTED", message: "too large", retryable: false, retryAfterMs: null } }
          : { type: "$ws:resumed", meta: f.meta, payload: { topics: topics.map(() => ({ resumed: true, pos: "p", ticket: "n" })) } },
      );
    }
  }
  expect(lost).toEqual([]);
  expect(status()).toBe("open");
});
