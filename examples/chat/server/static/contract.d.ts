// Code generated from the routes of the server by wskit/contract. DO NOT EDIT.

/** The messages of this server, by type. */
export interface Contract {
  /** from the client, and answered */
  requests: {
    "chat.send": { request: Send; reply: Sent; progress: never };
    "member.ban": { request: Other; reply: undefined; progress: never };
    "member.remove": { request: Other; reply: undefined; progress: never };
    "message.remove": { request: Removed; reply: undefined; progress: never };
    "room.join": { request: Join; reply: Joined; progress: never };
  };
  /** from the client, and not answered */
  sends: Record<never, never>;
  /** from the server */
  events: {
    "chat.message": Message;
    /** a member joined the room, or has a new name */
    "member.joined": Seat;
    "member.left": Seat;
    /** all members of the room, where events may have been missed */
    "room.state": Room;
    /** sizes of rooms, to all tabs */
    "rooms.changed": RoomsChanged;
  };
  /** from the server, and answered by the client */
  questions: Record<never, never>;
}

export interface Message {
  id: string;
  room: string;
  from: Member;
  text: string;
  at: string;
  pos?: string;
}

export interface Send {
  id: string;
  text: string;
}

export interface Sent {
  at: string;
}

export interface Other {
  id: string;
}

export interface Seat {
  room: string;
  id: string;
  name: string;
}

export interface Removed {
  pos: string;
}

export interface Join {
  room: string;
  name: string;
  after?: string;
}

export interface Joined {
  you: string;
  room: string;
  members: Member[];
  messages: Message[];
  pos: string;
  removed?: string[];
  gap?: string;
  rooms: RoomSize[];
  moderator?: boolean;
}

export interface Room {
  room: string;
  members: Member[];
  rooms: RoomSize[];
}

export interface RoomsChanged {
  rooms: RoomSize[];
  removed: string[];
}

export interface Member {
  id: string;
  name: string;
}

export interface RoomSize {
  name: string;
  members: number;
}
