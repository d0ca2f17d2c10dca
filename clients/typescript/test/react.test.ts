import { Window } from "happy-dom";
import { createElement as h, StrictMode, useState, type FunctionComponent } from "react";
import { expect, test } from "vitest";
import { useConnection, useEvent, useKeep, useLimits } from "../dist/react.js";
import { atEnd, numbers, start, until } from "./server.js";

const topic = "history:a";

// One page for all tests: React still asks for the window after what it shows is unmounted, a moment later.
const window = new Window();
Object.assign(globalThis, { window, document: window.document });
const { createRoot } = await import("react-dom/client");

/** Renders a component under StrictMode, and returns what it shows and how to end it. */
function render(component: FunctionComponent) {
  const element = window.document.createElement("div");
  const root = createRoot(element as unknown as Element);
  root.render(h(StrictMode, null, h(component)));
  const end = () => root.unmount();
  atEnd(end);
  return { text: () => element.textContent, end };
}

test("useConnection shows the state of the connection", async () => {
  const server = await start();
  const client = server.connect();
  const page = render(() => `${useConnection(client).status}, ${useConnection(client).connections}`);
  await until(() => page.text() === "open, 1");
  await server.do("/refuse", { tcp: true });
  await server.do("/cut-now");
  await until(() => page.text()!.startsWith("waiting"));
  await server.do("/resume");
  await until(() => page.text() === "open, 2");
});

test("useEvent calls the listener that was rendered last, once for each event, and none when the page has gone", async () => {
  const server = await start();
  const client = server.connect();
  await client.request("join", { topic });
  const late: number[] = [];
  const page = render(() => {
    const [shown, show] = useState<number[]>([]);
    useEvent(client, "said", ({ n }: { n: number }) => {
      late.push(n);
      show([...shown, n]); // of the last rendering: an older listener would lose messages
    });
    return shown.join(" ");
  });
  for (const n of numbers(1, 5)) {
    await server.do("/publish", { topic, n: 1 });
    await until(() => page.text() === numbers(1, n).join(" "));
  }
  page.end();
  await server.do("/publish", { topic, n: 1 });
  await client.request("echo", {});
  expect(late).toEqual(numbers(1, 5));
});

test("useKeep shows everything once, over a reconnect and a loss, and opens everything twice", async () => {
  const server = await start();
  await server.do("/publish", { topic, n: 5 });
  const client = server.connect();
  await client.request("echo", {}); // it is connected when the page is shown
  let whole = 0;
  const page = render(() => {
    const [shown, show] = useState<number[]>([]);
    useEvent(client, "said", ({ n }: { n: number }) => show((shown) => [...shown, n]));
    useKeep(client, topic, {
      async open(all) {
        if (all) whole++;
        await client.request("open", { topic, all });
      },
      reset: () => show([]),
    });
    return shown.join(" ");
  });
  await until(() => page.text() === "1 2 3 4 5");
  await server.do("/refuse", { tcp: true });
  await server.do("/cut-now");
  await server.do("/publish", { topic, n: 5 });
  await server.do("/resume");
  await until(() => page.text() === numbers(1, 10).join(" "));
  await server.do("/restart", { kill: true, lose: true });
  await until(() => whole === 2);
  await server.do("/publish", { topic, n: 3 });
  await until(() => page.text() === "11 12 13");
  await client.request("echo", {});
  expect(page.text()).toBe("11 12 13");
  expect(whole).toBe(2);
  page.end();
  const { connections } = client.state.get();
  await server.do("/cut-now");
  await until(() => client.state.get().connections > connections);
  await client.request("echo", {});
  expect(whole).toBe(2);
  expect((await server.received("open")).filter(({ text }) => text.includes("true")).length).toBe(2);
});

test("useLimits shows what is left when the server says it, asks once, and follows no longer than it is shown", async () => {
  const server = await start();
  const client = server.connect();
  await client.request("echo", {});
  const page = render(() => {
    const limits = useLimits(client, ["limited"]);
    return limits ? `${limits.get().map(({ name }) => name)} ${limits.fits("limited")}` : "unknown";
  });
  expect(page.text()).toMatch(/^(unknown)?$/);
  await until(() => /^\w+ \d+$/.test(page.text()!));
  page.end();
  await client.request("echo", {});
  const asked = (await server.received("$ws:limits")).map(({ text }) => JSON.parse(text).payload.types);
  expect(asked).toEqual([["limited"], []]);
});

test("useLimits of several components is one request, and the others go on when one of them is gone", async () => {
  const server = await start();
  await server.do("/flood-limit", { capacity: 9, refill: 1, perMs: 3_600_000 });
  const client = server.connect();
  await client.request("echo", {});
  const types = ["limited", "limited.note"];
  let hide = (_: string) => {};
  const one: FunctionComponent<{ type: string }> = ({ type }) => String(useLimits(client, [type])?.fits(type));
  const page = render(() => {
    const [hidden, set] = useState("");
    hide = set;
    return types.filter((type) => type !== hidden).map((type) => h("p", { key: type }, h(one, { type })));
  });
  await until(() => page.text() === "99");
  client.send("limited.note", {});
  await until(() => page.text() === "88");
  hide("limited.note");
  await until(() => page.text() === "8");
  await client.request("limited", {});
  await until(() => page.text() === "7");
  page.end();
  await client.request("echo", {});
  const asked = (await server.received("$ws:limits")).map(({ text }) => JSON.parse(text).payload.types);
  expect(asked).toEqual([types, []]);
});
