import type { Loss } from "./contract.js";
import type { Frame } from "./frame.js";

/** Positions of a topic that are remembered, so that a message which comes again is found. */
const SEEN = 128;

// A server sends no longer ones, and does not subscribe a connection to as many topics.
const LONGEST_TICKET = 8 << 10;
const LONGEST_POS = 64;
const MOST_TOPICS = 4_096;

interface Topic {
  ticket: string;
  /** Of the last message that was delivered. */
  pos: string;
  seen: Set<string>;
  /** The position at which the present connection was subscribed by the application. */
  subscribedAt?: string | undefined;
  /** A message has come since the topic was asked to be resumed. */
  advanced: boolean;
}

interface Resumed {
  topic?: string;
  resumed: boolean;
  pos?: string;
  ticket?: string;
  reason?: string;
}

/** The topics with a history that this client is subscribed to, and how far it has got. */
export function createTopics(lost: (loss: Loss) => void) {
  const topics = new Map<string, Topic>();
  let asked: string[] = [];

  return {
    get size() {
      return topics.size;
    },
    forget: (topic: string) => void topics.delete(topic),

    /** Notes a frame of the protocol. */
    note({ type, payload }: Frame) {
      if (type === "$ws:gap") for (const topic of payload.topics) lost({ topic, reason: "gap" });
      const t = topics.get(payload?.topic);
      if (type === "$ws:subscribed") {
        const { topic, pos, ticket } = payload;
        if (ticket.length > LONGEST_TICKET || pos.length > LONGEST_POS || (!t && topics.size >= MOST_TOPICS)) return;
        if (t?.pos === pos) t!.ticket = ticket;
        else topics.set(topic, { ticket, pos, seen: new Set(), advanced: true });
        topics.get(topic)!.subscribedAt = t && asked.includes(topic) && t.pos !== pos ? pos : undefined;
      } else if (type === "$ws:reset") {
        if (t) {
          t.pos = payload.pos;
          t.seen.clear();
          t.advanced = true;
        }
        lost({ topic: payload.topic, reason: payload.reason });
      }
    },

    /** Notes the position of a message. It reports false if the message was delivered before. */
    fresh({ meta }: Frame): boolean {
      const t = topics.get(meta.topic!);
      if (!t || !meta.pos || meta.pos.length > LONGEST_POS) return true;
      const { pos } = meta as { pos: string };
      if (t.seen.has(pos)) return false;
      if (t.seen.size >= SEEN) t.seen.delete(t.seen.values().next().value!);
      t.seen.add(pos);
      t.pos = pos;
      t.advanced = true;
      return true;
    },

    /** What to send to resume these topics, or all. */
    ask(names = [...topics.keys()]) {
      asked = names.filter((name) => topics.has(name));
      return asked.map((name) => {
        const t = topics.get(name)!;
        t.advanced = false;
        return { ticket: t.ticket, pos: t.pos };
      });
    },

    /** Takes the answer. It returns the topics that may be asked for again. */
    answered(answers: Resumed[]): string[] {
      const again: string[] = [];
      answers.forEach((a, i) => {
        const name = asked[i]!;
        const t = topics.get(name);
        if (!t) return;
        if (a.ticket) t.ticket = a.ticket;
        // A message that came meanwhile may be behind the position of the answer.
        if (a.pos && !t.advanced) t.pos = a.pos;
        if (a.resumed || a.pos) return; // a reset was noted before
        if (a.reason === "unavailable") again.push(name);
        else if (a.reason === "subscribed") {
          if (t.subscribedAt) lost({ topic: name, reason: "subscribed" });
        } else {
          topics.delete(name);
          lost({ topic: name, reason: "denied" });
        }
      });
      asked = [];
      return again;
    },
  };
}
