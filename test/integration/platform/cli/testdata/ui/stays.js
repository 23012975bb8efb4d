// SPDX-License-Identifier: Apache-2.0
// What a user does on a page stays while its parts are replaced, and while the lines of a log come. The tests replace the parts themselves:
// the script of the page gets events from an EventSource of theirs.

// takeStreams has the streams of a page wait for what a test sends by window.streams.
export async function takeStreams(page) {
  await page.addInitScript(() => {
    window.streams = [];
    window.EventSource = class extends EventTarget {
      constructor(url) { super(); this.url = url; window.streams.push(this); }
      close() { this.closed = true; }
      send(type, data) { this.dispatchEvent(new MessageEvent(type, { data })); }
    };
  });
}

// change replaces each part of the page by itself, with a mark, as the stream does. It returns the ids.
const change = () => {
  const stream = window.streams.find((s) => s.url.includes("/stream?"));
  const ids = [];
  for (const part of [...document.querySelectorAll("main > [id]:not(#age)")]) {
    const next = part.cloneNode(true);
    // What the server sends has nothing of what the user does.
    for (const d of next.querySelectorAll("details")) d.open = false;
    next.dataset.replaced = "yes";
    ids.push(part.id);
    stream.send("part", JSON.stringify({ id: part.id, html: next.outerHTML }));
  }
  return ids;
};

// losesNothing returns what is lost when the parts of a page are replaced.
export async function losesNothing(page, url) {
  await page.goto(url);
  const lost = [];
  const fields = await page.locator("main :is(input:not([type=hidden], [type=range], [type=checkbox]), textarea):visible").all();
  const before = await page.evaluate(() => {
    for (const d of document.querySelectorAll("main details")) d.open = true;
    for (const b of document.querySelectorAll("main .scroll")) b.scrollLeft = 7;
    window.scrollTo(0, 40);
    const focused = document.querySelector("main :is(tbody a, .links a, .links button, a)");
    focused?.focus({ preventScroll: true });
    return {
      y: scrollY, focus: focused && (focused.getAttribute("href") || focused.textContent), details: document.querySelectorAll("main details").length,
      boxes: [...document.querySelectorAll("main .scroll")].map((b) => b.scrollLeft),
    };
  });
  await page.evaluate(change);
  const after = await page.evaluate(() => ({
    y: scrollY, focus: document.activeElement.getAttribute("href") || document.activeElement.textContent,
    details: document.querySelectorAll("main details[open]").length, boxes: [...document.querySelectorAll("main .scroll")].map((b) => b.scrollLeft),
    replaced: document.querySelectorAll("main > [data-replaced]").length,
  }));
  if (after.y !== before.y) lost.push(`the scroll: ${before.y} is ${after.y}`);
  if (before.focus && after.focus !== before.focus) lost.push(`the focus of ${before.focus}`);
  if (after.details !== before.details) lost.push("what is unfolded");
  if (JSON.stringify(after.boxes) !== JSON.stringify(before.boxes)) lost.push("the scroll of a table");
  if (!after.replaced) lost.push("the update itself");

  // A text that is selected, until it is not any more.
  const selected = await page.evaluate(() => {
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT,
      { acceptNode: (n) => n.data.trim() && !n.parentElement.closest("#age, h1") ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_SKIP });
    const node = walker.nextNode();
    if (!node) return "";
    const range = document.createRange();
    range.selectNodeContents(node);
    document.getSelection().removeAllRanges();
    document.getSelection().addRange(range);
    return document.getSelection().toString();
  });
  await page.evaluate(() => { for (const p of document.querySelectorAll("main > [data-replaced]")) delete p.dataset.replaced; });
  const ids = await page.evaluate(change);
  if (selected !== await page.evaluate(() => document.getSelection().toString())) lost.push(`the selection of ${JSON.stringify(selected)}`);

  // What is typed, and where. What was kept back comes afterwards.
  await page.evaluate(() => document.getSelection().removeAllRanges());
  for (const field of fields.slice(0, 3)) {
    if (!await field.isVisible() || !await field.isEditable()) continue;
    const was = await field.inputValue();
    const typed = await field.getAttribute("type") === "number" ? "7" : "typed";
    await field.fill(typed);
    await page.evaluate(change);
    if (await field.inputValue() !== typed) lost.push(`what is typed in ${await field.getAttribute("name")}`);
    if (!await field.evaluate((f) => f === document.activeElement)) lost.push(`the focus of ${await field.getAttribute("name")}`);
    await field.fill(was);
    await field.blur();
  }
  await page.waitForFunction((ids) => ids.every((id) => document.getElementById(id)?.dataset.replaced), ids, { timeout: 5000 })
    .catch(() => lost.push("an update that waited"));
  return lost;
}

// followsALog returns what is wrong while lines come.
export async function followsALog(page, url) {
  await page.goto(url);
  const lost = [];
  const send = (from, to) => page.evaluate(async ([from, to]) => {
    const log = window.streams.find((s) => s.url.includes("/logs/follow"));
    for (let i = from; i < to; i++) log.send("line", JSON.stringify(`line ${i}`));
    await new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); });
    const box = document.getElementById("text").parentElement;
    const texts = document.getElementById("text").textContent.trim().split("\n");
    return { first: texts[0], last: texts.at(-1), lines: texts.length, top: box.scrollTop, atEnd: box.scrollTop + box.clientHeight >= box.scrollHeight - 4 };
  }, [from, to]);
  await page.evaluate(() => window.streams.find((s) => s.url.includes("/logs/follow")).send("open"));
  let now = await send(0, 500);
  if (now.last !== "line 499" || !now.atEnd) lost.push("the page does not go to new lines at its end");
  await page.evaluate(() => { document.getElementById("text").parentElement.scrollTop = 1000; });
  now = await send(500, 600);
  if (now.top !== 1000 || now.last !== "line 599") lost.push(`new lines move what is read: ${JSON.stringify(now)}`);
  await page.getByRole("button", { name: "Pause" }).click();
  now = await send(600, 700);
  if (now.last !== "line 599") lost.push("a pause does not hold lines back");
  await page.getByRole("button", { name: "Continue (100 new)" }).click();
  now = await send(700, 700);
  if (now.last !== "line 699") lost.push("lines of a pause are lost");
  await page.evaluate(() => document.getSelection().selectAllChildren(document.getElementById("text")));
  now = await send(700, 710);
  if (now.last !== "line 699") lost.push("new lines change a selected text");
  await page.evaluate(() => document.getSelection().removeAllRanges());
  now = await send(710, 5000);
  if (now.lines !== 2000 || now.first !== "line 3000" || now.last !== "line 4999") lost.push(`the lines of a page are not bounded: ${JSON.stringify(now)}`);
  await page.evaluate(() => window.streams.find((s) => s.url.includes("/logs/follow")).send("end"));
  if (!await page.getByText("The log has ended.").isVisible()) lost.push("the end of a log is not shown");
  return lost;
}
