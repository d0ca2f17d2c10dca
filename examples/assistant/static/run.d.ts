export * from "../../../clients/typescript/dist/run.js";
