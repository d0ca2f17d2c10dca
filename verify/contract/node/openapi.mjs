// Validates the OpenAPI document on the standard input. Prints its version and its errors.
import { Validator } from "@seriousme/openapi-schema-validator";

let text = "";
for await (const chunk of process.stdin) text += chunk;
const validator = new Validator();
const { valid, errors } = await validator.validate(JSON.parse(text));
console.log(JSON.stringify({ valid, version: validator.version ?? "", errors: errors ?? [] }));
