// Rate limits in Durable Objects, with the arithmetic of
// github.com/wskit/wskit/limit. The README.md beside this folder says how to
// deploy it.
import { serve } from "./worker.js";

export { Limits } from "./object.js";

export default { fetch: serve };
