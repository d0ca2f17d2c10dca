/** The longest time of a timer. A longer one would end at once. */
const LONGEST = 2 ** 31 - 1;

/** Milliseconds that pass evenly, whoever sets the wall clock. */
export const clock = () => performance.now();

export type Timer = ReturnType<typeof setTimeout>;

/** Calls f after ms milliseconds, never before. */
export function after(ms: number, f: () => void): Timer {
  return setTimeout(f, Math.min(LONGEST, Math.max(0, Math.ceil(ms))));
}

/** A random part of a ceiling that doubles with each attempt: full jitter, so that clients spread. */
export function backoff(attempt: number, first: number, most: number): number {
  return Math.random() * Math.min(most, first * 2 ** Math.min(attempt, 30));
}

/** Limits attempts to connect, whatever causes them: so many at once, then one in each interval. */
export function pacer(burst: number, interval: number) {
  let full = 0; // when the bucket is full again, by clock()
  return {
    /** The wait until the next attempt is allowed. */
    wait: () => Math.max(0, full - clock() - (burst - 1) * interval),
    spend: () => void (full = Math.max(full, clock()) + interval),
  };
}

/** A wait that the server asks for, if it makes sense. A longer one than a day does not. */
export const sensible = (ms: unknown): number | undefined =>
  typeof ms === "number" && ms >= 0 && ms <= 86_400_000 ? ms : undefined;

/**
 * What the reason of a close frame says: {"retryAfterMs":1500,"message":"…"}. The wait is null if waiting does not
 * help, and undefined if it is not known.
 */
export function adviceIn(reason: string): { wait?: number | null | undefined; message?: string | undefined } {
  try {
    const { retryAfterMs: ms, message } = JSON.parse(reason);
    return { wait: ms === null ? ms : sensible(ms), message: typeof message === "string" ? message : undefined };
  } catch {
    return {};
  }
}
