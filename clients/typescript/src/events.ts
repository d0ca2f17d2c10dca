import type { Loss, Meta } from "./contract.js";
import type { Frame } from "./frame.js";
import { Listeners } from "./observable.js";

type Listener = (payload: any, meta: Meta) => void;

/** Events that came before a listener for their type. */
const MOST_HELD = 256;
const HELD_FOR = 10_000;

/** The listeners of events by type. */
export function createEvents(failed: (error: unknown) => void, lost: (loss: Loss) => void) {
  const types = new Map<string, Listeners<[any, Meta]>>();
  let held: { at: number; frame: Frame }[] = [];

  function drop({ frame }: { frame: Frame }) {
    const { topic, pos } = frame.meta;
    if (topic && pos) lost({ topic, reason: "noListener" });
  }

  function call({ type, payload, meta }: Frame): boolean {
    const listeners = types.get(type);
    listeners?.call(failed, payload, meta);
    return listeners !== undefined;
  }

  return {
    on(type: string, listener: Listener): () => void {
      const first = !types.has(type);
      if (first) types.set(type, new Listeners());
      const stop = types.get(type)!.add(listener);
      // The caller has registered its other listeners by then.
      if (first) queueMicrotask(() => {
        const waiting = held;
        held = [];
        for (const h of waiting) if (h.frame.type !== type) held.push(h);
        else if (Date.now() - h.at > HELD_FOR) drop(h);
        else call(h.frame);
      });
      return stop;
    },
    dispatch(frame: Frame) {
      if (call(frame) || (frame.type.startsWith("$ws:") && frame.type !== "$ws:presence")) return;
      const now = Date.now();
      held.push({ at: now, frame });
      while (held.length > MOST_HELD || now - held[0]!.at > HELD_FOR) drop(held.shift()!);
    },
  };
}
