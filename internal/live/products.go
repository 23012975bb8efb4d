// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// RecordsResource and EnvironmentsResource are how problems call the lists of DeploymentRecords and Environments.
const (
	RecordsResource      = "deploymentrecords." + v1alpha1.GroupName
	EnvironmentsResource = "environments." + v1alpha1.GroupName
)

// LoadProducts reads the DeploymentRecords and Environments of a namespace, or all with "".
func (c *Cluster) LoadProducts(ctx context.Context, cl client.Client, namespace string) error {
	l := &loader{ctx: ctx, client: cl}
	c.Records = objects[*v1alpha1.DeploymentRecord](l, namespace, RecordsResource, &v1alpha1.DeploymentRecordList{})
	c.Environments = objects[*v1alpha1.Environment](l, namespace, EnvironmentsResource, &v1alpha1.EnvironmentList{})
	c.Problems = append(c.Problems, l.problems...)
	return l.err
}
