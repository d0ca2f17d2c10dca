export * from "../../../../clients/typescript/dist/limits.js";
