import type { Observable, State } from "./contract.js";
import { WskitError } from "./errors.js";
import { failure } from "./failure.js";
import { frame, parse, type Frame } from "./frame.js";
import { liveness } from "./liveness.js";
import type { Settings } from "./settings.js";
import { adviceIn, after, backoff, pacer, type Timer } from "./wait.js";

/** A connection that lasted as long was good: the next waits are short again. */
const STABLE = 5_000;

// Codes of PROTOCOL.md. 4429 is final only if its reason says that waiting does not help.
const NORMAL = 1000;
const ABNORMAL = 1006;
const FINAL = [1002, 1007, 1008, 4403];
const AT_ONCE = [1001, 4000];
const UNAUTHENTICATED = 4401;
const BANNED = 4429;
/** Codes that a handshake is refused with after it was accepted, so that the page can see why. */
const REFUSALS = [1013, 4401, 4403, 4429];

/** How a connection has ended. */
export interface Ending {
  error: WskitError;
  /** Nothing that was sent has been handled, as the handshake was refused. */
  refused: boolean;
  /** The same messages may be sent again. */
  resend: boolean;
}

export interface Hooks {
  /** There is a socket. The state becomes open when ready is called. */
  opened(ready: () => void): void;
  received(frame: Frame): void;
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
  let openedAt = 0;
  let heard = false; // a frame has come on this connection
  let notBefore = 0; // what the server has asked for
  let left = false; // the page was left
  let closed = false;
  let token: string | null | undefined;
  let refused = false; // the server did not accept the token

  const set = (status: State["status"], change: Partial<State> = {}) =>
    state.set({ ...state.get(), connections, retryAt: null, ...change, status });

  async function start() {
    const mine = ++current;
    clearTimeout(timer);
    timer = after(s.connectTimeout, () => mine === current && lost(ABNORMAL, "", "the server does not answer"));
    pace.spend();
    set("connecting");
    try {
      const before = token;
      token = await s.token?.({ refused });
      if (mine !== current) return;
      if (refused && (token ?? null) === (before ?? null)) return end("UNAUTHENTICATED", "the server does not accept the token");
      const url = new URL(s.url);
      if (token && s.inQuery) url.searchParams.set("access_token", token);
      const ws = new s.WebSocket(url, token && !s.inQuery ? [...s.protocols, `bearer.${token}`] : s.protocols);
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
    openedAt = performance.now();
    heard = false;
    watch = liveness(
      s.silence,
      s.heartbeatTimeout,
      () => write(frame("__heartbeat")),
      () => lost(4000, "", "the server does not answer"),
    );
    hooks.opened(() => mine === current && socket === ws && set("open", { error: null }));
  }

  function received(data: unknown) {
    heard = true;
    refused = false;
    watch!.heard();
    let parsed: Frame;
    try {
      parsed = parse(data);
    } catch (cause) {
      // What it was is not known. Topics with history are resumed from before it.
      return lost(ABNORMAL, "", "the server has sent a frame that cannot be read", cause);
    }
    if (parsed.type !== "__heartbeat_ack") hooks.received(parsed);
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
    const wasOpen = openedAt > 0;
    drop();
    if (wasOpen && performance.now() - openedAt >= STABLE) attempts = 0;
    openedAt = 0;
    const advice = adviceIn(reason);
    const error = new WskitError(
      {
        code: code === UNAUTHENTICATED ? "UNAUTHENTICATED" : code === 4403 ? "PERMISSION_DENIED" : "UNAVAILABLE",
        message: why ?? `the connection was closed with ${code}${reason && advice === undefined ? `: ${reason}` : ""}`,
        retryable: true,
        retryAfterMs: advice ?? null,
      },
      { cause },
    );
    state.set({ ...state.get(), error, closeCode: wasOpen || code !== ABNORMAL ? code : state.get().closeCode });
    if (wasOpen) hooks.ended({ error, refused: !heard && REFUSALS.includes(code), resend: advice !== null });
    if (closed) return;
    refused = code === UNAUTHENTICATED;
    if (refused && !s.token) return end("UNAUTHENTICATED", "the server does not accept this client");
    if (FINAL.includes(code) || (code === BANNED && advice === null)) return end(code === 4403 ? "PERMISSION_DENIED" : "FAILED_PRECONDITION", error.message);
    if (code === NORMAL && !left && !hooks.needed()) return set("idle");
    const jitter = backoff(AT_ONCE.includes(code) && advice === undefined ? Math.min(attempts, 1) : attempts, s.first, s.most);
    attempts++;
    if (advice) notBefore = performance.now() + advice;
    wait(globalThis.navigator?.onLine === false ? s.most : (advice ?? 0) + jitter);
  }

  function wait(ms: number) {
    if (left) return set("waiting");
    const delay = Math.max(ms, notBefore - performance.now(), pace.wait());
    clearTimeout(timer);
    if (delay <= 0) return void start();
    timer = after(delay, () => wait(0)); // a longer wait than a timer has goes on
    set("waiting", { retryAt: Date.now() + delay });
  }

  /** Ends the client with an error that another attempt would not change. */
  function end(code: string, message: string) {
    drop();
    refused = false;
    const error = failure(code, message);
    set("closed", { error });
    hooks.ended({ error, refused: false, resend: false });
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
      const { status } = state.get();
      if (closed || status === "closed" || status === "idle") return;
      left = true;
      drop(NORMAL);
      lost(NORMAL, "", "the page was left");
    },
    close() {
      closed = true;
      drop(NORMAL);
      set("closed", { error: failure("CANCELLED", "the client was closed") });
    },
  };
}
