// SPDX-License-Identifier: Apache-2.0

package records

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"berth.dev/berth/apis/v1alpha1"
)

// proven are the templates with which a record was deployed since this process started: the API server has accepted objects of
// all their manifests. It may still refuse other values in them, which is rare.
type proven struct {
	mu sync.Mutex
	// templates are the last generations that were accepted, by UID.
	templates map[types.UID]int64
	// records were refused. Without validation their objects would be created and deleted again and again.
	records sets.Set[types.UID]
}

// trusts reports whether a record can be deployed for the first time without validation.
func (p *proven) trusts(t *v1alpha1.DeploymentTemplate, rec *v1alpha1.DeploymentRecord) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	good, known := p.templates[t.UID]
	return known && good == t.Generation && !p.records.Has(rec.UID)
}

// worked notes that a record was deployed with a template.
func (p *proven) worked(t *v1alpha1.DeploymentTemplate, rec *v1alpha1.DeploymentRecord) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.templates == nil {
		p.templates = map[types.UID]int64{}
	}
	p.templates[t.UID] = t.Generation
	p.records.Delete(rec.UID)
}

// failed notes that a record was refused.
func (p *proven) failed(rec *v1alpha1.DeploymentRecord) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.records == nil {
		p.records = sets.New[types.UID]()
	}
	p.records.Insert(rec.UID)
}

// forget drops a record that is deleted.
func (p *proven) forget(rec *v1alpha1.DeploymentRecord) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records.Delete(rec.UID)
}
