// What the overviews of processes say together, and how it has changed in the last 15 minutes.

const KEPT_MS = 15 * 60_000;

export const stats = (a) => a.overview.stats;
export const sum = (list, f) => list.reduce((n, x) => n + f(x), 0);
export const totalOf = (counts) => sum(Object.values(counts ?? {}), (n) => n);
export const handled = (a) => sum(stats(a).Types, (t) => totalOf(t.Outcomes));

/** The processes of an answer that have an overview, each with the one before it. */
export function pairs(now, before) {
  const earlier = new Map((before?.processes ?? []).filter((a) => a.overview).map((a) => [a.process, a]));
  return now.processes.filter((a) => a.overview).map((a) => {
    const b = earlier.get(a.process);
    return { now: a, before: b && b.overview.startedAt === a.overview.startedAt ? b : null };
  });
}

/** How much a figure has grown since the answer before, in all processes. */
export const growth = (all, of) => sum(all, ({ now, before }) => (before ? of(now) - of(before) : 0));

/** The same in a second. */
export const perSecond = (all, seconds, of) => (seconds > 0 ? growth(all, of) / seconds : 0);

/** A quantile of a histogram, by the upper bound of its bucket, or null if it is empty. */
export function quantile(counts, bounds, q) {
  const n = sum(counts, (x) => x);
  if (n === 0) return null;
  let seen = 0;
  for (const [i, x] of counts.entries()) {
    seen += x;
    if (seen >= q * n) return bounds[i] ?? Infinity;
  }
  return Infinity;
}

export const minus = (a, b) => (b ? a.map((n, i) => n - b[i]) : a);
const plus = (a, b) => (a ? a.map((n, i) => n + b[i]) : b);

/** The messages of each type in all processes: since the start, and since the answer before. */
export function byType(all) {
  const types = new Map();
  for (const { now, before } of all) {
    const earlier = new Map((before ? stats(before).Types : []).map((t) => [t.Type, t]));
    for (const t of stats(now).Types) {
      const fresh = { type: t.Type, handled: 0, failed: {}, grown: {}, fresh: 0, counts: null, route: null };
      const known = types.get(t.Type) ?? fresh;
      const b = earlier.get(t.Type);
      known.handled += totalOf(t.Outcomes);
      for (const [code, n] of Object.entries(t.Outcomes ?? {})) {
        if (code === "OK") continue;
        known.failed[code] = (known.failed[code] ?? 0) + n;
        if (before) known.grown[code] = (known.grown[code] ?? 0) + n - (b?.Outcomes?.[code] ?? 0);
      }
      if (before) known.fresh += totalOf(t.Outcomes) - totalOf(b?.Outcomes);
      known.counts = plus(known.counts, before ? minus(t.Handling.Counts, b?.Handling.Counts) : t.Handling.Counts);
      known.route ??= now.overview.routes.find(
        (r) => r.type === t.Type && r.kind !== "declared" && r.kind !== "question");
      types.set(t.Type, known);
    }
  }
  return [...types.values()];
}

/** The latest answer with the one before it, as the screens show them; null until there is one. */
export let latest = null;

/** The samples of the last 15 minutes, the oldest first. Nothing older is kept. */
export const samples = [];

// The figures that count failures of the server: what has failed, and more of it.
export const FAILURES = {
  Panics: ["handlers panicked", "the log has each stack"],
  Faults: ["faults of the server", "the log has each"],
  PublishFailed: ["messages were not published", "the broker failed"],
  ReadFailures: ["logs of topics were not read", "they are read again"],
  Lost: ["losses were reported by the broker", "topics with history read them again from their logs"],
  SlowConsumers: ["clients were disconnected since they read slowly", ""],
  FramesDropped: ["frames were dropped for slow clients", ""],
  HooksMissed: ["calls of hooks were left out", "OnRefused or OnLimitExceeded takes long"],
};
const SERVER_CODES = ["INTERNAL", "UNAVAILABLE", "DEADLINE_EXCEEDED", "DATA_LOSS", "UNKNOWN"];

/** Takes an answer. */
export function add(answer) {
  const now = { at: Date.now(), ...answer };
  const before = latest?.now;
  const all = pairs(now, before);
  const seconds = before ? (now.at - before.at) / 1000 : 0;
  const types = byType(all);
  latest = { now, all, seconds, types, bounds: all[0]?.now.overview.bounds ?? [] };
  const counts = types.reduce((c, t) => plus(c, t.counts), null) ?? [];
  const grown = {}; // what has failed since the answer before
  const note = (what, n) => n > 0 && (grown[what] = n);
  for (const name of Object.keys(FAILURES)) note(name, growth(all, (a) => stats(a)[name] ?? 0));
  for (const t of types) for (const code of SERVER_CODES) note(`type ${t.type} ${code}`, t.grown[code] ?? 0);
  for (const code of new Set(all.flatMap(({ now }) => Object.keys(stats(now).RefusedHandshakes ?? {})))) {
    note(`handshake ${code}`, growth(all, (a) => stats(a).RefusedHandshakes?.[code] ?? 0));
  }
  samples.push({
    at: now.at,
    connections: sum(all, ({ now }) => stats(now).Connections),
    messages: before ? perSecond(all, seconds, handled) : null,
    limited: before ? perSecond(all, seconds, (a) => stats(a).Rejected) : null,
    p50: before ? quantile(counts, latest.bounds, 0.5) : null,
    p99: before ? quantile(counts, latest.bounds, 0.99) : null,
    backlogged: sum(all, ({ now }) => stats(now).Backlogged),
    grown,
  });
  while (samples[0].at < now.at - KEPT_MS) samples.shift();
}

/** What has failed since a time: how often, by name. */
export function failures(since) {
  const all = {};
  for (const s of samples) {
    if (s.at < since) continue;
    for (const [name, n] of Object.entries(s.grown)) all[name] = (all[name] ?? 0) + n;
  }
  return all;
}
