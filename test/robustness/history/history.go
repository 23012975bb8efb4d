// SPDX-License-Identifier: Apache-2.0

// Package history is what happened in a run: each revision of its objects as etcd has them, the writes of each program as the audit log
// has them, the logs of the programs, and what the run did. It is judged offline.
package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/robustness/plan"
)

// Change is a revision of an object.
type Change struct {
	Revision int64  `json:"revision"`
	Key      string `json:"key"`
	// At is when the recorder received it: never before the revision, and late while etcd does not run.
	At time.Time `json:"at"`
	// Listed is set where the object was there when the recording began, as it was then.
	Listed bool `json:"listed,omitempty"`
	// One of these is the object, none if it was deleted. A budget or a mix that was made for a product is a Child, too.
	Pod    *corev1.Pod                   `json:"pod,omitempty"`
	Node   *corev1.Node                  `json:"node,omitempty"`
	Budget *policyv1.PodDisruptionBudget `json:"budget,omitempty"`
	Mix    *v1alpha1.CapacityMix         `json:"mix,omitempty"`
	Owner  *Owner                        `json:"owner,omitempty"`
	// Products are what Berth makes other objects for, which are Children.
	Record      *v1alpha1.DeploymentRecord `json:"record,omitempty"`
	Environment *v1alpha1.Environment      `json:"environment,omitempty"`
	Child       *Child                     `json:"child,omitempty"`
}

// Owner is what is kept of a ReplicaSet or a StatefulSet.
type Owner struct {
	UID         types.UID         `json:"uid"`
	Replicas    int32             `json:"replicas"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Request is a completed request of one of Berth's programs: a write, or one that was forbidden.
type Request struct {
	// Program is the scheduler or the controller, Replica the name of the process.
	Program Program `json:"program"`
	Replica string  `json:"replica"`
	Verb    string  `json:"verb"`
	// Resource includes the subresource: pods/binding.
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
	Code      int    `json:"code"`
	// At is when the API server received it, Done when it was answered.
	At   time.Time `json:"at"`
	Done time.Time `json:"done"`
}

// OK reports whether the request succeeded.
func (r *Request) OK() bool { return r.Code >= 200 && r.Code < 300 }

// Program is one of Berth's programs.
type Program string

// Programs.
const (
	Scheduler  Program = "berth-scheduler"
	Controller Program = "berth-controller"
	// EnvironmentController is the process that runs Environments.
	EnvironmentController Program = "berth-environments"
)

// Step is what the run did.
type Step struct {
	Text  string    `json:"text"`
	Fault bool      `json:"fault,omitempty"`
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended"`
	// Down is set where the API server was killed, and not ready again before Ended. Outage is set where it did not answer for so long
	// that a controller has to notice.
	Down   bool `json:"down,omitempty"`
	Outage bool `json:"outage,omitempty"`
	// Removed is the resource whose CustomResourceDefinition was not there for a while.
	Removed string `json:"removed,omitempty"`
	// Rest is set where nothing happened between Began and Ended, and all mixes were exact.
	Rest bool `json:"rest,omitempty"`
}

// Run is what a run was, and what it did.
type Run struct {
	Seed uint64 `json:"seed"`
	// Versions are those of the components, Configurations the configuration files of the programs.
	Versions       map[string]string `json:"versions,omitempty"`
	Configurations map[string]string `json:"configurations,omitempty"`
	// Grace is how long the controller moves nothing after an outage or a start, MoveTimeout after how long a move has failed. It moves
	// one replica of a workload at a time.
	Grace       time.Duration `json:"grace,omitempty"`
	MoveTimeout time.Duration `json:"moveTimeout,omitempty"`
	// Plan is what the run was to do: it can be repeated after the generator has changed.
	Plan *plan.Plan `json:"plan,omitempty"`
	// Steps are what the traffic and the nemesis did, in order.
	Steps []Step `json:"steps"`
}

// Line is a line of the log of a program.
type Line struct {
	Program string `json:"program"`
	Text    string `json:"text"`
}

// History is a run with its changes, by revision, and the requests of Berth's programs, by time.
type History struct {
	Run
	Changes  []Change
	Requests []Request
	Logs     []Line
}

// line is a line of a file: one of these.
type line struct {
	Run     *Run     `json:"run,omitempty"`
	Change  *Change  `json:"change,omitempty"`
	Request *Request `json:"request,omitempty"`
	Log     *Line    `json:"log,omitempty"`
}

// Write writes a history: the run, and then each change, request and line of a log, a line of JSON each.
func (h *History) Write(w io.Writer) error {
	out := json.NewEncoder(w)
	err := out.Encode(line{Run: &h.Run})
	for i := range h.Changes {
		err = errors.Join(err, out.Encode(line{Change: &h.Changes[i]}))
	}
	for i := range h.Requests {
		err = errors.Join(err, out.Encode(line{Request: &h.Requests[i]}))
	}
	for i := range h.Logs {
		err = errors.Join(err, out.Encode(line{Log: &h.Logs[i]}))
	}
	return err
}

// Read reads what Write wrote.
func Read(r io.Reader) (*History, error) {
	in, h := json.NewDecoder(bufio.NewReader(r)), &History{}
	for {
		var l line
		switch err := in.Decode(&l); {
		case errors.Is(err, io.EOF):
			return h, nil
		case err != nil:
			return nil, err
		case l.Run != nil:
			h.Run = *l.Run
		case l.Change != nil:
			h.Changes = append(h.Changes, *l.Change)
		case l.Request != nil:
			h.Requests = append(h.Requests, *l.Request)
		case l.Log != nil:
			h.Logs = append(h.Logs, *l.Log)
		}
	}
}
