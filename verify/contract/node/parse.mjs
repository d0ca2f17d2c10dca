// Parses the AsyncAPI document on the standard input. Prints its errors, or its operations with
// their messages and the messages of their replies.
import { Parser } from "@asyncapi/parser";

let text = "";
for await (const chunk of process.stdin) text += chunk;
const { document, diagnostics } = await new Parser().parse(text);
const errors = diagnostics.filter((d) => d.severity === 0 || (d.severity === 1 && d.code !== "asyncapi-latest-version"));
const operations = {};
for (const o of document?.operations().all() ?? []) {
  operations[o.id()] = {
    action: o.action(),
    messages: o.messages().all().map((m) => m.name()),
    reply: o.reply()?.messages().all().map((m) => m.name()),
    correlated: o.messages().all().every((m) => m.hasCorrelationId()),
  };
}
console.log(JSON.stringify({ errors: errors.map((e) => `${e.path.join(".")}: ${e.message}`), operations }));
