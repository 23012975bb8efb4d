// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"sync"

	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/capacitymix/nodesample"
)

// maxNamedDomains is how many domains the reasons of a pod name: of those that are full, and of those in quarantine. The condition of a
// pod has all reasons, and a label such as that of the host name has a domain for each node.
const maxNamedDomains = 8

// ErrReasonDomainsFull is the reason for nodes of further domains.
const ErrReasonDomainsFull = "node(s) are in other full domains"

// limited is how full the domains of the group are, with the reasons that Filter gives for full ones.
type limited struct {
	nodesample.Group
	full namedDomains
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

// namedDomains are the reasons for nodes in domains. Filter is called for many nodes at once.
type namedDomains struct {
	mu    sync.Mutex
	known map[domain]string
}

// domain is the value of a label or, without a key, of those that identify an interruption domain.
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
	reason, _ := s.limited.full.reason(domain{r.Key, r.Value}, r.Reason, ErrReasonDomainsFull)
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
}

// reason returns the reason for a domain, the one for others where there are too many domains to be named, and whether it is the first.
func (d *namedDomains) reason(of domain, text func() string, others string) (reason string, first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.known[of]; known != "" {
		return known, false
	}
	if len(d.known) >= maxNamedDomains {
		return others, false
	}
	if first = d.known == nil; first {
		d.known = map[domain]string{}
	}
	d.known[of] = text()
	return d.known[of], first
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
