import { after, type Timer } from "./wait.js";

/** A timer that is later than this was throttled, or the machine was asleep. */
const LATE = 2_000;

/**
 * Finds connections that are dead although they look open. A page does not see the server's pings, so after a time of
 * silence the server is asked for a sign of life. A timer that fires late has not listened meanwhile: then the server is asked
 * once more before the connection is given up.
 */
export function liveness(silence: number, timeout: number, ask: () => void, dead: () => void) {
  let heard = Date.now(); // 0 while an answer is waited for
  let timer: Timer | undefined;

  function wait(ms: number, then: (late: boolean) => void) {
    clearTimeout(timer);
    const due = Date.now() + ms;
    timer = after(ms, () => then(Math.abs(Date.now() - due) > LATE));
  }

  function listen(ms = silence) {
    wait(ms, (late) => {
      const silent = Date.now() - heard;
      if (!late && silent >= 0 && silent < silence) listen(silence - silent);
      else probe();
    });
  }

  function probe(again = true) {
    heard = 0;
    ask();
    wait(timeout, (late) => {
      if (heard) listen(Math.min(silence, silence - Date.now() + heard));
      else if (late && again) probe(false);
      else dead();
    });
  }

  listen();
  return {
    heard: () => void (heard = Date.now()),
    /** Asks at once, for instance when the page was hidden or the machine asleep. */
    check: () => void (heard && probe()),
    stop: () => clearTimeout(timer),
  };
}
