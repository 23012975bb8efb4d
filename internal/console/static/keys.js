// SPDX-License-Identifier: Apache-2.0
// Keys: "/" leads to the filter, g and a letter to a page, and Ctrl+K opens the palette of pages and objects.
const nav = document.querySelector("header nav");
const typing = (e) => e.target.closest("input, select, textarea, [contenteditable]");
let jump = 0;

const button = element("button", { id: "find", className: "find", type: "button", ariaKeyShortcuts: "Control+K" }, "Search ");
button.append(element("kbd", {}, "Ctrl K"));
button.addEventListener("click", open);
nav.append(button);

document.addEventListener("keydown", (e) => {
  if (e.key.toLowerCase() === "k" && (e.ctrlKey || e.metaKey) && !e.altKey) {
    e.preventDefault();
    return open();
  }
  if (typing(e) || e.ctrlKey || e.metaKey || e.altKey) return;
  const to = Date.now() - jump < 1500 && nav.querySelector(`[data-key="${CSS.escape(e.key)}"]`);
  jump = e.key === "g" && !to ? Date.now() : 0;
  if (to) return to.click();
  if (e.key !== "/") return;
  e.preventDefault();
  const filter = document.querySelector("main input[type=search]");
  if (!filter) return open();
  filter.focus();
  filter.select();
});

function element(name, properties, text = "") {
  const e = Object.assign(document.createElement(name), properties);
  e.textContent = text;
  return e;
}

let palette, input, list, asked = 0;

function open() {
  if (!palette) make();
  if (palette.open) return;
  palette.showModal();
  input.value = "";
  find();
}

function make() {
  palette = element("dialog", { id: "palette", className: "dialog", ariaLabel: "Search" });
  input = element("input", {
    type: "search", maxLength: 256, role: "combobox", ariaLabel: "Search pages and objects", ariaExpanded: "true", ariaAutoComplete: "list",
    placeholder: "Page, or namespace/name", autocomplete: "off",
  });
  input.setAttribute("aria-controls", "found");
  list = element("ul", { id: "found", role: "listbox", ariaLabel: "Found" });
  palette.append(input, list);
  document.body.append(palette);
  input.addEventListener("input", find);
  palette.addEventListener("click", (e) => { if (e.target === palette) palette.close(); });
  list.addEventListener("click", (e) => go(e.target.closest("li")));
  input.addEventListener("keydown", (e) => {
    if (e.key === "Enter") go(selected());
    else if (e.key === "ArrowDown") select(selected()?.nextElementSibling || list.firstElementChild);
    else if (e.key === "ArrowUp") select(selected()?.previousElementSibling || list.lastElementChild);
    else return;
    e.preventDefault();
  });
}

const selected = () => list.querySelector("[aria-selected=true]");
const go = (item) => { if (item?.dataset.url) location.href = item.dataset.url; };

function select(item) {
  selected()?.setAttribute("aria-selected", "false");
  input.removeAttribute("aria-activedescendant");
  if (!item) return;
  item.setAttribute("aria-selected", "true");
  item.scrollIntoView({ block: "nearest" });
  input.setAttribute("aria-activedescendant", item.id);
}

async function find() {
  const turn = ++asked;
  let found = [];
  try {
    const answer = await fetch("/find?" + new URLSearchParams({ q: input.value }));
    if (answer.ok) found = await answer.json();
  } catch { /* the page shows that the connection is lost */ }
  if (turn !== asked) return;
  list.replaceChildren(...found.map(({ name, detail, url }, i) => {
    const item = element("li", { id: `found-${i}`, role: "option", ariaSelected: "false" }, name);
    item.dataset.url = url;
    item.append(element("span", { className: "dim" }, detail));
    return item;
  }));
  if (!found.length) list.append(element("li", { className: "dim", role: "option", ariaSelected: "false" }, "Nothing is found."));
  select(found.length ? list.firstElementChild : null);
}
