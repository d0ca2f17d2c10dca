import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { afterEach } from "vitest";
import { connect, type Client, type Loss, type Options } from "../dist/wskit.js";
import { program } from "./build.js";

export interface Sent {
  conn: number;
  atMs: number;
  type: string;
  correlationId: string;
  idempotencyKey: string;
  text: string;
  whole: boolean;
}

export interface Log {
  nowMs: number;
  attempts: { conn: number; atMs: number; endedMs: number; outcome: string; token: string; path: string }[];
  received: Sent[];
  sent: Sent[];
  closes: { conn: number; atMs: number; dir: string; code: number; reason: string }[];
  executed: { atMs: number; type: string; id: string; user: string }[];
  executions: Record<string, number>;
  tokens: { atMs: number; mode: string }[];
}

const ends: (() => unknown)[] = [];

/** Has f called when the test has ended. */
export const atEnd = (f: () => unknown) => void ends.push(f);

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** The server of internal/clienttest, whose package comment lists what can be asked of it. */
export class Server {
  constructor(
    readonly url: string,
    readonly control: string,
    readonly process: ChildProcess,
  ) {}

  async do(path: string, body: unknown = {}): Promise<any> {
    const answer = await fetch(this.control + path, { method: "POST", body: JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  }

  async log(): Promise<Log> {
    return (await fetch(`${this.control}/log`)).json() as Promise<Log>;
  }

  /** The messages of a type that the server has received. */
  async received(type: string): Promise<Sent[]> {
    return (await this.log()).received.filter((f) => f.type === type);
  }

  /** Has the next connection play a script, see Step in internal/clienttest. */
  script(steps: object[], times = 1) {
    return this.do("/raw", { steps, times });
  }

  /** What fetches a token from the server, as pages do. */
  token = async (): Promise<string> => {
    const answer = await fetch(`${this.control}/token?user=ann`);
    if (!answer.ok) throw new Error(`no token: ${answer.status}`);
    return ((await answer.json()) as { token: string }).token;
  };

  /** A client, which is closed at the end of the test. */
  connect(options: Partial<Options> = {}): Client {
    const client = connect({ url: this.url, token: () => "ann", backoff: { first: 20, most: 200 }, attempts: { burst: 1000 }, ...options });
    atEnd(() => client.close());
    client.onError(() => {});
    return client;
  }
}

/** Starts a server, until the test has ended. */
export async function start(options: object = {}): Promise<Server> {
  const child = spawn(process.env["CLIENTTEST"] ?? program, [JSON.stringify(options)], { stdio: ["pipe", "pipe", "inherit"] });
  atEnd(() => {
    child.stdin.end();
    return new Promise((resolve) => (child.exitCode === null ? child.once("exit", resolve) : resolve(null)));
  });
  for await (const line of createInterface(child.stdout)) {
    const { url, control } = JSON.parse(line);
    return new Server(url, control, child);
  }
  throw new Error("the server did not start");
}

const known = new Set<string>();

/** Waits until something is so. With LOOK_LATE, as make delays sets it, each line looks 1.5 s late once. */
export async function until(what: () => unknown): Promise<void> {
  const line = process.env["LOOK_LATE"] ? new Error().stack! : "";
  if (line && !known.has(line)) {
    known.add(line);
    await sleep(1500);
  }
  while (!(await what())) await new Promise((resolve) => setTimeout(resolve, 10));
}

/** What a promise is rejected with. */
export const rejection = (promise: Promise<unknown>): Promise<any> =>
  promise.then(
    (value) => Promise.reject(new Error(`it was resolved with ${JSON.stringify(value)}`)),
    (error: unknown) => error,
  );

/** What has come of the topics' events, and what was reported missing. */
export function record(client: Client) {
  const events: number[] = [];
  const losses: Loss[] = [];
  const order: (number | string)[] = [];
  const errors: any[] = [];
  client.on("said", ({ n }) => (events.push(n), order.push(n)));
  client.onLoss((loss) => (losses.push(loss), order.push(loss.reason)));
  client.onError((error) => errors.push(error));
  return { events, losses, order, errors };
}

export const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

export const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));


export const isOpen = (client: Client) => until(() => client.state.get().status === "open");
