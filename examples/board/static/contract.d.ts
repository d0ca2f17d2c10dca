// Code generated from the routes of the server by wskit/contract. DO NOT EDIT.

/** The messages of this server, by type. */
export interface Contract {
  /** from the client, and answered */
  requests: {
    "board.clear": { request: undefined; reply: Outcome; progress: Asking };
    "board.join": { request: Join; reply: Joined; progress: never };
    "stroke.draw": { request: Stroke; reply: undefined; progress: never };
    "stroke.undo": { request: StrokeID; reply: undefined; progress: never };
  };
  /** from the client, and not answered */
  sends: {
    "cursor.move": Cursor;
  };
  /** from the server */
  events: {
    "board.cleared": Cleared;
    /** the latest one of each member */
    "cursor.moved": Moved;
    "stroke.drawn": Drawn;
    /** if the stroke is of the same member */
    "stroke.undone": Undone;
  };
  /** from the server, and answered by the client */
  questions: {
    "board.confirm": { question: Confirm; answer: Confirmed };
  };
}

export interface Outcome {
  cleared: boolean;
  refusedBy?: string;
}

export interface Asking {
  asked: number;
  answered: number;
}

export interface Cleared {
  by: string;
  name: string;
}

export interface Confirm {
  name: string;
}

export interface Confirmed {
  yes: boolean;
}

export interface Join {
  board: string;
  name: string;
  fresh?: boolean;
}

export interface Joined {
  you: string;
}

export interface Cursor {
  x: number;
  y: number;
  line?: Line | null;
}

export interface Moved {
  by: string;
  x: number;
  y: number;
  line?: Line;
}

export interface Stroke {
  id: string;
  colour: number;
  width: number;
  points: number[];
}

export interface Drawn {
  by: string;
  id: string;
  colour: number;
  width: number;
  points: number[];
}

export interface StrokeID {
  id: string;
}

export interface Undone {
  by: string;
  id: string;
}

export interface Line {
  colour: number;
  width: number;
  points: number[];
}
