// The Worker with a clock that a test sets, and with access to its objects. Nothing of
// this is deployed.
import { Limits as Production } from "../src/object.js";
import { serve } from "../src/worker.js";

export class Limits extends Production {
  constructor(ctx, env) {
    super(ctx, env);
    if (env.GRACE_MS) {
      this.grace = Number(env.GRACE_MS) * 1000;
    }
    if (env.PAUSE_MS) {
      this.pause = Number(env.PAUSE_MS) * 1000;
    }
    this.written = 0;
    this.storage = count(ctx.storage, (n) => (this.written += n));
  }

  now() {
    return this.clock ?? super.now();
  }

  decideAt(clock, asked) {
    this.clock = clock;
    return this.decide(asked);
  }

  async inspect() {
    const [{ rows }] = this.storage.sql.exec("SELECT count(*) AS rows FROM limits").toArray();
    return { rows, written: this.written, alarm: await this.storage.getAlarm() };
  }

  async sweep() {
    await this.alarm();
  }

  async fail(asked) {
    await null;
    throw new Error("told to fail");
  }

  evict() {
    this.ctx.abort("evicted");
  }
}

// count wraps a storage and reports the rows written, alarms included.
function count(storage, wrote) {
  return {
    getAlarm: () => storage.getAlarm(),
    setAlarm(at) {
      wrote(1);
      return storage.setAlarm(at);
    },
    transactionSync: (body) => storage.transactionSync(body),
    sql: {
      exec(...args) {
        const cursor = storage.sql.exec(...args);
        wrote(cursor.rowsWritten);
        return cursor;
      },
    },
  };
}

export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    const namespace = env.LIMITS;
    if (url.pathname.startsWith("/test/")) {
      const stub = namespace.get(namespace.idFromName(url.searchParams.get("object")));
      const answer = await stub[url.pathname.slice("/test/".length)]().catch((err) => String(err));
      return Response.json(answer ?? null);
    }
    const clock = request.headers.get("x-test-now");
    const failing = request.headers.get("x-test-fail");
    const LIMITS = {
      idFromName: (name) => ({ name, id: namespace.idFromName(name) }),
      get({ name, id }) {
        const stub = namespace.get(id);
        return {
          decide(asked) {
            if (failing !== null && (failing === "overloaded" || failing === name)) {
              return Promise.reject(Object.assign(new Error("told to fail"), { overloaded: failing === "overloaded" }));
            }
            return clock === null ? stub.decide(asked) : stub.decideAt(Number(clock), asked);
          },
        };
      },
    };
    const TENANT_SHARDS = JSON.parse(env.TENANT_SHARDS ?? "{}");
    return serve(request, { SECRET: env.SECRET, SHARDS: env.SHARDS, TENANT_SHARDS, LIMITS });
  },
};
