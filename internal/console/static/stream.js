// SPDX-License-Identifier: Apache-2.0
const pause = 5000;

// stream opens a stream of events, and opens it again where the browser does not: after a response that is no stream, such as that of a
// proxy while the console restarts. close ends it.
export function stream(url, listeners) {
  let events, timer;
  function open() {
    events = new EventSource(url);
    for (const [type, listener] of Object.entries(listeners)) events.addEventListener(type, listener);
    events.addEventListener("error", () => {
      if (events.readyState === EventSource.CLOSED) timer = setTimeout(open, pause);
    });
  }
  open();
  return { close() { clearTimeout(timer); events.close(); } };
}
