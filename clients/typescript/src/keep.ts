import type { Client, Loss } from "./contract.js";

/** How a page follows a topic with a history. */
export interface Keeping {
  /**
   * Makes the request that subscribes, and returns its promise. It is called on each connection, and with `all` when everything
   * that the topic keeps has to come: at first, and when messages are lost. The server then subscribes anew, by Unsubscribe and
   * SubscribeFrom. Otherwise the topic was resumed.
   */
  open(all: boolean): Promise<unknown>;
  /** Is called when the server has subscribed anew, before the first message: nothing that was shown counts any more. */
  reset?(): void;
  /** Gets the errors of open for which waiting does not help. The next connection opens again. Default: console.error. */
  onError?(error: unknown): void;
}

const FIRST_WAIT = 1_000;
const LONGEST_WAIT = 30_000;

/**
 * Keeps what a page shows of a topic complete: it opens the topic on each connection, everything of it at first and after each
 * loss, one after the other, and again after a pause where that fails. The function that it returns ends that, and leaves the
 * subscription as it is.
 */
export function keep(client: Client<any>, topic: string, { open, reset, onError = console.error }: Keeping): () => void {
  let all = true; // at the next opening
  let opening: "all" | "rest" | undefined;
  let begun = false; // the server has subscribed anew, for this opening
  let again = false;
  let stopped = false;
  let wait = FIRST_WAIT;
  let opened = 0; // on which connection
  let timer: ReturnType<typeof setTimeout> | undefined;

  async function run() {
    const { status, connections } = client.state.get();
    if (stopped || status !== "open") return;
    if (opening) return void (again = true);
    if (timer && connections === opened) return; // it waits as long as the server has asked for
    clearTimeout(timer);
    timer = undefined;
    opened = connections;
    const whole = all;
    opening = whole ? "all" : "rest";
    begun = false;
    all = false;
    try {
      await open(whole);
      wait = FIRST_WAIT;
    } catch (error) {
      all ||= whole;
      const { retryable, retryAfterMs } = error as { retryable?: boolean; retryAfterMs?: number | null };
      if (retryable) {
        timer = setTimeout(() => {
          timer = undefined;
          void run();
        }, retryAfterMs ?? wait);
        wait = Math.min(2 * wait, LONGEST_WAIT);
      } else if (client.state.get().status === "open") onError(error);
    }
    opening = undefined;
    if (again) {
      again = false;
      void run();
    }
  }

  const stops = [
    // It comes again where the server joins the topic, behind the messages.
    client.on("$ws:subscribed", (subscribed: { topic: string; resumed?: boolean }) => {
      if (subscribed.topic !== topic || subscribed.resumed || opening !== "all" || begun) return;
      begun = true;
      reset?.();
    }),
    client.onLoss(({ topic: lost, reason }: Loss) => {
      // Of a topic that is opened anew, the beginning is no loss.
      if (lost !== topic || (opening === "all" && reason === "subscribed")) return;
      all = true;
      void run();
    }),
    client.state.subscribe(() => {
      if (client.state.get().connections !== opened) void run();
    }),
  ];
  void run();
  return () => {
    stopped = true;
    clearTimeout(timer);
    for (const stop of stops) stop();
  };
}
