import { expect, test } from "vitest";
import { UnknownOutcome, WskitError } from "../dist/wskit.js";
import { isOpen, sleep, start, until } from "./server.js";

test("a request is answered", async () => {
  const server = await start();
  const client = server.connect();
  expect(await client.request("echo", { id: "1", text: "hi" })).toEqual({ id: "1", text: "hi" });
  expect(await client.request("whoami", {})).toBe("ann");
});

test("an error is one", async () => {
  const client = (await start()).connect();
  const error = await client.request("fail", { text: "NOT_FOUND" }).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(WskitError);
  expect(error).toMatchObject({ code: "NOT_FOUND", retryable: false, message: "as asked" });
});

test("progress", async () => {
  const client = (await start()).connect();
  const seen: number[] = [];
  const call = client.request("progress", { n: 3, ms: 5 }, { onProgress: ({ n }) => seen.push(n) });
  const iterated: number[] = [];
  for await (const { n } of call.progress) iterated.push(n);
  await call;
  expect(iterated).toEqual([1, 2, 3]);
  expect(seen).toEqual([1, 2, 3]);
});

test("events, sends, questions", async () => {
  const server = await start();
  const client = server.connect();
  const got: number[] = [];
  client.on("said", ({ n }) => got.push(n));
  client.answer("confirm", async ({ text }) => ({ yes: text === "sure?" }));
  await client.request("join", { topic: "history:a" });
  await server.do("/publish", { topic: "history:a", n: 5 });
  await until(() => got.length === 5);
  expect(await client.request("ask", { text: "sure?" })).toEqual({ yes: true });
  await client.send("note", { id: "n1" });
  await until(async () => (await server.log()).executions["n1"] === 1);
});

test("a topic is resumed after a reconnect", async () => {
  const server = await start();
  const client = server.connect();
  const got: number[] = [];
  const losses: unknown[] = [];
  client.on("said", ({ n }) => got.push(n));
  client.onLoss((loss) => losses.push(loss));
  await client.request("join", { topic: "history:a" });
  await server.do("/publish", { topic: "history:a", n: 3 });
  await until(() => got.length === 3);
  await server.do("/stall");
  await server.do("/publish", { topic: "history:a", n: 10 });
  await server.do("/cut-now");
  await server.do("/resume");
  await until(() => got.length === 13);
  expect(got).toEqual(Array.from({ length: 13 }, (_, i) => i + 1));
  expect(losses).toEqual([]);
  await isOpen(client);
  await server.do("/restart", { kill: true, lose: true });
  await until(() => losses.length > 0);
  expect(losses).toEqual([{ topic: "history:a", reason: "epoch" }]);
});

test("a request on a connection that breaks has an unknown outcome, and is not sent again", async () => {
  const server = await start();
  const client = server.connect();
  await isOpen(client);
  const call = client.request("slow", { id: "s", ms: 60_000 }).catch((e: unknown) => e);
  await until(async () => (await server.log()).executions["s"]);
  await server.do("/cut-now");
  expect(await call).toBeInstanceOf(UnknownOutcome);
  await client.request("echo", {});
  await sleep(100);
  expect((await server.log()).executions["s"]).toBe(1);
});

test("a request with a key is sent again, and handled once", async () => {
  const server = await start();
  const client = server.connect();
  await isOpen(client);
  await server.do("/cut", { dir: "down", type: "count.once.reply", at: 3 });
  expect(await client.request("count.once", { id: "k" }, { idempotencyKey: "k1" })).toMatchObject({ n: 1 });
  expect((await server.log()).executions["k"]).toBe(1);
  expect((await server.log()).received.filter((f) => f.type === "count.once").length).toBe(2);
});

test("what waits for a connection is sent later, in order", async () => {
  const server = await start();
  await server.do("/stop");
  const client = server.connect();
  const replies = ["a", "b", "c"].map((id) => client.request("echo", { id }));
  await until(() => client.state.get().status === "waiting");
  await server.do("/start");
  await Promise.all(replies);
  expect((await server.log()).executed.map(({ id }) => id)).toEqual(["a", "b", "c"]);
});

test("a request waits out a limit", async () => {
  const server = await start();
  await server.do("/flood-limit", { capacity: 2, refill: 2, perMs: 1000 });
  const client = server.connect();
  await isOpen(client);
  const ids = ["0", "1", "2", "3", "4"];
  await Promise.all(ids.map((id) => client.request("limited", { id }, { onLimit: "wait" })));
  expect((await server.log()).executed.map(({ id }) => id)).toEqual(ids);
  await expect(Promise.all(ids.map((id) => client.request("limited", { id })))).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
});
