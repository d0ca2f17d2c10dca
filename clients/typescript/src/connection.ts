import type { Observable, State } from "./contract.js";
import { WskitError } from "./errors.js";
import { failure } from "./failure.js";
import { frame } from "./frame.js";
import { liveness } from "./liveness.js";
import type { Settings } from "./settings.js";
import { adviceIn, after, backoff, clock, pacer, type Timer } from "./wait.js";

/** A connection that lasted as long was good: the next waits are short again. */
const STABLE = 5_000;

// Close codes, see PROTOCOL.md.
const NORMAL = 1000;
const ABNORMAL = 1006;
const NO_HEARTBEAT = 4000;
/** How often in a row the token may be one that was refused: a cache may keep it for some seconds more. */
const SAME_TOKENS = 5;
/** Another attempt would change nothing. */
const FINAL = [1002, 1007, 1008, 4403];
/** A handshake was refused, maybe: these codes come at once if the server accepts it to tell the page why. */
const REFUSALS: Record<number, string> = { 1013: "UNAVAILABLE", 4401: "UNAUTHENTICATED", 4403: "PERMISSION_DENIED", 4429: "RESOURCE_EXHAUSTED" };

/** How a connection has ended. */
export interface Ending {
  error: WskitError;
  /** Nothing that was sent has been handled, as the handshake was refused. */
  refused?: boolean;
  /** The same messages may be sent again. */
  resend?: boolean;
}

export interface Hooks {
  /** There is a socket. The state becomes open when ready is called. */
  opened(ready: () => void): void;
  received(data: string): void;
  ended(ending: Ending): void;
  /** Whether a connection is needed although the server has closed one that was not used. */
  needed(): boolean;
}

export type Connection = ReturnType<typeof createConnection>;

/** Makes connections, one after the other, and decides when. */
export function createConnection(s: Settings, state: Observable<State> & { set(next: State): void }, hooks: Hooks) {
  const pace = pacer(s.burst, s.interval);
  let socket: WebSocket | undefined;
  let watch: ReturnType<typeof liveness> | undefined;
  let timer: Timer | undefined;
  let current = 0; // numbers the attempts: what belongs to an older one is ignored
  let attempts = 0;
  let connections = 0;
  let closeCode: number | null = null;
  let openedAt = 0;
  let heard = false; // a frame has come on this connection
  let notBefore = 0; // what the server has asked for
  let left = false; // the page was left
  let closed = false;
  let token: string | null = null;
  let refused = false; // the server did not accept the token
  let same = 0; // how often in a row it came again since

  const set = (status: State["status"], error: WskitError | null, retryAt: number | null = null) =>
    state.set({ status, connections, retryAt, error, closeCode });

  async function start() {
    const mine = ++current;
    clearTimeout(timer);
    timer = after(s.connectTimeout, () => mine === current && lost(ABNORMAL, "", "the server does not answer"));
    pace.spend();
    set("connecting", state.get().error);
    try {
      const before = token;
      token = (await s.token?.({ refused })) ?? null;
      if (mine !== current) return;
      if (refused && token === before) {
        const error = failure("UNAUTHENTICATED", "the token is the one that was refused");
        if (++same < SAME_TOKENS) throw error;
        return end(error);
      }
      const url = new URL(s.url);
      if (token && s.inQuery) url.searchParams.set("access_token", token);
      const ws = new s.WebSocket(url.href, token && !s.inQuery ? [...s.protocols, `bearer.${token}`] : s.protocols);
      const only = <E>(f: (event: E) => unknown) => (event: E) => void (mine === current && f(event));
      ws.onopen = only(() => opened(ws, mine));
      ws.onmessage = only((event: MessageEvent) => received(event.data));
      ws.onclose = only((event: CloseEvent) => lost(event.code, event.reason));
      // Behind an error comes onclose, but in Node not if the handshake has failed.
      ws.onerror = only(() => openedAt || lost(ABNORMAL, "", "the server cannot be reached"));
      socket = ws;
    } catch (error) {
      if (mine === current) lost(ABNORMAL, "", "the connection could not be made", error);
    }
  }

  function opened(ws: WebSocket, mine: number) {
    clearTimeout(timer);
    connections++;
    openedAt = clock();
    heard = false;
    watch = liveness(
      s.silence,
      s.heartbeatTimeout,
      () => write(frame("__heartbeat")),
      () => lost(NO_HEARTBEAT, "", "the server does not answer"),
    );
    hooks.opened(() => mine === current && socket === ws && set("open", null));
  }

  function received(data: string) {
    heard = true;
    refused = false;
    same = 0;
    watch!.heard();
    hooks.received(data);
  }

  /** Gives up the socket, if there is one. */
  function drop(code?: number) {
    current++;
    clearTimeout(timer);
    watch?.stop();
    const ws = socket;
    socket = watch = undefined;
    if (!ws) return;
    ws.onopen = ws.onmessage = ws.onclose = null;
    ws.close(code);
  }

  function lost(code: number, reason: string, why?: string, cause?: unknown) {
    const wasOpen = openedAt;
    drop();
    if (wasOpen && clock() - wasOpen >= STABLE) attempts = 0;
    openedAt = 0;
    const { wait: advice, message } = adviceIn(reason);
    const final = FINAL.includes(code) || (advice === null && code === 4429) || (code === 4401 && !s.token);
    const error = new WskitError(
      {
        code: REFUSALS[code] ?? "UNAVAILABLE",
        message: why ?? message ?? `the connection was closed: ${code} ${reason}`,
        retryable: !final,
        retryAfterMs: advice ?? null,
      },
      { cause },
    );
    if (wasOpen || code !== ABNORMAL) closeCode = code;
    if (wasOpen) hooks.ended({ error, refused: !heard && code in REFUSALS, resend: advice !== null });
    if (closed) return;
    if (final) return end(error);
    refused ||= code === 4401;
    if (code === NORMAL && !left && !hooks.needed()) return set("idle", error);
    const jitter = backoff(attempts++, s.first, s.most);
    notBefore = clock() + (advice ?? 0);
    wait(globalThis.navigator?.onLine === false ? s.most : (advice ?? 0) + jitter, error);
  }

  function wait(ms: number, error = state.get().error) {
    if (left) return set("waiting", error);
    const delay = Math.max(ms, notBefore - clock(), pace.wait());
    clearTimeout(timer);
    if (delay <= 0) return void start();
    timer = after(delay, () => wait(0)); // a longer wait than a timer has goes on
    set("waiting", error, Date.now() + delay);
  }

  /** Ends the client with an error that another attempt would not change. */
  function end(error: WskitError) {
    drop();
    refused = false;
    set("closed", error);
    hooks.ended({ error });
  }

  function write(text: string): boolean {
    if (socket?.readyState !== 1) return false;
    socket.send(text);
    return true;
  }

  return {
    start,
    write,
    /** What the socket has not sent yet, in bytes. */
    buffered: () => socket?.bufferedAmount ?? 0,
    /** Whether the server has sent anything on this connection. */
    heard: () => heard,
    /** Gives the connection up and makes another. */
    fail: (why: string) => lost(ABNORMAL, "", why),
    check: () => watch?.check(),
    /** Connects as soon as it is allowed, if the state is one of these. */
    hurry(...from: State["status"][]) {
      if (!closed && from.includes(state.get().status)) wait(0);
    },
    show: () => void (left = false),
    leave() {
      if (/idle|closed/.test(state.get().status)) return;
      left = true;
      drop(NORMAL);
      lost(NORMAL, "", "the page was left");
    },
    close() {
      closed = true;
      drop(NORMAL);
      set("closed", failure("CANCELLED", "the client was closed"));
    },
  };
}
