// SPDX-License-Identifier: Apache-2.0
// Adds sliders to the numbers of a plan: the slots are drawn as they move, and the plan is made when they stay. Without this script the
// form has a button.
const form = document.getElementById("sliders");
if (form) slide(form);

function slide(form) {
  const replicas = Math.max(Number(form.dataset.replicas), 10);
  for (const number of form.querySelectorAll('input[type="number"]')) addSlider(number, replicas, draw);

  // One request at a time is made, of what moved last. A plan that is made ends when something moves: others wait for their turn.
  let busy = false, next = "", plan;
  async function draw(what) {
    // What is shown is of other numbers, and must not be applied.
    for (const button of document.querySelectorAll("#plan-result button")) button.disabled = true;
    plan?.abort();
    next = what;
    if (busy) return;
    busy = true;
    while (next) {
      const now = next;
      next = "";
      if (!form.checkValidity()) continue;
      plan = new AbortController();
      await show(now, plan.signal);
      if (now === "draft") await new Promise((done) => { setTimeout(done, 200); });
    }
    busy = false;
  }

  async function show(what, signal) {
    const query = new URLSearchParams(new FormData(form));
    history.replaceState(null, "", form.action + "?" + query);
    query.set(what, "1");
    try {
      const response = await fetch(form.action + "?" + query, what === "result" ? { signal } : {});
      // The session has ended, or the mix is gone, which the whole page shows.
      if (response.redirected || [401, 404].includes(response.status)) return location.reload();
      const text = await response.text();
      const shown = document.getElementById("plan-result");
      if (signal.aborted && what === "result" || !shown) return;
      if (text.startsWith('<div id="plan-result"')) shown.outerHTML = text;
      else shown.replaceChildren(problem(response.status));
    } catch { /* something has moved, or the page reports that the connection is lost */ }
  }
}

function problem(status) {
  const p = document.createElement("p");
  p.className = "notice bad";
  p.setAttribute("role", "alert");
  p.textContent = `The console responded with status ${status}. Show the plan again later.`;
  return p;
}

// addSlider adds a slider to a number. That of a number that can be empty has one more step for that, behind those of all numbers.
function addSlider(number, replicas, draw) {
  const slider = document.createElement("input");
  slider.type = "range";
  const empty = number.required ? 0 : 1;
  let most = number.name === "spotPercent" ? 100 : replicas;
  const shown = () => {
    most = Math.min(Number(number.max), Math.max(most, Number(number.value)));
    slider.max = most + empty;
    if (number.value !== "") slider.value = number.value;
    else if (empty) slider.value = slider.max;
  };
  slider.setAttribute("aria-label", number.parentElement.textContent.trim());
  slider.addEventListener("input", () => {
    number.value = empty && Number(slider.value) > most ? "" : slider.value;
    draw("draft");
  });
  slider.addEventListener("change", () => draw("result"));
  number.addEventListener("input", () => { shown(); draw("draft"); });
  number.addEventListener("change", () => draw("result"));
  number.after(slider);
  shown();
}
