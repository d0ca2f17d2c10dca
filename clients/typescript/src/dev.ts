import { connect as plain } from "./index.js";
import type { Client, ContractShape, Options, Untyped } from "./contract.js";

/** The schema.json of package contract. */
export interface Schema {
  $defs: { [name: string]: unknown };
}

// What Options has; and for those that have parts, these.
const known: { [N in keyof Required<Options>]: object } = {
  url: {},
  token: {},
  tokenIn: {},
  protocols: {},
  timeout: {},
  queue: { messages: {}, bytes: {}, overflow: {} },
  backoff: { first: {}, most: {} },
  attempts: { burst: {}, perMinute: {} },
  connectTimeout: {},
  heartbeat: { after: {}, timeout: {} },
  WebSocket: {},
};

/**
 * For development: connect of "@wskit/client", which throws where options are missing or are none. With the schema of the
 * server, which may come later, it warns once for each type that is asked for and that the server does not have.
 */
export function connect<C extends ContractShape = Untyped>(options: Options, schema?: Schema | Promise<Schema>): Client<C> {
  if (!options?.url) throw new TypeError('wskit: connect has no url; give it the server\'s: connect({ url: "/ws" })');
  check(options, known, "");
  const client = plain<C>(options) as Client<any>;
  if (!schema) return client;
  const warned = new Set<string>();
  const defined = Promise.resolve(schema).then(({ $defs }) => Object.keys($defs));
  defined.catch((e) => console.warn("wskit: the schema of the server cannot be read;", e));

  /** Is f, and warns where the server has none of a kind with the type that is its first argument. */
  const looked = <F extends (type: any, ...rest: any[]) => any>(kind: string, does: string, f: F) =>
    ((type: string, ...rest: unknown[]) => {
      const name = `${kind}:${type}`;
      const look = (all: string[]) => {
        if (type.startsWith("$ws:") || all.includes(name) || warned.has(name)) return;
        warned.add(name);
        const names = all.filter((n) => n.startsWith(`${kind}:`)).map((n) => n.slice(kind.length + 1));
        console.warn(`wskit: the server ${does} no ${kind} ${JSON.stringify(type)}; ${instead(type, names)}`);
      };
      defined.then(look, () => {});
      return f(type, ...rest);
    }) as F;
  return {
    ...client,
    request: looked("request", "answers", client.request),
    send: looked("send", "takes", client.send),
    on: looked("event", "declares", client.on),
    answer: looked("question", "asks", client.answer),
  };
}

/** Throws where an option is none. */
function check(options: object, all: object, within: string) {
  for (const [name, value] of Object.entries(options)) {
    if (!Object.hasOwn(all, name)) throw new TypeError(`wskit: there is no option ${within}${name}; ${instead(name, Object.keys(all))}`);
    const parts: object = all[name as keyof typeof all];
    if (value && typeof value === "object" && Object.keys(parts).length) check(value, parts, `${name}.`);
  }
}

/** Says what may have been meant: the nearest name, or all. */
function instead(name: string, names: string[]): string {
  const [nearest] = names.map((n) => [distance(name, n), n] as const).sort(([a], [b]) => a - b);
  if (nearest && nearest[0] <= Math.max(2, name.length / 3)) return `use ${nearest[1]}`;
  return names.length ? `use one of ${names.sort().join(", ")}` : "there is none";
}

/** How many characters have to be changed, added or removed. */
function distance(a: string, b: string): number {
  let above = [...Array(b.length + 1).keys()];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      row[j] = Math.min(above[j]! + 1, row[j - 1]! + 1, above[j - 1]! + (a[i - 1]!.toLowerCase() === b[j - 1]!.toLowerCase() ? 0 : 1));
    }
    above = row;
  }
  return above[b.length]!;
}
