// SPDX-License-Identifier: Apache-2.0
// Looks at each page of the console in Chromium, at several widths, light and dark, and uses it as a user would. It reads what to look at
// from standard input, and writes what is wrong to standard output.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { text } from "node:stream/consumers";
import { chromium } from "playwright-core";
import { followsALog, losesNothing, takeStreams } from "./stays.js";

const { login, pages, looks, screenshots, pictures, browser: executablePath, flow, console: cluster, control, away, proxied } = JSON.parse(await text(process.stdin));
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
const home = new URL("/", login);
const wrong = [];
let looked = 0;

const browser = await chromium.launch({
  executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

async function open(options, first = login) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, ...options });
  context.on("request", (r) => { if (new URL(r.url()).origin !== new URL(first).origin) wrong.push(`a request to ${r.url()}`); });
  context.on("weberror", (e) => wrong.push(`an error of a script: ${e.error()}`));
  const page = await context.newPage();
  page.on("console", (m) => { if (m.type() === "error" && !/422|401|502/.test(m.text())) wrong.push(`${page.url()}: ${m.text()}`); });
  await page.goto(first);
  return page;
}

async function inspect(page, name, at) {
  if (await page.locator("[data-load]").count()) await page.locator("[data-load] svg.day").waitFor();
  await page.screenshot({ path: `${screenshots}/${name}.png`, fullPage: true });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  if (wide > 0) wrong.push(`${at}: ${wide} px wider than the window`);
  await page.evaluate(`${axe};0`);
  const { violations } = await page.evaluate((tags) => axe.run(document, { runOnly: tags }), tags);
  for (const v of violations) wrong.push(`${at}: ${v.id}: ${v.nodes[0].html.slice(0, 200)} (${v.nodes.length})`);
  looked++;
}

async function signIn(page, token) {
  await page.getByLabel(/token/i).fill(token);
  await page.keyboard.press("Enter");
}

for (const colorScheme of looks ? ["light", "dark"] : []) {
  for (const width of [360, 768, 1440, 2560]) {
    const page = await open({ colorScheme, viewport: { width, height: 900 } });
    for (const { name, path } of pages) {
      const at = `${name} at ${width} px, ${colorScheme}`;
      const response = await page.goto(new URL(path, home).href);
      if (response.status() !== 200) wrong.push(`${at}: status ${response.status()}`);
      await inspect(page, `${name}-${width}-${colorScheme}`, at);
    }
    await page.context().close();
    // The pages of the cluster: the login, and who is signed in.
    const guest = await open({ colorScheme, viewport: { width, height: 900 } }, cluster.url);
    await inspect(guest, `login-${width}-${colorScheme}`, `login at ${width} px, ${colorScheme}`);
    await signIn(guest, cluster.token);
    await guest.getByText("Workloads satisfied").waitFor();
    await inspect(guest, `signed-in-${width}-${colorScheme}`, `signed in at ${width} px, ${colorScheme}`);
    await guest.context().close();
  }
}

// The pictures of the documentation, in which the namespace has another name than that of the test.
const shown = await open({ colorScheme: "light", viewport: { width: 1440, height: 900 } });
for (const { name, path } of pages.filter((p) => flow.pictures.includes(p.name))) {
  await shown.goto(new URL(path, home).href);
  if (await shown.locator("[data-load]").count()) await shown.locator("[data-load] svg.day").waitFor();
  await shown.evaluate((namespace) => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(namespace, "shop");
  }, flow.namespace);
  await shown.screenshot({ path: `${pictures}/console-${name}.png`, fullPage: name === "mixes" });
}
await shown.context().close();

// Without JavaScript, pages have the same content.
const plain = await open({ javaScriptEnabled: false });
for (const { name, path, has } of pages) {
  await plain.goto(new URL(path, home).href);
  const body = await plain.locator("main").textContent();
  for (const t of has) if (!body.includes(t)) wrong.push(`${name} without JavaScript lacks ${JSON.stringify(t)}`);
}
await plain.context().close();

// What a user does on a page is not lost when its parts are replaced.
const steps = [];
const still = await open({ viewport: { width: 1000, height: 500 } });
await takeStreams(still);
for (const { name, path } of pages) {
  for (const lost of await losesNothing(still, new URL(path, home).href)) wrong.push(`${name}: an update loses ${lost}`);
}
steps.push("nothing lost");
for (const lost of await followsALog(still, new URL(`${flow.environment}/logs`, home).href)) wrong.push(`the log: ${lost}`);
steps.push("log followed");
await still.context().close();

// A user finds the workload that is off, and why.
const finder = await open({});
await finder.goto(home.href);
await finder.locator("#attention").getByRole("link", { name: "stuck" }).click();
await finder.getByText("waits for a node", { exact: false }).or(finder.getByText("wait for a node", { exact: false })).first().waitFor();
steps.push("found");
await finder.context().close();

// A user plans and applies another mix; another page that is open follows without a reload.
const watching = await open({});
await watching.goto(new URL(flow.workload, home).href);
await watching.evaluate(() => { window.stays = true; });
const page = await open({});
await page.goto(new URL(flow.workload, home).href);
await page.keyboard.press("Tab");
if (await page.evaluate(() => document.activeElement.className) !== "skip") wrong.push("the first Tab does not lead to the skip link");
await page.getByRole("link", { name: "What if?" }).click();
await page.locator(`[name="spotPercent"]`).fill("50"); // a slider has the same label
await page.keyboard.press("Enter");
await page.getByText("Nothing was written.").waitFor();
steps.push("planned");
await page.getByRole("button", { name: /^Apply to/ }).click();
await watching.getByText("50% spot").first().waitFor({ timeout: 30000 });
if (!await watching.evaluate(() => window.stays)) wrong.push("the page was loaded again");
steps.push("followed");

// The moves are seen from the decision until the replacement is available, on a page that is not loaded again, and are undone.
const undo = await page.getByRole("link", { name: /^Undo/ }).getAttribute("href");
await page.getByRole("link", { name: "web", exact: true }).click();
if (new URL(page.url()).hash !== "#moves") wrong.push("the page of an applied mix does not lead to the moves");
await page.evaluate(() => { window.stays = true; });
await page.locator("#moves .badge", { hasText: "At: " }).first().waitFor({ timeout: 60000 });
await page.screenshot({ path: `${screenshots}/moving.png`, fullPage: true });
await page.locator("#moves h3 .badge", { hasText: "Available" }).first().waitFor({ timeout: 60000 });
await page.locator("#workload").getByText("Satisfied").first().waitFor({ timeout: 60000 });
await page.locator("#moves summary").first().click();
await inspect(page, "moved", "the page of a workload that was moved");
for (const step of ["Decided", "Proven", "Evicted", "Replaced", "Bound", "Available"]) {
  if (!await page.locator("#moves details[open] li", { hasText: step }).locator("time").count()) wrong.push(`${step} of a move has no time`);
}
if (!await page.evaluate(() => window.stays)) wrong.push("the page of the moves was loaded again");
steps.push("moved");
await page.goto(new URL(undo, home).href);
await page.getByRole("button", { name: /^Apply to/ }).click();
await watching.getByText("70% spot").first().waitFor({ timeout: 30000 });
await watching.locator("#workload").getByText("Satisfied").first().waitFor({ timeout: 90000 });
steps.push("undone");

// A limit is created, refused, repaired, edited and deleted with the keyboard alone.
const field = (path) => page.locator(`[name="${path}"]`);
const required = "spec.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
const review = async () => { await page.getByRole("button", { name: "Review the fields" }).focus(); await page.keyboard.press("Enter"); };
const apply = async () => {
  await page.getByText("Nothing is written yet.").waitFor();
  await page.getByRole("button", { name: "Apply" }).focus();
  await page.keyboard.press("Enter");
};
await page.goto(new URL("/limits/new", home).href);
await page.getByLabel("Namespace").fill(flow.namespace);
await page.getByLabel("Name", { exact: true }).fill("small");
await field("spec.cpu").fill("2");
await field("spec.cpuLimit").fill("1");
await page.keyboard.press("Enter");
await page.getByText("must not be below cpu").waitFor();
await field("spec.cpuLimit").fill("4");
await field("spec.nodeSelector").fill("disk=ssd");
await field(required).fill("gpu");
await review();
await page.getByText("must be a label, an operator").waitFor();
await field(required).fill("gpu In a100, h100 and old DoesNotExist");
await review();
await apply();
await page.getByText("disk=ssd").waitFor();
await page.getByText("gpu In a100, h100 and old DoesNotExist").waitFor();
steps.push("created");
await page.getByRole("link", { name: "Edit" }).focus();
await page.keyboard.press("Enter");
await field("spec.memory").fill("1Gi");
await page.keyboard.press("Enter");
await apply();
await page.getByText("1Gi").waitFor();
steps.push("edited");
const back = page.getByRole("link", { name: /^Undo/ });
if (!await page.getByText("Changed: spec.memory.").count()) wrong.push("the page of an edited limit does not name the field");
await inspect(page, "edited", "the page of an edited limit");
await back.focus();
await page.keyboard.press("Enter");
await page.getByText("The API server judges it when you review it.").waitFor();
await inspect(page, "proposed", "the form that undoes a change");
await page.getByRole("button", { name: "Review", exact: true }).focus();
await page.keyboard.press("Enter");
await page.getByText("The API server accepts this.").waitFor();
await apply();
await page.getByText("Changed: spec.memory.").waitFor();
if (await page.getByText("1Gi").count()) wrong.push("the change of a limit is not undone");
steps.push("taken back");
await page.getByRole("link", { name: "Delete" }).focus();
await page.keyboard.press("Enter");
await page.getByRole("button", { name: "Delete" }).focus();
await page.keyboard.press("Enter");
await page.waitForURL(new URL("/limits", home).href);
steps.push("deleted");

// A page that was loaded before the first reading has nothing that a reading could replace: it is loaded again.
await page.goto(home.href);
await page.evaluate(() => { document.getElementById("main").innerHTML = '<p id="unread">Not yet</p>'; });
await page.getByText("Workloads satisfied").waitFor();
steps.push("loaded again");

// A component is scaled, and a slot leads to its pod and back.
await page.goto(new URL(flow.environment, home).href);
await page.getByRole("button", { name: "Scale …" }).click();
await page.locator("select[name=component]").selectOption("backend");
await page.getByLabel("Replicas").fill("2");
await page.keyboard.press("Enter");
await page.getByText("scaled from 1 to 2").waitFor();
steps.push("scaled");
await page.goto(new URL(flow.workload, home).href);
await page.locator(".ribbon a").first().click();
await page.locator("#pod dt", { hasText: "Desired" }).waitFor();
await page.getByRole("heading", { name: "Best nodes" }).first().waitFor();
if (!await page.locator("#pod svg.bar rect").count()) wrong.push("a decision has no bars");
await page.locator("#pod .crumbs a").first().click();
await page.getByRole("link", { name: "Moves and events" }).waitFor();
steps.push("explained");

// The savings are a file that a spreadsheet opens.
await page.goto(new URL("/savings?by=mix", home).href);
const [saved] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download as CSV" }).click()]);
if (saved.suggestedFilename() !== "savings-by-mix.csv") wrong.push(`the file of the savings is ${saved.suggestedFilename()}`);
if (!readFileSync(await saved.path(), "utf8").startsWith("namespace,kind,name")) wrong.push("the file of the savings has no head");
steps.push("downloaded");

// Keys lead to the filter, to pages, and to objects by the palette. What a user types stays while the page changes.
await page.goto(home.href);
await page.keyboard.press("/");
await page.keyboard.type("large");
await page.waitForTimeout(5000); // two readings
if (await page.evaluate(() => document.activeElement.value) !== "large") wrong.push("what is typed in the filter is lost");
await page.keyboard.press("Enter");
await page.getByText("match “large”").waitFor();
if (!new URL(page.url()).searchParams.has("filter", "large")) wrong.push("the URL has no filter");
await page.locator("#find").waitFor(); // the script of the keys is loaded
await page.keyboard.press("g");
await page.keyboard.press("e");
await page.waitForURL(new URL("/environments", home).href);
await page.keyboard.press("Control+k");
await page.keyboard.type("deployment web");
await page.getByRole("option", { name: "/web" }).first().waitFor();
await page.evaluate(`${axe};0`);
const { violations: palette } = await page.evaluate((tags) => axe.run(document, { runOnly: tags }), tags);
for (const v of palette) wrong.push(`palette: ${v.id}: ${v.nodes[0].html.slice(0, 200)}`);
await page.screenshot({ path: `${screenshots}/palette.png` });
await page.keyboard.press("Enter");
await page.getByRole("link", { name: "What if?" }).waitFor();
steps.push("jumped");

// An environment is stopped after one question, which stays open while the page changes, and started again.
await page.goto(new URL(flow.environment, home).href);
await page.getByRole("button", { name: "Stop …" }).click();
await page.screenshot({ path: `${screenshots}/stop.png` });
await page.waitForTimeout(5000); // two readings
await page.getByRole("button", { name: "Stop shop" }).click();
await page.getByText("The stop was requested.").waitFor();
if (await page.getByRole("button", { name: "Restart …" }).count()) wrong.push("Restart is offered while the environment is stopped");
await page.getByRole("button", { name: "Start", exact: true }).click();
await page.getByText("The start was requested.").waitFor();
steps.push("stopped and started");

// With rights taken away one by one, what they show is unknown, once and at its place. Rights that are given again show it.
for (const [i, { resource, path, text: shown, has, loses }] of flow.rights.entries()) {
  const eyes = await open({});
  await eyes.goto(new URL(path, home).href);
  await eyes.getByText(has).first().waitFor({ timeout: 30000 });
  await fetch(`${control}/rights?without=${resource}`, { method: "POST" });
  // Events are read every 30 seconds while no replica is moved.
  await eyes.getByText(shown).first().waitFor({ timeout: 60000 }).catch(() => wrong.push(`without ${resource}, ${path} has no ${JSON.stringify(shown)}`));
  await eyes.locator("main").getByText(loses).first().waitFor({ state: "detached", timeout: 5000 })
    .catch(() => wrong.push(`without ${resource}, ${path} still has ${JSON.stringify(loses)}`));
  await inspect(eyes, `without-${i}-${resource}`, `${path} without ${resource}`);
  await fetch(`${control}/rights`, { method: "POST" });
  await eyes.getByText(has).first().waitFor({ timeout: 60000 }).catch(() => wrong.push(`with ${resource} again, ${path} has no ${JSON.stringify(has)}`));
  await eyes.context().close();
}
steps.push("rights taken away");

// While the API server is away, an open page shows what it had, and since when. It goes on by itself.
const apart = await open({}, away);
await apart.goto(new URL(flow.workload, away).href);
await apart.evaluate(() => { window.stays = true; });
await fetch(`${control}/api?away=1`, { method: "POST" });
await apart.getByText("Not up to date").waitFor({ timeout: 30000 });
if (!await apart.getByRole("heading", { name: "Slots" }).count()) wrong.push("without the API server, the page has no slots");
await inspect(apart, "away", "the page of a workload while the API server is away");
await fetch(`${control}/api`, { method: "POST" });
await apart.getByText("Not up to date").waitFor({ state: "detached", timeout: 60000 });
if (!await apart.evaluate(() => window.stays)) wrong.push("the page was loaded again when the API server came back");
steps.push("API server away and back");

// A proxy answers while the console restarts. An open page goes on by itself once the console is back.
const behind = await open({}, proxied);
await behind.goto(new URL(flow.workload, proxied).href);
await behind.evaluate(() => { window.stays = true; });
await fetch(`${control}/proxy?away=1`, { method: "POST" });
const connection = behind.getByText("The connection is lost.");
await connection.waitFor({ timeout: 30000 });
await behind.waitForTimeout(5000); // the page tries again, in vain
await fetch(`${control}/proxy`, { method: "POST" });
await connection.waitFor({ state: "hidden", timeout: 30000 });
if (!await behind.evaluate(() => window.stays)) wrong.push("the page was loaded again when the console came back");
steps.push("console away and back");

// A user signs in to the console of the cluster with the keyboard, and out again.
const guest = await open({}, cluster.url);
await signIn(guest, "nonsense");
await guest.getByText("does not accept this token").waitFor();
steps.push("refused");
await signIn(guest, cluster.token);
await guest.getByText("Workloads satisfied").waitFor();
steps.push("signed in");
await guest.getByRole("button", { name: /sign out/i }).click();
await guest.getByLabel(/token/i).waitFor();
steps.push("signed out");

await browser.close();
process.stdout.write(JSON.stringify({ looked, steps, wrong }));
