// SPDX-License-Identifier: Apache-2.0
// Replaces the parts of the page that change. Without this script the page shows what it was loaded with.
const silence = 15000;
const lost = document.getElementById("connection");
let timer;

function heard() {
  lost.hidden = true;
  clearTimeout(timer);
  timer = setTimeout(() => { lost.hidden = false; }, silence);
}

function replace({ id, html, gone, into, after }) {
  const old = document.getElementById(id);
  if (gone) return old?.remove();
  if (!old && !into) {
    if (document.getElementById("unread")) location.reload();
    return;
  }
  const focused = old?.contains(document.activeElement) && document.activeElement;
  const place = focused && (focused.id || focused.getAttribute("href"));
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
  if (!place) return;
  const part = document.getElementById(id);
  const again = part && [...part.querySelectorAll("[id], [href]")].find((e) => e.id === place || e.getAttribute("href") === place);
  if (again) again.focus({ preventScroll: true });
}

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
