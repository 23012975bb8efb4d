// SPDX-License-Identifier: Apache-2.0
// Replaces the parts of the page that change, and adds keys. Without this script the page shows what it was loaded with.
import "./keys.js";
import "./sliders.js";

const silence = 15000;
const lost = document.getElementById("connection");
let timer;

function heard() {
  lost.hidden = true;
  clearTimeout(timer);
  timer = setTimeout(() => { lost.hidden = false; }, silence);
}

// inUse reports whether the user types in a part, or has a dialog of it open.
function inUse(part) {
  if (part.querySelector(":popover-open, details[open]")) return true;
  const field = part.contains(document.activeElement) && document.activeElement;
  if (field && field.matches("input, select, textarea")) return true;
  return [...part.querySelectorAll("input:not([type=hidden]), textarea")].some((f) => f.type !== "range" && f.value !== f.defaultValue);
}

// Parts that are in use are replaced when they are not any more: the newest replacement of each.
const waiting = new Map();

function later() {
  for (const [id, part] of waiting) {
    const old = document.getElementById(id);
    if (old && inUse(old)) continue;
    waiting.delete(id);
    replace(part);
  }
}
document.addEventListener("toggle", later, true);
document.addEventListener("focusout", () => setTimeout(later));

// places are what a replacement must not change: the scroll of boxes, and the focus.
function places(part) {
  const boxes = [...part.querySelectorAll(".scroll")].map((b) => [b.scrollLeft, b.scrollTop]);
  const focused = part.contains(document.activeElement) && document.activeElement;
  return { boxes, focused: focused && (focused.id || focused.getAttribute("href") || focused.getAttribute("name")) };
}

function restore(part, { boxes, focused }) {
  [...part.querySelectorAll(".scroll")].forEach((b, i) => { if (boxes[i]) [b.scrollLeft, b.scrollTop] = boxes[i]; });
  if (!focused) return;
  const again = [...part.querySelectorAll("[id], [href], [name]")]
    .find((e) => [e.id, e.getAttribute("href"), e.getAttribute("name")].includes(focused));
  if (again) again.focus({ preventScroll: true });
}

function replace(change) {
  const { id, html, gone, into, after } = change;
  const old = document.getElementById(id);
  if (gone) return old?.remove();
  if (!old && !into) {
    if (document.getElementById("unread")) location.reload();
    return;
  }
  if (old && !into && inUse(old)) return waiting.set(id, change);
  const kept = old && places(old);
  const next = document.createElement("template");
  next.innerHTML = html;
  if (into) {
    old?.remove();
    const previous = after && document.getElementById(after);
    if (previous) previous.after(next.content);
    else document.getElementById(into)?.querySelector("tbody")?.prepend(next.content);
  } else {
    old.replaceWith(next.content);
  }
  const part = document.getElementById(id);
  if (!part) return;
  if (part.matches("tr")) part.classList.add("changed");
  if (kept) restore(part, kept);
  age();
}

// age shows how long ago the page was read. Browsers and servers may have different clocks, so it counts from the arrival.
let readAt = "", arrived = Date.now();
function age() {
  const time = document.getElementById("read-at");
  if (!time) return;
  if (time.dateTime !== readAt) [readAt, arrived, time.title] = [time.dateTime, readAt ? Date.now() : loaded(time), time.textContent];
  const seconds = Math.round((Date.now() - arrived) / 1000);
  time.textContent = seconds < 60 ? `${seconds} s ago` : seconds < 5400 ? `${Math.round(seconds / 60)} min ago` : time.title;
}
const loaded = (time) => Date.now() - Number(time.dataset.age || 0) * 1000;
age();
setInterval(age, 1000);

// Elements that name where their content is get it from there, and again every minute while the page is seen.
async function load() {
  if (document.hidden) return;
  for (const box of document.querySelectorAll("[data-load]")) {
    if (box.contains(document.activeElement)) continue;
    try {
      const answer = await fetch(box.dataset.load);
      if (answer.ok && !answer.redirected) box.innerHTML = await answer.text();
    } catch { /* the page shows that the connection is lost */ }
  }
}
load();
setInterval(load, 60000);

const events = new EventSource(document.body.dataset.stream);
events.addEventListener("open", heard);
events.addEventListener("beat", heard);
events.addEventListener("part", (e) => { heard(); replace(JSON.parse(e.data)); });
events.addEventListener("error", () => { lost.hidden = false; });

// follow adds the lines of a log to those that the page was loaded with, which the stream sends again.
const following = document.getElementById("following");
if (following) follow(following, document.getElementById("text"));

function follow(note, text) {
  const most = 2000;
  const lines = new EventSource(note.dataset.follow);
  let all = [];
  lines.addEventListener("open", () => { all = []; note.hidden = false; });
  lines.addEventListener("line", (e) => {
    const box = text.parentElement;
    const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 4;
    all.push(JSON.parse(e.data));
    if (all.length > most) all = all.slice(-most);
    text.textContent = all.join("\n");
    if (atEnd) box.scrollTop = box.scrollHeight;
  });
  const stop = (e) => {
    if (e.data) note.textContent = "The log is not followed any more: " + JSON.parse(e.data);
    else note.textContent = "The log has ended.";
    lines.close();
  };
  lines.addEventListener("problem", stop);
  lines.addEventListener("end", stop);
}
