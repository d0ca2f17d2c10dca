// A browser client of the wskit protocol. It does not depend on the chat: copy this file into
// your project.
//
//   const client = new Client("ws://localhost:8080/ws", token);
//   client.on("chat.message", (payload) => …);
//   client.onstate = (state) => …;
//   client.start();
//   const reply = await client.request("room.join", { room: "lobby" });
//
// It reconnects by itself. Waits grow and are random, so that the clients of a restarted server
// do not all reconnect at once. A wait that the server sends is used.

const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 8_000;
const CONNECT_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 10_000;
// After a connection of this duration, waits start small again.
const STABLE_AFTER_MS = 5_000;
// A page cannot send pings, and a dead network gives no sign. After this time of silence the
// client sends a heartbeat, and closes the connection if no answer comes.
const HEARTBEAT_AFTER_MS = 20_000;
const HEARTBEAT_TIMEOUT_MS = 10_000;

const NO_CLOSE_FRAME = 1006;
const REFUSED = [1008, 4401, 4403]; // the server refuses this client, or its token

/** The RPC_ERROR that answered a request, or the local reason there is no answer. */
export class RequestError extends Error {
  constructor({ code, message, retryable = false, retryAfterMs = null, details = null }) {
    super(message);
    Object.assign(this, { code, retryable, retryAfterMs, details });
  }
}

export class Client {
  /** Called with {name, retryAt, close} whenever the connection changes. */
  onstate = () => {};
  /** Called with the payload of an ERROR frame: a failure of no particular request. */
  onerror = () => {};

  /**
   * name     "idle" | "connecting" | "open" | "waiting" | "stopped"
   * retryAt  when "waiting" ends, on the clock of performance.now()
   * close    why the connection was lost: {code, reason}, or null; that the
   *          server cannot be reached since then does not replace it
   */
  state = { name: "idle", retryAt: null, close: null };

  #url;
  #protocols;
  #socket = null;
  #listeners = new Map();
  #pending = new Map();
  #nextID = 1;
  #attempts = 0;
  #openedAt = 0;
  #heardAt = 0;
  #timer = null;

  /**
   * @param {string} url of the server, ws: or wss:
   * @param {string} [token] identifies the client. It is sent as a subprotocol, the
   *   only header that a page can set, and not in the URL, because URLs are logged.
   */
  constructor(url, token) {
    this.#url = url;
    this.#protocols = token ? ["wskit", `bearer.${token}`] : ["wskit"];
    globalThis.addEventListener?.("online", () => this.retryNow());
  }

  /** Calls listener with the payload and the meta of every event of this type. */
  on(type, listener) {
    this.#listeners.set(type, listener);
    return this;
  }

  start() {
    if (this.state.name === "idle" || this.state.name === "stopped") this.#connect();
  }

  /** Ends a wait early: for a "try now" button. */
  retryNow() {
    if (this.state.name === "waiting" || this.state.name === "stopped") this.#connect();
  }

  /** Sends an event: nothing answers it. */
  send(type, payload) {
    if (this.state.name === "open") this.#socket.send(frame({ type, payload, meta: { timestamp: Date.now() } }));
  }

  /** Sends a request. Resolves with the reply's payload, rejects with a RequestError. */
  request(type, payload, { timeoutMs = REQUEST_TIMEOUT_MS } = {}) {
    return new Promise((resolve, reject) => {
      if (this.state.name !== "open") {
        reject(new RequestError({ code: "UNAVAILABLE", message: "not connected", retryable: true }));
        return;
      }
      const correlationId = String(this.#nextID++);
      const timeout = setTimeout(() => {
        this.#pending.delete(correlationId);
        this.#socket?.send(frame({ type: "$ws:abort", meta: { correlationId } }));
        reject(new RequestError({ code: "DEADLINE_EXCEEDED", message: "no answer in time", retryable: true }));
      }, timeoutMs);
      this.#pending.set(correlationId, { resolve, reject, timeout });
      this.#socket.send(frame({ type, payload, meta: { timestamp: Date.now(), correlationId, timeoutMs } }));
    });
  }

  #connect() {
    clearTimeout(this.#timer);
    const socket = new WebSocket(this.#url, this.#protocols);
    this.#socket = socket;
    this.#setState("connecting");
    // A former socket may still have events: only the current one counts.
    const current = (handler) => (event) => socket === this.#socket && handler(event);
    socket.onopen = current(() => this.#opened());
    socket.onmessage = current((event) => this.#received(event.data));
    socket.onclose = current((event) => this.#closed(event.code, event.reason));
    this.#timer = setTimeout(() => this.#abandon("the server does not answer"), CONNECT_TIMEOUT_MS);
  }

  #opened() {
    this.#openedAt = this.#heardAt = performance.now();
    this.#setState("open");
    this.#listen();
  }

  /** Waits for silence, then asks for a sign of life, then gives up. */
  #listen() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      if (performance.now() - this.#heardAt < HEARTBEAT_AFTER_MS) return this.#listen();
      const askedAt = performance.now();
      this.#socket.send(frame({ type: "__heartbeat" }));
      this.#timer = setTimeout(() => {
        if (this.#heardAt > askedAt) this.#listen();
        else this.#abandon("the server fell silent");
      }, HEARTBEAT_TIMEOUT_MS);
    }, HEARTBEAT_AFTER_MS);
  }

  #received(data) {
    this.#heardAt = performance.now();
    const { type, meta, payload } = JSON.parse(data);
    const pending = this.#pending.get(meta?.correlationId);
    if (type === "$ws:rpc-progress" || type === "__heartbeat_ack") return;
    if (pending) {
      this.#pending.delete(meta.correlationId);
      clearTimeout(pending.timeout);
      if (type === "RPC_ERROR") pending.reject(new RequestError(payload));
      else pending.resolve(payload);
    } else if (type === "ERROR") {
      this.onerror(payload);
    } else if (type !== "RPC_ERROR") {
      this.#listeners.get(type)?.(payload, meta);
    }
  }

  /** Leaves a connection on which nothing comes back, without waiting for its close. */
  #abandon(reason) {
    const socket = this.#socket;
    this.#socket = null;
    socket.close();
    this.#closed(0, reason);
  }

  #closed(code, reason) {
    clearTimeout(this.#timer);
    this.#socket = null;
    const close = code === NO_CLOSE_FRAME && this.state.close ? this.state.close : { code, reason };
    for (const { reject, timeout } of this.#pending.values()) {
      clearTimeout(timeout);
      reject(new RequestError({ code: "UNAVAILABLE", message: "connection lost", retryable: true }));
    }
    this.#pending.clear();
    if (REFUSED.includes(code)) {
      this.#setState("stopped", { close });
      return;
    }
    if (this.#openedAt && performance.now() - this.#openedAt > STABLE_AFTER_MS) this.#attempts = 0;
    this.#openedAt = 0;
    const wait = waitBefore(this.#attempts++, adviceIn(reason));
    this.#timer = setTimeout(() => this.#connect(), wait);
    this.#setState("waiting", { retryAt: performance.now() + wait, close });
  }

  #setState(name, { retryAt = null, close = this.state.close } = {}) {
    this.state = { name, retryAt, close: name === "open" ? null : close };
    this.onstate(this.state);
  }
}

const frame = (object) => JSON.stringify(object);

/** The wait a close reason asks for, or null: {"retryAfterMs":1500}. */
function adviceIn(reason) {
  try {
    const { retryAfterMs } = JSON.parse(reason);
    return Number.isFinite(retryAfterMs) && retryAfterMs >= 0 ? retryAfterMs : null;
  } catch {
    return null;
  }
}

/** The wait before the next attempt: what the server asked for and a little
 * jitter, or else a random part of a limit that doubles. */
export function waitBefore(attempt, advisedMs) {
  if (advisedMs !== null) return advisedMs + Math.random() * 250;
  const ceiling = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt);
  return ceiling / 2 + Math.random() * (ceiling / 2);
}
