/** What is known of a failure: the payload of ERROR and RPC_ERROR, see PROTOCOL.md. */
export interface Failure {
  code: string;
  message: string;
  retryable?: boolean;
  retryAfterMs?: number | null;
  details?: unknown;
  /** The type of the message that failed, where it is known. */
  type?: string | undefined;
}

/** An error that the server has answered with, or the reason why there is no answer. */
export class WskitError extends Error {
  override name = "WskitError";
  /** NOT_FOUND, RESOURCE_EXHAUSTED and others, see PROTOCOL.md. */
  declare readonly code: string;
  /** Whether the same message may succeed later. */
  declare readonly retryable: boolean;
  /** The wait until then in milliseconds; null if it is not known, or waiting does not help. */
  declare readonly retryAfterMs: number | null;
  /** The fields that are not valid, or the limit that was exceeded. */
  declare readonly details: unknown;
  /** The type of the message that failed, where it is known. */
  declare readonly type: string | undefined;

  constructor({ code, message, retryable = false, retryAfterMs = null, details, type }: Failure, options?: ErrorOptions) {
    super(message, options);
    // Whatever the server has sent.
    Object.assign(this, { code: String(code), retryable: !!retryable, retryAfterMs, details, type });
  }
}

/**
 * A request was sent, and its answer will not come: the server may have handled it or not. The
 * code says why: UNAVAILABLE if the connection broke, DEADLINE_EXCEEDED if the time was over,
 * CANCELLED if the client was closed. It is not sent again, unless it has an idempotency key.
 */
export class UnknownOutcome extends WskitError {
  override name = "UnknownOutcome";
}
