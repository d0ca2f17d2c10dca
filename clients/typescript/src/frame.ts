/** A frame of the server. */
export interface Frame {
  type: string;
  meta: { correlationId?: string; topic?: string; pos?: string; [own: string]: unknown };
  payload?: any;
  /** The length of its text. */
  size: number;
}

/** Reads a frame. It throws if the text is none. */
export function parse(data: string): Frame {
  const { type, meta, payload } = JSON.parse(data);
  if (typeof type !== "string") throw new SyntaxError("a frame without a type");
  return { type, meta: meta ?? {}, payload, size: data.length };
}

/** A frame of the client. The payload is JSON already. meta comes first, where the server finds it in a long frame. */
export function frame(type: string, meta?: object, payload?: string, error?: object): string {
  const member = (name: string, json: string | undefined) => (json === undefined ? "" : `,"${name}":${json}`);
  return `{"type":${JSON.stringify(type)}${member("meta", JSON.stringify(meta))}${member("payload", payload)}${member("error", JSON.stringify(error))}}`;
}
