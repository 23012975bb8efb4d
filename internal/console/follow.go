// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"
)

// mostFollowers is the number of logs that are followed at once.
const mostFollowers = 16

// follow sends the lines of a log as server-sent events, until the page is closed.
func (c *Console) follow(w http.ResponseWriter, r *http.Request) {
	found, err := reportOf("environments", []string{r.PathValue("namespace"), r.PathValue("name"), "logs"}, r.URL.Query())
	if err != nil || c.command == nil {
		http.Error(w, "there is no such log", http.StatusNotFound)
		return
	}
	select {
	case c.followers <- struct{}{}:
		defer func() { <-c.followers }()
	default:
		http.Error(w, "too many logs are followed: close another page", http.StatusTooManyRequests)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	lines := &eventLines{w: w, out: http.NewResponseController(w)}
	if err := lines.write(": follows\n\n"); err != nil {
		return
	}
	if err := c.command(r.Context(), r, lines, append(found.args, "--follow")...); err != nil && r.Context().Err() == nil {
		_ = lines.send("problem", inert(err.Error()))
		return
	}
	_ = lines.send("end", "")
}

// eventLines sends each line that is written as an event. A line without an end is sent when it is as long as a line may be.
type eventLines struct {
	w    http.ResponseWriter
	out  *http.ResponseController
	rest []byte
}

// Write implements io.Writer.
func (l *eventLines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		end := bytes.IndexByte(l.rest, '\n')
		if end < 0 && len(l.rest) <= maxLine {
			return len(p), nil
		}
		if end < 0 || end > maxLine {
			end = maxLine
		}
		if err := l.send("line", inertLine(string(l.rest[:end]))); err != nil {
			return 0, err
		}
		l.rest = bytes.TrimPrefix(l.rest[end:], []byte("\n"))
	}
}

func (l *eventLines) send(event, text string) error {
	data, err := json.Marshal(text)
	if err != nil {
		return err
	}
	return l.write("event: " + event + "\ndata: " + string(data) + "\n\n")
}

func (l *eventLines) write(text string) error {
	_ = l.out.SetWriteDeadline(time.Now().Add(2 * beat))
	if _, err := l.w.Write([]byte(text)); err != nil {
		return err
	}
	return l.out.Flush()
}
