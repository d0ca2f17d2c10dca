import type { Observable } from "./contract.js";

/** Functions that are called together. One that throws does not keep the others from being called. */
export class Listeners<A extends unknown[]> {
  #all = new Set<{ f: (...args: A) => void }>();

  get size() {
    return this.#all.size;
  }

  add(f: (...args: A) => void): () => void {
    const entry = { f };
    this.#all.add(entry);
    return () => void this.#all.delete(entry);
  }

  /** Calls all that were added before, even if one removes another. */
  call(failed: (error: unknown) => void, ...args: A) {
    for (const { f } of [...this.#all]) {
      try {
        f(...args);
      } catch (error) {
        failed(error);
      }
    }
  }
}

/** A value with listeners. */
export function observable<T>(value: T, failed: (error: unknown) => void): Observable<T> & { set(next: T): void } {
  const listeners = new Listeners<[]>();
  return {
    get: () => value,
    subscribe: (listener) => listeners.add(listener),
    set(next) {
      value = next;
      listeners.call(failed);
    },
  };
}
