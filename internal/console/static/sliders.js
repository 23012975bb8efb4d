// SPDX-License-Identifier: Apache-2.0
// Adds sliders to the numbers of a plan, which is drawn again as they move. Without this script the form has a button.
const form = document.getElementById("sliders");
if (form) slide(form);

function slide(form) {
  const replicas = Math.max(Number(form.dataset.replicas), 10);
  for (const number of form.querySelectorAll('input[type="number"]')) {
    const slider = document.createElement("input");
    slider.type = "range";
    // The slider of a number that can be empty has one more step for that.
    const most = number.required ? Math.min(Number(number.max), replicas) : replicas + 1;
    slider.max = number.name === "spotPercent" ? 100 : Math.max(most, Number(number.value));
    const shown = () => { slider.value = number.value === "" ? slider.max : number.value; };
    slider.setAttribute("aria-label", number.parentElement.textContent.trim());
    slider.addEventListener("input", () => {
      number.value = !number.required && slider.value === slider.max ? "" : slider.value;
      draw();
    });
    number.addEventListener("input", () => { shown(); draw(); });
    number.after(slider);
    shown();
  }
  // One plan at a time is made. What moved meanwhile is in the next one.
  let busy = false, again = false;
  async function draw() {
    if (busy) { again = true; return; }
    busy = true;
    do {
      again = false;
      if (!form.checkValidity()) break;
      const query = new URLSearchParams(new FormData(form));
      history.replaceState(null, "", form.action + "?" + query);
      query.set("result", "1");
      try {
        const response = await fetch(form.action + "?" + query);
        const old = document.getElementById("plan-result");
        if (response.headers.get("Content-Type")?.startsWith("text/html") && old) old.outerHTML = await response.text();
      } catch { /* the page reports a connection that is lost */ }
      await new Promise((done) => { setTimeout(done, 200); });
    } while (again);
    busy = false;
  }
}
