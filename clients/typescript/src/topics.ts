import type { Loss } from "./contract.js";
import type { Frame } from "./frame.js";

// A server sends no longer frames of subscriptions, tickets and positions, and does not subscribe a connection to as many topics.
const LONGEST = 8 << 10;
const MOST_TOPICS = 1_024;

interface Topic {
  ticket: string;
  /** Of the last message that was delivered. */
  pos: string;
  /** A message has come since the topic was asked to be resumed. */
  advanced?: boolean;
  /** 1: the connection is new, and the topic not resumed. 2: the server has subscribed it all the same, and will send again what comes. */
  behind?: number;
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
    note({ type, payload, size }: Frame) {
      if (type === "$ws:gap") for (const topic of payload.topics) lost({ topic, reason: "gap" });
      const { topic, pos, ticket, reason, resumed } = payload ?? {};
      const t = topics.get(topic);
      if (type === "$ws:unsubscribed") topics.delete(topic);
      else if (type === "$ws:subscribed") {
        if (size > LONGEST) return;
        if (t?.behind) t.behind = resumed ? 1 : 2;
        else if (t?.pos === pos) t!.ticket = ticket;
        else {
          if (t || topics.size < MOST_TOPICS) topics.set(topic, { ticket, pos, advanced: true });
          if (t) lost({ topic, reason: "subscribed" });
        }
      } else if (type === "$ws:reset") {
        if (t && size <= LONGEST) Object.assign(t, { pos, advanced: true, behind: 0 });
        lost({ topic, reason });
      }
    },

    /** Notes the position of a message. It reports false if the message was delivered before. */
    fresh({ meta: { topic, pos } }: Frame): boolean {
      const t = topics.get(topic!);
      if (!(t && typeof pos === "string" && pos.length <= 64)) return true;
      if (t.behind! > 1 || t.pos === pos) return false;
      Object.assign(t, { pos, advanced: true });
      return true;
    },

    /** The names of all topics, which a new connection is to resume. */
    begin() {
      topics.forEach((t) => (t.behind = 1));
      return [...topics.keys()];
    },

    /** What to send to resume topics. */
    ask(names: string[]) {
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
        if (a.ticket && a.ticket.length + (a.pos ?? "").length < LONGEST) {
          t.ticket = a.ticket;
          // A message that came meanwhile may be behind the position of the answer.
          if (a.pos && !t.advanced) t.pos = a.pos;
        }
        if (a.reason === "unavailable") return void again.push(name);
        const held = t.behind! > 1;
        t.behind = 0;
        if (a.resumed || a.pos) return; // a reset was noted before
        if (a.reason !== "subscribed") topics.delete(name);
        else if (!held) return; // it was resumed before, with others
        lost({ topic: name, reason: a.reason! });
      });
      asked = [];
      return again;
    },
  };
}
