import { halfSipHash } from "./siphash.js";

const MAX_SHARDS = 100_000;

const encoder = new TextEncoder();

// Routes selects the object that stores the state of a key: shard i of all keys that
// belong to no tenant, or shard i of a tenant. It is read from the variables of the
// Worker, so that all of its clients use the same objects:
//
//	SHARDS         how many objects share the keys without a tenant; 128
//	TENANT_SHARDS  how many objects each tenant has; {"*": 1}. A named tenant has
//	               its own number.
//
// The shard is chosen by a hash with a secret key (shardKey), so that a client that
// chooses its own names cannot aim many of them at one object.
export class Routes {
  constructor(env, key) {
    this.key = key;
    this.shards = shards(env.SHARDS ?? 128, "SHARDS");
    this.tenants = new Map([["*", 1]]);
    for (const [tenant, n] of Object.entries(env.TENANT_SHARDS ?? {})) {
      this.tenants.set(tenant, shards(n, `TENANT_SHARDS[${JSON.stringify(tenant)}]`));
    }
  }

  // object names the object for a key. The name of the tenant is escaped, including ':',
  // so that no tenant can name an object of another.
  object({ tenant, key }) {
    if (tenant === undefined) {
      return `shard:${this.shard(key, this.shards)}`;
    }
    const n = this.tenants.get(tenant) ?? this.tenants.get("*");
    return `tenant:${encodeURIComponent(tenant)}:${this.shard(key, n)}`;
  }

  shard(key, n) {
    return n === 1 ? 0 : halfSipHash(encoder.encode(key), this.key) % n;
  }
}

function shards(value, name) {
  const n = Number(value);
  if (!Number.isInteger(n) || n < 1 || n > MAX_SHARDS) {
    throw new Error(`the variable ${name} must be a whole number from 1 to ${MAX_SHARDS}`);
  }
  return n;
}

// The purpose of the derived key. No other key is derived for it.
const PURPOSE = "wskit limits: the shard of a key";

let known = { secret: undefined, key: undefined };

// shardKey derives the key of the shards from the secret of the deployment, once for
// each isolate.
export async function shardKey(secret) {
  if (known.secret !== secret) {
    const hmac = await crypto.subtle.importKey("raw", encoder.encode(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    const view = new DataView(await crypto.subtle.sign("HMAC", hmac, encoder.encode(PURPOSE)));
    known = { secret, key: [view.getUint32(0), view.getUint32(4)] };
  }
  return known.key;
}
