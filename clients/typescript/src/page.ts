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
  const end = new AbortController();
  const on = (target: EventTarget | undefined, type: string, f: () => void) =>
    target?.addEventListener?.(type, f, { signal: end.signal });
  const back = () => {
    life.check();
    life.hurry();
  };
  const page = globalThis as unknown as EventTarget;
  on(page, "online", back);
  on(page, "offline", life.check);
  on(page, "pagehide", life.leave);
  on(page, "pageshow", back);
  const { document } = globalThis;
  on(document, "visibilitychange", () => document.visibilityState === "visible" && back());
  on(document, "resume", back);
  return () => end.abort();
}
