// SPDX-License-Identifier: Apache-2.0
//
// What runs in a page: the server of the page has the options, and gets the result.
import { run } from "./client.js";

const options = await (await fetch("/options")).json();
await fetch("/result", { method: "POST", body: JSON.stringify(await run(options)) });
