import { expect, test, vi } from "vitest";
import { connect, type Schema } from "../dist/dev.js";
import { atEnd, start, until } from "./server.js";

test("options that are missing, and those that are none, throw and say what to use", () => {
  const wrong = (options: object) => () => connect(options as { url: string });
  expect(wrong({})).toThrow('connect has no url; give it the server\'s: connect({ url: "/ws" })');
  expect(() => (connect as () => unknown)()).toThrow("connect has no url");
  expect(wrong({ url: "ws://a", Token: "t" })).toThrow("there is no option Token; use token");
  expect(wrong({ url: "ws://a", queue: { message: 7 } })).toThrow("there is no option queue.message; use messages");
  expect(wrong({ url: "ws://a", heartbeat: { every: 7 } })).toThrow("there is no option heartbeat.every; use one of after, timeout");
  expect(wrong({ url: "ws://a", reconnect: false })).toThrow("there is no option reconnect; use one of WebSocket, attempts, backoff,");
});

test("types that the schema does not have are warned of, once each; all else is as without", async () => {
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  atEnd(() => warn.mockRestore());
  const server = await start();
  const schema: Schema = { $defs: { "request:echo": {}, "reply:echo": {}, "send:note": {}, "event:said": {}, "question:confirm": {}, Said: {} } };
  let arrives!: (s: Schema) => void;
  const client = connect({ url: server.url, token: () => "user-dev" }, new Promise<Schema>((resolve) => (arrives = resolve)));
  atEnd(client.close);
  client.on("sayd", () => {});
  client.on("sayd", () => {});
  client.on("said", () => {});
  client.on("echo", () => {});
  client.on("$ws:presence", () => {});
  client.answer("confirn", () => {});
  await client.request("echo", {});
  expect(warn).not.toHaveBeenCalled();
  arrives(schema);
  await until(() => warn.mock.calls.length === 3);
  await client.request("ecco", {}).catch(() => {});
  await client.request("echo", {});
  expect(warn.mock.calls.flat()).toEqual([
    'wskit: the server declares no event "sayd"; use said',
    'wskit: the server declares no event "echo"; use one of said',
    'wskit: the server asks no question "confirn"; use confirm',
    'wskit: the server answers no request "ecco"; use echo',
  ]);
});
