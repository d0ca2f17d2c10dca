import type { Arguments, Client, ContractShape, Field, Name, RequestOptions, Untyped } from "./contract.js";
import { UnknownOutcome, WskitError } from "./index.js";
import { keep } from "./keep.js";

/** How a run has ended: `lost` if its process was killed. */
export interface End<Result = any> {
  readonly state: "done" | "failed" | "stopped" | "lost";
  /** What the handler has given to Writer.Done. */
  readonly result?: Result;
  /** The error of a run that has failed. */
  readonly code?: string;
  readonly message?: string;
}

/** A part of the output of a run. */
export type Piece<Event = any, Result = any> =
  /** Follows the text of before. */
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "event"; readonly event: Event }
  /** The run waits for an answer. */
  | { readonly type: "question"; readonly id: string; readonly question: any }
  /** The question is open no more: another device has answered it, this one, or none in time. */
  | { readonly type: "closed"; readonly id: string }
  /** How many units of the budget it has used. */
  | { readonly type: "spent"; readonly spent: number }
  /** What came before does not count: everything comes again. */
  | { readonly type: "reset" }
  /** The last piece. */
  | { readonly type: "end"; readonly end: End<Result> };

/** A run on the server. Its pieces come from the beginning, none is missing, and none comes twice, over all connections. */
export interface Run<Event = any, Result = any> extends AsyncIterable<Piece<Event, Result>> {
  readonly id: string;
  /** Stops the run, and says how it has ended. */
  stop(): Promise<End<Result>>;
  /** Gives the run a message: true if the run has taken it, false if it had ended before. */
  steer(data: unknown): Promise<boolean>;
  /** Answers a question of the run: false if it was open no more. */
  answer(question: string, data: unknown): Promise<boolean>;
}

export interface RunOptions {
  /** Options.Name of the server. Default: "run". */
  name?: string;
}

/** The types of requests that begin a run. */
type Begins<C extends ContractShape> = {
  [N in Name<C["requests"]>]: Field<C["requests"], N, "reply"> extends { run: string } ? N : never;
}[Name<C["requests"]>];

/** Begins a run by a request. */
export async function start<C extends ContractShape = Untyped, N extends Begins<C> = Begins<C>>(
  client: Client<C>,
  type: N,
  ...rest: Arguments<Field<C["requests"], N, "request">, RequestOptions & RunOptions>
): Promise<Run> {
  const [payload, options = {}] = rest as [unknown, (RequestOptions & RunOptions)?];
  const { run } = await (client as unknown as Client).request(type as string, payload, options);
  return attach(client, run, options);
}

/** The run with an id: after the page was loaded again, or on another device. */
export function attach<Event = any, Result = any>(client: Client<any>, id: string, { name = "run" }: RunOptions = {}): Run<Event, Result> {
  /** Sends a request that the server takes once, until there is an answer. */
  async function ask(what: string, more?: object) {
    for (;;) {
      try {
        return await client.request(`${name}.${what}`, { run: id, ...more });
      } catch (error) {
        if (!(error instanceof UnknownOutcome) || error.code !== "UNAVAILABLE") throw error;
      }
    }
  }
  const steer = async (data: unknown, to?: string): Promise<boolean> => {
    const random = [...crypto.getRandomValues(new Uint32Array(4))].map((n) => n.toString(36)).join("");
    return (await ask("steer", { id: random, data, to })).taken;
  };
  return {
    id,
    stop: () => ask("stop"),
    steer: (data) => steer(data),
    answer: (question, data) => steer(data, question),
    [Symbol.asyncIterator]: () => read(client, name, id, ask),
  };
}

interface Watch {
  /** All pieces since the beginning, or since the last reset. */
  pieces: Piece[];
  /** How often there was a reset. */
  resets: number;
  /** Why there will be no more pieces before the end. */
  error?: unknown;
  /** Called at the next change. */
  readers: Set<() => void>;
  /** How many iterators there are. */
  used: number;
  stop(): void;
}

/** The runs that are watched: each once, since a second subscription would begin the first one anew. */
const watches = new WeakMap<Client<any>, Map<string, Watch>>();

/** Reads the pieces of a run. */
function read(client: Client<any>, name: string, id: string, ask: (what: string) => Promise<any>): AsyncIterator<Piece> {
  const topic = `${name}:${id}`;
  const all = watches.get(client) ?? new Map<string, Watch>();
  watches.set(client, all);
  const w = all.get(topic) ?? watch(client, name, topic, ask);
  all.set(topic, w);
  w.used++;
  let at = 0;
  let { resets } = w;
  let over = false;
  let wake = () => {};

  function leave() {
    if (over) return;
    over = true;
    wake();
    if (--w.used) return;
    w.stop();
    if (all.get(topic) === w) all.delete(topic);
  }

  return {
    async next() {
      for (;;) {
        if (over) return { done: true, value: undefined };
        if (resets !== w.resets) {
          ({ resets } = w);
          at = 0;
          return { value: { type: "reset" } };
        }
        const value = w.pieces[at];
        if (value) {
          at++;
          if (value.type === "end") leave();
          return { value };
        }
        if (w.error) {
          leave();
          throw w.error;
        }
        await new Promise<void>((resolve) => w.readers.add((wake = resolve)));
        w.readers.delete(wake);
      }
    },
    async return() {
      leave();
      return { done: true, value: undefined };
    },
  };
}

/** Joins what the server sends of a run. */
function watch(client: Client<any>, name: string, topic: string, ask: (what: string) => Promise<any>): Watch {
  let n = 0; // of the last output
  let attempt = 0; // at the run, whose outputs count
  let text = "";
  let events = 0;
  let spent = 0;
  let open: string[] = []; // questions
  let early: any[] | undefined; // outputs that came before the answer
  let subscribed = false;
  const w: Watch = { pieces: [], resets: 0, readers: new Set(), used: 0, stop };

  function changed() {
    for (const wake of [...w.readers]) wake();
  }

  function add(piece: Piece) {
    w.pieces.push(piece);
    if (piece.type === "text") text += piece.text;
    else if (piece.type === "event") events++;
    else if (piece.type === "question") open.push(piece.id);
    else if (piece.type === "closed") open = open.filter((id) => id !== piece.id);
    else if (piece.type === "spent") spent = piece.spent;
    else if (piece.type === "end") stop();
  }

  /** Takes what is new in an output, or in the whole until now. */
  function take(o: any) {
    if (o.text) add({ type: "text", text: o.text });
    if (o.event !== undefined) add({ type: "event", event: o.event });
    if (o.question) add({ type: "question", ...o.question });
    if (o.closed) add({ type: "closed", id: o.closed });
    if (o.spent > spent) add({ type: "spent", spent: o.spent });
    if (o.end) add({ type: "end", end: o.end });
    n = o.n;
  }

  function takeWhole(whole: any) {
    const all: any[] = whole.events ?? [];
    attempt = whole.attempt ?? 0;
    if (whole.n < n || all.length < events || !whole.text.startsWith(text)) {
      w.pieces = [];
      w.resets++;
      n = events = spent = 0;
      text = "";
      open = [];
    }
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    const bytes = new TextEncoder().encode(whole.text);
    let from = new TextEncoder().encode(text).length;
    const upTo = (at?: number) => ({ text: decoder.decode(bytes.subarray(from, (from = at ?? bytes.length))) });
    for (const { at, event } of all.slice(events)) take({ ...upTo(at), event, n });
    take({ ...upTo(), n });
    const questions: any[] = whole.questions ?? [];
    for (const id of open) if (!questions.some((q) => q.id === id)) take({ closed: id, n });
    for (const question of questions) if (!open.includes(question.id)) take({ question, n });
    take({ spent: whole.spent, end: whole.end, n: whole.n });
  }

  /** Takes an output if it is the next one. It returns true if the run has to be attached to again. */
  function next(o: any) {
    if (o.restart && o.attempt > attempt) return true; // what was written behind the last checkpoint is gone
    if ((o.attempt ?? 0) !== attempt || (o.n <= n && !o.end)) return;
    if (o.n > n + 1) return true; // one is missing
    take(o);
  }

  async function load() {
    try {
      do {
        early = [];
        const whole = await ask("attach");
        subscribed = !whole.end;
        takeWhole(whole);
      } while (early.some(next));
    } finally {
      early = undefined;
      changed();
    }
  }

  function fail(error: unknown) {
    w.error = error;
    stop();
    changed();
  }

  function failClosed() {
    const { status, error } = client.state.get();
    if (status === "closed") fail(error ?? new WskitError({ code: "CANCELLED", message: "the client was closed" }));
  }

  const stops = [
    client.on(`${name}.output`, (o: any, meta) => {
      if (meta.topic !== topic || w.pieces.at(-1)?.type === "end") return;
      if (early) return void early.push(o);
      if (next(o)) return void load().catch(fail);
      changed();
    }),
    client.state.subscribe(failClosed),
    keep(client, topic, { open: async (all) => (all ? load() : undefined), onError: fail }),
  ];

  function stop() {
    for (const end of stops.splice(0)) end();
    if (subscribed) ask("detach").catch(() => {}); // the connection is gone, and with it the subscription
    subscribed = false;
  }
  failClosed();
  return w;
}
