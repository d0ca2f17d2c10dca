/** The progress of a request: a callback, and an iterator from when one is wanted. */
export function createProgress(callback: ((value: any) => void) | undefined, failed: (error: unknown) => void) {
  let waiting: unknown[] | undefined; // undefined: nothing iterates
  let wake = () => {};
  let ended = false;

  async function* values() {
    for (;;) {
      while (waiting!.length) yield waiting!.shift();
      if (ended) return;
      await new Promise<void>((resolve) => (wake = resolve));
    }
  }
  let iterable: AsyncIterable<unknown> | undefined;

  return {
    push(value: unknown) {
      waiting?.push(value);
      wake();
      try {
        callback?.(value);
      } catch (error) {
        failed(error);
      }
    },
    end() {
      ended = true;
      wake();
    },
    iterate() {
      waiting ??= [];
      return (iterable ??= values());
    },
  };
}
