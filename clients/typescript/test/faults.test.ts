import fc from "fast-check";
import { expect, test } from "vitest";
import { UnknownOutcome, type Client } from "../dist/wskit.js";
import { scenario } from "./scenario.js";
import { numbers, record, sleep, start, until, type Server } from "./server.js";

/** A request and what became of it. */
interface Made {
  id: string;
  outcome?: "done" | "unknown" | "not handled";
}

/** An application: it makes requests, follows a topic with history, and notes all that it gets. */
class Application {
  readonly made: Made[] = [];
  readonly got: ReturnType<typeof record>;
  readonly client: Client;
  private settled: Promise<unknown>[] = [];

  constructor(
    readonly server: Server,
    readonly name: string,
  ) {
    this.client = server.connect({
      timeout: 30_000,
      backoff: { first: 5, most: 50 },
      connectTimeout: 1_000,
      heartbeat: { after: 500, timeout: 500 },
    });
    this.got = record(this.client);
  }

  get topic() {
    return `history:${this.name}`;
  }

  request(type: string, options = {}): Promise<unknown> {
    const made: Made = { id: `${this.name}-${this.made.length}` };
    this.made.push(made);
    const call = this.client.request(type, { id: made.id, topic: this.topic }, options).then(
      () => (made.outcome = "done"),
      (error) => (made.outcome = error instanceof UnknownOutcome ? "unknown" : "not handled"),
    );
    this.settled.push(call);
    return call;
  }

  once() {
    return this.request("count.once", { idempotencyKey: `${this.name}-${this.made.length}` });
  }

  async join() {
    while ((await this.request("join")) !== "done");
  }

  /** Waits until all is settled, and the last of the published events has come or is known to be missing. */
  async check(last: number) {
    await Promise.all(this.settled);
    const marker = (await this.server.do("/publish", { topic: this.topic })).to;
    expect(marker).toBe(last + 1);
    await until(() => this.got.events.at(-1) === marker);
    this.client.close();
    const { executions } = await this.server.log();
    for (const { id, outcome } of this.made) {
      const n = executions[id] ?? 0;
      expect(n, `${id}, ${outcome}`).toBeLessThanOrEqual(1);
      if (outcome !== "unknown") expect(n, `${id}, ${outcome}`).toBe(outcome === "done" ? 1 : 0);
    }
    const { events, losses } = this.got;
    expect(events).toEqual([...new Set(events)].sort((a, b) => a - b));
    if (!losses.length) expect(events).toEqual(numbers(events[0]!, marker));
  }
}

/** Does the same again and again, and each time a connection is cut at another byte of a direction: with several servers at once. */
async function everyByte(dir: "up" | "down") {
  const step = Number(process.env["BYTES"] ?? 3);
  await Promise.all([0, 1, 2, 3].map((i) => everyByteFrom(dir, i * step, 4 * step)));
}

async function everyByteFrom(dir: "up" | "down", first: number, step: number) {
  const server = await start();
  for (let after = first, cut = true; cut; after += step) {
    await server.do("/log/clear");
    await server.do("/cut", { dir, after });
    const app = new Application(server, `${dir}${after}`);
    void app.request("echo");
    await app.join();
    void app.request("count");
    void app.once();
    await server.do("/publish", { topic: app.topic, n: 3 });
    await until(() => app.got.events.length >= 3 || app.got.losses.length);
    await app.check(3);
    cut = ((await server.log()) as any).cuts.length > 0;
    await server.do("/resume");
  }
}

scenario("cut at byte n of each frame down", () => everyByte("down"));

scenario("cut at byte n of each frame up", () => everyByte("up"));

const type = fc.constantFrom("", "count.reply", "count.once.reply", "said", "$ws:resumed", "$ws:subscribed", "handshake");
const step = fc.oneof(
  { weight: 4, arbitrary: fc.constant({ do: "count" as const }) },
  { weight: 4, arbitrary: fc.constant({ do: "once" as const }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("publish" as const), n: fc.integer({ min: 1, max: 8 }) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.integer({ min: 0, max: 60 }) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("cut" as const),
      dir: fc.constantFrom("up", "down"),
      type,
      frame: fc.integer({ min: 0, max: 2 }),
      at: fc.integer({ min: 0, max: 200 }),
      how: fc.constantFrom("reset", "fin", "silent"),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("cut-now" as const), how: fc.constantFrom("reset", "fin", "silent") }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("restart" as const), kill: fc.boolean(), downMs: fc.integer({ min: 0, max: 50 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("alter" as const), type: fc.constantFrom("said", "count.reply") }) },
);

test("whatever is cut wherever: no request is handled twice, none is forgotten, and no event is missing in silence", async () => {
  const server = await start();
  let run = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      await server.do("/log/clear");
      const app = new Application(server, `run${run++}`);
      await app.join();
      let last = 0;
      for (const s of steps) {
        if (s.do === "count") void app.request("count");
        else if (s.do === "once") void app.once();
        else if (s.do === "wait") await sleep(s.ms);
        else if (s.do === "publish") last = (await server.do("/publish", { topic: app.topic, n: s.n })).to;
        else if (s.do === "alter") await server.do("/alter", { type: s.type, do: "twice" });
        else {
          const { do: path, ...fault } = s;
          await server.do(`/${path}`, fault);
        }
      }
      await server.do("/resume");
      await app.check(last);
    }),
    { numRuns: Number(process.env["RUNS"] ?? 20), endOnFailure: true },
  );
});
