// SPDX-License-Identifier: Apache-2.0

// Package builders makes the objects that Berth's tests and demo create. Each
// takes changes, so a test names only what matters to it.
package builders

import (
	"fmt"
	"maps"
	"runtime"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
)

// Scheduler is the schedulerName that the pods request.
const Scheduler = "berth-scheduler"

// Labels are the labels of a workload's pods, and its selector.
func Labels(app string) map[string]string { return map[string]string{"app": app} }

// CapacityMix makes a mix that selects the pods of an app.
func CapacityMix(app string, spotPercent, minOnDemand int32, changes ...func(*v1alpha1.CapacityMix)) *v1alpha1.CapacityMix {
	m := &v1alpha1.CapacityMix{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "CapacityMix"},
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec:       v1alpha1.CapacityMixSpec{SpotPercent: spotPercent, MinOnDemand: minOnDemand},
	}
	m.Spec.Selector.MatchLabels = Labels(app)
	for _, change := range changes {
		change(m)
	}
	return m
}

// PodTemplate makes the template of a workload's pods: one container that requests
// 100m CPU and 64Mi.
func PodTemplate(app string, changes ...func(*corev1.PodTemplateSpec)) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: Labels(app), Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			SchedulerName:                 Scheduler,
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers: []corev1.Container{{
				Name: "main", Image: "example.com/app:1",
				Resources: corev1.ResourceRequirements{Requests: Requests("100m", "64Mi")},
			}},
		},
	}
	for _, change := range changes {
		change(&t)
	}
	return t
}

// Requests is a resource list of CPU and memory.
func Requests(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory),
	}
}

// CPU sets the CPU request of a template's container.
func CPU(quantity string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(quantity)
	}
}

// PodAnnotation sets an annotation of a template's pods.
func PodAnnotation(key, value string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { t.Annotations[key] = value }
}

// SchedulerName sets the scheduler that a template's pods request.
func SchedulerName(name string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { t.Spec.SchedulerName = name }
}

// MixAnnotations are the annotations that give a workload its mix without a CapacityMix.
func MixAnnotations(spotPercent, minOnDemand int) map[string]string {
	return map[string]string{
		v1alpha1.SpotPercentAnnotation: strconv.Itoa(spotPercent),
		v1alpha1.MinOnDemandAnnotation: strconv.Itoa(minOnDemand),
	}
}

// Deployment makes a Deployment of an app.
func Deployment(app string, replicas int32, template ...func(*corev1.PodTemplateSpec)) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app, Annotations: map[string]string{}},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: Labels(app)},
			Template: PodTemplate(app, template...),
		},
	}
}

// ReplicaSet makes a ReplicaSet of an app that belongs to no Deployment.
func ReplicaSet(app string, replicas int32, template ...func(*corev1.PodTemplateSpec)) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: app, Annotations: map[string]string{}},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(replicas), Selector: &metav1.LabelSelector{MatchLabels: Labels(app)}, Template: PodTemplate(app, template...),
		},
	}
}

// StatefulSet makes a StatefulSet of an app.
func StatefulSet(app string, replicas int32, policy appsv1.PodManagementPolicyType,
	template ...func(*corev1.PodTemplateSpec),
) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: app, Annotations: map[string]string{}},
		Spec: appsv1.StatefulSetSpec{
			Replicas:            new(replicas),
			ServiceName:         app,
			PodManagementPolicy: policy,
			Selector:            &metav1.LabelSelector{MatchLabels: Labels(app)},
			Template:            PodTemplate(app, template...),
		},
	}
}

// Job makes a Job of an app whose pods all run at once.
func Job(app string, pods int32, mode batchv1.CompletionMode, template ...func(*corev1.PodTemplateSpec)) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: app, Annotations: map[string]string{}},
		Spec: batchv1.JobSpec{
			Parallelism: new(pods), Completions: new(pods), CompletionMode: new(mode),
			Template: PodTemplate(app, template...),
		},
	}
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return j
}

// Pod makes a bare pod of an app.
func Pod(app, name string, template ...func(*corev1.PodTemplateSpec)) *corev1.Pod {
	t := PodTemplate(app, template...)
	t.Name = name
	return &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
}

// Heap returns the bytes that are live, for what something takes to be measured.
func Heap() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers release
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TerminatesFor makes a template's pods stay Terminating for a time.
func TerminatesFor(d time.Duration) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Annotations[cluster.PodDeleteDelay] = d.String()
		t.Spec.TerminationGracePeriodSeconds = new(int64(d.Seconds()) + 1)
	}
}

// ReadyAfter makes a template's pods Ready a time after they started.
func ReadyAfter(d time.Duration) func(*corev1.PodTemplateSpec) {
	return PodAnnotation(cluster.PodReadyDelay, d.String())
}

// SucceedsAfter makes a template's pods succeed a time after they became Ready.
func SucceedsAfter(d time.Duration) func(*corev1.PodTemplateSpec) {
	return PodAnnotation(cluster.PodCompleteDelay, d.String())
}

// OwnedBy makes an object the controller of a template's pods.
func OwnedBy(owner metav1.OwnerReference) func(*corev1.PodTemplateSpec) {
	owner.Controller = new(true)
	return func(t *corev1.PodTemplateSpec) { t.OwnerReferences = []metav1.OwnerReference{owner} }
}

// IsOf reports whether an object carries the labels of an app.
func IsOf(o metav1.Object, app string) bool {
	want := Labels(app)
	have := maps.Clone(o.GetLabels())
	maps.DeleteFunc(have, func(k, _ string) bool { _, wanted := want[k]; return !wanted })
	return maps.Equal(want, have)
}

// OnNodesWith ties a template's pods to nodes with a label, by nodeSelector.
func OnNodesWith(key, value string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		if t.Spec.NodeSelector == nil {
			t.Spec.NodeSelector = map[string]string{}
		}
		t.Spec.NodeSelector[key] = value
	}
}

// OnNode ties a template's pods to one node, whatever its type is.
func OnNode(name string) func(*corev1.PodTemplateSpec) {
	return OnNodesWith(corev1.LabelHostname, name)
}

// RequireNodeLabel ties a template's pods to nodes by required node affinity.
func RequireNodeLabel(key string, operator corev1.NodeSelectorOperator, values ...string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
		t.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
		}}
	}
}

// PreferNodeLabel makes a template's pods prefer nodes with a label, as much as can be.
func PreferNodeLabel(key, value string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: key, Operator: corev1.NodeSelectorOpIn,
			Values: []string{value},
		}}}
		t.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: term}},
		}}
	}
}

// TolerateAll makes a template's pods tolerate every taint.
func TolerateAll(t *corev1.PodTemplateSpec) {
	t.Spec.Tolerations = append(t.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
}

// PriorityClass sets the priority class of a template's pods.
func PriorityClass(name string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { t.Spec.PriorityClassName = name }
}

// Gated gives a template's pods the scheduling gate of Berth.
func Gated(t *corev1.PodTemplateSpec) {
	t.Spec.SchedulingGates = append(t.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: v1alpha1.CapacityMixGate})
}

// PodGroup is a gang: at least so many of its pods are placed, or none.
func PodGroup(name string, minCount int32) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount},
		}},
	}
}

// InPodGroup makes pods members of a PodGroup.
func InPodGroup(name string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	}
}

// MaxPerZone limits how many replicas of a mix's groups are in one zone.
func MaxPerZone(count int32) func(*v1alpha1.CapacityMix) {
	return func(m *v1alpha1.CapacityMix) {
		m.Spec.MaxPerDomain = []v1alpha1.DomainLimit{{TopologyKey: corev1.LabelTopologyZone, MaxCount: &count}}
	}
}

// RespectCosts has a mix leave the deletion costs of its pods to other clients.
func RespectCosts(m *v1alpha1.CapacityMix) { m.Spec.DeletionCost = v1alpha1.DeletionCostsRespect }

// AvoidInterrupted keeps spot pods off the spot nodes of interruption domains in quarantine.
func AvoidInterrupted(m *v1alpha1.CapacityMix) {
	m.Spec.WhenDomainInterrupted = v1alpha1.WhenDomainInterruptedDoNotSchedule
}

// ProtectFloor keeps evictions from going below the floor of a mix.
func ProtectFloor(m *v1alpha1.CapacityMix) { m.Spec.ProtectFloor = true }

// ByDefault has a template's pods placed by the scheduler of those that name none.
func ByDefault(t *corev1.PodTemplateSpec) { t.Spec.SchedulerName = corev1.DefaultSchedulerName }

// WhenSpotUnavailable sets what a mix does where spot has no free capacity.
func WhenSpotUnavailable(do v1alpha1.WhenSpotUnavailable, waitSeconds int32) func(*v1alpha1.CapacityMix) {
	return func(m *v1alpha1.CapacityMix) {
		m.Spec.WhenSpotUnavailable, m.Spec.SpotWaitSeconds = do, &waitSeconds
	}
}

// WhenOnDemandUnavailable sets what a mix does where on-demand has no free capacity.
func WhenOnDemandUnavailable(do v1alpha1.WhenOnDemandUnavailable) func(*v1alpha1.CapacityMix) {
	return func(m *v1alpha1.CapacityMix) { m.Spec.WhenOnDemandUnavailable = do }
}

// DaemonSet makes a DaemonSet of an app.
func DaemonSet(app string, template ...func(*corev1.PodTemplateSpec)) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: app, Annotations: map[string]string{}},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: Labels(app)},
			Template: PodTemplate(app, template...),
		},
	}
}

// PodDisruptionBudget selects an app's pods.
func PodDisruptionBudget(app string, changes ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: Labels(app)}},
	}
	for _, change := range changes {
		change(b)
	}
	return b
}

// MinAvailable is a number or a percentage of pods.
func MinAvailable(value string) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = new(intstr.Parse(value)) }
}

// MaxUnavailable is a number or a percentage of pods.
func MaxUnavailable(value string) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.MaxUnavailable = new(intstr.Parse(value)) }
}

// Rebalance changes how a mix is moved back.
func Rebalance(change func(*v1alpha1.RebalanceSpec)) func(*v1alpha1.CapacityMix) {
	return func(m *v1alpha1.CapacityMix) {
		if m.Spec.Rebalance == nil {
			m.Spec.Rebalance = &v1alpha1.RebalanceSpec{}
		}
		change(m.Spec.Rebalance)
	}
}

// RebalanceMode sets what is done about replicas on the wrong type.
func RebalanceMode(mode v1alpha1.RebalanceMode) func(*v1alpha1.CapacityMix) {
	return Rebalance(func(r *v1alpha1.RebalanceSpec) { r.Mode = mode })
}

// RebalanceStrategy sets how replicas are moved.
func RebalanceStrategy(s v1alpha1.RebalanceStrategy) func(*v1alpha1.CapacityMix) {
	return Rebalance(func(r *v1alpha1.RebalanceSpec) { r.Strategy = s })
}

// MaxConcurrent sets how many replicas of a mix may be moved at a time.
func MaxConcurrent(n int32) func(*v1alpha1.CapacityMix) {
	return Rebalance(func(r *v1alpha1.RebalanceSpec) { r.MaxConcurrent = &n })
}

// SpotPercent sets the share of a mix.
func SpotPercent(n int32) func(*v1alpha1.CapacityMix) {
	return func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = n }
}

// RebalanceWindow sets the one window in which replicas may be moved, a minute long.
func RebalanceWindow(schedule string) func(*v1alpha1.CapacityMix) {
	return Rebalance(func(r *v1alpha1.RebalanceSpec) {
		r.Windows = []v1alpha1.RebalanceWindow{{Schedule: schedule, DurationSeconds: 60}}
	})
}

// AwayFrom keeps a template's pods off the nodes that run pods of an app.
func AwayFrom(app string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: Labels(app)}, TopologyKey: corev1.LabelHostname,
			}},
		}}
	}
}

// EmptyDir gives a template's pods a directory on their node.
func EmptyDir(name string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Volumes = append(t.Spec.Volumes,
			corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
}

// CRD is a definition of a namespaced kind in a version of a group, in YAML: its objects may have any content, and these subresources.
func CRD(group, version, kind, subresources string) string {
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.%[2]s}
spec:
  group: %[2]s
  scope: Namespaced
  names: {kind: %[3]s, plural: %[1]ss}
  versions:
  - name: %[5]s
    served: true
    storage: true
    subresources: {%[4]s}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, strings.ToLower(kind), group, kind, subresources, version)
}
