// SPDX-License-Identifier: Apache-2.0

// Package history is what happened in a run: each revision of its pods and nodes as etcd has them, and what the run did. It is judged
// offline.
package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"

	corev1 "k8s.io/api/core/v1"
)

// Change is a revision of an object.
type Change struct {
	Revision int64  `json:"revision"`
	Key      string `json:"key"`
	// Pod or Node is the object, neither if it was deleted.
	Pod  *corev1.Pod  `json:"pod,omitempty"`
	Node *corev1.Node `json:"node,omitempty"`
}

// Run is what a run did.
type Run struct {
	Seed uint64 `json:"seed"`
	// Operations and Faults are what the traffic and the nemesis did, in order.
	Operations []string `json:"operations"`
	Faults     []string `json:"faults"`
}

// History is a run with its changes, by revision.
type History struct {
	Run
	Changes []Change
}

// Write writes a history: the run, and then each change, a line of JSON each.
func (h *History) Write(w io.Writer) error {
	out := json.NewEncoder(w)
	err := out.Encode(&h.Run)
	for i := range h.Changes {
		err = errors.Join(err, out.Encode(&h.Changes[i]))
	}
	return err
}

// Read reads what Write wrote.
func Read(r io.Reader) (*History, error) {
	in, h := json.NewDecoder(bufio.NewReader(r)), &History{}
	if err := in.Decode(&h.Run); err != nil {
		return nil, err
	}
	for {
		var c Change
		switch err := in.Decode(&c); {
		case errors.Is(err, io.EOF):
			return h, nil
		case err != nil:
			return nil, err
		}
		h.Changes = append(h.Changes, c)
	}
}
