// SPDX-License-Identifier: Apache-2.0

// Package clitest has the fixtures that the tests of several command groups share.
package clitest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	kubeclient "berth.dev/berth/internal/kube/client"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/overview"
)

var update = flag.Bool("update", false, "write the golden files again")

// Now is the time of all fixtures.
var Now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// Ago is a time before Now.
func Ago(d time.Duration) metav1.Time { return metav1.NewTime(Now.Add(-d)) }

// Golden compares what was printed with a file of testdata.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "%s; run the test with -update if it should be so", name)
}

// Screen are options that print into buffers.
func Screen(output string) (o *command.Options, out, errOut *bytes.Buffer) {
	out, errOut = &bytes.Buffer{}, &bytes.Buffer{}
	return &command.Options{
		IOStreams: genericiooptions.IOStreams{Out: out, ErrOut: errOut}, Output: output,
		Now: func() time.Time { return Now },
	}, out, errOut
}

// Printed is what show prints in a format, on stdout and on stderr.
func Printed(t *testing.T, output string, show func(o *command.Options) error) (out, errOut string) {
	t.Helper()
	o, stdout, stderr := Screen(output)
	require.NoError(t, show(o))
	return stdout.String(), stderr.String()
}

// Goldens compares what show prints with golden files, which have a format each. What it prints on stderr with a table is in the file
// that stderr names; if that is "", it must print nothing there in any format.
func Goldens(t *testing.T, stderr string, formats map[string]string, show func(o *command.Options) error) {
	t.Helper()
	for name, output := range formats {
		out, errOut := Printed(t, output, show)
		Golden(t, name, out)
		switch {
		case stderr == "":
			assert.Empty(t, errOut, name)
		case output == printers.Text:
			Golden(t, stderr, errOut)
		}
	}
}

// Client has objects of Kubernetes and Berth.
func Client(t testing.TB, funcs interceptor.Funcs, objects ...client.Object) client.Client {
	t.Helper()
	scheme, err := kubeclient.Scheme()
	require.NoError(t, err)
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
}

// Condition is a condition since 4 minutes.
func Condition(name string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, Reason: reason, Message: message, LastTransitionTime: Ago(4 * time.Minute)}
}

// Shop is a cluster with one of everything.
type Shop struct {
	Pods    []*corev1.Pod
	nodes   []*corev1.Node
	Mixes   []*v1alpha1.CapacityMix
	owners  []metav1.Object
	budgets []*policyv1.PodDisruptionBudget
}

// Nodes are the nodes of the shop.
func (s *Shop) Nodes() []*corev1.Node { return s.nodes }

// Cluster is what the CLI reads of the shop.
func (s *Shop) Cluster(t *testing.T) *overview.Cluster {
	t.Helper()
	settings, err := live.Defaults()
	require.NoError(t, err)
	return overview.NewCluster(settings, s.Pods, s.nodes, s.Mixes, s.owners, s.budgets)
}

// Node adds a node.
func (s *Shop) Node(name, capacityType string, changes ...func(*corev1.Node)) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   name,
		Labels: map[string]string{"topology.kubernetes.io/zone": "a", "node.kubernetes.io/instance-type": "m5"},
	}}
	if capacityType != "" {
		n.Labels["karpenter.sh/capacity-type"] = capacityType
	}
	for _, change := range changes {
		change(n)
	}
	s.nodes = append(s.nodes, n)
}

// Mix adds a CapacityMix.
func (s *Shop) Mix(name string, spot, least int32, changes ...func(*v1alpha1.CapacityMix)) {
	m := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, Generation: 1,
		CreationTimestamp: Ago(48 * time.Hour),
	}}
	m.Spec.Selector.MatchLabels, m.Spec.SpotPercent, m.Spec.MinOnDemand = map[string]string{"app": name}, spot, least
	for _, change := range changes {
		change(m)
	}
	s.Mixes = append(s.Mixes, m)
}

// Deployment adds a Deployment with its ReplicaSet; slot k runs on nodes[k], "" is pending.
func (s *Shop) Deployment(app string, annotations map[string]string, nodes ...string) []*corev1.Pod {
	n := int32(len(nodes))
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: app, UID: types.UID(app), Annotations: annotations},
		Spec:       appsv1.DeploymentSpec{Replicas: &n},
	}
	d.Status.UpdatedReplicas, d.Status.Replicas = n, n
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: app + "-7dd8c6474c", UID: types.UID(app + "-rs"),
		Annotations: annotations,
	}, Spec: appsv1.ReplicaSetSpec{Replicas: &n}}
	rs.Spec.Template.Spec.SchedulerName = "berth-scheduler"
	rs.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: app, UID: d.UID, Controller: new(true)}}
	rs.Status.Replicas = n
	s.owners = append(s.owners, d, rs)
	var pods []*corev1.Pod
	for slot, node := range nodes {
		p := s.Pod(app, fmt.Sprintf("%s-7dd8c6474c-%d", app, slot), node)
		p.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: rs.Name, UID: rs.UID,
			Controller: new(true),
		}}
		if node != "" {
			p.Annotations = map[string]string{
				v1alpha1.SlotAnnotation:            strconv.Itoa(slot),
				v1alpha1.PodDeletionCostAnnotation: strconv.Itoa(-slot),
			}
		}
		pods = append(pods, p)
	}
	return pods
}

// Pod adds a pod.
func (s *Shop) Pod(app, name, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name),
		Labels: map[string]string{"app": app}, CreationTimestamp: Ago(time.Hour),
	}}
	p.Spec.SchedulerName, p.Spec.NodeName = "berth-scheduler", node
	if node != "" {
		p.Status.StartTime = new(Ago(50 * time.Minute))
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue,
			LastTransitionTime: Ago(49 * time.Minute),
		}}
	}
	s.Pods = append(s.Pods, p)
	return p
}

// OneOfEach has an exact workload, one that borrowed, one that is pending, one
// with annotations, and pods that nothing governs.
func OneOfEach() *Shop {
	s := &Shop{}
	s.Node("s1", "spot")
	s.Node("s2", "spot", func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}
	})
	s.Node("o1", "on-demand")
	s.Node("o2", "reserved")
	s.Node("x", "")
	s.Mix("web", 50, 1)
	s.Mix("api", 100, 0, func(m *v1alpha1.CapacityMix) {
		m.Spec.MaxSpot = new(int32(10))
		m.Status.ObservedGeneration = 1
		m.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionRebalancing, Status: metav1.ConditionFalse,
			Reason: "InsufficientCapacity",
		}}
		m.Status.Workloads = []v1alpha1.WorkloadMix{{
			Kind: "Deployment", Name: "api", Revision: "api-7dd8c6474c", FailedMoves: 2,
			RetryTime: new(metav1.NewTime(Now.Add(time.Minute))),
			Blocked:   &v1alpha1.BlockedMove{Reason: "InsufficientCapacity", Message: "no spot node has free capacity"},
		}}
	})
	s.Mix("late", 10, 0, func(m *v1alpha1.CapacityMix) {
		m.Spec.Selector.MatchLabels = map[string]string{"app": "web"}
		m.CreationTimestamp = Ago(time.Hour)
	})
	s.Mix("broken", 170, 0)
	s.Deployment("web", nil, "o1", "s1", "o2", "s1")
	s.Deployment("api", nil, "s1", "o1", "")[2].Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
		Message: "0/5 nodes are available: 2 node(s) are on-demand, slot 2 needs spot.",
	}}
	s.Deployment("db", map[string]string{v1alpha1.SpotPercentAnnotation: "50"}, "o1", "x")
	s.Pod("lonely", "lonely", "o1").Spec.SchedulerName = "default-scheduler"
	s.Pod("web", "stray", "o2").Spec.SchedulerName = "default-scheduler"
	s.Pod("agent", "agent-1", "s1").OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent",
		UID: "agent", Controller: new(true),
	}}
	return s
}

// Budget adds a PodDisruptionBudget.
func (s *Shop) Budget(name, app string, allowed int32) {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	b.Spec.Selector, b.Spec.MaxUnavailable = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		new(intstr.FromInt32(allowed))
	b.Status.DisruptionsAllowed = allowed
	s.budgets = append(s.budgets, b)
}

// GatedShop has a pod in every state of the gate: 0 waits, 1 was ungated, 2 fell
// back, 3 was ungated since no scheduler led, 4 waits and has no mix.
func GatedShop() *Shop {
	s := &Shop{}
	s.Node("s1", "spot")
	s.Node("o1", "on-demand")
	s.Mix("web", 70, 1)
	s.Deployment("web", nil, "", "s1", "", "o1")
	s.Deployment("free", nil, "")
	wait := func(p *corev1.Pod) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}}
		p.Annotations = nil
	}
	wait(s.Pods[0])
	wait(s.Pods[4])
	ungated := func(p *corev1.Pod, t capacity.Type) {
		gate.Annotate(p, map[string]string{v1alpha1.ClaimAnnotation: gate.ClaimOf(p, t), v1alpha1.CapacityTypeAnnotation: "spot"})
		gate.Label{Key: capacity.KarpenterCapacityType, Spot: "spot", OnDemand: "on-demand"}.Limit(&p.Spec, t)
	}
	ungated(s.Pods[1], capacity.Spot)
	ungated(s.Pods[2], capacity.OnDemand)
	s.Pods[2].Annotations[v1alpha1.SlotAnnotation] = "2"
	s.Pods[2].Annotations[v1alpha1.FallbackAnnotation] = "3/2026-06-01T12:20:00Z"
	s.Pods[3].Annotations = map[string]string{v1alpha1.UngateReasonAnnotation: v1alpha1.UngateReasonNoLeader}
	return s
}
