import { WskitError } from "./errors.js";
import { sensible } from "./wait.js";

/** An error that the client has found itself. */
export const failure = (code: string, message: string, retryable = false, cause?: unknown) =>
  new WskitError({ code, message, retryable }, { cause });

/** An error of the server, whatever it has sent. */
export const serverError = (payload: any, type?: string) =>
  new WskitError({ code: "UNKNOWN", message: "unknown error", type, ...payload, retryAfterMs: sensible(payload?.retryAfterMs) ?? null });
