# The Worker as workerd serves it for the tests of the Go adapter.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "limits", worker = .limits),
    (name = "disk", disk = (writable = true)),
  ],
  sockets = [(name = "http", http = (), service = "limits")],
);

const limits :Workerd.Worker = (
  modules = [
    (name = "test/entry.js", esModule = embed "entry.js"),
    (name = "src/auth.js", esModule = embed "../src/auth.js"),
    (name = "src/bucket.js", esModule = embed "../src/bucket.js"),
    (name = "src/exact.js", esModule = embed "../src/exact.js"),
    (name = "src/invalid.js", esModule = embed "../src/invalid.js"),
    (name = "src/ledger.js", esModule = embed "../src/ledger.js"),
    (name = "src/leases.js", esModule = embed "../src/leases.js"),
    (name = "src/object.js", esModule = embed "../src/object.js"),
    (name = "src/plan.js", esModule = embed "../src/plan.js"),
    (name = "src/policy.js", esModule = embed "../src/policy.js"),
    (name = "src/request.js", esModule = embed "../src/request.js"),
    (name = "src/route.js", esModule = embed "../src/route.js"),
    (name = "src/siphash.js", esModule = embed "../src/siphash.js"),
    (name = "src/windows.js", esModule = embed "../src/windows.js"),
    (name = "src/worker.js", esModule = embed "../src/worker.js"),
  ],
  compatibilityDate = "2026-04-21",
  # A test that wants an object to be removed from memory says so: a slow machine must not, between two calls.
  durableObjectNamespaces = [(className = "Limits", uniqueKey = "limits", enableSql = true, preventEviction = true)],
  durableObjectStorage = (localDisk = "disk"),
  bindings = [
    (name = "LIMITS", durableObjectNamespace = "Limits"),
    (name = "SECRET", fromEnvironment = "SECRET"),
    (name = "SHARDS", fromEnvironment = "SHARDS"),
    (name = "TENANT_SHARDS", fromEnvironment = "TENANT_SHARDS"),
    (name = "GRACE_MS", fromEnvironment = "GRACE_MS"),
    (name = "PAUSE_MS", fromEnvironment = "PAUSE_MS"),
  ],
);
