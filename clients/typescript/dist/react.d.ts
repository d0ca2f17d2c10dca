import type { Client, ContractShape, Events, Meta, Name, State, Untyped } from "./wskit.js";
import { type Keeping } from "./keep.js";
import { type Limits } from "./limits.js";
/** The state of the connection. The component is rendered again when it changes. */
export declare function useConnection(client: Client<any>): State;
/** Calls the listener that was rendered last for each event of a type, while the component is shown. */
export declare function useEvent<C extends ContractShape = Untyped, N extends Name<Events<C>> = Name<Events<C>>>(client: Client<C>, type: N, listener: (payload: Events<C>[N], meta: Meta) => void): void;
/** Calls keep for a topic while the component is shown, with the functions that were rendered last. */
export declare function useKeep(client: Client<any>, topic: string, keeping: Keeping): void;
/**
 * Follows the limits for messages of some types while the component is shown, and renders it again when the server has sent them.
 * It is undefined before. What comes back with the time is in `left`, `fits` and `wait`: ask them when they are needed.
 */
export declare function useLimits(client: Client<any>, types: readonly string[]): Limits | undefined;
