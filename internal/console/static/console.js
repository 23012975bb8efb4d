// SPDX-License-Identifier: Apache-2.0
// Replaces the parts of the page that change, and adds keys. Without this script the page shows what it was loaded with.
import "./follow.js";
import "./keys.js";
import "./sliders.js";
import { stream } from "./stream.js";

const silence = 15000;
const lost = document.getElementById("connection");
let timer;

function heard() {
  lost.hidden = true;
  clearTimeout(timer);
  timer = setTimeout(() => { lost.hidden = false; }, silence);
}

// edited reports whether a user has changed a field.
function edited(field) {
  if (field.matches("select")) {
    const first = [...field.options].findIndex((o) => o.defaultSelected);
    return field.selectedIndex !== Math.max(first, 0);
  }
  if (field.matches("[type=checkbox], [type=radio]")) return field.checked !== field.defaultChecked;
  return field.type !== "range" && field.value !== field.defaultValue;
}

// inUse reports whether the user types in a part, has a dialog of it open, or has selected a text of it.
function inUse(part) {
  if (part.querySelector(":popover-open")) return true;
  const field = part.contains(document.activeElement) && document.activeElement;
  if (field && field.matches("input, select, textarea")) return true;
  const selection = document.getSelection();
  if (!selection.isCollapsed && selection.containsNode(part, true)) return true;
  return [...part.querySelectorAll("input:not([type=hidden]), textarea, select")].some(edited);
}

// Parts that are in use are replaced when they are not any more: what came for each of them, and for what it contains, in its order.
const waiting = new Map();

function later() {
  for (const [id, changes] of [...waiting]) {
    const old = document.getElementById(id);
    if (old && inUse(old)) continue;
    waiting.delete(id);
    for (const c of changes) replace(c.id === id && old ? { ...c, into: undefined } : c); // a row stays where it is
  }
}

// holds reports whether a change is kept for later: it is of something that is in use, or that is in such a part.
function holds(change, old) {
  const { id, into, gone } = change;
  const own = old && inUse(old);
  const within = [...waiting.keys()].filter((w) => w === into || (old ? document.getElementById(w)?.contains(old) : !into && !gone));
  if (own && !within.includes(id)) within.push(id);
  for (const w of within) {
    if (w === id || !waiting.has(w)) waiting.set(w, [change]);
    else waiting.get(w).push(change);
  }
  return within.length > 0;
}
document.addEventListener("toggle", later, true);
document.addEventListener("focusout", () => setTimeout(later));
document.addEventListener("selectionchange", later);

// places are what a replacement must not change: the scroll of boxes, what is unfolded, and the focus.
const focusable = "a[href], button, summary, [tabindex]";
function places(part) {
  const boxes = [...part.querySelectorAll(".scroll")].map((b) => [b.scrollLeft, b.scrollTop]);
  const unfolded = [...part.querySelectorAll("details")].map((d) => d.open);
  const focused = part.contains(document.activeElement) && document.activeElement;
  return {
    boxes, unfolded, focused: focused && (focused.id || focused.getAttribute("href") || focused.getAttribute("name")),
    at: focused ? [...part.querySelectorAll(focusable)].indexOf(focused) : -1, tag: focused && focused.tagName,
  };
}

function restore(part, { boxes, unfolded, focused, at, tag }) {
  [...part.querySelectorAll(".scroll")].forEach((b, i) => { if (boxes[i]) [b.scrollLeft, b.scrollTop] = boxes[i]; });
  [...part.querySelectorAll("details")].forEach((d, i) => { if (unfolded[i]) d.open = true; });
  // By what identifies it, or by its place.
  const again = focused ?
    [...part.querySelectorAll("[id], [href], [name]")].find((e) => [e.id, e.getAttribute("href"), e.getAttribute("name")].includes(focused)) :
    [...part.querySelectorAll(focusable)][at];
  if (again && again.tagName === tag) again.focus({ preventScroll: true });
}

function replace(change) {
  const { id, html, gone, into, after } = change;
  const old = document.getElementById(id);
  if (holds(change, old)) return;
  if (gone) return old?.remove();
  if (!old && !into) {
    // The page was loaded before the first reading, or has lost the part, which is there again. It is not loaded again and again.
    const idle = performance.now() > 5000 && ![...document.querySelectorAll("main > [id]")].some(inUse);
    if (document.getElementById("unread") || idle) location.reload();
    return;
  }
  const kept = old && places(old);
  const next = document.createElement("template");
  next.innerHTML = html;
  if (into) {
    old?.remove();
    const previous = after && document.getElementById(after);
    if (previous) previous.after(next.content);
    else document.getElementById(into)?.querySelector("tbody, [data-rows]")?.prepend(next.content);
  } else {
    old.replaceWith(next.content);
  }
  const part = document.getElementById(id);
  if (!part) return;
  if (part.matches("tr, article")) part.classList.add("changed");
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
    if (box.contains(document.activeElement) || inUse(box)) continue;
    try {
      const answer = await fetch(box.dataset.load);
      if (answer.ok && !answer.redirected) box.innerHTML = await answer.text();
    } catch { /* the page shows that the connection is lost */ }
  }
}
load();
setInterval(load, 60000);

stream(document.body.dataset.stream, {
  open: heard,
  beat: heard,
  part: (e) => { heard(); later(); replace(JSON.parse(e.data)); },
  error: () => { lost.hidden = false; },
});
