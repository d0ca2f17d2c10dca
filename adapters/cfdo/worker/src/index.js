// Rate limits in Durable Objects, with the arithmetic of
// github.com/wskit/wskit/limit. See the README.md beside this folder for
// how to deploy it.
import { serve } from "./worker.js";

export { Limits } from "./object.js";

export default { fetch: serve };
