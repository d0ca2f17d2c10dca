import { expect, test } from "vitest";
import { attach, start as begin, type Piece, type Run } from "../dist/run.js";
import { scenario } from "./scenario.js";
import { numbers, rejection, start, until } from "./server.js";

/** Reads a run to its end, or its error, and keeps what a page would show. */
function reader(run: Run) {
  const shown = { text: "", open: [] as string[], end: undefined as Piece | undefined, pieces: 0, resets: 0 };
  const done = (async () => {
    for await (const piece of run) {
      shown.pieces++;
      if (piece.type === "text") shown.text += piece.text;
      if (piece.type === "event") shown.text += `${JSON.stringify(piece.event)} `;
      if (piece.type === "question") shown.open.push(piece.id);
      if (piece.type === "closed") shown.open = shown.open.filter((id) => id !== piece.id);
      if (piece.type === "reset") Object.assign(shown, { text: "", open: [], resets: shown.resets + 1 });
      if (piece.type === "end") shown.end = piece;
    }
    return shown;
  })();
  done.catch(() => {});
  return { shown, done };
}

const end = (state: string, more = {}) => ({ type: "end", end: { state, ...more } });

scenario("run", async () => {
  const server = await start();
  const phone = server.connect();
  const desk = server.connect();
  const run = await begin(phone, "write", { text: "eins zwei EVENT drei ASK vier fünf INPUT sechs", ms: 30 });
  const one = reader(run);
  const two = reader(attach(desk, run.id));
  const three = reader(attach(desk, run.id)); // shares the subscription of two
  await until(() => one.shown.text.includes("zwei"));
  await server.do("/cut-now");
  await until(() => one.shown.open.length && two.shown.open.length);
  await server.do("/cut-now");
  const answers = await Promise.all([run.answer(one.shown.open[0]!, "ja"), attach(desk, run.id).answer("1", "nein")]);
  expect(answers.sort()).toEqual([false, true]);
  await until(() => two.shown.text.includes("fünf"));
  await server.do("/cut-now");
  expect(await attach(desk, run.id).steer("bitte")).toBe(true);
  await one.done;
  expect(one.shown.text).toMatch(/^eins zwei {"n":2} drei (ja|nein) vier fünf bitte sechs $/);
  const late = reader(attach(desk, run.id));
  for (const { shown, done } of [one, two, three, late]) {
    await done;
    expect(shown).toMatchObject({ text: one.shown.text, open: [], end: end("done", { result: { n: 9 } }), resets: 0 });
  }
  expect(await run.steer("spät")).toBe(false);

  const second = await begin(phone, "write", { text: "a ".repeat(1000), ms: 200 });
  const watching = reader(second);
  await until(() => watching.shown.text);
  expect(await attach(desk, second.id).stop()).toEqual({ state: "stopped" });
  expect((await watching.done).end).toEqual(end("stopped"));

  const third = await begin(phone, "write", { text: "a ".repeat(1000), ms: 200 });
  const lost = reader(third);
  await until(() => lost.shown.text);
  await server.do("/restart", { kill: true });
  expect((await lost.done).end).toEqual(end("lost"));
  await server.do("/restart", { kill: true, lose: true });
  expect(await rejection(reader(third).done)).toMatchObject({ code: "NOT_FOUND" });

  const fourth = await begin(phone, "rewrite", { text: "a b CHECKPOINT RESUMED d INPUT e", ms: 30 });
  const again = reader(fourth);
  await until(() => again.shown.text.includes("d"));
  await server.do("/restart", { kill: true });
  await until(() => again.shown.resets === 1 && again.shown.text.includes("d"));
  expect(await fourth.steer("bitte")).toBe(true);
  await again.done;
  expect(again.shown).toMatchObject({ text: "a b again d bitte e ", end: end("done", { result: { n: 7 } }), resets: 1 });
});

test("a run that has failed says why, and reading ends with the client", async () => {
  const server = await start();
  const client = server.connect();
  const failed = reader(await begin(client, "write", { text: "a FAIL" }));
  expect((await failed.done).end).toEqual(end("failed", { code: "FAILED_PRECONDITION", message: "as asked" }));
  const run = await begin(client, "write", { text: "a ".repeat(1000), ms: 200 });
  const open = reader(run);
  await until(() => open.shown.text);
  client.close();
  expect(await rejection(open.done)).toMatchObject({ code: "CANCELLED" });
  expect(await rejection(reader(run).done)).toMatchObject({ code: "CANCELLED" });
});

test("the server sends nothing more when nobody reads", async () => {
  const server = await start();
  const client = server.connect();
  const run = await begin(client, "write", { text: "a ".repeat(1000), ms: 200 });
  const other = run[Symbol.asyncIterator]();
  await other.next();
  for await (const piece of run) if (piece.type === "text") break;
  expect(await server.received("run.detach")).toEqual([]); // the other one reads
  const next = (async () => {
    for (;;) if ((await other.next()).done) return "done";
  })();
  await other.return!();
  expect(await next).toBe("done");
  await until(async () => (await server.received("run.detach")).length === 1);
  const again = reader(run);
  expect(await run.stop()).toEqual({ state: "stopped" });
  expect((await again.done).end).toEqual(end("stopped"));
});

test("an output that is missing is fetched, and a history that has changed begins anew", async () => {
  const server = await start();
  const client = server.connect();
  const words = (input: string) => numbers(1, 60).map((n) => (n === 10 ? input : `w${n}`)).join(" ");
  const writing = async () => {
    const run = await begin(client, "write", { text: words("INPUT"), ms: 10 });
    const { shown, done } = reader(run);
    await until(() => shown.text.includes("w9"));
    return { run, shown, done };
  };
  const drop = async (run: Run) => {
    await server.do("/alter", { type: "run.output", do: "drop" });
    expect(await run.steer("on")).toBe(true);
  };
  const one = await writing();
  await drop(one.run);
  await one.done;
  expect(one.shown).toMatchObject({ text: `${words("on")} `, resets: 0, end: end("done", { result: { n: 60 } }) });

  const two = await writing();
  const whole = JSON.stringify({ n: 1, text: "another beginning", end: { state: "lost" } });
  const meta = '{"correlationId":"{{id}}"}';
  await server.do("/alter", { type: "run.attach.reply", do: "replace", with: `{"type":"run.attach.reply","meta":${meta},"payload":${whole}}` });
  await drop(two.run);
  await two.done;
  expect(two.shown).toMatchObject({ text: "another beginning", resets: 1, end: end("lost") });
});

test("an output that comes before the answer may ask for another one", async () => {
  const topic = "run:x";
  let output: (o: object, meta: object) => void;
  let attached = 0;
  const state = { status: "open", connections: 1 };
  // A server sends the outputs between what it has read and the subscription, which no test can time.
  const client = {
    state: { get: () => state, subscribe: () => () => {} },
    on: (type: string, listener: typeof output) => (type === "run.output" && (output = listener), () => {}),
    onLoss: () => () => {},
    request: async (type: string) => {
      if (type !== "run.attach") return {};
      if (++attached > 1) return { n: 4, attempt: 1, text: "b", end: { state: "done" } };
      output({ n: 2, attempt: 1, restart: { process: "y" } }, { topic });
      return { n: 1, text: "a" };
    },
  } as unknown as Parameters<typeof attach>[0];
  const { done, shown } = reader(attach(client, "x"));
  await done;
  expect(shown).toMatchObject({ text: "b", end: end("done") });
  expect(attached).toBe(2);
});
