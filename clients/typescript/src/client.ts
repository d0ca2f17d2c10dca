import { createConnection } from "./connection.js";
import type { Call, Client, ContractShape, Loss, Options, RequestOptions, SendOptions, State, Untyped } from "./contract.js";
import { WskitError } from "./errors.js";
import { failure } from "./failure.js";
import { createEvents } from "./events.js";
import { frame, type Frame } from "./frame.js";
import { Listeners, observable } from "./observable.js";
import { createOutbox } from "./outbox.js";
import { followPage } from "./page.js";
import { createProgress } from "./progress.js";
import { createQuestions, isQuestion } from "./questions.js";
import { settings } from "./settings.js";
import { createTopics } from "./topics.js";
import { after } from "./wait.js";

/** How long the server may take to resume topics, and a little more. */
const RESUME_TIMEOUT = 65_000;
const RENEW_TIMEOUT = 15_000;

/** Connects to a server. It returns at once; messages wait until there is a connection. */
export function connect<C extends ContractShape = Untyped>(options: Options): Client<C> {
  const s = settings(options);
  const errors = new Listeners<[unknown]>();
  const losses = new Listeners<[Loss]>();
  const failed = (error: unknown) =>
    errors.size ? errors.call(console.error, error) : console.error("wskit:", error);
  const lost = (loss: Loss) => losses.call(failed, loss);

  const state = observable<State>({ status: "connecting", connections: 0, retryAt: null, error: null, closeCode: null }, failed);
  const events = createEvents(failed, lost);
  const topics = createTopics(lost);
  const connection = createConnection(s, state, { opened, received, ended, needed: () => outbox.busy || topics.size > 0 });
  const outbox = createOutbox(s, connection);
  const questions = createQuestions(connection.write);
  // The protocol's own requests do not wait in the queue.
  const own = new Map<string, (error: WskitError | null, payload?: any) => void>();
  let ownID = 0;
  let connections = 0;

  function ask(type: string, payload: object, timeout: number): Promise<any> {
    return new Promise((resolve, reject) => {
      const id = `${type}${ownID++}`.slice(1);
      const done = (error: WskitError | null, reply?: any) => {
        clearTimeout(timer);
        own.delete(id);
        error ? reject(error) : resolve(reply);
      };
      const timer = after(timeout, () => done(failure("DEADLINE_EXCEEDED", "no answer in time", true)));
      own.set(id, done);
      if (!connection.write(frame(type, { correlationId: id }, JSON.stringify(payload)))) {
        done(failure("UNAVAILABLE", "there is no connection", true));
      }
    });
  }

  function opened(ready: () => void) {
    const mine = ++connections;
    const open = () => {
      if (mine !== connections) return;
      ready();
      outbox.hold(false);
    };
    if (topics.size) resume(mine, 0, open);
    else open();
  }

  /** Resumes topics before anything else is sent, since a message may subscribe to them anew. */
  async function resume(mine: number, attempt: number, then: () => void, names?: string[]) {
    const wanted = topics.ask(names);
    let again: string[] = [];
    let wait = 1_000 * 2 ** Math.min(attempt, 5);
    if (wanted.length) {
      try {
        again = topics.answered((await ask("$ws:resume", { topics: wanted }, RESUME_TIMEOUT)).topics);
      } catch (e) {
        if (mine !== connections) return;
        const error = e as WskitError;
        if (error.code === "DEADLINE_EXCEEDED") return connection.fail("the server did not resume the topics");
        if (error.retryable) {
          after(Math.max(wait, error.retryAfterMs ?? 0), () => mine === connections && resume(mine, attempt + 1, then, names));
          return;
        }
        topics.answered(wanted.map(() => ({ resumed: false, reason: "denied" })));
      }
    }
    if (mine !== connections) return;
    then();
    if (again.length) after(wait, () => mine === connections && resume(mine, attempt + 1, () => {}, again));
  }

  function received(f: Frame) {
    outbox.heard();
    const { type, meta, payload } = f;
    const id = meta.correlationId;
    if (id && isQuestion(id)) return void questions.asked(f);
    if (id) {
      const done = own.get(id);
      if (!done) outbox.answered(f);
      else if (type === "RPC_ERROR") done(new WskitError(payload));
      else done(null, payload);
      return;
    }
    if (type === "ERROR") return failed(new WskitError(payload));
    if (type.startsWith("$ws:")) topics.note(f);
    if (type === "$ws:expiring" && s.token) after(Math.random() * 0.5 * payload.inMs, () => renew().catch(failed));
    if (topics.fresh(f)) events.dispatch(f);
  }

  function ended(ending: Parameters<typeof outbox.ended>[0]) {
    connections++;
    questions.ended();
    for (const done of [...own.values()]) done(ending.error);
    outbox.ended(ending);
    if (state.get().status === "closed") outbox.clear(ending.error);
  }

  async function renew() {
    const mine = connections;
    const token = await s.token?.({ refused: false });
    if (mine === connections) await ask("$ws:renew", { token }, RENEW_TIMEOUT);
  }

  const unavailable = () => (state.get().status === "closed" ? state.get().error : null);

  function request(type: string, payload?: unknown, o: RequestOptions = {}): Call<any> {
    const progress = createProgress(o.onProgress, failed);
    const promise = new Promise<any>((resolve, reject) => {
      const { signal } = o;
      signal?.throwIfAborted();
      const closed = unavailable();
      if (closed) throw closed;
      const abort = () => outbox.abort(entry, signal!.reason);
      const entry = outbox.add({
        type,
        meta: o.meta ?? {},
        payload: JSON.stringify(payload),
        request: true,
        timeout: o.timeout ?? s.timeout,
        key: o.idempotencyKey,
        patient: o.onLimit === "wait",
        progress: progress.push,
        settle(error, reply) {
          signal?.removeEventListener("abort", abort);
          progress.end();
          error ? reject(error) : resolve(reply);
        },
      });
      signal?.addEventListener("abort", abort);
      connection.hurry("idle");
    });
    return Object.defineProperty(promise, "progress", { get: progress.iterate }) as Call<any>;
  }

  function send(type: string, payload?: unknown, o: SendOptions = {}): Promise<void> {
    const promise = new Promise<void>((resolve, reject) => {
      const closed = unavailable();
      if (closed) throw closed;
      if (o.volatile && state.get().status !== "open") return resolve();
      outbox.add({
        type,
        meta: o.meta ?? {},
        payload: JSON.stringify(payload),
        request: false,
        timeout: o.timeout ?? s.timeout,
        key: o.idempotencyKey,
        settle: (error) => (error ? reject(error) : resolve()),
      });
      connection.hurry("idle");
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
    forget: topics.forget,
    renew,
    reconnect: () => connection.hurry("waiting", "idle", "closed"),
    close() {
      stopFollowing();
      connection.close();
      const error = state.get().error!;
      ended({ error, refused: false, resend: false });
    },
  } as unknown as Client<C>;
}
