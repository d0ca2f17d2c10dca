// Invalid is an error of the client. Its message says what is wrong with the request.
export class Invalid extends Error {
  constructor(message, status = 400, code = "bad_request") {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// whole returns value if it is a whole number from least to most.
export function whole(value, name, least, most) {
  if (!Number.isSafeInteger(value) || value < least || value > most) {
    throw new Invalid(`${name} must be a whole number from ${least} to ${most}`);
  }
  return value;
}

// record returns value if it is an object with no other fields than those named, so
// that a misspelt field is an error.
export function record(value, name, fields) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new Invalid(`${name} must be an object`);
  }
  for (const field of Object.keys(value)) {
    if (!fields.includes(field)) {
      throw new Invalid(`${name} must not have the field ${JSON.stringify(field.slice(0, 40))}`);
    }
  }
  return value;
}
