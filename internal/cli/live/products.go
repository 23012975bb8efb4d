// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/console"
)

// LoadProducts reads the DeploymentRecords and Environments of a namespace, or all with "".
func (c *Cluster) LoadProducts(ctx context.Context, cl client.Client, namespace string) error {
	l := &loader{ctx: ctx, client: cl}
	c.Records = objects[*v1alpha1.DeploymentRecord](l, namespace, console.RecordsResource, &v1alpha1.DeploymentRecordList{})
	c.Environments = objects[*v1alpha1.Environment](l, namespace, console.EnvironmentsResource, &v1alpha1.EnvironmentList{})
	c.Problems = append(c.Problems, l.problems...)
	return l.err
}
