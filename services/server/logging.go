// SPDX-License-Identifier: Apache-2.0

package server

import (
	"log"
	"strings"

	"github.com/go-logr/logr"
)

// ErrorLog is the ErrorLog of an http.Server, whose messages are mostly about peers that do not use TLS. It writes at level 2: anyone can
// cause them.
func ErrorLog(l logr.Logger) *log.Logger { return log.New(lines{l}, "", 0) }

type lines struct{ log logr.Logger }

func (l lines) Write(p []byte) (int, error) {
	l.log.V(2).Info("Connection failed", "message", strings.TrimSpace(string(p)))
	return len(p), nil
}
