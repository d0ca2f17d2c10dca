import { createConnection, type Ending } from "./connection.js";
import type { Call, Client, ContractShape, Loss, Options, RequestOptions, SendOptions, State, Untyped } from "./contract.js";
import { WskitError } from "./errors.js";
import { createEvents } from "./events.js";
import { failure, serverError } from "./failure.js";
import { parse, type Frame } from "./frame.js";
import { Listeners, observable } from "./observable.js";
import { aborted, createOutbox, type Message } from "./outbox.js";
import { followPage } from "./page.js";
import { createProgress } from "./progress.js";
import { createQuestions, isQuestion } from "./questions.js";
import { settings } from "./settings.js";
import { createTopics } from "./topics.js";
import { after, type Timer } from "./wait.js";

/** How long the server may take to resume topics, and a little more. */
const RESUME_TIMEOUT = 65_000;
/** One frame must fit into the largest that the server accepts. */
const TOPICS_AT_ONCE = 64;
const RENEW_TIMEOUT = 15_000;
/** The shortest time between two renewals, whatever the server says. */
const RENEW_EVERY = 1_000;

/** Connects to a server. It returns at once; messages wait until there is a connection. */
export function connect<C extends ContractShape = Untyped>(options: Options): Client<C> {
  const s = settings(options);
  const errors = new Listeners<[unknown]>();
  const losses = new Listeners<[Loss]>();
  const sent = new Listeners<[string]>();
  const failed = (error: unknown) =>
    errors.size ? errors.call(console.error, error) : console.error("wskit:", error);
  const lost = (loss: Loss) => losses.call(failed, loss);

  const state = observable<State>({ status: "connecting", connections: 0, retryAt: null, error: null, closeCode: null }, failed);
  const events = createEvents(failed, lost);
  const topics = createTopics(lost);
  const connection = createConnection(s, state, { opened, received, ended, needed: () => outbox.busy() || topics.size > 0 });
  const outbox = createOutbox(s, connection, (type) => sent.call(failed, type));
  const questions = createQuestions(connection.write);
  let connections = 0;
  let renewing = false; // or about to
  let renewIn = -1; // the most milliseconds that the next renewal may wait; -1: there is no need of one
  const timers = new Set<Timer>();

  /** Makes a request of the protocol, which does not wait in the queue. */
  function ask(type: string, payload: object, timeout: number): Promise<any> {
    return new Promise((resolve, reject) =>
      outbox.ask({
        type,
        payload,
        request: true,
        timeout,
        settle: (error, reply) => (error ? reject(error) : resolve(reply)),
      }),
    );
  }

  function opened(ready: () => void) {
    const mine = ++connections;
    resume(mine, 0, topics.begin(), () => {
      ready();
      outbox.open();
    });
  }

  /** Resumes topics before anything else is sent, since a message may subscribe to them anew. */
  async function resume(mine: number, attempt: number, names: string[], then?: () => void) {
    const wait = 1_000 * 2 ** Math.min(attempt, 5);
    const again: string[] = [];
    for (let atOnce = TOPICS_AT_ONCE; names.length; ) {
      const wanted = topics.ask(names.slice(0, atOnce));
      try {
        if (wanted.length) again.push(...topics.answered((await ask("$ws:resume", { topics: wanted }, RESUME_TIMEOUT)).topics));
      } catch (e) {
        if (mine !== connections) return;
        const { code, retryable, retryAfterMs } = e as WskitError;
        if (code === "DEADLINE_EXCEEDED") return connection.fail("the server did not resume the topics");
        if (retryable) return soon(Math.max(wait, retryAfterMs!), () => resume(mine, attempt + 1, [...again, ...names], then));
        if (wanted.length > 1) {
          atOnce = 1; // one of them may be the reason, or all together are too large
          continue;
        }
        topics.answered(wanted.map(() => ({ resumed: false, reason: "denied" })));
      }
      if (mine !== connections) return;
      names = names.slice(atOnce);
    }
    then?.();
    if (again.length) soon(wait, () => resume(mine, attempt + 1, again));
  }

  function received(data: string) {
    outbox.heard();
    try {
      handle(parse(data));
    } catch (cause) {
      failed(failure("UNKNOWN", "the server has sent a frame that cannot be read", false, cause));
    }
  }

  function handle(f: Frame) {
    const { type, meta, payload } = f;
    const id = meta.correlationId;
    if (id && isQuestion(id)) return void questions.asked(f);
    if (id) return outbox.answered(f);
    if (type === "ERROR") return failed(serverError(payload));
    if (type.startsWith("$ws:")) topics.note(f);
    if (type === "$ws:expiring" && s.token) {
      renewIn = payload.inMs / 2;
      if (!renewing) renewLater();
    }
    if (topics.fresh(f)) events.dispatch(f);
  }

  /** Calls f later, if the connection is the same. */
  function soon(ms: number, f: () => void) {
    timers.add(after(ms, f));
  }

  function ended(ending: Ending) {
    connections++;
    timers.forEach(clearTimeout);
    timers.clear();
    renewing = false;
    questions.ended();
    outbox.ended(ending);
    if (state.get().status === "closed") outbox.clear(ending.error);
  }

  /**
   * Renews the identity after a random part of a time, and again where that fails, until the connection ends. A notice
   * that comes during the renewal, even before its answer, is about the identity after it.
   */
  function renewLater() {
    const most = renewIn;
    renewing = true;
    soon(Math.random() * most, async () => {
      const mine = connections;
      renewIn = -1;
      await renew().catch((e) => {
        failed(e);
        if (mine === connections && e.retryable !== false) renewIn = most / 2;
      });
      if (mine === connections) soon(RENEW_EVERY, () => (renewing = renewIn >= 0) && renewLater());
    });
  }

  async function renew() {
    const mine = connections;
    const token = await s.token?.({ refused: false });
    if (mine === connections) await ask("$ws:renew", { token }, RENEW_TIMEOUT);
  }

  /** Queues a message, unless there will be no connection. */
  function post(m: Message) {
    const { status, error } = state.get();
    if (status === "closed") throw error;
    const entry = outbox.add(m);
    connection.hurry("idle");
    return entry;
  }

  function request(type: string, payload?: unknown, { signal, onLimit, onProgress, ...o }: RequestOptions = {}): Call<any> {
    const progress = createProgress(onProgress, failed);
    const promise = new Promise<any>((resolve, reject) => {
      if (signal?.aborted) throw aborted(signal);
      const abort = () => outbox.abort(entry, signal!);
      const entry = post({
        ...o,
        type,
        payload,
        request: true,
        patient: onLimit === "wait",
        progress: progress.push,
        settle(error, reply) {
          signal?.removeEventListener("abort", abort);
          progress.end(error);
          error ? reject(error) : resolve(reply);
        },
      });
      signal?.addEventListener("abort", abort);
    });
    // An error that the iteration throws need not be caught twice.
    const get = () => (promise.catch(() => {}), progress.values);
    return Object.defineProperty(promise, "progress", { get }) as Call<any>;
  }

  function send(type: string, payload?: unknown, { volatile, ...o }: SendOptions = {}): Promise<void> {
    const promise = new Promise<void>((resolve, reject) => {
      if (volatile && state.get().status !== "open") return resolve();
      post({
        ...o,
        type,
        payload,
        settle: (error) => (error ? reject(error) : resolve()),
      });
    });
    promise.catch(failed);
    return promise;
  }

  const stopFollowing = followPage({
    check: connection.check,
    hurry() {
      connection.show();
      connection.hurry("waiting", "idle");
    },
    leave: connection.leave,
  });
  void connection.start();

  return {
    state: { get: state.get, subscribe: state.subscribe },
    request,
    send,
    on: events.on,
    answer: questions.answer,
    onLoss: (listener: (loss: Loss) => void) => losses.add(listener),
    onError: (listener: (error: unknown) => void) => errors.add(listener),
    onSent: (listener: (type: string) => void) => sent.add(listener),
    forget: topics.forget,
    renew,
    reconnect: () => connection.hurry("waiting", "idle", "closed"),
    close() {
      stopFollowing();
      connection.close();
      ended({ error: state.get().error! });
    },
  } as unknown as Client<C>;
}
