import type { Arguments, Client, ContractShape, Field, Name, RequestOptions, Untyped } from "./wskit.js";
/** How a run has ended: `lost` if its process was killed. */
export interface End<Result = any> {
    readonly state: "done" | "failed" | "stopped" | "lost";
    /** What the handler has given to Writer.Done. */
    readonly result?: Result;
    /** The error of a run that has failed. */
    readonly code?: string;
    readonly message?: string;
}
/** A part of the output of a run. */
export type Piece<Event = any, Result = any> = 
/** Follows the text of before. */
{
    readonly type: "text";
    readonly text: string;
} | {
    readonly type: "event";
    readonly event: Event;
}
/** The run waits for an answer. */
 | {
    readonly type: "question";
    readonly id: string;
    readonly question: any;
}
/** The question is open no more: another device has answered it, this one, or none in time. */
 | {
    readonly type: "closed";
    readonly id: string;
}
/** How many units of the budget it has used. */
 | {
    readonly type: "spent";
    readonly spent: number;
}
/** What came before does not count: everything comes again. */
 | {
    readonly type: "reset";
}
/** The last piece. */
 | {
    readonly type: "end";
    readonly end: End<Result>;
};
/** A run on the server. Its pieces come from the beginning, none is missing, and none comes twice, over all connections. */
export interface Run<Event = any, Result = any> extends AsyncIterable<Piece<Event, Result>> {
    readonly id: string;
    /** Stops the run, and says how it has ended. */
    stop(): Promise<End<Result>>;
    /** Gives the run a message: true if the run has taken it, false if it had ended before. */
    steer(data: unknown): Promise<boolean>;
    /** Answers a question of the run: false if it was open no more. */
    answer(question: string, data: unknown): Promise<boolean>;
}
export interface RunOptions {
    /** Options.Name of the server. Default: "run". */
    name?: string;
}
/** The types of requests that begin a run. */
type Begins<C extends ContractShape> = {
    [N in Name<C["requests"]>]: Field<C["requests"], N, "reply"> extends {
        run: string;
    } ? N : never;
}[Name<C["requests"]>];
/** Begins a run by a request. */
export declare function start<C extends ContractShape = Untyped, N extends Begins<C> = Begins<C>>(client: Client<C>, type: N, ...rest: Arguments<Field<C["requests"], N, "request">, RequestOptions & RunOptions>): Promise<Run>;
/** The run with an id: after the page was loaded again, or on another device. */
export declare function attach<Event = any, Result = any>(client: Client<any>, id: string, { name }?: RunOptions): Run<Event, Result>;
export {};
