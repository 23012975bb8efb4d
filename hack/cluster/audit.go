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
	f, err := os.Open(c.AuditLogPath())
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	defer f.Close()
	var out []AuditEvent
	r := bufio.NewReaderSize(f, 1<<16)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out, nil // a line without its end is still being written
		}
		if err != nil {
			return nil, fmt.Errorf("read audit log: %w", err)
		}
		var e AuditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			// The API server was killed within this line.
			continue
		}
		if match(&e) {
			out = append(out, e)
		}
	}
}
