// SPDX-License-Identifier: Apache-2.0
// Adds the lines of a log to those that the page was loaded with, which the stream sends again. Without this script the page has the lines
// that it was loaded with.
import { stream } from "./stream.js";

const note = document.getElementById("following");
if (note) follow(note, document.getElementById("text"));

function follow(note, text) {
  // The page keeps the last lines. Those that come while it pauses, or while a part of the text is selected, are shown afterwards.
  const most = 2000, box = text.parentElement;
  let held = [], fresh = true, paused = false, drawing = false;
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Pause" });
  button.addEventListener("click", () => { paused = !paused; draw(); });
  note.after(button);

  const selected = () => {
    const s = document.getSelection();
    return !s.isCollapsed && s.containsNode(text, true);
  };
  function draw() {
    drawing = false;
    button.textContent = paused ? `Continue (${held.length} new)` : "Pause";
    if (paused || selected() || !held.length) return;
    const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 4;
    if (fresh) text.replaceChildren();
    fresh = false;
    text.append(...held.map((line) => line + "\n"));
    held = [];
    // What is read stays where it is when lines above it go.
    const before = box.scrollHeight;
    while (text.childNodes.length > most) text.firstChild.remove();
    box.scrollTop = atEnd ? box.scrollHeight : box.scrollTop - (before - box.scrollHeight);
  }
  function later() {
    if (!drawing) requestAnimationFrame(draw);
    drawing = true;
  }
  document.addEventListener("selectionchange", later);

  const stop = (e) => {
    note.textContent = e.data && e.type === "problem" ? "The log is not followed any more: " + JSON.parse(e.data) : "The log has ended.";
    note.hidden = false;
    lines.close();
  };
  const lines = stream(note.dataset.follow, {
    open: () => { [held, fresh, note.hidden] = [[], true, false]; },
    line: (e) => {
      held.push(JSON.parse(e.data));
      if (held.length > most) held.shift();
      later();
    },
    problem: stop,
    end: stop,
  });
}
