import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import type { Client, ContractShape, Events, Meta, Name, State, Untyped } from "./contract.js";
import { keep, type Keeping } from "./keep.js";
import { followLimits, type Limits } from "./limits.js";

/** A ref that has what was rendered last, so that effects need not begin anew for each function. */
function useLatest<T>(value: T) {
  const ref = useRef(value);
  useEffect(() => void (ref.current = value));
  return ref;
}

/**
 * Starts something while the component is shown. StrictMode ends the first effect at once: what that would ask the server for, the
 * second one would ask for again.
 */
function useStarted(start: () => () => void, inputs: unknown[]) {
  useEffect(() => {
    let stop: (() => void) | undefined;
    const timer = setTimeout(() => (stop = start()));
    return () => {
      clearTimeout(timer);
      stop?.();
    };
  }, inputs);
}

/** The state of the connection. The component is rendered again when it changes. */
export function useConnection(client: Client<any>): State {
  const { subscribe, get } = client.state;
  return useSyncExternalStore(subscribe, get, get);
}

/** Calls the listener that was rendered last for each event of a type, while the component is shown. */
export function useEvent<C extends ContractShape = Untyped, N extends Name<Events<C>> = Name<Events<C>>>(
  client: Client<C>,
  type: N,
  listener: (payload: Events<C>[N], meta: Meta) => void,
): void {
  const latest = useLatest(listener);
  useEffect(() => client.on(type, (payload, meta) => latest.current(payload, meta)), [client, type]);
}

/** Calls keep for a topic while the component is shown, with the functions that were rendered last. */
export function useKeep(client: Client<any>, topic: string, keeping: Keeping): void {
  const latest = useLatest(keeping);
  const started = () =>
    keep(client, topic, {
      open: (all) => latest.current.open(all),
      reset: () => latest.current.reset?.(),
      onError: (error) => (latest.current.onError ?? console.error)(error),
    });
  useStarted(started, [client, topic]);
}

const none: readonly [] = [];
const nothing = () => () => {};

/**
 * Follows the limits for messages of some types while the component is shown, and renders it again when the server has sent them.
 * It is undefined before. What comes back with the time is in `left`, `fits` and `wait`: ask them when they are needed.
 */
export function useLimits(client: Client<any>, types: readonly string[]): Limits | undefined {
  const [limits, follow] = useState<Limits>();
  const all = types.join(" ");
  const started = () => {
    const limits = followLimits(client, all.split(" "));
    follow(limits);
    return limits.stop;
  };
  useStarted(started, [client, all]);
  const list = useSyncExternalStore(limits?.subscribe ?? nothing, limits?.get ?? (() => none), () => none);
  return list.length ? limits : undefined;
}
