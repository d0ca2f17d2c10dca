// Verifies a request from the standard input with the library of Standard Webhooks, and prints its body.
import { text } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";

const { secret, headers, body } = JSON.parse(await text(process.stdin));
console.log(JSON.stringify(new Webhook(secret).verify(body, headers)));
