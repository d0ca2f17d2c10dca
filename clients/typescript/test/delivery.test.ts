import { expect, test } from "vitest";
import { keep } from "../dist/keep.js";
import { scenario } from "./scenario.js";
import { isOpen, numbers, record, sleep, start, until } from "./server.js";

const topic = "history:a";

scenario("resume", async () => {
  const server = await start();
  const client = server.connect();
  const got = record(client);
  await client.request("join", { topic });
  await server.do("/publish", { topic, n: 5 });
  await until(() => got.events.length === 5);
  await server.do("/refuse", { tcp: true });
  await server.do("/cut-now");
  await server.do("/publish", { topic, n: 5 });
  await server.do("/resume");
  await until(() => got.events.length === 10);
  await isOpen(client);
  await server.do("/publish", { topic, n: 1 });
  await until(() => got.events.length === 11);
  expect(got.order).toEqual(numbers(1, 11));
  const log = await server.log();
  const subscribed = JSON.parse(log.sent.find((f) => f.type === "$ws:subscribed")!.text).payload;
  const last = log.sent.filter((f) => f.type === "said" && f.conn === 1).at(-1)!;
  const asked = JSON.parse((await server.received("$ws:resume")).at(-1)!.text).payload;
  expect(asked).toEqual({ topics: [{ ticket: subscribed.ticket, pos: JSON.parse(last.text).meta.pos }] });
});

scenario("gap", async () => {
  for (const lose of [false, true]) {
    const server = await start();
    const client = server.connect();
    const got = record(client);
    await client.request("join", { topic });
    await server.do("/publish", { topic, n: 3 });
    await until(() => got.events.length === 3);
    if (lose) {
      await server.do("/restart", { kill: true, lose: true });
    } else {
      await server.do("/refuse", { tcp: true });
      await server.do("/cut-now");
      await server.do("/trim", { topic });
      await server.do("/resume");
    }
    await until(() => got.losses.length);
    await isOpen(client);
    const { to } = await server.do("/publish", { topic, n: 1 });
    await until(() => got.events.at(-1) === to);
    expect(got.losses).toEqual([{ topic, reason: lose ? "epoch" : "trimmed" }]);
    expect(got.order.slice(0, 4)).toEqual([1, 2, 3, got.losses[0]!.reason]);
    expect(new Set(got.events).size).toBe(got.events.length);
    // The position is the new one: what comes now can be resumed.
    const { connections } = client.state.get();
    await server.do("/cut-now");
    await until(() => client.state.get().connections > connections);
    await isOpen(client);
    await server.do("/publish", { topic, n: 1 });
    await until(() => got.events.at(-1) === to + 1);
    expect(got.losses.length).toBe(1);
  }
});

scenario("inbox", async () => {
  for (const all of [false, true]) {
    const server = await start({ inbox: topic, all });
    const client = server.connect();
    const got = record(client);
    await client.request("echo", {});
    for (let round = 0; round < 5; round++) {
      await server.do("/publish", { topic, n: 3 });
      const { connections } = client.state.get();
      await server.do("/cut-now");
      for (let i = 0; i < 3; i++) await server.do("/publish", { topic, n: 1 }); // while it is away, comes back and resumes
      await until(() => client.state.get().connections > connections);
    }
    await server.do("/publish", { topic, n: 1 });
    await until(() => got.events.at(-1) === 31);
    await client.request("echo", {});
    expect(got.order).toEqual(numbers(1, 31));
  }
});

scenario("keep", async () => {
  const server = await start();
  await server.do("/publish", { topic, n: 5 });
  const client = server.connect();
  let shown: number[] = [];
  let opened = 0;
  let whole = 0;
  let loaded = 0;
  client.on("said", (m: { n: number }) => void shown.push(m.n));
  client.onLoss(() => {}); // what keep does about it is the point here
  const stop = keep(client, topic, {
    async open(all) {
      opened++; // once more than expected if the server goes before it has answered
      if (all && ++whole === 2) {
        await server.do("/publish", { topic, n: 3 }); // they come twice: now, and when the topic begins anew
        await until(() => shown.at(-1) === 13);
      }
      await client.request("open", { topic, all });
      if (all) loaded++;
    },
    reset: () => (shown = []),
  });
  await until(() => shown.length === 5 && loaded === 1); // a loss before the answer loads again
  expect(shown).toEqual(numbers(1, 5));
  await server.do("/refuse", { tcp: true });
  await server.do("/cut-now");
  await server.do("/publish", { topic, n: 5 });
  await server.do("/resume");
  await until(() => shown.length === 10);
  expect(shown).toEqual(numbers(1, 10));
  const last = client.state.get().connections;
  await server.do("/restart", { kill: true, lose: true });
  await until(() => client.state.get().connections > last);
  await client.request("echo", {}); // is sent when it is known what is lost
  expect(whole).toBe(2);
  await until(() => loaded === 2);
  await client.request("echo", {}); // what the topic keeps is before its answer
  expect(shown).toEqual(numbers(11, 13));
  expect(whole).toBe(2);
  stop();
  const before = opened;
  const { connections } = client.state.get();
  await server.do("/cut-now");
  await until(() => client.state.get().connections > connections);
  await client.request("echo", {});
  expect(opened).toBe(before);
});

test("keep waits where the server asks for it, and reports once what waiting does not help", async () => {
  const server = await start();
  const client = server.connect();
  const opened: boolean[] = [];
  const errors: unknown[] = [];
  const refusals: unknown[] = [
    { code: "UNAVAILABLE", retryable: true, retryAfterMs: 50 },
    { code: "PERMISSION_DENIED", retryable: false },
  ];
  keep(client, topic, {
    async open(all) {
      opened.push(all);
      if (refusals.length) throw refusals.shift();
    },
    onError: (error) => errors.push(error),
  });
  await until(() => errors.length);
  expect(errors).toEqual([{ code: "PERMISSION_DENIED", retryable: false }]);
  expect(opened).toEqual([true, true]);
  await server.do("/cut-now");
  await until(() => opened.length === 3);
  expect(opened[2]).toBe(true); // nothing has come yet
});

test("a topic that cannot be resumed yet is resumed later, and one that is denied is reported", async () => {
  const server = await start();
  const client = server.connect();
  const got = record(client);
  await client.request("join", { topic });
  await server.do("/publish", { topic, n: 2 });
  await until(() => got.events.length === 2);
  const resumed = (entry: string) => `{"type":"$ws:resumed","meta":{"correlationId":"{{id}}"},"payload":{"topics":[{"topic":"${topic}",${entry}}]}}`;
  await server.script([
    { expect: "$ws:resume" },
    { send: resumed('"resumed":false,"reason":"unavailable"') },
    { expect: "$ws:resume" },
    { send: `{"meta":{"topic":"${topic}","pos":"p3"},"type":"said","payload":{"n":3}}` },
    { send: resumed('"resumed":true,"replayed":1,"pos":"p3","ticket":"t3"') },
    { send: `{"meta":{"topic":"${topic}","pos":"p4"},"type":"said","payload":{"n":4}}` },
    { sleepMs: 60_000 },
  ]);
  await server.do("/cut-now");
  await until(() => got.events.length === 4);
  expect(got.losses).toEqual([]);
  await server.script([
    { expect: "$ws:resume" },
    { send: resumed('"resumed":false,"reason":"denied"') },
    { sleepMs: 60_000 },
  ]);
  await server.do("/cut-now");
  await until(() => got.losses.length);
  expect(got.order).toEqual([1, 2, 3, 4, "denied"]);
  const asked = (await server.received("$ws:resume")).map((f) => JSON.parse(f.text).payload.topics);
  expect(asked.at(-1)).toEqual([{ ticket: "t3", pos: "p4" }]); // not the position of the answer, which is older
});

test("a topic that was left is not resumed", async () => {
  const server = await start();
  const client = server.connect();
  const got = record(client);
  const topics = ["history:left", "history:forgotten", "history:again", "history:kept"];
  for (const topic of topics) await client.request("join", { topic });
  await client.request("leave", { topic: "history:left" });
  client.forget("history:forgotten");
  await client.request("leave", { topic: "history:again" });
  await server.do("/publish", { topic: "history:again", n: 3 });
  await client.request("join", { topic: "history:again" });
  await server.do("/cut-now");
  await until(async () => (await server.received("$ws:resume")).length);
  await client.request("echo", {});
  const { topics: resumed } = JSON.parse((await server.log()).sent.find((f) => f.type === "$ws:resumed")!.text).payload;
  expect(resumed.map((t: { topic: string }) => t.topic)).toEqual(["history:kept", "history:again"]);
  expect(got.losses).toEqual([]); // what is published while the application has left is not missing
});

test("many topics are resumed in frames that the server accepts", async () => {
  const server = await start();
  const client = server.connect();
  const got = record(client);
  const topics = numbers(1, 200).map((n) => `history:${n}`);
  await Promise.all(topics.map((topic) => client.request("join", { topic })));
  await server.do("/refuse", { tcp: true });
  await server.do("/cut-now");
  for (const topic of topics) await server.do("/publish", { topic });
  await server.do("/resume");
  await until(() => got.events.length === 200);
  await client.request("echo", {});
  expect(got.losses).toEqual([]);
  expect(got.events.length).toBe(200);
  expect((await server.received("$ws:resume")).length).toBe(4);
});

test("a subscription that begins anew before the topic is resumed is reported", async () => {
  const server = await start();
  const client = server.connect();
  const got = record(client);
  await client.request("join", { topic });
  await server.do("/publish", { topic, n: 2 });
  await until(() => got.events.length === 2);
  await server.script([
    { send: `{"type":"$ws:subscribed","payload":{"topic":"${topic}","pos":"p9","ticket":"t9"}}` },
    { expect: "$ws:resume" },
    { send: `{"type":"$ws:resumed","meta":{"correlationId":"{{id}}"},"payload":{"topics":[{"topic":"${topic}","resumed":false,"reason":"subscribed"}]}}` },
    { sleepMs: 60_000 },
  ]);
  await server.do("/cut-now");
  await until(() => client.state.get().connections === 2);
  await isOpen(client);
  expect(got.order).toEqual([1, 2, "subscribed"]);
});

test("requests wait until the topics are resumed, since they may subscribe to them", async () => {
  const server = await start();
  const client = server.connect();
  const got = record(client);
  client.state.subscribe(() => {
    // A join that is cut off is sent again when the connection is open again.
    if (client.state.get().status === "open") client.request("join", { topic }).catch(() => {});
  });
  await isOpen(client);
  for (let n = 1; n <= 5; n++) {
    await server.do("/cut-now");
    await server.do("/publish", { topic, n: 3 });
    await until(() => client.state.get().connections > n && client.state.get().status === "open");
    await client.request("echo", {});
  }
  await until(() => got.events.at(-1) === 15);
  expect(got.losses).toEqual([]);
  const first = got.events[0]!;
  expect(got.events).toEqual(numbers(first, 15));
});

test("a topic without history that may have lost messages is reported", async () => {
  const server = await start();
  const client = server.connect();
  const got = record(client);
  await isOpen(client);
  await server.do("/inject", { frame: '{"type":"$ws:gap","payload":{"topics":["hall","yard"]}}' });
  await until(() => got.losses.length === 2);
  expect(got.losses).toEqual([{ topic: "hall", reason: "gap" }, { topic: "yard", reason: "gap" }]);
});

test("events that come before a listener are given to it, once and in order", async () => {
  const server = await start();
  const client = server.connect();
  await client.request("join", { topic });
  await server.do("/publish", { topic, n: 20 });
  await client.request("echo", {});
  const got = record(client);
  await server.do("/publish", { topic, n: 1 });
  await until(() => got.events.length === 21);
  expect(got.order).toEqual(numbers(1, 21));
});

test("events for which no listener comes are bounded, and reported where a topic has a history", async () => {
  const server = await start();
  const client = server.connect();
  await client.request("join", { topic });
  await server.do("/inject", { frame: `{"type":"said","meta":{"topic":"${topic}","pos":"x"},"payload":{"n":0}}` });
  const got = record(client); // its listener for losses is the point here
  got.events.length = 0;
  const other = server.connect();
  const losses: unknown[] = [];
  other.onLoss((loss) => losses.push(loss));
  await other.request("join", { topic });
  await server.do("/publish", { topic, n: 300 });
  await until(() => losses.length === 300 - 256);
  await other.request("echo", {});
  expect(losses[0]).toEqual({ topic, reason: "noListener" });
  const late = record(other);
  await until(() => late.events.length === 256);
  expect(late.events).toEqual(numbers(45, 300));
});

scenario("redis away", async () => {
  const server = await start({ redis: true });
  const client = server.connect();
  const got = record(client);
  await client.request("join", { topic });
  await server.do("/publish", { topic, n: 2 });
  await until(() => got.events.length === 2);
  await server.do("/redis/stop");
  const outcomes = await Promise.allSettled([
    client.request("say", { topic, id: "s" }, { timeout: 20_000 }),
    client.request("count.once", { id: "c" }, { idempotencyKey: "c", timeout: 20_000 }),
  ]);
  for (const outcome of outcomes) expect(outcome).toMatchObject({ status: "rejected", reason: { code: "UNAVAILABLE", retryable: true } });
  await server.do("/redis/start");
  const published = await until(async () => (await server.do("/publish", { topic }).catch(() => undefined)) !== undefined);
  expect(published).toBeUndefined();
  await until(() => got.losses.length);
  let last = 0;
  await until(async () => {
    last = (await server.do("/publish", { topic })).to;
    await sleep(100);
    return got.events.includes(last);
  });
  expect(got.losses[0]).toMatchObject({ topic, reason: "epoch" });
  expect(new Set(got.events).size).toBe(got.events.length);
});

scenario("ask", async () => {
  const server = await start();
  const client = server.connect();
  await isOpen(client);
  expect(await server.do("/ask", { text: "?" })).toMatchObject([{ code: expect.stringMatching(/UNIMPLEMENTED/) }]);
  const withdrawn: string[] = [];
  let slow = 0;
  const stop = client.answer("confirm", async ({ text }, { signal }) => {
    if (text === "throw") throw new Error("not now");
    if (text === "coded") throw Object.assign(new Error("no"), { code: "PERMISSION_DENIED" });
    if (text === "slow") {
      slow++;
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      withdrawn.push(text);
    }
    return { yes: true };
  });
  expect(await client.request("ask", {})).toEqual({ yes: true });
  expect(await server.do("/ask", {})).toMatchObject([{ user: "ann", answer: { yes: true } }]);
  expect(await server.do("/ask", { text: "throw" })).toMatchObject([{ code: "UNKNOWN" }]);
  expect(await server.do("/ask", { text: "coded" })).toMatchObject([{ code: "PERMISSION_DENIED" }]);
  expect((await server.do("/ask", { text: "slow", timeoutMs: 500 }))[0].code).toBeTruthy();
  await until(() => withdrawn.length);
  expect(await client.request("ask", {})).toEqual({ yes: true });
  // A question ends with its connection.
  const asked = server.do("/ask", { text: "slow" });
  await until(() => slow === 2);
  await server.do("/cut-now");
  await asked;
  await until(() => withdrawn.length === 2);
  await isOpen(client);
  stop();
  expect((await server.do("/ask", {}))[0].code).toBe("UNIMPLEMENTED");
});

scenario("handlers that fail", async () => {
  const server = await start();
  const client = server.connect();
  const failing: number[] = [];
  client.on("said", ({ n }) => {
    failing.push(n);
    if (n === 3) throw new Error("three");
  });
  let stop = () => {};
  const added: number[] = [];
  const removed: number[] = [];
  client.on("said", ({ n }) => {
    if (n === 4) stop();
    if (n === 5) client.on("said", ({ n }) => added.push(n));
  });
  stop = client.on("said", ({ n }) => removed.push(n));
  const got = record(client);
  await client.request("join", { topic });
  await server.do("/publish", { topic, n: 10 });
  await until(() => got.events.length === 10);
  expect(failing).toEqual(numbers(1, 10));
  expect(got.events).toEqual(numbers(1, 10));
  expect(removed).toEqual([1, 2, 3, 4]);
  expect(added).toEqual(numbers(6, 10));
  expect(got.errors.map((e) => e.message)).toEqual(["three"]);
});
