import type { Client, Observable } from "./contract.js";

/** The state of a limit when the server sent it, see PROTOCOL.md. */
export interface Limit {
  readonly name: string;
  /** What a message of each type costs; null if that depends on the message. */
  readonly types: { readonly [type: string]: number | null };
  /** The most that fits when nothing is used. */
  readonly limit: number;
  readonly remaining: number;
  readonly fullInMs: number;
  /** So many units come back in every `perMs`. Without it, units come back in another way, all of them after `fullInMs`. */
  readonly refill?: number;
  readonly perMs?: number;
}

/** What is left of the limits of a client, before it is refused. */
export interface Limits extends Observable<readonly Limit[]> {
  /** What is left now of the limit with a name, with the part of a unit that has come back; undefined if it is not known. */
  left(name: string): number | undefined;
  /** How many messages of a type fit now; undefined if no limit of the type is known. */
  fits(type: string): number | undefined;
  /** In how many milliseconds a message of a type fits: 0 if it fits now, or if that is not known. */
  wait(type: string): number;
  /**
   * Calls send when a message of the type fits, and one after the other. send has to send the message at once. Make requests with
   * `onLimit: "wait"`: other connections of the user may use up the limit, too.
   */
  pace<T>(type: string, send: () => T): Promise<Awaited<T>>;
  /** Asks for the limits again, for instance because another connection of the user has used them. At most once a second. */
  refresh(): void;
  /** Does not follow the limits any more. */
  stop(): void;
}

const LIMITS = "$ws:limits";
const AT_MOST_ONCE_IN = 1_000;

type Counts = { [type: string]: number };

const followed = new WeakMap<Client<any>, (types: string[]) => Limits>();

/**
 * Follows the limits for messages of some types. The server has to announce them. All that a client follows is one request, of at
 * most 16 types: a type that the user may not send fails it, and is told on the console.
 */
export function followLimits(client: Client<any>, types: string[]): Limits {
  let add = followed.get(client);
  if (!add) followed.set(client, (add = follow(client)));
  return add(types);
}

function follow(client: Client<any>): (types: string[]) => Limits {
  const all = new Map<Limits, string[]>(); // their types
  const listeners = new Set<() => void>();
  const turns = new Map<string, Promise<unknown>>();
  const sent: Counts = {}; // on all connections
  let list: readonly Limit[] = [];
  let seen: Counts = {}; // by the server, of what was sent since the request
  let before: Counts = {}; // what was sent before the request
  let at = 0;
  let asking = false;
  let asked = 0; // on which connection
  let timer: ReturnType<typeof setTimeout> | undefined;

  function update(payload: { limits: Limit[]; seen: Counts }) {
    list = payload.limits;
    seen = payload.seen;
    at = performance.now();
    for (const listener of [...listeners]) listener();
  }

  function askIn(ms: number) {
    clearTimeout(timer);
    timer = setTimeout(ask, ms);
  }

  async function ask() {
    clearTimeout(timer);
    let written: Counts = {};
    asking = true; // what comes before the answer belongs to an earlier request
    const stop = client.onSent((type) => void (type === LIMITS && (written = { ...sent })));
    const on = asked;
    try {
      const answer = await client.request(LIMITS, { types: [...new Set([...all.values()].flat())] }, { onLimit: "wait" });
      before = written;
      update(answer);
    } catch (error) {
      const { retryable, retryAfterMs } = error as { retryable?: boolean; retryAfterMs?: number };
      if (!retryable) console.warn("wskit: limits are not followed:", error);
      else if (on === asked && all.size) askIn(Math.max(AT_MOST_ONCE_IN, retryAfterMs ?? 0));
    } finally {
      asking = false;
      stop();
    }
  }

  function changed() {
    const { status, connections } = client.state.get();
    if (status !== "open" || connections === asked) return;
    asked = connections;
    askIn(0); // one request for all components that are shown at once
  }

  /** What is left of a limit, without what the server has not counted yet. */
  function left(l: Limit): number {
    const ms = performance.now() - at;
    let units = l.remaining;
    if (ms >= l.fullInMs) units = l.limit;
    else if (l.refill) units = Math.min(l.limit, units + (ms * l.refill) / l.perMs!);
    for (const type in l.types) units -= (l.types[type] ?? 1) * Math.max(0, (sent[type] ?? 0) - (before[type] ?? 0) - (seen[type] ?? 0));
    return Math.max(0, units);
  }

  const of = (type: string) => list.filter((l) => type in l.types);
  const cost = (l: Limit, type: string) => l.types[type] ?? 1;

  /** A limit that does not refill steadily may have room at any time. */
  const wait = (type: string) =>
    Math.max(0, ...of(type).map((l) => (l.refill ? ((Math.min(cost(l, type), l.limit) - left(l)) * l.perMs!) / l.refill : 0)));

  const stops = [
    client.onSent((type) => void (sent[type] = (sent[type] ?? 0) + 1)),
    client.on(LIMITS, (payload) => asking || update(payload)),
    client.state.subscribe(changed),
  ];

  return (types) => {
    let mine: readonly Limit[] = [];
    let from = list;
    const limits: Limits = {
      get() {
        if (from !== list) mine = (from = list).filter((l) => types.some((type) => type in l.types));
        return mine;
      },
      subscribe(listener) {
        const f = () => all.has(limits) && listener();
        listeners.add(f);
        return () => void listeners.delete(f);
      },
      left(name) {
        const l = list.find((l) => l.name === name);
        return l && left(l);
      },
      fits(type) {
        const fits = of(type).map((l) => Math.floor(left(l) / cost(l, type)));
        return fits.length ? Math.min(...fits) : undefined;
      },
      wait,
      pace(type, send) {
        const turn = Promise.resolve(turns.get(type)).then(async () => {
          for (let ms; all.has(limits) && (ms = wait(type)) > 0; )
            await new Promise((resolve) => setTimeout(resolve, Math.min(1_000, Math.ceil(ms))));
          return { result: send() };
        });
        turns.set(type, turn.catch(() => {}));
        return turn.then(({ result }) => result) as Promise<any>;
      },
      refresh: () => void (asking || !all.has(limits) || ask()),
      stop() {
        if (!all.delete(limits) || all.size) return; // the others go on
        followed.delete(client);
        clearTimeout(timer);
        for (const stop of stops) stop();
        if (client.state.get().status === "open") client.request(LIMITS, { types: [] }).catch(() => {});
      },
    };
    all.set(limits, types);
    asked = 0;
    changed();
    return limits;
  };
}
