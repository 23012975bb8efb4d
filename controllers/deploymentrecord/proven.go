// SPDX-License-Identifier: Apache-2.0

package deploymentrecord

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
)

// proven are the templates with which a record was deployed since this process
// began: the API server has taken objects of all their manifests. Their values may
// still be refused, which is rare.
type proven struct {
	mu sync.Mutex
	// generations are the last ones, by UID.
	generations map[types.UID]int64
}

func (p *proven) has(t *v1alpha1.DeploymentTemplate) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	generation, known := p.generations[t.UID]
	return known && generation == t.Generation
}

func (p *proven) add(t *v1alpha1.DeploymentTemplate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.generations == nil {
		p.generations = map[types.UID]int64{}
	}
	p.generations[t.UID] = t.Generation
}
