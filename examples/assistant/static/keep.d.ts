export * from "../../../clients/typescript/dist/keep.js";
