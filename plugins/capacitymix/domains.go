// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"sync"

	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/mix/domains"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/capacitymix/nodesample"
)

// maxFullDomains is how many domains the reasons of a pod name. The condition of a pod has all reasons, and a label such as that of the
// host name has a domain for each node.
const maxFullDomains = 8

// ErrReasonDomainsFull is the reason for nodes of further domains.
const ErrReasonDomainsFull = "node(s) are in other full domains"

// limited is how full the domains of the group are, with the reasons that Filter gives for full ones.
type limited struct {
	nodesample.Group
	full fullDomains
}

// limit has the pod kept to limits, nil for none.
func (s *preFilterState) limit(limits *ledger.Limits, unit string, open bool) {
	if s.limited = nil; limits != nil {
		s.limited = &limited{Group: nodesample.Group{Limits: limits, Unit: unit, Open: open}}
	}
}

// around is the group as nodes are sampled and scored by it, nil where no domain is limited.
func (s *preFilterState) around() *nodesample.Group {
	if s.limited == nil {
		return nil
	}
	return &s.limited.Group
}

// fullDomains are the reasons for nodes in full domains. Filter is called for many nodes at once.
type fullDomains struct {
	mu    sync.Mutex
	known map[domain]string
}

// domain is the value of a label.
type domain struct{ key, value string }

// full reports whether a domain of a node admits no pod of the group any more.
func (s *preFilterState) full(n ledger.Node) bool {
	if s.limited == nil {
		return false
	}
	_, refused := s.limited.Limits.Refuse(s.limited.Unit, s.limited.Open, n.Labels())
	return refused
}

// refuse returns why a domain of a node admits no pod of the group any more, nil if all admit one.
func (s *preFilterState) refuse(n ledger.Node) *fwk.Status {
	if s.limited == nil {
		return nil
	}
	r, refused := s.limited.Limits.Refuse(s.limited.Unit, s.limited.Open, n.Labels())
	if !refused {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, s.limited.full.reason(r))
}

func (f *fullDomains) reason(r domains.Refusal) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := domain{r.Key, r.Value}
	if known := f.known[of]; known != "" {
		return known
	}
	if len(f.known) >= maxFullDomains {
		return ErrReasonDomainsFull
	}
	if f.known == nil {
		f.known = map[domain]string{}
	}
	f.known[of] = r.Reason()
	return f.known[of]
}

// found reports whether a node was refused.
func (l *limited) found() bool {
	if l == nil {
		return false
	}
	l.full.mu.Lock()
	defer l.full.mu.Unlock()
	return len(l.full.known) > 0
}
