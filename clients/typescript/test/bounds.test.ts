// A server that sends what none should. The client stays usable, keeps no more than its bounds, and asks no more often than
// it may.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { isOpen, sleep, start, until } from "./server.js";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** The memory that is in use, in MiB. */
async function used(): Promise<number> {
  await sleep(50);
  collect();
  return process.memoryUsage().heapUsed / (1 << 20);
}

const wrong = ["null", "0", "-1", "1e308", '"text"', "[]", "[null]", "{}", "true", '{"__proto__":{"code":"x"}}'];
const types = [
  "said", "echo.reply", "ERROR", "RPC_ERROR", "confirm", "$ws:rpc-progress", "$ws:subscribed", "$ws:reset", "$ws:resumed", "$ws:gap",
  "$ws:presence", "$ws:expiring", "$ws:renewed", "$ws:abort", "$ws:answer", "__heartbeat_ack", "__proto__", "constructor", "toString", "",
];

test("every type with every kind of meta and payload", async () => {
  const server = await start();
  const client = server.connect();
  client.on("said", () => {});
  client.answer("confirm", () => ({ yes: true }));
  await client.request("join", { topic: "history:a" });
  const frames = [...wrong, "", "{", "\u0000", '"', "[".repeat(10_000), '{"type":', '{"type":null}', '{"type":7,"payload":{}}'];
  for (const type of types) {
    for (const value of wrong) {
      frames.push(`{"type":"${type}","meta":${value},"payload":${value}}`);
      frames.push(`{"type":"${type}","meta":{"correlationId":${value},"topic":${value},"pos":${value}},"payload":${value}}`);
      frames.push(`{"type":"${type}","meta":{"correlationId":"$ws:9"},"payload":${value}}`);
      frames.push(
        `{"type":"${type}","payload":{"topic":${value},"topics":${value},"pos":${value},"ticket":${value},"inMs":${value},"code":${value},"message":${value}}}`,
      );
    }
  }
  for (const frame of frames) {
    const pending = client.request("slow", { ms: 20 }).catch(() => {});
    await server.do("/inject", { frame });
    if (frame.length % 7 === 0) await pending;
  }
  await server.do("/inject", { frame: '{"type":"said","payload":{}}', binary: true });
  // A request that comes just when the connection is given up has an unknown outcome.
  await until(() => client.request("echo", { text: "still there" }).then(({ text }) => text === "still there", () => false));
});

test("what is sent for an open request is of any kind", async () => {
  const server = await start();
  await server.do("/raw", {
    times: -1,
    steps: [
      { expect: "echo" },
      ...wrong.flatMap((value) => [
        { send: `{"type":"$ws:rpc-progress","meta":{"correlationId":"{{id}}"},"payload":${value}}` },
        { send: `{"type":"$ws:rpc-progress","meta":{"correlationId":"{{id}}","other":${value}}}` },
      ]),
      { send: `{"type":"RPC_ERROR","meta":{"correlationId":"{{id}}"}}` },
      ...wrong.flatMap((value) => [
        { expect: "echo" },
        { send: `{"type":"RPC_ERROR","meta":{"correlationId":"{{id}}"},"payload":${value}}` },
        { expect: "echo" },
        { send: `{"type":"RPC_ERROR","meta":{"correlationId":"{{id}}"},"payload":{"code":${value},"message":${value},"retryable":${value}}}` },
      ]),
    ],
  });
  const client = server.connect();
  for (let i = 0; i <= 2 * wrong.length; i++) {
    const error = await client.request("echo", {}, { timeout: 60_000 }).then(() => null, (e: unknown) => e);
    expect(error).toBeInstanceOf(Error);
    expect(typeof (error as { code: unknown }).code).toBe("string");
    expect(typeof (error as Error).message).toBe("string");
  }
});

test("the memory stays bounded", async () => {
  const server = await start();
  const flood = async (steps: object[]) => {
    await server.do("/raw", { steps: [...steps, { send: '{"type":"done"}' }] });
    const client = server.connect();
    const questions = new Promise(() => {});
    client.answer("confirm", () => questions); // never answered
    await isOpen(client);
    const before = await used();
    await new Promise<void>((resolve) => void client.on("done", () => resolve()));
    const grown = (await used()) - before;
    client.close();
    return grown;
  };
  const pad = 256 << 10;
  for (const [what, steps] of Object.entries({
    "events without a listener": [{ send: '{"type":"other{{i}}","payload":"{{pad}}"}', pad: 1000, repeat: 10_000 }],
    "large events without a listener": [{ send: '{"type":"other","payload":"{{pad}}"}', pad, repeat: 100 }],
    "large tickets": [{ send: '{"type":"$ws:subscribed","payload":{"topic":"t{{i}}","pos":"p","ticket":"{{pad}}{{i}}"}}', pad, repeat: 100 }],
    "tickets that replace others": [
      { send: '{"type":"$ws:subscribed","payload":{"topic":"t{{i}}","pos":"p","ticket":"t"}}', repeat: 100 },
      { send: '{"type":"$ws:subscribed","payload":{"topic":"t{{i}}","pos":"p","ticket":"{{pad}}{{i}}"}}', pad, repeat: 100 },
    ],
    "large resets": [
      { send: '{"type":"$ws:subscribed","payload":{"topic":"t{{i}}","pos":"p","ticket":"t"}}', repeat: 100 },
      { send: '{"type":"$ws:reset","payload":{"topic":"t{{i}}","reason":"epoch","pos":"{{pad}}{{i}}"}}', pad, repeat: 100 },
    ],
    "many topics": [{ send: '{"type":"$ws:subscribed","payload":{"topic":"t{{i}}{{pad}}","pos":"p","ticket":"t"}}', pad: 500, repeat: 20_000 }],
    "large positions": [
      { send: '{"type":"$ws:subscribed","payload":{"topic":"a","pos":"p","ticket":"t"}}' },
      { send: '{"type":"said","meta":{"topic":"a","pos":"{{i}}{{pad}}"}}', pad, repeat: 100 },
    ],
    "positions that are no strings": [
      { send: '{"type":"$ws:subscribed","payload":{"topic":"t{{i}}","pos":"p","ticket":"t"}}', repeat: 100 },
      { send: '{"type":"said","meta":{"topic":"t{{i}}","pos":["{{pad}}{{i}}"]}}', pad, repeat: 100 },
    ],
    "questions": [{ send: '{"type":"confirm","meta":{"correlationId":"$ws:{{i}}"},"payload":"{{pad}}"}', pad: 2000, repeat: 10_000 }],
    "questions without a handler": [{ send: '{"type":"other","meta":{"correlationId":"$ws:{{i}}"},"payload":"{{pad}}"}', pad: 1000, repeat: 10_000 }],
    "answers to nothing": [{ send: '{"type":"echo.reply","meta":{"correlationId":"n{{i}}"},"payload":"{{pad}}"}', pad: 1000, repeat: 10_000 }],
    "errors": [{ send: '{"type":"ERROR","payload":{"code":"C{{i}}","message":"{{pad}}"}}', pad: 1000, repeat: 10_000 }],
  })) {
    const grown = await flood(steps);
    expect.soft(grown, `${what}: MiB`).toBeLessThan(8);
  }
});

test("questions of one id are one question", async () => {
  const server = await start();
  const question = '{"type":"confirm","meta":{"correlationId":"$ws:1"},"payload":{}}';
  const flood = [{ send: question, repeat: 1000 }, { send: '{"type":"$ws:abort","meta":{"correlationId":"$ws:1"}}' }];
  await server.do("/raw", { steps: [...flood, { send: '{"type":"done"}' }] });
  const client = server.connect();
  let asked = 0;
  let aborted = 0;
  client.answer("confirm", (_, { signal }) => new Promise(() => {
    asked++;
    signal.addEventListener("abort", () => aborted++);
  }));
  await new Promise<void>((resolve) => void client.on("done", () => resolve()));
  expect({ asked, aborted }).toEqual({ asked: 1, aborted: 1 });
});

test("the tickets of topics that are resumed stay bounded", async () => {
  const server = await start();
  const n = 50;
  await server.do("/raw", { steps: [{ send: '{"type":"$ws:subscribed","payload":{"topic":"t{{i}}","pos":"p","ticket":"t"}}', repeat: n }, { expect: "echo" }, { close: 1001 }] });
  const client = server.connect();
  await isOpen(client);
  const topic = '{"resumed":true,"pos":"{{pad}}","ticket":"{{pad}}"}';
  await server.do("/raw", {
    steps: [
      { expect: "$ws:resume" },
      { send: `{"type":"$ws:resumed","meta":{"correlationId":"{{id}}"},"payload":{"topics":[${Array(n).fill(topic).join()}]}}`, pad: 200_000 },
      { expect: "echo" },
      { send: '{"type":"echo.reply","meta":{"correlationId":"{{id}}"},"payload":{}}' },
    ],
  });
  const before = await used();
  client.request("echo", {}).catch(() => {});
  await until(() => client.state.get().connections === 2 && client.state.get().status === "open");
  await client.request("echo", {});
  expect((await used()) - before).toBeLessThan(8);
});

test("the identity is said to expire without end", async () => {
  const server = await start();
  await server.do("/raw", {
    steps: [
      ...["0", "-5", "null", '"x"', "1e308"].map((ms) => ({ send: `{"type":"$ws:expiring","payload":{"inMs":${ms}}}`, repeat: 2000 })),
      { send: '{"type":"done"}' },
    ],
  });
  let tokens = 0;
  const client = server.connect({ token: () => sleep(5).then(() => `ann.0.${tokens++}`) });
  const done = new Promise<void>((resolve) => void client.on("done", () => resolve()));
  await done;
  await sleep(500);
  expect(tokens).toBeLessThan(200);
});

test("waits that make no sense", async () => {
  const server = await start();
  for (const ms of ["0", "-1", "1e308", "1e309", '"5"', "null", "[]", "{}", "true", "0.0001"]) {
    // Of a limit, for a request that waits.
    await server.do("/log/clear");
    const steps = Array.from({ length: 10_000 }, () => [
      { expect: "limited" },
      { send: `{"type":"RPC_ERROR","meta":{"correlationId":"{{id}}"},"payload":{"code":"RESOURCE_EXHAUSTED","message":"m","retryable":true,"retryAfterMs":${ms}}}` },
    ]).flat();
    await server.do("/raw", { steps, times: -1 }); // also for a second connection, if the first is lost
    const client = server.connect();
    const error = await client.request("limited", {}, { onLimit: "wait", timeout: 1000 }).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(Error);
    const sent = (await server.log()).received.filter(({ type }) => type === "limited").length;
    expect(sent, `sent with a wait of ${ms}`).toBeLessThan(150);
    client.close();
  }
});

test("a server that closes every connection at once", async () => {
  const server = await start();
  let tokens = 0;
  const endings = [[1001, '{"retryAfterMs":0}'], [4000, ""], [1001, '{"retryAfterMs":-1}'], [1013, '{"retryAfterMs":"0"}'], [4401, ""], [1000, ""]] as const;
  for (const [code, reason] of endings) {
    await server.do("/log/clear");
    await server.do("/raw", { steps: [{ send: '{"type":"x"}' }, { close: code, reason }], times: -1 });
    const client = server.connect({ attempts: {}, backoff: {}, token: () => `ann${tokens++}` });
    client.request("echo", {}).catch(() => {});
    await sleep(1000);
    const attempts = (await server.log()).attempts.length;
    expect(attempts, `attempts after ${code} ${reason}`).toBeLessThanOrEqual(6);
    client.close();
    await server.do("/resume");
  }
});
