// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/clitest"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
)

func TestDoctorOnWorkloads(t *testing.T) {
	s := clitest.OneOfEach()
	s.Budget("a", "web", 1)
	s.Budget("b", "web", 1)
	p := &patient{cluster: s.Cluster(t), now: clitest.Now}
	r := &Report{}
	for _, check := range []func(*Report){p.nodes, p.mixes, p.conflicts, p.bypasses, p.budgets, p.reports} {
		check(r)
	}
	clitest.Goldens(t, "", map[string]string{"doctor.txt": printers.Text}, func(o *command.Options) error { return showReport(o, r) })
	assert.True(t, r.failed())
}

func TestARightIsReadFromItsText(t *testing.T) {
	for text, want := range map[right]authv1.ResourceAttributes{
		"list pods":                  {Verb: "list", Resource: "pods", Namespace: "shop"},
		"create pods/eviction":       {Verb: "create", Resource: "pods", Subresource: "eviction", Namespace: "shop"},
		"watch deployments.apps":     {Verb: "watch", Group: "apps", Resource: "deployments", Namespace: "shop"},
		"patch mixes/status.berth.x": {Verb: "patch", Group: "berth.x", Resource: "mixes", Subresource: "status", Namespace: "shop"},
	} {
		assert.Equal(t, &want, text.attributes("shop"))
	}
}

func TestALeaseThatIsNotRenewedIsNoLeader(t *testing.T) {
	lease := func(holder string, renewed time.Duration) *coordinationv1.Lease {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "berth-scheduler"}}
		l.Spec.HolderIdentity, l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = &holder, new(metav1.NewMicroTime(clitest.Now.Add(-renewed))), new(int32(15))
		return l
	}
	for name, tc := range map[string]struct {
		lease *coordinationv1.Lease
		level Level
		says  string
	}{
		"held and fresh": {lease("a", 3*time.Second), OK, "a holds lease berth-system/berth-scheduler"},
		"not renewed":    {lease("a", time.Minute), Fail, "last renewed 60s ago"},
		"given up":       {lease("", time.Second), Fail, "lease berth-system/berth-scheduler has no holder"},
		"never held":     {nil, Fail, "lease berth-system/berth-scheduler does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset()
			if tc.lease != nil {
				kube = fake.NewClientset(tc.lease)
			}
			r := &Report{}
			(&patient{kube: kube, now: clitest.Now}).lease(context.Background(), r, "scheduler", "berth-system", "berth-scheduler", Fail, "start it")
			require.Len(t, r.Findings, 1)
			assert.Equal(t, tc.level, r.Findings[0].Level)
			assert.Contains(t, r.Findings[0].Message, tc.says)
		})
	}
}

func TestDoctorOnGates(t *testing.T) {
	const old = 5 * time.Minute
	for name, tc := range map[string]struct {
		change     func(*clitest.Shop)
		leaderless bool
		level      Level
		says       string
	}{
		"nobody leads":                {func(*clitest.Shop) {}, true, Fail, "no scheduler is leading, so no slot is assigned to 2 gated pods: "},
		"one leads and does not open": {func(s *clitest.Shop) { s.Pods[0].CreationTimestamp = clitest.Ago(old) }, false, Warn, "a scheduler is leading, but no slot has been assigned for more than a minute to "},
		"a gate for nothing":          {func(*clitest.Shop) {}, false, Warn, "no mix governs 1 gated pod: "},
		"all is well":                 {func(s *clitest.Shop) { s.Pods = s.Pods[1:4] }, false, OK, "no gated pod waits too long"},
		"one that waits for a moment": {func(s *clitest.Shop) { s.Pods = s.Pods[:4]; s.Pods[0].CreationTimestamp = clitest.Ago(time.Second) }, false, OK, "no gated pod waits too long"},
		"let go, and nobody has a mix": {func(s *clitest.Shop) {
			s.Pods = s.Pods[4:]
			s.Pods[0].Spec.SchedulingGates = nil
			s.Pods[0].Annotations = map[string]string{v1alpha1.UngateReasonAnnotation: v1alpha1.UngateReasonNoMix}
		}, false, Warn, "no mix governs"},
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.GatedShop()
			tc.change(s)
			p := &patient{cluster: s.Cluster(t), now: clitest.Now, leaderless: tc.leaderless}
			r := &Report{}
			p.gates(r)
			found := false
			for _, f := range r.Findings {
				found = found || f.Level == tc.level && strings.Contains(f.Message, tc.says)
			}
			assert.True(t, found, "%+v", r.Findings)
			if tc.level == OK {
				assert.Len(t, r.Findings, 1)
			}
		})
	}
}
