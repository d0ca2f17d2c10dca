import type { Client, Observable } from "./wskit.js";
/** The state of a limit when the server sent it, see PROTOCOL.md. */
export interface Limit {
    readonly name: string;
    /** What a message of each type costs; null if that depends on the message. */
    readonly types: {
        readonly [type: string]: number | null;
    };
    /** The most that fits when nothing is used. */
    readonly limit: number;
    readonly remaining: number;
    readonly fullInMs: number;
    /** So many units come back in every `perMs`. Without it, units come back in another way, all of them after `fullInMs`. */
    readonly refill?: number;
    readonly perMs?: number;
}
/** What is left of the limits of a client, before it is refused. */
export interface Limits extends Observable<readonly Limit[]> {
    /** What is left now of the limit with a name, with the part of a unit that has come back; undefined if it is not known. */
    left(name: string): number | undefined;
    /** How many messages of a type fit now; undefined if no limit of the type is known. */
    fits(type: string): number | undefined;
    /** In how many milliseconds a message of a type fits: 0 if it fits now, or if that is not known. */
    wait(type: string): number;
    /**
     * Calls send when a message of the type fits, and one after the other. send has to send the message at once. Make requests with
     * `onLimit: "wait"`: other connections of the user may use up the limit, too.
     */
    pace<T>(type: string, send: () => T): Promise<Awaited<T>>;
    /** Asks for the limits again, for instance because another connection of the user has used them. At most once a second. */
    refresh(): void;
    /** Does not follow the limits any more. */
    stop(): void;
}
/**
 * Follows the limits for messages of some types. The server has to announce them. All that a client follows is one request, of at
 * most 16 types: a type that the user may not send fails it, and is told on the console.
 */
export declare function followLimits(client: Client<any>, types: string[]): Limits;
