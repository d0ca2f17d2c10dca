import { WskitError } from "./errors.js";

/** An error that the client has found itself. */
export const failure = (code: string, message: string, retryable = false, cause?: unknown) =>
  new WskitError({ code, message, retryable }, { cause });
