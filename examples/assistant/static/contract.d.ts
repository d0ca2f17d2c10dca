// Code generated from the routes of the server by wskit/contract. DO NOT EDIT.

/** The messages of this server, by type. */
export interface Contract {
  /** from the client, and answered */
  requests: {
    /** Begins a run: see run.attach. */
    "ask": { request: Ask; reply: Began; progress: never };
    /** The output of a run until now. What follows comes as events run.output. */
    "run.attach": { request: Ref; reply: Whole; progress: never };
    /** What is left of the budget of the user. */
    "run.budget": { request: undefined; reply: Left; progress: never };
    /** Ends the events of a run. */
    "run.detach": { request: Ref; reply: undefined; progress: never };
    /** Gives a run a message, or the answer to a question. */
    "run.steer": { request: Steer; reply: Steered; progress: never };
    /** Stops a run. The answer says how it has ended. */
    "run.stop": { request: Ref; reply: End; progress: never };
  };
  /** from the client, and not answered */
  sends: Record<never, never>;
  /** from the server */
  events: {
    "asked": Asked;
    /** a part of the output of a run */
    "run.output": Output;
  };
  /** from the server, and answered by the client */
  questions: Record<never, never>;
}

export interface Ask {
  text: string;
}

export interface Began {
  run: string;
}

export interface Asked {
  run: string;
  text: string;
}

export interface Ref {
  run: string;
}

export interface Whole {
  run: string;
  type: string;
  tenant?: string;
  user?: string;
  begun: string;
  n: number;
  attempt?: number;
  text: string;
  events?: Event[];
  questions?: Question[];
  end?: End;
  spent?: number;
}

export interface Left {
  left: number;
  limit: number;
  resetMs: number;
}

export interface Output {
  attempt?: number;
  restart?: Restart;
  checkpoint?: unknown;
  input?: unknown;
  n: number;
  info?: Info;
  text?: string;
  event?: unknown;
  question?: Question;
  taken?: string;
  slice?: Slice;
  spent?: number;
  closed?: string;
  end?: End;
  by?: string;
}

export interface Steer {
  run: string;
  id?: string;
  to?: string;
  data: unknown;
}

export interface Steered {
  taken: boolean;
}

export interface End {
  state: string;
  result?: unknown;
  code?: string;
  message?: string;
}

export interface Event {
  at: number;
  event: unknown;
}

export interface Question {
  id: string;
  question: unknown;
}

export interface Restart {
  process: string;
  after?: number;
}

export interface Info {
  run: string;
  type: string;
  tenant?: string;
  user?: string;
  begun: string;
}

export interface Slice {
  units: number;
  at: number;
  shared?: boolean;
}
