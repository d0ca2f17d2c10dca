export * from "../../../clients/typescript/dist/wskit.js";
