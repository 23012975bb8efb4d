// SPDX-License-Identifier: Apache-2.0
//
// What runs in Node.js: it reads the options from stdin, and writes the result to stdout.
import { readFileSync } from "node:fs";
import { run } from "./client.js";

process.stdout.write(JSON.stringify(await run(JSON.parse(readFileSync(0, "utf8")))), () => process.exit(0));
