const MAX_SHARDS = 100_000;

// Routes says which object keeps the state of a key: shard i of all keys that
// belong to no tenant, or shard i of a tenant. It is read from the variables of
// the Worker, so that everybody who asks it agrees:
//
//	SHARDS         how many objects share the keys without a tenant; 128
//	TENANT_SHARDS  how many each tenant has; {"*": 1}. A tenant that is named
//	               has a number of its own.
export class Routes {
  constructor(env) {
    this.shards = shards(env.SHARDS ?? 128, "SHARDS");
    this.tenants = new Map([["*", 1]]);
    for (const [tenant, n] of Object.entries(env.TENANT_SHARDS ?? {})) {
      this.tenants.set(tenant, shards(n, `TENANT_SHARDS[${JSON.stringify(tenant)}]`));
    }
  }

  // object names the object for a key. No tenant can name one of another: what
  // it is called is escaped, ':' included.
  object({ tenant, key }) {
    if (tenant === undefined) {
      return `shard:${hash(key) % this.shards}`;
    }
    const n = this.tenants.get(tenant) ?? this.tenants.get("*");
    return `tenant:${encodeURIComponent(tenant)}:${hash(key) % n}`;
  }
}

function shards(value, name) {
  const n = Number(value);
  if (!Number.isInteger(n) || n < 1 || n > MAX_SHARDS) {
    throw new Error(`the variable ${name} must be a whole number from 1 to ${MAX_SHARDS}`);
  }
  return n;
}

// hash is FNV-1a over the code units of a text, mixed so that its low bits are as
// good as the others (the finalizer of MurmurHash3).
export function hash(text) {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) {
    h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  }
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
