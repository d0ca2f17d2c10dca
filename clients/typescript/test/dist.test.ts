import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { expect, test } from "vitest";

const folder = fileURLToPath(new URL("..", import.meta.url));
const dist = join(folder, "dist");

test("dist is what the sources build", async () => {
  const { writeDist } = await import("../build.mjs");
  const fresh = mkdtempSync(join(tmpdir(), "wskit-dist-"));
  try {
    await writeDist(fresh);
    expect(readdirSync(dist)).toEqual(readdirSync(fresh));
    for (const name of readdirSync(fresh)) {
      expect(readFileSync(join(dist, name), "utf8") === readFileSync(join(fresh, name), "utf8"), `dist/${name} is old; run npm run build`).toBe(true);
    }
  } finally {
    rmSync(fresh, { recursive: true });
  }
});

test("the client has at most 6 KB", () => {
  expect(gzipSync(readFileSync(join(dist, "wskit.js")), { level: 9 }).length).toBeLessThanOrEqual(6.1 * 1024);
});

test("limits, which is loaded where it is used, have at most 1.1 KB", () => {
  expect(gzipSync(readFileSync(join(dist, "limits.js")), { level: 9 }).length).toBeLessThanOrEqual(1.1 * 1024);
});

test("keep, likewise, has at most 0.6 KB", () => {
  expect(gzipSync(readFileSync(join(dist, "keep.js")), { level: 9 }).length).toBeLessThanOrEqual(0.6 * 1024);
});

test("run, likewise, has at most 1.7 KB", () => {
  expect(gzipSync(readFileSync(join(dist, "run.js")), { level: 9 }).length).toBeLessThanOrEqual(1.7 * 1024);
});

test("react, likewise, has at most 0.6 KB", () => {
  expect(gzipSync(readFileSync(join(dist, "react.js")), { level: 9 }).length).toBeLessThanOrEqual(0.6 * 1024);
});

test("dev, likewise, has at most 1 KB", () => {
  expect(gzipSync(readFileSync(join(dist, "dev.js")), { level: 9 }).length).toBeLessThanOrEqual(1024);
});

test("the built file works without a build, and exports what is documented", async () => {
  expect(Object.keys(await import(join(dist, "wskit.js"))).sort()).toEqual(["UnknownOutcome", "WskitError", "connect"]);
  expect(Object.keys(await import(join(dist, "limits.js")))).toEqual(["followLimits"]);
  expect(Object.keys(await import(join(dist, "keep.js")))).toEqual(["keep"]);
  expect(Object.keys(await import(join(dist, "run.js"))).sort()).toEqual(["attach", "start"]);
  expect(Object.keys(await import(join(dist, "dev.js")))).toEqual(["connect"]);
  expect(Object.keys(await import(join(dist, "react.js"))).sort()).toEqual(["useConnection", "useEvent", "useKeep", "useLimits"]);
});

test("the package can be published", async () => {
  const { messages, pkg } = await publint({ pkgDir: folder, strict: true });
  expect(messages.map((m) => formatMessage(m, pkg))).toEqual([]);
});

test("types", () => {
  const tsc = join(folder, "node_modules", "typescript", "bin", "tsc");
  let out = "";
  try {
    execFileSync(process.execPath, [tsc, "-p", join(folder, "test")], { encoding: "utf8" });
  } catch (error) {
    out = (error as { stdout: string }).stdout;
  }
  expect(out).toBe("");
});
