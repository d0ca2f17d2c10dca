import { expect, test } from "vitest";
import { UnknownOutcome } from "../dist/wskit.js";
import { scenario } from "./scenario.js";
import { isOpen, record, rejection, sleep, start, until } from "./server.js";

/** What the close codes of PROTOCOL.md mean: whether the client ends, or how long it waits at least. */
const table: { code: number; reason?: string; ends?: boolean; idle?: boolean; atLeast?: number }[] = [
  { code: 1000, idle: true },
  { code: 1001 },
  { code: 1001, reason: '{"retryAfterMs":300}', atLeast: 300 },
  { code: 1002, ends: true },
  { code: 1007, ends: true },
  { code: 1008, ends: true },
  { code: 1009, reason: '{"retryAfterMs":null}' },
  { code: 1011 },
  { code: 1013 },
  { code: 1013, reason: '{"retryAfterMs":300}', atLeast: 300 },
  { code: 1013, reason: '{"retryAfterMs":null}' },
  { code: 4000 },
  { code: 4008 },
  { code: 4401 },
  { code: 4403, ends: true },
  { code: 4429 },
  { code: 4429, reason: '{"retryAfterMs":300}', atLeast: 300 },
  { code: 4429, reason: '{"retryAfterMs":null}', ends: true },
  { code: 4999, reason: "by the application" },
];

scenario("kicked by code", async () => {
  const server = await start();
  for (const { code, reason, ends, idle, atLeast = 0 } of table) {
    await server.do("/log/clear");
    let asked = 0;
    const client = server.connect({ token: () => `user${asked++}` });
    await isOpen(client);
    await server.script([{ expect: "echo" }, { send: '{"type":"x"}' }, { close: code, reason }]);
    await server.do("/cut-now"); // the next connection has the script
    await until(() => client.state.get().connections === 2 && client.state.get().status === "open");
    const error = await rejection(client.request("echo", { id: "e" }));
    expect(error, `${code}`).toBeInstanceOf(UnknownOutcome);
    expect(client.state.get().closeCode).toBe(code);
    if (ends) {
      expect(client.state.get(), `${code} ${reason}`).toMatchObject({ status: "closed", error: { retryable: false } });
      expect(client.state.get().error!.message).toContain(String(code));
      expect((await rejection(client.request("echo", {}))).code).toBe(client.state.get().error!.code);
    } else {
      if (idle) {
        expect(client.state.get().status).toBe("idle");
        await sleep(300);
        expect(client.state.get().status).toBe("idle");
      }
      await client.request("echo", {}); // makes an idle client connect
      const log = await server.log();
      const close = log.closes.find((c) => c.code === code && c.dir === "down")!;
      expect(log.attempts.at(-1)!.atMs - close.atMs, `${code} ${reason}`).toBeGreaterThanOrEqual(atLeast - 1);
      expect(asked).toBe(3);
    }
    client.close();
  }
});

test("a client that follows a topic with history does not stay away after 1000", async () => {
  const server = await start();
  const client = server.connect();
  await client.request("join", { topic: "history:a" });
  await server.do("/close", { code: 1000 });
  await until(() => client.state.get().connections === 2);
});

scenario("advice that makes no sense", async () => {
  const server = await start();
  for (const n of ["0", "-1", "1e308", '"5"', "NaN", "[]", "{}", "true"]) {
    await server.do("/log/clear");
    await server.script([{ accept: true }, { close: 1013, reason: `{"retryAfterMs":${n}}` }], 4);
    const client = server.connect({ backoff: { first: 40, most: 100 } });
    expect(await client.request("echo", { id: "e" })).toEqual({ id: "e" });
    await server.do("/alter", { type: "limited.reply", do: "replace", times: 3, with: `{"type":"RPC_ERROR","meta":{"correlationId":"{{id}}"},"payload":{"code":"RESOURCE_EXHAUSTED","message":"m","retryable":true,"retryAfterMs":${n === "NaN" ? "null" : n}}}` });
    const outcome = await client.request("limited", {}, { onLimit: "wait", timeout: 60_000 }).catch((error) => error.code);
    expect(outcome).toEqual(n === "0" ? {} : "RESOURCE_EXHAUSTED");
    await server.do("/resume");
    expect(await client.request("echo", { id: "f" })).toEqual({ id: "f" });
    client.close();
  }
  await server.script([{ accept: true }, { close: 1013, reason: "later" }]);
  await server.connect().request("echo", {});
});

scenario("close by the application", async () => {
  const server = await start();
  const open = server.connect();
  await isOpen(open);
  const calls = [open.request("slow", { ms: 60_000 }), open.request("slow", { ms: 60_000 })].map(rejection);
  await until(async () => (await server.received("slow")).length === 2);
  open.close();
  open.close();
  for (const call of calls) expect(await call).toMatchObject({ code: "CANCELLED", name: "UnknownOutcome" });
  expect(await rejection(open.request("echo", {}))).toMatchObject({ code: "CANCELLED", name: "WskitError" });
  expect(await rejection(open.send("note", {}))).toMatchObject({ code: "CANCELLED" });
  open.reconnect();
  await until(async () => (await server.log()).closes.some((c) => c.dir === "up" && c.code === 1000));

  const connecting = server.connect();
  const queued = rejection(connecting.request("echo", {}));
  connecting.close();
  expect(await queued).toMatchObject({ code: "CANCELLED", name: "WskitError" });

  await server.do("/stop");
  const waiting = server.connect();
  await until(() => waiting.state.get().status === "waiting");
  const left = rejection(waiting.request("echo", {}));
  waiting.close();
  expect(await left).toMatchObject({ code: "CANCELLED" });
  await server.do("/start");
  await server.do("/log/clear");
  await sleep(500);
  expect((await server.log()).attempts).toEqual([]);
  for (const client of [open, connecting, waiting]) expect(client.state.get().status).toBe("closed");
});

test("no timer is left when a client was closed, so that a process can end", async () => {
  const { execFile } = await import("node:child_process");
  const server = await start();
  const code = `
    import { connect } from ${JSON.stringify(new URL("../dist/wskit.js", import.meta.url).href)};
    const client = connect({ url: ${JSON.stringify(server.url)}, token: () => "ann" });
    client.answer("confirm", () => ({ yes: true }));
    await client.request("join", { topic: "history:a" });
    client.request("slow", { ms: 60000 }).catch(() => {});
    client.close();
    console.log("closed");
    process.on("exit", () => console.log(performance.now() < 25000 ? "soon" : "late"));
  `;
  const out = await new Promise<string>((resolve, reject) =>
    execFile(process.execPath, ["--input-type=module", "--eval", code], (error, out) => (error ? reject(error) : resolve(out))),
  );
  expect(out).toBe("closed\nsoon\n");
});

scenario("unknown types", async () => {
  const server = await start();
  const client = server.connect();
  const got = record(client);
  await isOpen(client);
  for (const frame of [
    '{"type":"no.such.type","payload":1}',
    '{"type":"$ws:something","payload":{"a":1}}',
    '{"type":"$ws:something"}',
    '{"type":"__other"}',
    '{"type":"said","meta":{"unknown":[1],"$new":{}},"payload":{"n":1}}',
    '{"type":"echo.reply","meta":{"correlationId":"of no request"},"payload":{}}',
    '{"type":"RPC_ERROR","meta":{"correlationId":"of no request"},"payload":{"code":"NOT_FOUND","message":"m","retryable":false}}',
    '{"type":"$ws:rpc-progress","meta":{"correlationId":"of no request"},"payload":{}}',
    '{"type":"$ws:abort","meta":{"correlationId":"$ws:77"}}',
  ]) await server.do("/inject", { frame });
  await client.request("echo", {});
  expect(got.events).toEqual([1]);
  expect(got.errors).toEqual([]);
  expect((await server.log()).attempts.length).toBe(1);
});

scenario("malformed frames from the server", async () => {
  const server = await start();
  const client = server.connect();
  const got = record(client);
  await client.request("join", { topic: "history:a" });
  const frames = [
    "no JSON", '{"type":', "null", "7", "[]", "{}", '{"type":7}', '{"payload":{}}', '{"type":"said","meta":7,"payload":null}',
    '{"type":"$ws:subscribed"}', '{"type":"$ws:subscribed","payload":{"topic":7}}', '{"type":"$ws:subscribed","payload":{"topic":"__proto__","pos":"p","ticket":"t"}}',
    '{"type":"$ws:reset"}', '{"type":"$ws:gap"}', '{"type":"$ws:gap","payload":{"topics":7}}', '{"type":"$ws:expiring"}',
    '{"type":"ERROR"}', '{"type":"ERROR","payload":7}', '{"type":"__proto__","payload":{"a":1}}', '{"__proto__":{"type":"x"}}', '{"type":"constructor"}',
    '{"type":"confirm","meta":{"correlationId":"$ws:__proto__"}}', '{"type":"x","meta":{"correlationId":7}}', '{"type":"$ws:presence"}', "",
  ];
  for (const frame of frames) if (frame) await server.do("/inject", { frame });
  await server.do("/inject", { frame: '{"type":"said","payload":{"n":2}}', binary: true });
  expect(await client.request("echo", { id: "e" })).toEqual({ id: "e" });
  expect((await server.log()).attempts.length).toBe(1);
  expect(got.errors.length).toBeGreaterThan(8);
  for (const error of got.errors) expect(error).toBeInstanceOf(Error);

  // An answer that cannot be read settles its request.
  await server.do("/alter", { type: "echo.reply", do: "replace", with: '{"type":"RPC_ERROR","meta":{"correlationId":"{{id}}"}}' });
  expect(await rejection(client.request("echo", {}))).toMatchObject({ code: "UNKNOWN", retryable: false });

  for (const bytes of [[0xf1, 0], [0x81, 0x80, 0, 0, 0, 0], [0x81, 1, 0xff]]) {
    const { connections } = client.state.get();
    await server.script([{ accept: true }, { bytes: Buffer.from(bytes).toString("base64") }, { sleepMs: 60_000 }]);
    await server.do("/cut-now");
    await until(() => client.state.get().connections >= connections + 2); // one with the script, and the next
    await client.request("echo", {});
  }
});

scenario("hostile server", async () => {
  const server = await start();
  const client = server.connect({ heartbeat: { after: 60_000 } });
  client.onLoss(() => {});
  client.answer("never", () => new Promise(() => {}));
  await isOpen(client);
  const memory = async () => {
    await sleep(50);
    globalThis.gc?.();
    return process.memoryUsage().heapUsed;
  };
  const before = await memory();
  await server.script([
    { send: '{"type":"unknown.{{i}}","payload":{"a":"{{i}}"}}', repeat: 10_000 },
    { send: '{"type":"$ws:subscribed","payload":{"topic":"t{{i}}","pos":"p","ticket":"{{pad}}"}}', repeat: 100, pad: 1 << 20 },
    { send: '{"type":"never","meta":{"correlationId":"$ws:{{i}}"},"payload":{}}', repeat: 2_000 },
    { send: '{"type":"x.reply","meta":{"correlationId":"no{{i}}"},"payload":{}}', repeat: 2_000 },
    { send: '{"type":"$ws:rpc-progress","meta":{"correlationId":"no{{i}}"},"payload":{}}', repeat: 2_000 },
    { send: '{"type":"{{pad}}"}', repeat: 50, pad: 1 << 20 },
    { send: '{"type":"said","payload":{"n":1}}' },
    { sleepMs: 60_000 },
  ]);
  let n = 0;
  client.on("said", () => n++);
  await server.do("/cut-now");
  await until(() => n === 1);
  expect((await memory()) - before).toBeLessThan(20 << 20);
  await server.do("/cut-now");
  await until(() => client.state.get().connections === 3);
  expect(await client.request("echo", { id: "e" })).toEqual({ id: "e" });
});
