/** What the life of a page means to the connection. */
export interface PageLife {
  /** The connection may be dead: the page was hidden or frozen, or the network has changed. */
  check(): void;
  /** An attempt to connect is worth while now. */
  hurry(): void;
  /** The page is left, and may be shown again from the browser's cache, which keeps no page with a connection. */
  leave(): void;
}

/** Follows the page, until the function that is returned is called. Elsewhere than in a page there are no such events. */
export function followPage(life: PageLife): () => void {
  const stops: (() => void)[] = [];
  const on = (target: EventTarget | undefined, type: string, f: () => void) => {
    target?.addEventListener?.(type, f);
    stops.push(() => target?.removeEventListener?.(type, f));
  };
  const back = () => {
    life.check();
    life.hurry();
  };
  on(globalThis as never, "online", back);
  on(globalThis as never, "offline", life.check);
  on(globalThis as never, "pagehide", life.leave);
  on(globalThis as never, "pageshow", back);
  const { document } = globalThis;
  on(document, "visibilitychange", () => document.visibilityState === "visible" && back());
  on(document, "resume", back);
  return () => stops.forEach((stop) => stop());
}
