import type { Options } from "./contract.js";

/** Options with their defaults. */
export interface Settings {
  url: string;
  token: NonNullable<Options["token"]> | undefined;
  inQuery: boolean;
  protocols: string[];
  timeout: number;
  messages: number;
  bytes: number;
  dropOldest: boolean;
  first: number;
  most: number;
  burst: number;
  interval: number;
  connectTimeout: number;
  silence: number;
  heartbeatTimeout: number;
  WebSocket: typeof WebSocket;
}

export function settings(o: Options): Settings {
  const socket = o.WebSocket ?? globalThis.WebSocket;
  if (!socket) throw new TypeError("wskit: there is no WebSocket here; use Node 22 or later, or set Options.WebSocket");
  return {
    url: new URL(o.url, globalThis.location?.href).href.replace(/^http/, "ws"),
    token: o.token,
    inQuery: o.tokenIn === "query",
    protocols: o.protocols ?? ["wskit"],
    timeout: o.timeout ?? 30_000,
    messages: o.queue?.messages ?? 1_000,
    bytes: o.queue?.bytes ?? 1 << 20,
    dropOldest: o.queue?.overflow === "oldest",
    first: o.backoff?.first ?? 500,
    most: o.backoff?.most ?? 30_000,
    burst: o.attempts?.burst ?? 5,
    interval: 60_000 / (o.attempts?.perMinute ?? 10),
    connectTimeout: o.connectTimeout ?? 10_000,
    silence: o.heartbeat?.after ?? 20_000,
    heartbeatTimeout: o.heartbeat?.timeout ?? 10_000,
    WebSocket: socket,
  };
}
