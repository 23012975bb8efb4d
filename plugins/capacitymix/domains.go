// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"sync"

	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/mix/domains"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// maxFullDomains is how many domains the reasons of a pod name. The condition of a pod has all reasons, and a label such as that of the
// host name has a domain for each node.
const maxFullDomains = 8

// ErrReasonDomainsFull is the reason for nodes of further domains.
const ErrReasonDomainsFull = "node(s) are in other full domains"

// fullDomains are the reasons for nodes in full domains. Filter is called for many nodes at once.
type fullDomains struct {
	mu    sync.Mutex
	known map[domain]string
}

// domain is the value of a label.
type domain struct{ key, value string }

// refuse returns why a domain of a node admits no pod of the group any more, nil if all admit one.
func (s *preFilterState) refuse(n ledger.Node) *fwk.Status {
	if s.limits == nil {
		return nil
	}
	r, refused := s.limits.Refuse(s.unit, n.Labels())
	if !refused {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, s.full.reason(r))
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
func (f *fullDomains) found() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.known) > 0
}
