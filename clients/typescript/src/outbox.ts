import type { Connection, Ending } from "./connection.js";
import { UnknownOutcome, WskitError } from "./errors.js";
import { failure } from "./failure.js";
import { frame, type Frame } from "./frame.js";
import type { Settings } from "./settings.js";
import { after, type Timer } from "./wait.js";

/** How much the socket may hold that is not sent yet. What is behind it waits in the queue. */
const MOST_BUFFERED = 256 << 10;
const LOOK_AGAIN = 50;

/** A message on its way, until it is settled. */
export interface Message {
  type: string;
  meta: Record<string, unknown>;
  payload: string | undefined;
  /** A request: it is answered. */
  request: boolean;
  timeout: number;
  key?: string | undefined;
  /** A request that waits when a limit refuses it. */
  patient?: boolean;
  settle(error: unknown, payload?: any, meta?: Frame["meta"]): void;
  progress?(value: any): void;
}

interface Entry extends Message {
  order: number;
  id: string;
  size: number;
  deadline: number;
  timer: Timer;
  sent: boolean;
  /** A limit has refused it until then. */
  notBefore: number;
}

/** The messages that wait to be sent, and the requests that wait for their answer. */
export function createOutbox(s: Settings, connection: Connection) {
  const queue: Entry[] = []; // by order
  const sent = new Map<string, Entry>(); // requests, by id
  const turns = new Map<string, Entry>(); // the patient request of a type that is under way
  let unheard: Entry[] = []; // were sent on a connection on which nothing has come yet
  let order = 0;
  let bytes = 0;
  let held = true; // nothing is sent: there is no connection, or its topics are being resumed
  let look: Timer | undefined;

  function enqueue(e: Entry) {
    let i = queue.length;
    while (i > 0 && queue[i - 1]!.order > e.order) i--;
    queue.splice(i, 0, e);
    bytes += e.size;
    e.sent = false;
  }

  function dequeue(e: Entry) {
    const i = queue.indexOf(e);
    if (i < 0) return;
    queue.splice(i, 1);
    bytes -= e.size;
  }

  function settle(e: Entry, error: unknown, payload?: any, meta?: Frame["meta"]) {
    clearTimeout(e.timer);
    dequeue(e);
    sent.delete(e.id);
    const turn = turns.get(e.type) === e && turns.delete(e.type);
    e.settle(error, payload, meta);
    if (turn) flush();
  }

  function expire(e: Entry) {
    settle(e, e.sent ? new UnknownOutcome({ code: "DEADLINE_EXCEEDED", message: "no answer in time" }) : failure("DEADLINE_EXCEEDED", "not sent in time", true));
  }

  function add(m: Message): Entry {
    const e: Entry = {
      ...m,
      order: order++,
      id: order.toString(36),
      size: (m.payload ?? "").length + m.type.length,
      deadline: Date.now() + m.timeout,
      timer: after(m.timeout, () => expire(e)),
      sent: false,
      notBefore: 0,
    };
    enqueue(e);
    flush();
    // What could not be sent needs room.
    while (queue.includes(e) && (queue.length > s.messages || bytes > s.bytes)) {
      settle(s.dropOldest ? queue[0]! : e, failure("RESOURCE_EXHAUSTED", "too many messages wait to be sent", true));
    }
    return e;
  }

  /** Sends what can be sent, in order. */
  function flush() {
    clearTimeout(look);
    const now = Date.now();
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
    if (!unheard.length && !connection.heard()) connection.write(frame("__heartbeat"));
    const meta = { ...e.meta, ...(e.request && { correlationId: e.id, timeoutMs: e.deadline - now }), ...(e.key && { idempotencyKey: e.key }) };
    if (!connection.write(frame(e.type, Object.keys(meta).length ? meta : undefined, e.payload))) return false;
    dequeue(e);
    e.sent = true;
    if (!connection.heard()) unheard.push(e);
    if (e.patient) turns.set(e.type, e);
    if (e.request) sent.set(e.id, e);
    else {
      clearTimeout(e.timer);
      e.settle(null);
    }
    return true;
  }

  /** Handles an answer. */
  function answered({ type, meta, payload }: Frame) {
    const e = sent.get(meta.correlationId!);
    if (!e) return;
    if (type === "$ws:rpc-progress") e.progress?.(payload);
    else if (type !== "RPC_ERROR") settle(e, null, payload, meta);
    else if (e.patient && payload.code === "RESOURCE_EXHAUSTED" && payload.retryable && payload.retryAfterMs < e.deadline - Date.now()) {
      sent.delete(e.id);
      e.notBefore = Date.now() + payload.retryAfterMs;
      enqueue(e);
      flush();
    } else settle(e, new WskitError({ ...payload, type: e.type }));
  }

  return {
    add,
    answered,
    flush,
    get busy() {
      return queue.length + sent.size > 0;
    },
    /** Nothing is sent from now on, or what waits is sent. */
    hold(on: boolean) {
      held = on;
      flush();
    },
    /** The first frame of a connection has come: what was sent may have been handled. */
    heard: () => void (unheard = []),
    /** Takes a request back. */
    abort(e: Entry, reason: unknown) {
      if (e.sent && sent.has(e.id)) connection.write(frame("$ws:abort", { correlationId: e.id }));
      settle(e, reason);
    },
    /** The connection has ended. */
    ended({ error, refused, resend }: Ending) {
      held = true;
      const again = new Set(refused ? unheard : []);
      unheard = [];
      for (const e of [...sent.values(), ...again]) {
        if (again.has(e) || (resend && e.key)) {
          sent.delete(e.id);
          if (!queue.includes(e)) enqueue(e);
        } else settle(e, new UnknownOutcome({ code: error.code, message: "the connection ended before the answer" }, { cause: error }));
      }
    },
    /** There will be no connection. */
    clear(error: WskitError) {
      for (const e of [...queue]) settle(e, error);
    },
  };
}
