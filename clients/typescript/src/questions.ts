import type { QuestionContext } from "./contract.js";
import { failure } from "./failure.js";
import { frame, type Frame } from "./frame.js";

type Handler = (question: any, context: QuestionContext) => unknown;

/** Questions that are open at a time. A server has 64 by default. */
const MOST_OPEN = 256;

/** Whether an id is one of the server's, which are those of questions. */
export const isQuestion = (id: string | undefined) => !!id?.startsWith("$ws:");

/** Answers the server's questions. */
export function createQuestions(write: (text: string) => boolean) {
  const handlers = new Map<string, Handler>();
  const open = new Map<string, AbortController>();

  return {
    answer(type: string, handler: Handler): () => void {
      handlers.set(type, handler);
      return () => void (handlers.get(type) === handler && handlers.delete(type));
    },

    async asked({ type, meta, payload }: Frame) {
      const id = meta.correlationId!;
      const before = open.get(id);
      if (type === "$ws:abort") return before?.abort();
      if (before) return;
      const controller = new AbortController();
      open.set(id, controller);
      let json: string | undefined;
      let error: object | undefined;
      try {
        const handler = handlers.get(type);
        if (!handler) throw failure("UNIMPLEMENTED", `no handler for ${type}`);
        if (open.size > MOST_OPEN) throw failure("RESOURCE_EXHAUSTED", "too many questions");
        json = JSON.stringify((await handler(payload, { signal: controller.signal, meta })) ?? null);
      } catch (e) {
        const { code = "UNKNOWN", message = String(e) } = Object(e);
        error = { code, message };
      }
      // A question that was withdrawn, or asked on another connection, has no answer.
      if (!controller.signal.aborted) write(frame("$ws:answer", { correlationId: id }, json, error));
      if (open.get(id) === controller) open.delete(id);
    },

    ended() {
      for (const controller of open.values()) controller.abort();
      open.clear();
    },
  };
}
