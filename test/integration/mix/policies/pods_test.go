// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// pod creates one that others have written to as well.
func (s *scene) pod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	s.T.Helper()
	p := builders.Pod("web", name, builders.ByDefault)
	p.Annotations = map[string]string{"example.com/theirs": "1"}
	p.Finalizers = nil
	for _, change := range changes {
		change(p)
	}
	s.Create(p)
	return p
}

func gated(p *corev1.Pod) {
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}, {Name: "example.com/theirs"}}
}

func bound(p *corev1.Pod) { p.Spec.NodeName = "on-demand-0" }

// What the two programs write to pods, and what they may not.
func TestPodUpdatesTouchOnlyTheFieldsOfBerth(t *testing.T) {
	s := start(t)
	plain, waiting := s.pod("plain", bound), s.pod("waiting", gated)
	foreign := s.pod("foreign", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/theirs"}} })
	open := func(p *corev1.Pod) { p.Spec.SchedulingGates = p.Spec.SchedulingGates[1:] }
	limit := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"karpenter.sh/capacity-type": "spot"} }
	tolerate := func(p *corev1.Pod) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "spot", Operator: corev1.TolerationOpExists})
	}
	for name, tc := range map[string]struct {
		pod    *corev1.Pod
		change func(*corev1.Pod)
		want   string // empty: passes
	}{
		"a slot":                  {plain, func(p *corev1.Pod) { p.Annotations[v1alpha1.SlotAnnotation] = "3" }, ""},
		"a deletion cost":         {plain, func(p *corev1.Pod) { p.Annotations[corev1.PodDeletionCost] = "-3" }, ""},
		"nothing":                 {plain, func(*corev1.Pod) {}, ""},
		"the gate, with a claim":  {waiting, func(p *corev1.Pod) { open(p); limit(p); tolerate(p); p.Annotations[v1alpha1.ClaimAnnotation] = "x" }, ""},
		"another's annotation":    {plain, func(p *corev1.Pod) { p.Annotations["example.com/theirs"] = "2" }, "metadata.annotations:"},
		"a new annotation":        {plain, func(p *corev1.Pod) { p.Annotations["prometheus.io/scrape"] = "true" }, "metadata.annotations:"},
		"an annotation goes":      {plain, func(p *corev1.Pod) { p.Annotations = nil }, "metadata.annotations:"},
		"a prefix that is longer": {plain, func(p *corev1.Pod) { p.Annotations["berth.dev.example.com/x"] = "2" }, "metadata.annotations:"},
		"a label":                 {plain, func(p *corev1.Pod) { p.Labels["app"] = "db" }, "metadata.labels:"},
		"a label of Berth":        {plain, func(p *corev1.Pod) { p.Labels[v1alpha1.EnvironmentLabel] = "x" }, "metadata.labels:"},
		"no labels":               {plain, func(p *corev1.Pod) { p.Labels = nil }, "metadata.labels:"},
		"a finalizer":             {plain, func(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} }, "metadata.finalizers:"},
		"an owner": {plain, func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}}
		}, "metadata.ownerReferences"},
		"an image":                {plain, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "evil.example/x" }, "spec:"},
		"a deadline":              {plain, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(1)) }, "spec:"},
		"a toleration":            {plain, tolerate, "spec:"},
		"another's gate":          {waiting, func(p *corev1.Pod) { p.Spec.SchedulingGates = p.Spec.SchedulingGates[:1] }, "spec.schedulingGates:"},
		"a pod that others gated": {foreign, limit, "spec:"},
	} {
		for user, c := range map[string]client.Client{"scheduler": s.scheduler, "controller": s.controller} {
			t.Run(name+" by the "+user, func(t *testing.T) {
				s.judge(t, patch(s, c, testenv.Read(s.World, tc.pod.Name, &corev1.Pod{}), tc.change), tc.want)
			})
		}
	}
}

// judge demands that a write passes, or is refused for a field.
func (s *scene) judge(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" {
		require.NoError(t, err)
		return
	}
	assert.True(t, refusedFor(err, want), "wanted %q refused: %v", want, err)
}

func TestTheSchedulerWritesOnlyItsPartOfAPodsStatus(t *testing.T) {
	s := start(t)
	// No scheduler runs here. The API server refuses a nominated node on a pod that is bound.
	p, waiting := s.pod("plain", bound), s.pod("waiting")
	// An address that the kubelet adds between the read and the patch would be a second one, which is invalid.
	testenv.WaitFor(s.World, p.Name, "it has its address", func(p *corev1.Pod) bool { return p.Status.PodIP != "" })
	status := func(p *corev1.Pod, change func(*corev1.Pod)) error {
		before := testenv.Read(s.World, p.Name, &corev1.Pod{})
		after := before.DeepCopy()
		change(after)
		// As kube-scheduler does: a JSON merge patch would take back the conditions that the kubelet writes meanwhile.
		return s.scheduler.Status().Patch(s.Ctx, after, client.StrategicMergeFrom(before), client.DryRunAll)
	}
	const nominated = "a nominated node"
	condition := func(kind corev1.PodConditionType) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: "Test"})
		}
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"that it is not scheduled": {condition(corev1.PodScheduled), ""},
		"that it is preempted":     {condition(corev1.DisruptionTarget), ""},
		nominated:                  {func(p *corev1.Pod) { p.Status.NominatedNodeName = "on-demand-0" }, ""},
		"that it is ready":         {condition("example.com/Ready"), "status.conditions:"},
		"that it is not ready":     {condition(corev1.PodReady), "status.conditions:"},
		"a phase":                  {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, "status:"},
		"an address":               {func(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = "10.9.9.9", []corev1.PodIP{{IP: "10.9.9.9"}} }, "status:"},
		"a label":                  {func(p *corev1.Pod) { p.Labels["app"] = "db" }, "metadata.labels:"},
		"an annotation":            {func(p *corev1.Pod) { p.Annotations["prometheus.io/scrape"] = "true" }, "metadata.annotations:"},
	} {
		t.Run(name, func(t *testing.T) {
			of := p
			if name == nominated {
				of = waiting
			}
			s.judge(t, status(of, tc.change), tc.want)
		})
	}
}

func TestABindingCarriesOnlyAnnotationsOfBerth(t *testing.T) {
	s := start(t)
	p := s.pod("unbound", func(p *corev1.Pod) { p.Spec.SchedulerName = "nobody" })
	bind := func(key string) error {
		b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: "1"}}, Target: corev1.ObjectReference{Kind: "Node", Name: "on-demand-0"}}
		return s.scheduler.SubResource("binding").Create(s.Ctx, p.DeepCopy(), b, client.DryRunAll)
	}
	s.judge(t, bind(v1alpha1.SlotAnnotation), "")
	s.judge(t, bind(corev1.PodDeletionCost), "")
	s.judge(t, bind("prometheus.io/scrape"), "metadata.annotations:")
}

func TestPodDeletions(t *testing.T) {
	s := start(t)
	labelled := func(key string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Labels[key] = "x" } }
	claimed := func(p *corev1.Pod) { p.Annotations[v1alpha1.ClaimAnnotation] = "x/spot" }
	unbound := func(p *corev1.Pod) { p.Spec.SchedulerName = "nobody" }
	for name, tc := range map[string]struct {
		by     client.Client
		change []func(*corev1.Pod)
		victim bool
		want   string
	}{
		"a pod":                   {s.scheduler, []func(*corev1.Pod){bound}, false, "spec.nodeName:"},
		"a victim":                {s.scheduler, []func(*corev1.Pod){bound}, true, ""},
		"a claim without a node":  {s.scheduler, []func(*corev1.Pod){unbound, claimed}, false, ""},
		"a claim with a node":     {s.scheduler, []func(*corev1.Pod){bound, claimed}, false, "spec.nodeName:"},
		"no claim and no node":    {s.scheduler, []func(*corev1.Pod){unbound}, false, "spec.nodeName:"},
		"what a node cannot lack": {s.scheduler, []func(*corev1.Pod){bound, func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }}, true, "spec.priority:"},
		"an environment's":        {s.environments, []func(*corev1.Pod){bound, labelled(v1alpha1.EnvironmentLabel)}, false, ""},
		"one of no environment":   {s.environments, []func(*corev1.Pod){bound}, false, "metadata.labels:"},
		"another product's":       {s.controller, []func(*corev1.Pod){bound, labelled(v1alpha1.EnvironmentLabel)}, false, "metadata.labels:"},
		"a placeholder":           {s.controller, []func(*corev1.Pod){bound, labelled(v1alpha1.PlaceholderLabel)}, false, ""},
		"another pod":             {s.controller, []func(*corev1.Pod){bound}, false, "metadata.labels:"},
		"another pod, claimed":    {s.controller, []func(*corev1.Pod){unbound, claimed}, false, "metadata.labels:"},
	} {
		t.Run(name, func(t *testing.T) {
			s.T = t
			p := s.pod("p-"+strings.ToLower(strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(name)), tc.change...)
			if tc.victim {
				s.preempt(p)
			}
			s.judge(t, tc.by.Delete(s.Ctx, p, client.DryRunAll, client.GracePeriodSeconds(0)), tc.want)
		})
	}
}

// preempt writes to a pod what kube-scheduler does before it deletes it. A condition that is old is withdrawn by the disruption
// controller.
func (s *scene) preempt(p *corev1.Pod) {
	s.T.Helper()
	// KWOK, which plays the kubelet, replaces the conditions of a pod that it starts.
	p = testenv.WaitFor(s.World, p.Name, "it runs", testenv.Ready)
	before := p.DeepCopy()
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, LastTransitionTime: metav1.Now(),
	})
	require.NoError(s.T, s.scheduler.Status().Patch(s.Ctx, p, client.StrategicMergeFrom(before)))
}
