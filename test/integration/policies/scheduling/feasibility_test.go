// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

type template = func(*corev1.PodTemplateSpec)

func tainted(key string, effect corev1.TaintEffect) func(*cluster.NodeSpec) {
	return func(n *cluster.NodeSpec) { n.Taints = []corev1.Taint{{Key: key, Effect: effect}} }
}

// spreadOver requires that an app is spread over zones with a skew of at most one.
func spreadOver(app string) template {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: builders.Labels(app)},
		}}
	}
}

// Whatever a policy prefers, a pod gets no node that a rule of Kubernetes rules out: each rule with a pod that it lets pass, and
// one that waits for its reason.
func TestFeasibilityComesBeforeAnyPolicy(t *testing.T) {
	none := func(*testenv.World) {}
	for name, rule := range map[string]struct {
		node       func(*cluster.NodeSpec)
		before     func(*testenv.World)
		pass, fail []template
		reason     string
	}{
		"capacity": {before: none, pass: []template{builders.CPU("3")}, fail: []template{builders.CPU("5")}, reason: "Insufficient cpu"},
		"cordons":  {before: func(w *testenv.World) { w.Cordon(true, "node") }, pass: []template{builders.TolerateAll}, reason: "unschedulable"},
		"taints that exclude": {
			node: tainted("dedicated", corev1.TaintEffectNoSchedule), before: none, pass: []template{builders.TolerateAll}, reason: "untolerated taint",
		},
		"taints that evict": {
			node: tainted("dedicated", corev1.TaintEffectNoExecute), before: none, pass: []template{builders.TolerateAll}, reason: "untolerated taint",
		},
		"node labels": {
			before: none, pass: []template{builders.RequireNodeLabel("disk", corev1.NodeSelectorOpDoesNotExist)},
			fail: []template{builders.OnNodesWith("disk", "ssd")}, reason: "didn't match Pod's node affinity/selector",
		},
		"anti-affinity": {
			before: func(w *testenv.World) {
				w.Create(builders.Pod("rival", "rival"))
				w.WaitBound("rival", 1)
			},
			pass: []template{builders.AwayFrom("other")}, fail: []template{builders.AwayFrom("rival")}, reason: "didn't match pod anti-affinity rules",
		},
		"spreading": {
			before: func(w *testenv.World) {
				w.AddNodes(cluster.NodeSpec{Name: "full", Zone: "zone-z", CPU: "1", Memory: "16Gi"})
				w.Create(builders.Pod("fills", "fills", builders.CPU("1"), builders.OnNode("full")))
				w.WaitBound("fills", 1)
				w.Create(builders.Pod("second", "first"))
				w.WaitBound("second", 1)
			},
			pass: []template{spreadOver("pass")}, fail: []template{spreadOver("second"), asApp("second")}, reason: "didn't match pod topology spread constraints",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := cluster.NodeSpec{Name: "node", Zone: "zone-a", CPU: "4", Memory: "16Gi"}
			if rule.node != nil {
				rule.node(&n)
			}
			w := testenv.New(t, n)
			start(w)
			w.Create(builders.SchedulingPolicy("all"))
			rule.before(w)
			pass := builders.Pod("pass", "pass", rule.pass...)
			w.Create(pass)
			w.WaitBound("pass", 1)
			w.Delete(pass)
			w.Create(builders.Pod("fail", "fail", rule.fail...))
			w.Within(30*time.Second, "the pod waits", func() (bool, string) {
				pods := testenv.Where(w.Pods(), func(p *corev1.Pod) bool { return p.Name == "fail" })
				require.Len(t, pods, 1)
				reason := testenv.Unschedulable(&pods[0])
				return reason != "", reason
			})
			w.WaitEvent("fail", "it waits: "+rule.reason, func(e *corev1.Event) bool {
				return e.Reason == "FailedScheduling" && strings.Contains(e.Message, rule.reason)
			})
		})
	}
}

// asApp gives a pod the label of another app.
func asApp(app string) template {
	return func(t *corev1.PodTemplateSpec) { t.Labels = builders.Labels(app) }
}

// The API server accepts no pod that requests more than its limit, and binds no pod twice.
func TestTheAPIServerRefusesWhatNoSchedulerMayDo(t *testing.T) {
	w := testenv.New(t, six()...)
	start(w)
	above := builders.Pod("web", "above", builders.CPU("2"), func(t *corev1.PodTemplateSpec) {
		t.Spec.Containers[0].Resources.Limits = builders.Requests("1", "1Gi")
	})
	require.ErrorContains(t, w.DryRun(above), "must be less than or equal to cpu limit")

	w.Create(builders.SchedulingPolicy("all"), builders.Pod("web", "web-0"))
	pod := w.WaitBound("web", 1)[0]
	again := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-5"}}
	err := w.Client.SubResource("binding").Create(w.Ctx, &pod, again)
	require.True(t, apierrors.IsConflict(err), "%v", err)
}

func TestTheQualityOfServiceIsThatOfRequestsAndLimits(t *testing.T) {
	w := testenv.New(t, six()...)
	with := func(requests, limits corev1.ResourceList) template {
		return func(t *corev1.PodTemplateSpec) {
			t.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: requests, Limits: limits}
		}
	}
	second := func(t *corev1.PodTemplateSpec) {
		t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: "second", Image: "example.com/app:1"})
	}
	all := builders.Requests("1", "1Gi")
	for name, test := range map[string]struct {
		template []template
		want     corev1.PodQOSClass
	}{
		"nothing is set":                    {[]template{with(nil, nil)}, corev1.PodQOSBestEffort},
		"requests equal limits":             {[]template{with(all, all)}, corev1.PodQOSGuaranteed},
		"only limits: requests follow them": {[]template{with(nil, all)}, corev1.PodQOSGuaranteed},
		"only requests":                     {[]template{with(all, nil)}, corev1.PodQOSBurstable},
		"limits above requests":             {[]template{with(all, builders.Requests("2", "1Gi"))}, corev1.PodQOSBurstable},
		"CPU alone is limited":              {[]template{with(nil, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")})}, corev1.PodQOSBurstable},
		"one of two containers has limits":  {[]template{with(all, all), second}, corev1.PodQOSBurstable},
	} {
		t.Run(name, func(t *testing.T) {
			p := builders.Pod("web", "web-0", test.template...)
			require.NoError(t, w.DryRun(p))
			assert.Equal(t, test.want, p.Status.QOSClass)
		})
	}
}
