// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"fmt"
	"net/http"
)

// Followed are the paths of logs that are followed: requests that last as long as their pages are open.
var Followed = []string{"/environments/{namespace}/{name}/logs/follow", "/pods/{namespace}/{name}/logs/follow"}

// mostFollowers is the number of logs that are followed at once, followersPerUser that of a user.
const mostFollowers, followersPerUser = 16, 4

// follow sends the lines of a log as server-sent events, until the page is closed.
func (c *Console) follow(w http.ResponseWriter, r *http.Request) {
	path, err := pathOfURL(r.URL)
	var found *report
	if err == nil {
		found, err = reportOf(path[0], path[1:len(path)-1], r.URL.Query()) // without the last part, follow
	}
	if err != nil || found.log == nil || c.reports == nil {
		http.Error(w, "there is no such log", http.StatusNotFound)
		return
	}
	done, ok := c.following.try(userOf(r))
	if !ok {
		http.Error(w, fmt.Sprintf("too many logs are followed, of %d in total and %d of one user: close another page", mostFollowers, followersPerUser), http.StatusTooManyRequests)
		return
	}
	defer done()
	lines := &eventLines{events: newEvents(w)}
	if err := lines.events.send([]byte(": follows\n\n")); err != nil {
		return
	}
	if err := found.log.write(true)(r.Context(), c.reports, lines); err != nil && r.Context().Err() == nil {
		_ = lines.send("problem", inert(err.Error()))
		return
	}
	_ = lines.send("end", "")
}

// eventLines sends each line that is written as an event. A line without an end is sent when it is as long as a line may be.
type eventLines struct {
	events *events
	rest   []byte
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

func (l *eventLines) send(name, text string) error {
	all, err := event(name, text)
	if err != nil {
		return err
	}
	return l.events.send(all)
}
