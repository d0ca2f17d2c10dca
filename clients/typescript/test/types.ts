// Is compiled by a test, and not run: what is marked must be an error, and nothing else.

import { attach, start } from "../dist/run.js";
import { connect, UnknownOutcome, WskitError, type Client, type State } from "../dist/wskit.js";

interface Contract {
  requests: {
    "room.join": { request: { room: string; after?: string }; reply: { members: number }; progress: never };
    "room.list": { request: { limit?: number }; reply: string[]; progress: never };
    "answer.begin": { request: { text: string }; reply: { run: string }; progress: never };
    export: { request: { year: number }; reply: { url: string }; progress: { percent: number } };
  };
  sends: { "cursor.moved": { x: number; y: number }; ping: undefined };
  events: { "chat.message": { from: string; text: string } };
  questions: { "board.confirm": { question: { text: string }; answer: { yes: boolean } } };
}

declare function same<A>(): <B>(b: B) => [A, B] extends [B, A] ? void : never;

export async function typed(client: Client<Contract>) {
  const reply = await client.request("room.join", { room: "a" });
  same<{ members: number }>()(reply);
  same<number>()(reply.members);
  // @ts-expect-error: no such reply
  reply.rooms;
  // @ts-expect-error: no such request
  client.request("room.leave", { room: "a" });
  // @ts-expect-error: a payload is required
  client.request("room.join");
  // @ts-expect-error: a field is missing
  client.request("room.join", {});
  // @ts-expect-error: another type
  client.request("room.join", { room: 7 });
  // @ts-expect-error: no such field
  client.request("room.join", { room: "a", rom: "b" });
  client.request("room.list");
  client.request("room.list", { limit: 3 }, { timeout: 5, onLimit: "wait", idempotencyKey: "k", signal: AbortSignal.timeout(5) });
  // @ts-expect-error: neither fail nor wait
  client.request("room.list", {}, { onLimit: "retry" });

  const call = client.request("export", { year: 2026 }, { onProgress: ({ percent }) => same<number>()(percent) });
  for await (const progress of call.progress) same<{ percent: number }>()(progress);
  const { url } = await call;
  same<string>()(url);

  client.send("cursor.moved", { x: 1, y: 2 }, { volatile: true });
  client.send("ping");
  // @ts-expect-error: a request is no event
  client.send("room.join", { room: "a" });
  // @ts-expect-error: a field is missing
  client.send("cursor.moved", { x: 1 });

  const stop: () => void = client.on("chat.message", (message, meta) => {
    same<{ from: string; text: string }>()(message);
    same<string | undefined>()(meta.pos);
  });
  stop();
  // @ts-expect-error: no such event
  client.on("chat.mesage", () => {});
  client.on("$ws:presence", ({ count, joined }) => {
    same<number>()(count);
    joined?.map(({ id }) => id);
  });
  client.on("$ws:expiring", ({ inMs }) => same<number>()(inMs));

  client.answer("board.confirm", async ({ text }, { signal }) => {
    same<AbortSignal>()(signal);
    return { yes: text === "ok" };
  });
  client.answer("board.confirm", () => ({ yes: true }));
  // @ts-expect-error: another answer
  client.answer("board.confirm", () => ({ yes: "no" }));
  // @ts-expect-error: no such question
  client.answer("board.ask", () => ({ yes: true }));

  const state: State = client.state.get();
  same<"connecting" | "open" | "waiting" | "idle" | "closed">()(state.status);
  // @ts-expect-error: the state is not set by the application
  state.status = "open";
  client.onLoss(({ topic, reason }) => topic + reason);
}

export async function runs(client: Client<Contract>) {
  const run = await start(client, "answer.begin", { text: "why?" }, { timeout: 5, name: "answers" });
  for await (const piece of run) if (piece.type === "text") same<string>()(piece.text);
  same<boolean>()(await run.steer({ shorter: true }));
  // @ts-expect-error: begins no run
  start(client, "room.join", { room: "a" });
  // @ts-expect-error: a field is missing
  start(client, "answer.begin", {});
  const typed = attach<{ percent: number }, string[]>(client, run.id);
  for await (const piece of typed) {
    if (piece.type === "event") same<number>()(piece.event.percent);
    if (piece.type === "end") same<string[] | undefined>()(piece.end.result);
    // @ts-expect-error: only texts have one
    piece.text;
  }
  start(connect({ url: "/ws" }), "anything", { at: "all" });
}

// As React declares it.
declare function useSyncExternalStore<T>(subscribe: (changed: () => void) => () => void, get: () => T): T;
export function component(client: Client<Contract>) {
  return useSyncExternalStore(client.state.subscribe, client.state.get).status;
}

export async function untyped() {
  const client = connect({ url: "/ws", token: async ({ refused }) => (refused ? null : "t") });
  const reply = await client.request("anything", { at: "all" });
  reply.members.toFixed();
  client.request("nothing");
  client.on("any", (payload) => payload.text);
  client.answer("any", (question) => question.text);
  // @ts-expect-error: the server's address is needed
  connect({});
  // @ts-expect-error: no such option
  connect({ url: "/ws", tokenn: () => "t" });
}

export function errors(error: unknown) {
  if (error instanceof UnknownOutcome) same<string>()(error.code);
  if (error instanceof WskitError) same<number | null>()(error.retryAfterMs);
}
