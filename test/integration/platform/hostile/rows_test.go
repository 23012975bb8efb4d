// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// feed is an object that a tenant writes.
type feed struct {
	client.Object
	// refused is what the answer of an API server that refuses the object names, "" if it takes the object.
	refused string
	// after changes a pod once it has a UID.
	after func(*corev1.Pod)
}

// row is a batch of objects that are alive at one time.
type row struct {
	name  string
	feeds []feed
	// patches are written on the last object.
	patches []string
	// quota is how many pods the namespace may have, 0 for any number.
	quota int64
	// pods is how many pods controllers make of the objects at least.
	pods int
	// before has a neighbour's workload come once the objects are there, and not while they are written.
	before bool
}

func (r *row) add(objects ...client.Object) {
	for _, o := range objects {
		r.feeds = append(r.feeds, feed{Object: o})
	}
}

func (r *row) refuse(field string, o client.Object) {
	r.feeds = append(r.feeds, feed{Object: o, refused: field})
}

const (
	most32          = "2147483647"
	beyond64        = "9223372036854775808"
	desiredReplicas = "deployment.kubernetes.io/desired-replicas"
	// fat is close to what the API server allows the annotations of an object, 256 KiB; obese is above.
	fat, obese = 250_000, 300_000
	// forged is how many pods there are with owners that are made up.
	forged = 200
)

var (
	// crowd is how many pods with such annotations there are at one time: 90 MB, of which a program that keeps them has a copy and
	// garbage, or 250 MB.
	crowd = testenv.Length(350, 1000)
	// owners is how many owners one pod names. The garbage collector reads each of them.
	owners = testenv.Length(200, 2000)
	long   = strings.Repeat("é\\\"%s", fat/6)
	deep   = strings.Repeat(`{"a":[`, fat/6)
	// values are for any text that should hold a number.
	values = []string{"0", "-1", "-0", most32, "2147483648", "9223372036854775807", beyond64, "1e9", "0x7fffffff", "", "50,50", "50%%%", long, deep}
	// waiting has the pods of a template wait: no node has so much.
	waiting = builders.CPU("1000")
)

func rows(victim *appsv1.ReplicaSet) []row {
	var all []row
	for _, key := range []string{
		v1alpha1.SpotPercentAnnotation, v1alpha1.MinOnDemandAnnotation, v1alpha1.SlotAnnotation, v1alpha1.CapacityTypeAnnotation,
		v1alpha1.MixAnnotation, v1alpha1.ClaimAnnotation, v1alpha1.UngateReasonAnnotation, v1alpha1.FallbackAnnotation,
		v1alpha1.AcceptedReplicasAnnotation, v1alpha1.ResolvedLimitAnnotation, v1alpha1.ForceDeleteAnnotation,
		pods.DoNotDisrupt, pods.SafeToEvictVolumes, batchv1.JobCompletionIndexAnnotation,
	} {
		all = append(all, podsWith(key))
	}
	all = append(all, deletionCosts(), marks(), conditions(), gates(), podLabels())
	all = append(all, ofOwners(victim)...)
	all = append(all, floors(), slots(), replicaCounts())
	all = append(all, ofMixes()...)
	return append(all, sizes(), nodes(), quotas(), crowds())
}

// podsWith are pods that carry each of the values, every other of which waits, and five that carry the same one.
func podsWith(key string) row {
	r := row{name: "annotation " + key}
	r.add(builders.CapacityMix("hostile", 50, 1))
	for i, value := range values {
		template := []func(*corev1.PodTemplateSpec){builders.PodAnnotation(key, value)}
		if i%2 == 1 {
			template = append(template, waiting)
		}
		r.add(builders.Pod("hostile", fmt.Sprint("value-", i), template...))
	}
	for i := range 5 {
		r.add(builders.Pod("hostile", fmt.Sprint("twin-", i), builders.PodAnnotation(key, most32)))
	}
	r.refuse("metadata.annotations: Too long", builders.Pod("hostile", "obese", builders.PodAnnotation(key, strings.Repeat("9", obese))))
	return r
}

func deletionCosts() row {
	r := row{name: "deletion costs"}
	r.add(builders.CapacityMix("hostile", 50, 1))
	for i, cost := range []string{"0", "-1", "1", "-2147483648", most32, "-1048575", "-1048576"} {
		r.add(builders.Pod("hostile", fmt.Sprint("cost-", i), builders.PodAnnotation(v1alpha1.PodDeletionCostAnnotation, cost)))
	}
	for i, cost := range []string{"2147483648", beyond64, "1e9", "", "+1", "007", long} {
		r.refuse(v1alpha1.PodDeletionCostAnnotation, builders.Pod("hostile", fmt.Sprint("refused-", i), builders.PodAnnotation(v1alpha1.PodDeletionCostAnnotation, cost)))
	}
	return r
}

// marks are what Berth writes on pods itself, with the right UID, and numbers and times that are not Berth's.
func marks() row {
	r := row{name: "marks with times of other clocks"}
	r.add(builders.CapacityMix("hostile", 100, 0))
	for i, mark := range []string{
		"1/0001-01-01T00:00:00Z", "1/1970-01-01T00:00:00Z", "1/9999-12-31T23:59:59Z", "2147483647/2100-01-01T00:00:00Z", "9223372036854775807/2100-01-01T00:00:00+23:59",
		"-1/2100-01-01T00:00:00Z", "0/2100-01-01T00:00:00Z", "1/2100-13-01T00:00:00Z", "1/" + long, strings.Repeat("9", fat) + "/2100-01-01T00:00:00Z", "/", "//////",
	} {
		for j, kind := range []string{v1alpha1.CapacityTypeSpot, v1alpha1.CapacityTypeOnDemand} {
			r.feeds = append(r.feeds, feed{
				Object: builders.Pod("hostile", fmt.Sprintf("mark-%d-%d", i, j), builders.PodAnnotation(v1alpha1.SlotAnnotation, fmt.Sprint(i)), waiting),
				after: func(p *corev1.Pod) {
					p.Annotations[v1alpha1.ClaimAnnotation], p.Annotations[v1alpha1.FallbackAnnotation] = string(p.UID)+"/"+kind, mark
				},
			})
		}
	}
	return r
}

// conditions are what a tenant who may write the status of pods can have there.
func conditions() row {
	r := row{name: "conditions and nominated nodes"}
	r.add(builders.CapacityMix("hostile", 100, 0, builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableOnDemand, 600)))
	for i, at := range []int64{-1 << 33, 0, 1 << 33, 253402300799} { // from 1697 to 9999
		for j, message := range []string{"", long, "0/3 nodes are available. spot had no capacity at 9999-01-01T00:00:00Z, on-demand is allowed", strings.Repeat("spot had no capacity at ", 9999)} {
			r.feeds = append(r.feeds, feed{
				Object: builders.Pod("hostile", fmt.Sprintf("condition-%d-%d", i, j), waiting),
				after: func(p *corev1.Pod) {
					p.Status.NominatedNodeName = []string{"spot-0", "none", "spot-1", ""}[j]
					p.Status.Conditions = []corev1.PodCondition{{
						Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
						Message: message, LastTransitionTime: metav1.Unix(at, 0), LastProbeTime: metav1.Unix(max(-at, -1<<33), 0),
					}}
				},
			})
		}
	}
	return r
}

func gates() row {
	r := row{name: "gates"}
	r.add(builders.CapacityMix("hostile", 50, 1))
	gated := func(names ...string) func(*corev1.PodTemplateSpec) {
		return func(t *corev1.PodTemplateSpec) {
			for _, name := range names {
				t.Spec.SchedulingGates = append(t.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
			}
		}
	}
	var many []string
	for i := range 2000 {
		many = append(many, fmt.Sprint("example.com/gate-", i))
	}
	for i, value := range values {
		for j, key := range []string{v1alpha1.SlotAnnotation, v1alpha1.ClaimAnnotation} {
			r.add(builders.Pod("hostile", fmt.Sprintf("gated-%d-%d", i, j), gated(v1alpha1.CapacityMixGate), builders.PodAnnotation(key, value)))
		}
	}
	r.add(builders.Pod("hostile", "many", gated(append(many, v1alpha1.CapacityMixGate)...)))
	r.refuse("spec.schedulingGates[1]", builders.Pod("hostile", "twice", gated(v1alpha1.CapacityMixGate, v1alpha1.CapacityMixGate)))
	r.refuse("spec.schedulingGates[0]", builders.Pod("hostile", "long", gated(long)))
	return r
}

func podLabels() row {
	r := row{name: "labels by the thousand"}
	r.add(builders.CapacityMix("hostile", 50, 1))
	for i := range 10 {
		r.add(builders.Pod("hostile", fmt.Sprint("labelled-", i), func(t *corev1.PodTemplateSpec) {
			for j := range 1000 {
				t.Labels[fmt.Sprintf("l-%d-%d", i, j)] = strings.Repeat("v", 60)
			}
		}))
	}
	for i, key := range []string{v1alpha1.ResourceLimitLabel, v1alpha1.PlaceholderLabel} {
		for j, value := range []string{"", "0", most32, "none", strings.Repeat("x", 63)} {
			r.add(builders.Pod("hostile", fmt.Sprintf("label-%d-%d", i, j), func(t *corev1.PodTemplateSpec) { t.Labels[key] = value }))
		}
		r.refuse("metadata.labels", builders.Pod("hostile", fmt.Sprint("long-", i), func(t *corev1.PodTemplateSpec) { t.Labels[key] = long }))
	}
	return r
}

// ofOwners are pods that name owners which are another's, are not there, or have absurd names.
func ofOwners(victim *appsv1.ReplicaSet) []row {
	controlledBy := func(apiVersion, kind, name string, uid types.UID) func(*corev1.PodTemplateSpec) {
		return builders.OwnedBy(metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(true)})
	}
	foreign := row{name: "owner references with another tenant's UID (D9)"}
	for i, kind := range []string{"DaemonSet", "ReplicaSet", "StatefulSet", "Job", "Node", "Berth"} {
		foreign.add(builders.Pod("hostile", fmt.Sprint("foreign-", i), controlledBy("apps/v1", kind, victim.Name, victim.UID)))
	}
	absent := row{name: "owners that are not there (D8)"}
	for i := range forged {
		name := fmt.Sprint("none-", i)
		absent.add(builders.Pod("hostile", name, waiting, controlledBy("apps/v1", "ReplicaSet", name, types.UID(name))))
	}
	absurd := row{name: fmt.Sprintf("owner references of 250 kB, and %d of one pod", owners)}
	absurd.add(builders.CapacityMix("hostile", 50, 1))
	for i, change := range []func(*corev1.PodTemplateSpec){
		controlledBy("apps/v1", "ReplicaSet", long, "a"), controlledBy("apps/v1", long, "n", "b"), controlledBy("apps/v1", "ReplicaSet", "n", types.UID(long)),
		controlledBy("x/"+strings.Repeat("y", fat), "ReplicaSet", "n", "d"), controlledBy("a.example/v1", "ReplicaSet", "../../n?x=%00", "e"),
	} {
		absurd.add(builders.Pod("hostile", fmt.Sprint("absurd-", i), change))
	}
	refs := make([]metav1.OwnerReference, owners)
	for i := range refs {
		refs[i] = metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "n", UID: types.UID(fmt.Sprint("many-", i))}
	}
	absurd.add(builders.Pod("hostile", "many", func(t *corev1.PodTemplateSpec) { t.OwnerReferences = refs }))
	absurd.refuse("metadata.ownerReferences", builders.Pod("hostile", "two", func(t *corev1.PodTemplateSpec) {
		for _, uid := range []types.UID{"x", "y"} {
			t.OwnerReferences = append(t.OwnerReferences, metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "n", UID: uid, Controller: new(true)})
		}
	}))
	absurd.refuse("metadata.ownerReferences", builders.Pod("hostile", "slashes", controlledBy("a/b/c", "ReplicaSet", "n", "f")))
	return []row{foreign, absent, absurd}
}

// crowds are pods with annotations that are as long as can be (D5).
func crowds() row {
	r := row{name: fmt.Sprintf("%d pods with annotations of 250 kB (D5)", crowd), before: true}
	for i := range crowd {
		value := fmt.Sprint(i, long)
		r.add(builders.Pod("hostile", fmt.Sprint("fat-", i), waiting, builders.PodAnnotation(v1alpha1.SpotPercentAnnotation, value)))
	}
	return r
}
