// SPDX-License-Identifier: Apache-2.0
// Runs the script of the sliders, whose path is an argument, with what it uses of a browser, and prints what it did as JSON.
const did = {};

class Field {
  constructor(properties) { Object.assign(this, { listeners: {}, attributes: {}, required: true, text: "" }, properties); }
  set max(most) { this.most = String(most); }
  get max() { return this.most; }
  set value(text) {
    const clamped = this.type === "range" ? Math.min(Number(text), Number(this.most)) : text;
    this.text = String(clamped);
  }
  get value() { return this.text; }
  get parentElement() { return { textContent: this.name }; }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  after(slider) { this.slider = slider; }
  fire(name) { return this.listeners[name](); }
  move(value, ...events) {
    this.value = value;
    events.forEach((e) => this.fire(e));
  }
}

const spot = new Field({ name: "spotPercent", most: "100", text: "70" });
const cap = new Field({ name: "maxSpot", most: "1000000", text: "50", required: false });
const button = { disabled: false };
const result = { replaceChildren(child) { this.outerHTML = child.textContent; } };
let valid = true;
const form = {
  action: "/plan", dataset: { replicas: "10" }, checkValidity: () => valid, querySelectorAll: () => [spot, cap],
};
const requests = [];
Object.assign(globalThis, {
  document: {
    getElementById: (id) => (id === "sliders" ? form : result), querySelectorAll: () => [button], createElement: () => new Field({}),
  },
  history: { replaceState() {} }, location: { reload() { did.reloaded = (did.reloaded || 0) + 1; } },
  FormData: class { *[Symbol.iterator]() { yield* [spot, cap].map((f) => [f.name, f.value]); } },
  fetch(url, { signal } = {}) {
    return new Promise((resolve, reject) => {
      requests.push({ url, signal, answer: (text, more) => resolve({ status: 200, redirected: false, text: async () => text, ...more }) });
      signal?.addEventListener("abort", () => reject(new Error("aborted")));
    });
  },
});
const settled = () => new Promise((done) => { setTimeout(done, 20); });
const request = async () => {
  while (!requests.length) await settled();
  return requests.shift();
};

await import(process.argv[2]);
did.cap = [cap.slider.max, cap.slider.value];
cap.move("", "input");
did.none = cap.slider.value;
let asked = await request();
did.draft = asked.url;
did.disabled = button.disabled;
asked.answer('<div id="plan-result">drawn</div>');
await settled();
did.drawn = result.outerHTML;

cap.slider.move("50", "input", "change");
did.fifty = cap.value;
asked = await request();
did.plan = asked.url;
spot.move("80", "input");
did.aborted = asked.signal.aborted;
asked = await request();
did.after = asked.url;
asked.answer("<!doctype html><title>Login</title>", { redirected: true });
await settled();
spot.fire("change");
asked = await request();
asked.answer("<!doctype html><title>Too many</title>", { status: 429 });
await settled();
did.refused = result.outerHTML;

button.disabled = false;
valid = false;
spot.move("", "input");
await settled();
did.invalid = [button.disabled, requests.length];
cap.move("70", "input");
did.raised = [cap.slider.max, cap.slider.value];
console.log(JSON.stringify(did));
