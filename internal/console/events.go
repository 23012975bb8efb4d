// SPDX-License-Identifier: Apache-2.0

package console

import (
	"encoding/json"
	"net/http"
	"time"
)

// events are the server-sent events of a response.
type events struct {
	w   http.ResponseWriter
	out *http.ResponseController
}

func newEvents(w http.ResponseWriter) *events {
	w.Header().Set("Content-Type", "text/event-stream")
	return &events{w, http.NewResponseController(w)}
}

// send sends events at once. A browser that does not take them for a while loses the connection.
func (e *events) send(all []byte) error {
	_ = e.out.SetWriteDeadline(time.Now().Add(2 * beat))
	if _, err := e.w.Write(all); err != nil { //nolint:gosec // JSON of texts and of HTML that the templates made, which escape
		return err
	}
	return e.out.Flush()
}

// event is an event whose data is JSON.
func event(name string, data any) ([]byte, error) {
	text, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	return []byte("event: " + name + "\ndata: " + string(text) + "\n\n"), nil
}

// eventOf is the event that replaces an element.
func eventOf(r replacement) ([]byte, error) { return event("part", r) }
