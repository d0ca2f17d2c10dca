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
export declare class WskitError extends Error {
    name: string;
    /** NOT_FOUND, RESOURCE_EXHAUSTED and others, see PROTOCOL.md. */
    readonly code: string;
    /** Whether the same message may succeed later. */
    readonly retryable: boolean;
    /** The wait until then in milliseconds; null if it is not known, or waiting does not help. */
    readonly retryAfterMs: number | null;
    /** The fields that are not valid, or the limit that was exceeded. */
    readonly details: unknown;
    /** The type of the message that failed, where it is known. */
    readonly type: string | undefined;
    constructor({ code, message, retryable, retryAfterMs, details, type }: Failure, options?: ErrorOptions);
}
/**
 * A request was sent, and its answer will not come: the server may have handled it or not. The
 * code says why: UNAVAILABLE if the connection broke, DEADLINE_EXCEEDED if the time was over,
 * CANCELLED if the client was closed. It is not sent again, unless it has an idempotency key.
 */
export declare class UnknownOutcome extends WskitError {
    name: string;
}

/** The contract of a server that none was generated for: every type and payload is allowed. */
export interface Untyped {
    requests: {
        [type: string]: {
            request: any;
            reply: any;
            progress: any;
        };
    };
    sends: {
        [type: string]: any;
    };
    events: {
        [type: string]: any;
    };
    questions: {
        [type: string]: {
            question: any;
            answer: any;
        };
    };
}
/** What Contract must have. The server's generated types have it. */
export interface ContractShape {
    requests: object;
    sends: object;
    events: object;
    questions: object;
}
/** A member of a topic whose presence is watched. */
export interface Member {
    id?: string;
    user?: string;
    data?: any;
}
/** A frame of `$ws:presence`: the whole list in `members`, or what has changed since the frame before. */
export interface Presence {
    topic: string;
    count: number;
    members?: Member[];
    joined?: Member[];
    changed?: Member[];
    left?: Member[];
}
/** Events of the protocol, which every server may send. */
export interface ProtocolEvents {
    "$ws:presence": Presence;
    "$ws:subscribed": {
        topic: string;
        pos: string;
        ticket: string;
        resumed?: boolean;
    };
    "$ws:unsubscribed": {
        topic: string;
        reason?: string;
    };
    "$ws:redacted": {
        topic: string;
        pos: string;
        replacement?: any;
    };
    "$ws:reset": {
        topic: string;
        reason: string;
        pos: string;
    };
    "$ws:gap": {
        topics: string[];
    };
    "$ws:expiring": {
        inMs: number;
    };
    "$ws:limits": {
        limits: any[];
        seen: {
            [type: string]: number;
        };
    };
}
/** The names of a part of a contract. */
export type Name<T> = keyof T & string;
/** A field of an entry of a contract. */
export type Field<T, N, F> = N extends keyof T ? (F extends keyof T[N] ? T[N][F] : undefined) : never;
/** The events of a contract, and those of the protocol. */
export type Events<C extends ContractShape> = C["events"] & ProtocolEvents;
/** The arguments behind a type: the payload may be left out if nothing in it is required. */
export type Arguments<Payload, Options> = undefined extends Payload ? [payload?: Payload, options?: Options] : {} extends Payload ? [payload?: Payload, options?: Options] : [payload: Payload, options?: Options];
/** What an event or a reply says beside its payload: where a topic has a history, its position; own fields of the application. */
export interface Meta {
    topic?: string;
    pos?: string;
    [own: string]: unknown;
}
export interface SendOptions {
    /** How long the message may wait for a connection, in milliseconds. Default: Options.timeout. */
    timeout?: number;
    /** Own fields of the message's meta, such as a trace id. */
    meta?: Record<string, unknown>;
    /** The server handles the message once, however often it is sent with this key. */
    idempotencyKey?: string;
    /** If there is no connection now, the message is dropped: for what is out of date soon, such as a cursor. */
    volatile?: boolean;
}
export interface RequestOptions<Progress = any> {
    /** How long to wait for the answer in milliseconds, a connection that has to be made included. Default: Options.timeout. */
    timeout?: number;
    /** Aborts the request. The promise is then rejected with CANCELLED, and the signal's reason is the cause. */
    signal?: AbortSignal;
    /** Own fields of the message's meta, such as a trace id. */
    meta?: Record<string, unknown>;
    /**
     * The server handles the request once, however often it is sent with this key, if it is configured for it and the
     * client has a user. So the request is sent again when a connection breaks before the answer.
     */
    idempotencyKey?: string;
    /**
     * What happens when a rate limit refuses the request: "fail" rejects the promise, "wait" sends it again when the limit
     * has room, if its time is not over. Requests of one type that wait are sent one after the other, so their order
     * is kept. Default: "fail".
     */
    onLimit?: "fail" | "wait";
    /** Is called with each progress. */
    onProgress?: (progress: Progress) => void;
}
/** The promise of a reply. */
export interface Call<Reply, Progress = any> extends Promise<Reply> {
    /**
     * The progress of the request; it ends with the answer, and throws the error in its place. The last 1,024
     * are kept until they are read.
     */
    readonly progress: AsyncIterable<Progress>;
}
/** The state of the connection. Each change makes a new object. */
export interface State {
    /**
     * - `connecting`: a connection is being made, and topics are being resumed
     * - `open`: messages are exchanged
     * - `waiting`: for the next attempt
     * - `idle`: the server has closed a connection that was not used; the next message makes another
     * - `closed`: by `close()`, or by an error that another attempt would not change
     */
    readonly status: "connecting" | "open" | "waiting" | "idle" | "closed";
    /** Connections that were made so far. More than 1: this is a reconnect. */
    readonly connections: number;
    /** When waiting: the time of the next attempt, as in Date.now(); null if it waits for the page to be shown. */
    readonly retryAt: number | null;
    /** Why there is no connection; null when it is open. */
    readonly error: WskitError | null;
    /** The close code of the last connection, null before one was closed. */
    readonly closeCode: number | null;
}
/** A value that can be read, and whose changes can be followed. Both functions may be passed on without their object. */
export interface Observable<T> {
    get: () => T;
    subscribe: (listener: () => void) => () => void;
}
/** Messages of a topic are missing, and will not come. */
export interface Loss {
    topic: string;
    /**
     * - `epoch`, `trimmed`, `rewound`, `tooFar`: of a topic with history, see PROTOCOL.md
     * - `denied`: the topic was not resumed, and the client is not subscribed to it any more
     * - `subscribed`: the connection was subscribed anew before the topic was resumed
     * - `gap`: messages of a topic without history may have been lost
     * - `noListener`: events for which no listener was registered in time
     */
    reason: string;
}
/** How a token is to be found. */
export interface TokenRequest {
    /** The server has refused the last token: a cached one does not help. */
    refused: boolean;
}
export interface Options {
    /** The server: ws:, wss:, http:, https:, or in a page a path such as "/ws". */
    url: string | URL;
    /** Is called before each attempt to connect, and when the identity is about to expire. */
    token?: (request: TokenRequest) => string | null | undefined | Promise<string | null | undefined>;
    /**
     * Where the token is sent: as a subprotocol, or as the parameter access_token of the URL, which
     * servers and proxies often log. Default: "protocol".
     */
    tokenIn?: "protocol" | "query";
    /** The subprotocols that are offered beside the token. Default: ["wskit"]. */
    protocols?: string[];
    /** The time of a request, and how long an event may wait for a connection, in milliseconds. Default: 30,000. */
    timeout?: number;
    /** What may wait for a connection. */
    queue?: {
        /** Default: 1,000. */
        messages?: number;
        /** The size of all payloads. Default: 1 MiB. */
        bytes?: number;
        /** What is refused when there is no room: the new message, or the oldest ones. Default: "newest". */
        overflow?: "newest" | "oldest";
    };
    /** The waits between attempts: a random part of a ceiling that doubles from `first` to `most` milliseconds. */
    backoff?: {
        /** Default: 500. */
        first?: number;
        /** Default: 30,000. */
        most?: number;
    };
    /** The most attempts to connect, whatever causes them. The defaults are what a server's connection gate accepts of an address. */
    attempts?: {
        /** So many at once. Default: 5. */
        burst?: number;
        /** Default: 10. */
        perMinute?: number;
    };
    /** How long an attempt to connect may take, in milliseconds. Default: 10,000. */
    connectTimeout?: number;
    heartbeat?: {
        /** The time of silence after which the server is asked for a sign of life, in milliseconds. Default: 20,000. */
        after?: number;
        /** How long its answer may take. Then the connection is given up. Default: 10,000. */
        timeout?: number;
    };
    /** The WebSocket to use in place of the global one. */
    WebSocket?: typeof WebSocket;
}
/** What the application gets with the question that it answers. */
export interface QuestionContext {
    /** The server does not wait for the answer any longer. */
    signal: AbortSignal;
    meta: Meta;
}
/** A connection to a server that is made again whenever it breaks. */
export interface Client<C extends ContractShape = Untyped> {
    /** The state of the connection. */
    readonly state: Observable<State>;
    /**
     * Sends a request. A request that could not be sent yet waits for a connection as long as it has time. One that was
     * sent when the connection broke is rejected with {@link UnknownOutcome}.
     */
    request<N extends Name<C["requests"]>>(type: N, ...rest: Arguments<Field<C["requests"], N, "request">, RequestOptions<Field<C["requests"], N, "progress">>>): Call<Field<C["requests"], N, "reply">, Field<C["requests"], N, "progress">>;
    /**
     * Sends an event, which is not answered. The promise is resolved when the event was handed to the connection, which may
     * still lose it; use a request where that matters. An event that is not sent is reported to onError, too; the
     * promise need not be awaited.
     */
    send<N extends Name<C["sends"]>>(type: N, ...rest: Arguments<C["sends"][N], SendOptions>): Promise<void>;
    /**
     * Calls the listener with each event of a type, until the function that is returned is called. Events
     * that came before the first listener of their type are given to it: the last 256, of 10 s.
     */
    on<N extends Name<Events<C>>>(type: N, listener: (payload: Events<C>[N], meta: Meta) => void): () => void;
    /** Answers the server's questions of a type, until the function that is returned is called. An error that is thrown is sent. */
    answer<N extends Name<C["questions"]>>(type: N, handler: (question: Field<C["questions"], N, "question">, context: QuestionContext) => Field<C["questions"], N, "answer"> | Promise<Field<C["questions"], N, "answer">>): () => void;
    /** Calls the listener when messages of a topic are missing and will not come. */
    onLoss(listener: (loss: Loss) => void): () => void;
    /**
     * Calls the listener with errors that no promise has: an event that failed or was not sent, a listener that
     * threw. Without a listener they are written to the console.
     */
    onError(listener: (error: unknown) => void): () => void;
    /** Calls the listener with the type of each message that is handed to a connection. */
    onSent(listener: (type: string) => void): () => void;
    /** Does not resume a topic with history after the next reconnect. It is not needed where the server ends the subscription. */
    forget(topic: string): void;
    /** Renews the identity of the connection with a new token. The client does so itself when the server says that it expires. */
    renew(): Promise<void>;
    /** Connects now, as far as the server's waits allow: for a "try now" button. Also after an error that has closed the client. */
    reconnect(): void;
    /** Closes the connection for good. What was not sent is rejected with CANCELLED. */
    close(): void;
}

/** Connects to a server. It returns at once; messages wait until there is a connection. */
export declare function connect<C extends ContractShape = Untyped>(options: Options): Client<C>;
