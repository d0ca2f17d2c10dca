import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: "test/build.ts",
    execArgv: ["--expose-gc"], // a test measures memory
    // Only guards against hanging: machines are slow.
    testTimeout: 600_000,
    hookTimeout: 600_000,
  },
});
