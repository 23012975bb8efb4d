// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"

	"berth.dev/berth/apis/v1alpha1"
)

// recordResources are those of DeploymentRecords, which a cluster has together or not at all.
var recordResources = []struct {
	kind, plural string
	fields       [][]string
}{
	{"DeploymentRecord", "deploymentrecords", [][]string{{"spec", "enforcement"}, {"status", "nfrWindows"}}},
	{"DeploymentTemplate", "deploymenttemplates", [][]string{{"spec", "selection"}, {"status", "recordCount"}}},
}

// records looks at the kinds of DeploymentRecords. They are off unless someone
// wants them, so a cluster without them is nothing to talk about; one with half of them is.
func (p *patient) records(ctx context.Context, r *Report, serves func(plural string) bool) {
	if !serves(recordResources[0].plural) && !serves(recordResources[1].plural) {
		return
	}
	for _, resource := range recordResources {
		check, name := resource.kind+" resource", resource.plural+"."+v1alpha1.GroupName
		if serves(resource.plural) {
			p.crd(ctx, r, true, check, name, resource.fields)
			continue
		}
		r.add(Warn, check, installCRDs, "%s is not served, and DeploymentRecords require it", name)
	}
}
