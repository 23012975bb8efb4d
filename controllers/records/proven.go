// SPDX-License-Identifier: Apache-2.0

package records

import (
	"sync"

	"berth.dev/berth/apis/v1alpha1"
)

// proven are the templates with which a record was deployed since this process started: the API server has accepted objects of
// all their manifests. It may still refuse other values in them, which is rare.
type proven struct {
	// templates are the last generations that were accepted, by UID.
	templates sync.Map
	// records are the UIDs of those that were refused. Without validation their objects would be created and deleted again and again.
	records sync.Map
}

// trusts reports whether a record can be deployed for the first time without validation.
func (p *proven) trusts(t *v1alpha1.DeploymentTemplate, rec *v1alpha1.DeploymentRecord) bool {
	good, known := p.templates.Load(t.UID)
	_, refused := p.records.Load(rec.UID)
	return known && good == t.Generation && !refused
}

// worked notes that a record was deployed with a template.
func (p *proven) worked(t *v1alpha1.DeploymentTemplate, rec *v1alpha1.DeploymentRecord) {
	p.templates.Store(t.UID, t.Generation)
	p.forget(rec)
}

// failed notes that a record was refused.
func (p *proven) failed(rec *v1alpha1.DeploymentRecord) { p.records.Store(rec.UID, true) }

// forget drops a record that is deleted.
func (p *proven) forget(rec *v1alpha1.DeploymentRecord) { p.records.Delete(rec.UID) }
