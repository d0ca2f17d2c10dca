import { clock } from "./wait.js";
import type { Loss, Meta } from "./contract.js";
import type { Frame } from "./frame.js";
import { Listeners } from "./observable.js";

type Listener = (payload: any, meta: Meta) => void;

/** Events that came before a listener for their type. */
const MOST_HELD = 256;
const MOST_SIZE = 1 << 20;
const HELD_FOR = 10_000;

/** The listeners of events by type. */
export function createEvents(failed: (error: unknown) => void, lost: (loss: Loss) => void) {
  const types = new Map<string, Listeners<[any, Meta]>>();
  let held: { at: number; frame: Frame }[] = [];
  let size = 0;

  function drop({ frame }: { frame: Frame }) {
    const { topic, pos } = frame.meta;
    if (topic && pos) lost({ topic, reason: "noListener" });
  }

  function hold(h: (typeof held)[0]) {
    held.push(h);
    size += h.frame.size;
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
        size = 0;
        for (const h of waiting) if (h.frame.type !== type) hold(h);
        else if (clock() - h.at > HELD_FOR) drop(h);
        else call(h.frame);
      });
      return stop;
    },
    dispatch(frame: Frame) {
      // The protocol's own events are not kept, but for the list of members that are present.
      if (call(frame) || /^(\$ws:(?!presence$)|__)/.test(frame.type)) return;
      hold({ at: clock(), frame });
      while (held.length > MOST_HELD || size > MOST_SIZE || clock() - (held[0]?.at ?? Infinity) > HELD_FOR) {
        const oldest = held.shift()!;
        size -= oldest.frame.size;
        drop(oldest);
      }
    },
  };
}
