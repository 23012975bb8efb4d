// SPDX-License-Identifier: Apache-2.0
const shortest = 5000, longest = 60000;

// stream opens a stream of events, and opens it again where the browser does not: after a response that is no stream, such as that of a
// proxy while the console restarts. It tries twice as late each time, and not all pages at once. close ends it.
export function stream(url, listeners) {
  let events, timer, pause = shortest;
  function open() {
    events = new EventSource(url);
    for (const [type, listener] of Object.entries(listeners)) events.addEventListener(type, listener);
    events.addEventListener("open", () => { pause = shortest; });
    events.addEventListener("error", () => {
      if (events.readyState !== EventSource.CLOSED) return;
      timer = setTimeout(open, pause * (1 + Math.random() / 2));
      pause = Math.min(2 * pause, longest);
    });
  }
  open();
  return { close() { clearTimeout(timer); events.close(); } };
}
