/** What is kept of the progress that is not read. */
const MOST_WAITING = 1_024;

/** The progress of a request, as calls and to be iterated. */
export function createProgress(callback: ((value: any) => void) | undefined, failed: (error: unknown) => void) {
  const waiting: unknown[] = [];
  let wake = () => {};
  let ended = false;
  let why: unknown;

  async function* iterate() {
    for (;;) {
      while (waiting.length) yield waiting.shift();
      if (ended && why) throw why;
      if (ended) return;
      await new Promise<void>((resolve) => (wake = resolve));
    }
  }

  return {
    values: iterate(),
    push(value: unknown) {
      if (waiting.push(value) > MOST_WAITING) waiting.shift();
      wake();
      try {
        callback?.(value);
      } catch (error) {
        failed(error);
      }
    },
    end(error: unknown) {
      ended = true;
      why = error;
      wake();
    },
  };
}
