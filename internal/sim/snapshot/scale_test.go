// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
)

// large makes a cluster with ten pods for each Deployment, and twenty for each node.
func large(tb testing.TB, pods int) *Snapshot {
	tb.Helper()
	b := NewBuilder(Header{Time: metav1.NewTime(time.Unix(1_780_000_000, 0))})
	all := corev1.ResourceList{"cpu": resource.MustParse("15800m"), "memory": resource.MustParse("62Gi"), "pods": resource.MustParse("110")}
	for i := range pods / 20 {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("ip-10-0-%d-%d.ec2.internal", i/250, i%250), UID: uid(i)}}
		n.Labels = map[string]string{
			corev1.LabelTopologyZone: fmt.Sprintf("us-east-1%c", 'a'+i%3), "karpenter.sh/capacity-type": []string{"spot", "on-demand"}[i%2],
			corev1.LabelInstanceTypeStable: "m5.4xlarge", corev1.LabelHostname: n.Name,
		}
		n.Status.Capacity, n.Status.Allocatable = all, all
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1, 0)}}
		require.NoError(tb, b.Add(n))
	}
	for i := range pods / 10 {
		addWorkload(tb, b, i)
	}
	return b.Snapshot()
}

func uid(i int) types.UID { return types.UID(fmt.Sprintf("6c1f0f3e-0c5b-4f0e-9d43-%012d", i)) }

func addWorkload(tb testing.TB, b *Builder, i int) {
	tb.Helper()
	name, namespace := fmt.Sprintf("workload-%05d", i), fmt.Sprintf("team-%03d", i%200)
	labels := map[string]string{"app.kubernetes.io/name": name, "app.kubernetes.io/instance": name, "pod-template-hash": "7dd8c6474c", "team": namespace}
	spec := corev1.PodSpec{
		SchedulerName: "berth-scheduler", RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(30)),
		Tolerations: []corev1.Toleration{
			{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
			{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
		},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": name}},
		}},
	}
	for _, c := range []string{"app", "proxy"} {
		spec.Containers = append(spec.Containers, corev1.Container{
			Name: c, Image: "registry/" + c, Env: []corev1.EnvVar{{Name: "A", Value: "B"}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("512Mi")},
				Limits:   corev1.ResourceList{"memory": resource.MustParse("1Gi")},
			},
		})
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid(i), Labels: labels}}
	d.Spec.Replicas, d.Spec.Template.Labels, d.Spec.Template.Spec = new(int32(10)), labels, spec
	r := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-7dd8c6474c", UID: uid(1_000_000 + i), Labels: labels}}
	r.Spec.Replicas, r.Spec.Template = new(int32(10)), d.Spec.Template
	require.NoError(tb, b.Add(d))
	require.NoError(tb, b.Add(r))
	for k := range 10 {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%05d", r.Name, k), UID: uid(2_000_000 + 10*i + k), Labels: labels,
			CreationTimestamp: metav1.Unix(1_700_000_000+int64(i), 0),
			Annotations:       map[string]string{v1alpha1.SlotAnnotation: fmt.Sprint(k), v1alpha1.PodDeletionCostAnnotation: fmt.Sprint(-k)},
			OwnerReferences:   []metav1.OwnerReference{*metav1.NewControllerRef(r, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		}, Spec: *spec.DeepCopy()}
		p.Spec.NodeName = fmt.Sprintf("ip-10-0-%d-%d.ec2.internal", i/2/250, i/2%250)
		p.Status.Phase, p.Status.StartTime = corev1.PodRunning, new(metav1.Unix(1_700_000_000, 0))
		for _, c := range []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled, corev1.ContainersReady, corev1.PodInitialized} {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1_700_000_000, 0)})
		}
		require.NoError(tb, b.Add(p))
	}
}

// heap is the memory that is in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A pod takes 2.2 KB, with its part of its workload and its node: 100,000 are read with less than 500 MB.
func TestPodsShareWhatIsEqual(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot.json")
	require.NoError(t, large(t, 5_000).WriteFile(t.Context(), path))
	before := heap()
	s, err := Load(path)
	require.NoError(t, err)
	assert.Less(t, int64(heap()-before)/int64(len(s.Pods)), int64(3000), "bytes for each pod")
	runtime.KeepAlive(s)
}

// BenchmarkLoad shows the time, the memory that is kept, and the most that the process had while it read the file:
//
//	go test ./internal/sim/snapshot -run ^$ -bench Load -benchtime 1x
func BenchmarkLoad(b *testing.B) {
	path := filepath.Join(b.TempDir(), "snapshot.json")
	require.NoError(b, large(b, 100_000).WriteFile(b.Context(), path))
	info, err := os.Stat(path)
	require.NoError(b, err)
	debug.FreeOSMemory()
	require.NoError(b, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200), "forgets the most that there was")
	for b.Loop() {
		before := heap()
		s, err := Load(path)
		require.NoError(b, err)
		b.ReportMetric(float64(most(b))/1e3, "peak-MB")
		b.ReportMetric(float64(heap()-before)/1e6, "kept-MB")
		b.ReportMetric(float64(info.Size())/1e6, "file-MB")
		runtime.KeepAlive(s)
	}
}

// most is the most memory that the process had, in kB.
func most(b *testing.B) (kB int) {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(b, err)
	_, peak, _ := bytes.Cut(status, []byte("VmHWM:"))
	_, err = fmt.Sscanf(string(peak), "%d kB", &kB)
	require.NoError(b, err)
	return kB
}

// BenchmarkAnonymise has the time of writing in it.
func BenchmarkAnonymise(b *testing.B) {
	s := large(b, 100_000)
	for b.Loop() {
		out, err := s.Anonymise("seed")
		require.NoError(b, err)
		require.NoError(b, out.Write(io.Discard))
	}
}
