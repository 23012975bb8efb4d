// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// AuditEvent is the part of an audit log entry that tests look at.
type AuditEvent struct {
	Stage      string `json:"stage"`
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	UserAgent  string `json:"userAgent"`
	User       struct {
		Username string   `json:"username"`
		Groups   []string `json:"groups"`
	} `json:"user"`
	// ObjectRef is zero for requests that are not about an object, such as /readyz.
	ObjectRef struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		UID         string `json:"uid"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code   int    `json:"code"`
		Reason string `json:"reason"`
	} `json:"responseStatus"`
	RequestReceived time.Time `json:"requestReceivedTimestamp"`
	StageTimestamp  time.Time `json:"stageTimestamp"`
}

// ReadAuditLog returns the entries that match. A request has one with stage ResponseComplete; a watch has one with
// ResponseStarted too. The entry of a request may follow its answer by a moment, so poll for one that must be there.
func (c *Cluster) ReadAuditLog(match func(*AuditEvent) bool) ([]AuditEvent, error) {
	trail, end, err := c.OpenAuditLog()
	if err != nil {
		return nil, err
	}
	defer end()
	return trail.Read(match)
}

// AuditTrail reads an audit log on and on.
type AuditTrail struct {
	r *bufio.Reader
	// since is when the first request that counts was received: those before are of an earlier user of the control plane.
	since time.Time
	// rest is what was read of a line that is still being written.
	rest []byte
}

// OpenAuditLog follows the log from its beginning on, or from where a borrowed control plane was handed over. The function closes it.
func (c *Cluster) OpenAuditLog() (*AuditTrail, func(), error) { return c.followAuditLog(io.SeekStart) }

// FollowAuditLog follows the log from its end on. The function closes it.
func (c *Cluster) FollowAuditLog() (*AuditTrail, func(), error) { return c.followAuditLog(io.SeekEnd) }

func (c *Cluster) followAuditLog(whence int) (*AuditTrail, func(), error) {
	var offset int64
	if whence == io.SeekStart {
		offset = c.auditFrom
	}
	f, err := os.Open(c.AuditLogPath())
	if err != nil {
		return nil, nil, fmt.Errorf("follow audit log: %w", err)
	}
	end := func() { _ = f.Close() } // it was only read
	if _, err := f.Seek(offset, whence); err != nil {
		end()
		return nil, nil, fmt.Errorf("follow audit log: %w", err)
	}
	return &AuditTrail{r: bufio.NewReaderSize(f, 1<<16), since: c.since}, end, nil
}

// Read returns the entries that match of those that came since it was called last.
func (t *AuditTrail) Read(match func(*AuditEvent) bool) (out []AuditEvent, err error) {
	for {
		line, err := t.r.ReadBytes('\n')
		t.rest = append(t.rest, line...)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read audit log: %w", err)
		}
		var e AuditEvent
		// Within a line that is none the API server was killed, or its file was begun again.
		if json.Unmarshal(t.rest, &e) == nil && !e.RequestReceived.Before(t.since) && match(&e) {
			out = append(out, e)
		}
		t.rest = t.rest[:0]
	}
}
