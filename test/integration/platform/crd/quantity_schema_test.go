// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answer bounds a request: the API server's own bound ends the answer, but not the computation.
const answer = 20 * time.Second

// quantities are specs of each kind that has quantities, with a format for all of them at once.
var quantities = []struct {
	kind   kind
	format string
	fields []string
}{
	{
		resourceLimit, "{cpu: %[1]s, cpuLimit: %[1]s, memory: %[1]s, memoryLimit: %[1]s, ephemeralStorage: %[1]s, volumes: {a: {size: %[1]s}}}",
		[]string{"cpu", "cpuLimit", "memory", "memoryLimit", "ephemeralStorage", "volumes[a].size"},
	},
	{reservation, "{podSelector: {}, cpu: %[1]s, memory: %[1]s, ephemeralStorage: %[1]s}", []string{"cpu", "memory", "ephemeralStorage"}},
	{schedulingPolicy, "{podSelector: {}, score: {functions: [{name: Spreading, coefficient: %[1]s}]}}", []string{"score.functions[0].coefficient"}},
	{kind{"DatabaseBackup", "databasebackups"}, "{environment: e, method: Dump, storage: {size: %[1]s}}", []string{"storage.size"}},
	{
		kind{"DatabaseBackupSchedule", "databasebackupschedules"},
		"{environment: e, method: Dump, schedule: '0 3 * * *', storage: {size: %[1]s}}",
		[]string{"storage.size"},
	},
	{
		kind{"Environment", "environments"},
		"{stack: {backend: {container: {image: registry.example/b, resources: {cpu: %[1]s, memory: %[1]s, disk: %[1]s}}}}}",
		[]string{"stack.backend.container.resources.cpu", "stack.backend.container.resources.memory", "stack.backend.container.resources.disk"},
	},
	{
		kind{"DeploymentRecord", "deploymentrecords"},
		"{addons: [], deploymentUnit: {functions: [{functionKey: f, image: registry.example/f, resources: {" + allocation + "}}]}}",
		allocated("deploymentUnit.functions[0].resources"),
	},
	{
		kind{"DeploymentTemplate", "deploymenttemplates"},
		"{functionManifests: ['{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}'], resourceRequirements: {" + allocation + "}}",
		allocated("resourceRequirements"),
	},
}

const allocation = "cpu: %[1]s, cpuLimit: %[1]s, memory: %[1]s, memoryLimit: %[1]s"

func allocated(path string) (fields []string) {
	for _, field := range []string{"cpu", "cpuLimit", "memory", "memoryLimit"} {
		fields = append(fields, path+"."+field)
	}
	return fields
}

// The API server computes with the power of ten of a small quantity, and the budget of a rule does not count that: one such text once
// occupied a processor of the API server for hours.
func TestTheServerComputesNoLargePowerOfTen(t *testing.T) {
	t.Parallel()
	for _, q := range quantities {
		for _, text := range []string{"1e-99999999", "1E-2147483647", "1e2147483647", "0.1e-9223372036854775807", "1e-100", "1e1000"} {
			t.Run(q.kind.name+"/"+text, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), answer)
				defer cancel()
				o := object(t, q.kind, "web", fmt.Sprintf(q.format, "'"+text+"'"))
				_, err := objects(t, q.kind).Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				require.True(t, apierrors.IsInvalid(err), err)
				for _, field := range q.fields {
					assert.ErrorContains(t, err, "spec."+field+": Invalid value: ")
				}
			})
		}
	}
}

func TestTheServerComputesNoLargePowerOfTenOfAChange(t *testing.T) {
	t.Parallel()
	for _, q := range quantities {
		t.Run(q.kind.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), answer)
			defer cancel()
			stored, err := objects(t, q.kind).Create(ctx, unnamed(object(t, q.kind, "", fmt.Sprintf(q.format, "'1'"))), metav1.CreateOptions{})
			require.NoError(t, err)
			o := object(t, q.kind, stored.GetName(), fmt.Sprintf(q.format, "'1e-99999999'"))
			o.SetResourceVersion(stored.GetResourceVersion())
			_, err = objects(t, q.kind).Update(ctx, o, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			require.True(t, apierrors.IsInvalid(err), err)
		})
	}
}

func TestAQuantityIsShortAndMayHaveAnExponent(t *testing.T) {
	t.Parallel()
	for _, q := range quantities {
		t.Run(q.kind.name, func(t *testing.T) {
			t.Parallel()
			for _, text := range []string{"100m", "1.5", "1e2", "1E2", "1e+2", "100e-1", "0.0100e3", "1000e-3"} {
				_, err := create(t, q.kind, fmt.Sprintf(q.format, "'"+text+"'"))
				assert.NoError(t, err, text)
			}
			_, err := create(t, q.kind, fmt.Sprintf(q.format, "'"+strings.Repeat("1", 65)+"'"))
			require.True(t, apierrors.IsInvalid(err), err)
			for _, field := range q.fields {
				path := strings.NewReplacer("[a]", ".a").Replace("spec." + field)
				assert.ErrorContains(t, err, path+": Too long: may not be more than ")
			}
		})
	}
}
