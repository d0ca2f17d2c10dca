# The unit tests of the Worker: workerd test.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "unit", worker = .unit),
    (name = "disk", disk = (writable = true)),
  ],
);

const unit :Workerd.Worker = (
  modules = [
    (name = "test/unit.js", esModule = embed "unit.js"),
    (name = "test/vectors.js", esModule = embed "vectors.js"),
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
    (name = "vectors/token_bucket.json", json = embed "../../../../limit/testdata/vectors_token_bucket.json"),
    (name = "vectors/pacer.json", json = embed "../../../../limit/testdata/vectors_pacer.json"),
    (name = "vectors/fixed_window.json", json = embed "../../../../limit/testdata/vectors_fixed_window.json"),
    (name = "vectors/calendar.json", json = embed "../../../../limit/testdata/vectors_calendar.json"),
    (name = "vectors/sliding_window.json", json = embed "../../../../limit/testdata/vectors_sliding_window.json"),
    (name = "vectors/sliding_log.json", json = embed "../../../../limit/testdata/vectors_sliding_log.json"),
    (name = "vectors/all.json", json = embed "../../../../limit/testdata/vectors_all.json"),
    (name = "vectors/together.json", json = embed "../../../../limit/testdata/vectors_together.json"),
  ],
  compatibilityDate = "2026-04-21",
  compatibilityFlags = ["nodejs_compat"],
  durableObjectNamespaces = [(className = "Timed", uniqueKey = "timed", enableSql = true)],
  durableObjectStorage = (localDisk = "disk"),
  bindings = [(name = "LIMITS", durableObjectNamespace = "Timed")],
);
