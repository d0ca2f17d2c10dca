import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: "test/build.ts",
    execArgv: ["--expose-gc"], // a test measures memory
    maxWorkers: 8, // all files at once: tests wait more than they compute
    // Only guards against hanging: machines are slow.
    testTimeout: 600_000,
    hookTimeout: 600_000,
  },
});
