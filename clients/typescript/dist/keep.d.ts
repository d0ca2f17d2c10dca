import type { Client } from "./wskit.js";
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
/**
 * Keeps what a page shows of a topic complete: it opens the topic on each connection, everything of it at first and after each
 * loss, one after the other, and again after a pause where that fails. The function that it returns ends that, and leaves the
 * subscription as it is.
 */
export declare function keep(client: Client<any>, topic: string, { open, reset, onError }: Keeping): () => void;
