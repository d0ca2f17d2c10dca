// Writes dist/: node build.mjs [folder]

import { execFileSync } from "node:child_process";
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));

// Properties that only the client itself uses, and neither the protocol nor the platform has: they get short names.
const internal =
  "advanced|answered|asked|begin|behind|buffered|busy|check|deadline|dispatch|dropOldest|ended|fail|flush|fresh|heard|heartbeatTimeout|hold|hurry|inQuery|" +
  "iterate|leave|needed|notBefore|note|order|unknown|opened|patient|received|resend|settle|show|silence|spend|stop|subscribedAt|write";

// Entries of their own, which are loaded where they are used. They need only what the client exports.
const separate = ["limits", "keep", "run", "react", "dev"];

// What they have of others they import from the client as it is built.
const fromClient = (text) => text.replaceAll(/"\.\/(index|contract)\.js"/g, '"./wskit.js"');

/** Writes wskit.js and wskit.d.ts into a folder, and the separate entries. */
export async function writeDist(folder = join(here, "dist")) {
  mkdirSync(folder, { recursive: true });
  const common = { absWorkingDir: here, minify: true, format: "esm", target: "es2022", logLevel: "warning" };
  await build({
    ...common,
    entryPoints: ["src/index.ts"],
    outfile: join(folder, "wskit.js"),
    bundle: true,
    mangleProps: new RegExp(`^(${internal})$`),
    banner: { js: "// @wskit/client, MIT" },
  });
  for (const name of separate) {
    const { outputFiles } = await build({
      ...common,
      entryPoints: [`src/${name}.ts`],
      write: false,
      banner: { js: `// @wskit/client/${name}, MIT` },
    });
    writeFileSync(join(folder, `${name}.js`), fromClient(outputFiles[0].text));
  }
  for (const [name, text] of Object.entries(declarations())) writeFileSync(join(folder, name), text);
}

/** All declarations of an entry in one file: those that it exports, and what they use. */
function declarations() {
  const out = mkdtempSync(join(tmpdir(), "wskit-types-"));
  try {
    const tsc = join(here, "node_modules", "typescript", "bin", "tsc");
    execFileSync(process.execPath, [tsc, "-p", here, "--outDir", out], { stdio: "inherit" });
    const parts = ["errors", "contract", "client"].map((name) =>
      readFileSync(join(out, `${name}.d.ts`), "utf8").replace(/^import .*\n/gm, "").trim(),
    );
    const all = { "wskit.d.ts": `${parts.join("\n\n")}\n` };
    for (const name of separate) {
      all[`${name}.d.ts`] = `${fromClient(readFileSync(join(out, `${name}.d.ts`), "utf8")).trim()}\n`;
    }
    return all;
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await writeDist(process.argv[2]);
