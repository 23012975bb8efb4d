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

function replace({ id, html }) {
  const old = document.getElementById(id);
  if (!old) return;
  const focused = old.contains(document.activeElement) && document.activeElement;
  const place = focused && (focused.id || focused.getAttribute("href"));
  const next = document.createElement("template");
  next.innerHTML = html;
  old.replaceWith(next.content);
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
