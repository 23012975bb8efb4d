// SPDX-License-Identifier: Apache-2.0

// Package policies_test writes as Berth's ServiceAccounts to a real API server: the shipped ValidatingAdmissionPolicies let
// pass what the programs write, and refuse everything else that RBAC cannot narrow.
package policies_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true})) }

// scene is a world with the rights and policies of all features.
type scene struct {
	*testenv.World
	scheduler, controller, records, environments client.Client
}

func start(t *testing.T) *scene {
	t.Helper()
	s := &scene{World: testenv.New(t, cluster.Nodes("on-demand", 1)...)}
	for _, feature := range []string{"records", "environments", "environments/services", "placeholders", "records/services", "webhook"} {
		s.ApplyFiles("manifests/rbac/" + feature)
	}
	s.scheduler, s.controller = s.as(cluster.BerthSchedulerUser), s.as(cluster.BerthControllerUser)
	s.records, s.environments = s.as(cluster.BerthRecordsUser), s.as(cluster.BerthEnvironmentsUser)
	s.waitRefused("metadata.labels:", func() error {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "not-an-environment"}}
		return s.environments.Create(s.Ctx, ns, client.DryRunAll)
	})
	return s
}

// waitRefused waits until a policy is in force that refuses a write for a field.
func (s *scene) waitRefused(field string, try func() error) {
	s.T.Helper()
	s.Fails("the policy of "+field+" is in force", func(err error) bool { return refusedFor(err, field) }, try)
}

// as returns a client of a user.
func (s *scene) as(user string) client.Client {
	s.T.Helper()
	config, err := s.Cluster.ConfigFor(user)
	require.NoError(s.T, err)
	c, err := client.New(config, client.Options{Scheme: s.Client.Scheme()})
	require.NoError(s.T, err)
	return c
}

// patch has a client change an object, in a dry run.
func patch[T client.Object](s *scene, c client.Client, before T, change func(T)) error {
	after := before.DeepCopyObject().(T)
	change(after)
	return c.Patch(s.Ctx, after, client.MergeFrom(before), client.DryRunAll)
}

// refusedFor reports whether a policy refuses a write for a field.
func refusedFor(err error, field string) bool {
	return apierrors.IsForbidden(err) && field != "" &&
		strings.Contains(err.Error(), "ValidatingAdmissionPolicy") && strings.Contains(err.Error(), field)
}
