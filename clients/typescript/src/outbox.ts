import type { Connection, Ending } from "./connection.js";
import { UnknownOutcome, type WskitError } from "./errors.js";
import { failure, serverError } from "./failure.js";
import { frame, type Frame } from "./frame.js";
import type { Settings } from "./settings.js";
import { after, clock, type Timer } from "./wait.js";

/** How much the socket may hold that is not sent yet. What is behind it waits in the queue. */
const MOST_BUFFERED = 256 << 10;
const LOOK_AGAIN = 50;
/** The shortest wait before a refused request is sent again, whatever the server says. */
const SHORTEST_WAIT = 20;

/** A message on its way, until it is settled. */
export interface Message {
  type: string;
  meta?: Record<string, unknown>;
  payload?: unknown;
  /** A request: it is answered. */
  request?: boolean;
  timeout?: number | undefined;
  idempotencyKey?: string;
  /** A request that waits when a limit refuses it. */
  patient?: boolean;
  settle(error: unknown, payload?: any): void;
  progress?(value: any): void;
}

interface Entry extends Message {
  /** As JSON. */
  payload: string | undefined;
  order: number;
  id: string;
  size: number;
  deadline: number;
  timer: Timer;
  /** It was sent on a connection that has ended: it may have been handled. */
  unknown: boolean;
  /** A limit has refused it until then. */
  notBefore: number;
}

/** The error of a request whose signal is aborted before it is made. */
export const aborted = (signal: AbortSignal) => failure("CANCELLED", "the request was aborted", false, signal.reason);

/** The messages that wait to be sent, and the requests that wait for their answer. */
export function createOutbox(s: Settings, connection: Connection, wrote: (type: string) => void) {
  let queue: Entry[] = []; // by order
  const sent = new Map<string, Entry>(); // requests, by id
  const turns = new Map<string, Entry>(); // the patient request of a type that is under way
  let unheard: Entry[] = []; // were sent on a connection on which nothing has come yet
  let order = 0;
  let held = true; // nothing is sent: there is no connection, or its topics are being resumed
  let look: Timer | undefined;

  /** Puts a message to its place in the queue. */
  function enqueue(e: Entry) {
    sent.delete(e.id);
    queue.push(e);
    queue.sort((a, b) => a.order - b.order);
  }

  const dequeue = (e: Entry) => void (queue = queue.filter((other) => other !== e));
  const full = () => queue.length > s.messages || queue.reduce((bytes, { size }) => bytes + size, 0) > s.bytes;

  function settle(e: Entry, error: unknown, payload?: any) {
    clearTimeout(e.timer);
    dequeue(e);
    sent.delete(e.id);
    const turn = turns.get(e.type) === e && turns.delete(e.type);
    e.settle(error, payload);
    if (turn) flush();
  }

  /** Settles a message that has no answer. */
  function fail(e: Entry, { code, message, retryable }: WskitError, cause?: unknown) {
    settle(e, e.unknown || sent.has(e.id) ? new UnknownOutcome({ code, message }, { cause }) : failure(code, message, retryable, cause));
  }

  const expire = (e: Entry) => fail(e, failure("DEADLINE_EXCEEDED", "no answer in time", true));

  function entry(m: Message): Entry {
    const payload = JSON.stringify(m.payload);
    const timeout = m.timeout ?? s.timeout;
    const e: Entry = {
      ...m,
      payload,
      order: order++,
      id: order.toString(36),
      size: (payload ?? "").length + m.type.length,
      deadline: clock() + timeout,
      timer: after(timeout, () => expire(e)),
      unknown: false,
      notBefore: 0,
    };
    return e;
  }

  function add(m: Message): Entry {
    const e = entry(m);
    enqueue(e);
    flush();
    // What could not be sent needs room.
    while (queue.includes(e) && full()) {
      fail(s.dropOldest && e.size <= s.bytes ? queue[0]! : e, failure("RESOURCE_EXHAUSTED", "too many messages wait to be sent", true));
    }
    return e;
  }

  /** Sends what can be sent, in order. */
  function flush() {
    clearTimeout(look);
    const now = clock();
    let next = Infinity;
    for (let i = 0; !held && i < queue.length; ) {
      if (connection.buffered() > MOST_BUFFERED) {
        next = LOOK_AGAIN;
        break;
      }
      const e = queue[i]!;
      const turn = e.patient && turns.get(e.type);
      if (turn && turn !== e) i++;
      else if (e.notBefore > now) {
        next = Math.min(next, e.notBefore - now);
        i++;
      } else if (e.deadline <= now) expire(e);
      else if (!write(e, now)) break;
    }
    if (next < Infinity) look = after(next, flush);
  }

  function write(e: Entry, now: number): boolean {
    const heard = connection.heard();
    // Its answer shows whether anything behind it can have been handled, see ended.
    if (!heard && !unheard.length) connection.write(frame("__heartbeat"));
    const { meta, idempotencyKey } = e;
    const own = e.request ? { ...meta, correlationId: e.id, timeoutMs: Math.ceil(e.deadline - now), idempotencyKey } : idempotencyKey ? { ...meta, idempotencyKey } : meta;
    if (!connection.write(frame(e.type, own, e.payload))) return false;
    wrote(e.type);
    dequeue(e);
    if (!heard) unheard.push(e);
    if (e.patient) turns.set(e.type, e);
    if (e.request) sent.set(e.id, e);
    else settle(e, null);
    return true;
  }

  /** Handles an answer. */
  function answered({ type, meta, payload }: Frame) {
    const e = sent.get(meta.correlationId!);
    if (!e) return;
    if (type === "$ws:rpc-progress") return e.progress?.(payload);
    if (type !== "RPC_ERROR") return settle(e, null, payload);
    const error = serverError(payload, e.type);
    const { code, retryable, retryAfterMs } = error;
    const again = clock() + Math.max(retryAfterMs!, SHORTEST_WAIT);
    if (e.patient && code === "RESOURCE_EXHAUSTED" && retryable && retryAfterMs !== null && again < e.deadline) {
      e.notBefore = again;
      enqueue(e);
      flush();
    } else settle(e, error);
  }

  return {
    add,
    /** Sends a request of the protocol now, or not at all. */
    ask(m: Message) {
      const e = entry(m);
      if (!write(e, clock())) fail(e, failure("UNAVAILABLE", "there is no connection", true));
    },
    answered,
    busy: () => queue.length + sent.size > 0,
    /** Sends from now on. */
    open() {
      held = false;
      flush();
    },
    /** A frame has come: what was sent may have been handled. */
    heard: () => void (unheard = []),
    /** Takes a request back. */
    abort(e: Entry, signal: AbortSignal) {
      if (sent.has(e.id)) connection.write(frame("$ws:abort", { correlationId: e.id }));
      fail(e, aborted(signal), signal.reason);
    },
    /** The connection has ended. */
    ended({ error, refused, resend }: Ending) {
      held = true;
      clearTimeout(look);
      const again = new Set(refused ? unheard : []);
      unheard = [];
      for (const e of new Set([...sent.values(), ...again])) {
        if (e.type.startsWith("$ws:")) fail(e, error);
        else if (again.has(e)) enqueue(e);
        else if (resend && e.idempotencyKey) {
          e.unknown = true;
          enqueue(e);
        } else fail(e, error, error);
      }
    },
    /** There will be no connection. */
    clear(error: WskitError) {
      for (const e of queue) fail(e, error, error);
    },
  };
}
