// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// spreads and flaps are how often one mix is changed.
var spreads, flaps = testenv.Length(100, 500), testenv.Length(60, 200)

// huge is how many ReplicaSets request the highest slots.
const huge = 10

func replicaSet(name string, annotations map[string]string, template ...func(*corev1.PodTemplateSpec)) *appsv1.ReplicaSet {
	rs := builders.ReplicaSet(name, 1, template...)
	rs.Annotations = annotations
	return rs
}

// floors are annotations of ReplicaSets, which its pods have from their controller.
func floors() row {
	r := row{name: "floors and desired replicas of ReplicaSets", pods: 2 * len(values)}
	for i, value := range values {
		for j, key := range []string{v1alpha1.MinOnDemandAnnotation, desiredReplicas} {
			all := map[string]string{v1alpha1.SpotPercentAnnotation: "100", v1alpha1.MinOnDemandAnnotation: most32, desiredReplicas: most32}
			all[key] = value
			r.add(replicaSet(fmt.Sprintf("floor-%d-%d", i, j), all, waiting))
		}
	}
	return r
}

// slots are ReplicaSets that a rollout seems to make huge: the lowest slot of an on-demand pod is then as high as its floor (D3).
func slots() row {
	r := row{name: "slots and floors at their maximum (D3)", pods: huge}
	for i := range huge {
		rs := replicaSet(fmt.Sprint("huge-", i), map[string]string{desiredReplicas: "3000000000"}, waiting,
			builders.PodAnnotation(v1alpha1.SpotPercentAnnotation, "100"), builders.PodAnnotation(v1alpha1.MinOnDemandAnnotation, most32))
		rs.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "kube-root-ca.crt", UID: types.UID(fmt.Sprint("none-", i)), Controller: new(true)}}
		r.add(rs)
	}
	for i := range 100 {
		r.add(builders.Pod(fmt.Sprint("alone-", i), fmt.Sprint("slot-", i), builders.PodAnnotation(v1alpha1.SlotAnnotation, "1048575"),
			builders.PodAnnotation(v1alpha1.SpotPercentAnnotation, fmt.Sprint(i))))
	}
	return r
}

// replicaCounts are those of workloads, where a quota keeps all but one pod from being created (D2).
func replicaCounts() row {
	r := row{name: "2147483647 replicas under a quota of one pod (D2)", quota: 1, pods: 1}
	annotated := []func(*corev1.PodTemplateSpec){builders.PodAnnotation(v1alpha1.SpotPercentAnnotation, "50"), builders.PodAnnotation(v1alpha1.MinOnDemandAnnotation, most32)}
	for i, n := range []int32{1<<31 - 1, 10_000_000, 0} {
		app := fmt.Sprint("many-", i)
		r.add(builders.CapacityMix(app, 50, 1_000_000), builders.Deployment(app, n), builders.Deployment("annotated-"+app, n, annotated...))
	}
	r.refuse("spec.replicas", builders.Deployment("negative", -1))
	r.refuse("spec.replicas", &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "beyond"}, "spec": map[string]any{"replicas": int64(1 << 40)},
	}})
	r.refuse("spec.parallelism", builders.Job("negative", -1, batchv1.NonIndexedCompletion))
	return r
}

// mixWith is a CapacityMix with any value in a field.
func mixWith(name string, value any, path ...string) *unstructured.Unstructured {
	return custom("CapacityMix", name, map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "hostile"}}, "spotPercent": int64(50)}, value, path...)
}

func custom(kind, name string, spec map[string]any, value any, path ...string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": kind, "spec": spec}}
	o.SetName(name)
	if err := unstructured.SetNestedField(o.Object, value, append([]string{"spec"}, path...)...); err != nil {
		panic(err)
	}
	return o
}

// mixNumbers are the numbers of a CapacityMix with the bounds that its schema has.
func mixNumbers() row {
	r := row{name: "numbers of a CapacityMix"}
	for i, field := range []struct {
		path     string
		min, max int64
	}{
		{"spotPercent", 0, 100},
		{"minOnDemand", 0, 1_000_000},
		{"maxSpot", 0, 1_000_000},
		{"spotWaitSeconds", 0, 86_400},
		{"rebalance.maxConcurrent", 1, 100},
		{"rebalance.stabilizationSeconds", 0, 86_400},
	} {
		for j, n := range []int64{0, -1, field.max, field.max + 1, 1<<31 - 1, 1 << 31, 1<<63 - 1} {
			o := mixWith(fmt.Sprintf("number-%d-%d", i, j), n, strings.Split(field.path, ".")...)
			if n >= field.min && n <= field.max {
				r.add(o)
			} else {
				r.refuse("spec."+field.path, o)
			}
		}
	}
	r.add(builders.Deployment("hostile", 3))
	return r
}

func mixTexts() row {
	r := row{name: "texts and lists of a CapacityMix"}
	var terms, keys, limits []any
	for i := range 1000 {
		terms = append(terms, map[string]any{"key": fmt.Sprint("k", i), "operator": "NotIn", "values": []any{"v"}})
		keys = append(keys, fmt.Sprintf("a.example/k%d", i))
		limits = append(limits, map[string]any{"topologyKey": fmt.Sprintf("a.example/k%d", i), "maxCount": int64(1)})
	}
	for i, field := range []struct {
		refused string
		value   any
		path    string
	}{
		{"spec.selector.matchLabels", long, "selector.matchLabels.app"},
		{"spec.selector.matchExpressions", terms, "selector.matchExpressions"},
		{"spec.spreadSpotOver", []any{long}, "spreadSpotOver"},
		{"spec.spreadSpotOver", keys, "spreadSpotOver"},
		{"spec.spreadSpotOver", []any{"rack", "rack"}, "spreadSpotOver"},
		{"spec.spreadSpotOver", []any{}, "spreadSpotOver"},
		{"spec.spreadSpotOver", []any{""}, "spreadSpotOver"},
		{"spec.maxPerDomain[0].topologyKey", []any{map[string]any{"topologyKey": long, "maxCount": int64(1)}}, "maxPerDomain"},
		{"spec.maxPerDomain[0].maxCount", []any{map[string]any{"topologyKey": "a", "maxCount": int64(1) << 40}}, "maxPerDomain"},
		{"spec.maxPerDomain[0].maxPercent", []any{map[string]any{"topologyKey": "a", "maxPercent": int64(0)}}, "maxPerDomain"},
		{"spec.maxPerDomain", limits, "maxPerDomain"},
		{"spec.tolerations.spot", []any{map[string]any{"key": "a", "operator": "Equal", "value": long}}, "tolerations.spot"},
		{"spec.tolerations.spot", terms, "tolerations.spot"},
		{"spec.whenSpotUnavailable", long, "whenSpotUnavailable"},
		{"spec.deletionCost", long, "deletionCost"},
		{"spec.whenDomainInterrupted", long, "whenDomainInterrupted"},
		{"spec.rebalance.windows[0].schedule", []any{map[string]any{"schedule": long, "durationSeconds": int64(60)}}, "rebalance.windows"},
	} {
		r.refuse(field.refused, mixWith(fmt.Sprint("text-", i), field.value, strings.Split(field.path, ".")...))
	}
	obeseMix := mixWith("obese", int64(50), "spotPercent")
	obeseMix.SetAnnotations(map[string]string{"example.com/long": strings.Repeat("a", obese)})
	r.refuse("metadata.annotations: Too long", obeseMix)
	r.add(mixWith("longest", []any{strings.Repeat("a", 253) + "/" + strings.Repeat("k", 63)}, "spreadSpotOver"), builders.Deployment("hostile", 3))
	return r
}

func ofMixes() []row {
	spread := row{name: "ever other labels to spread over (D6)"}
	limits := row{name: "ever other limits of replicas in a domain"}
	flapping := row{name: "a mix that changes all the time (S1)"}
	for i := range 50 {
		spread.add(builders.Pod("hostile", fmt.Sprint("waits-", i), waiting))
		limits.add(builders.Pod("hostile", fmt.Sprint("waits-", i), waiting))
		flapping.add(builders.Pod("hostile", fmt.Sprint("waits-", i), waiting))
	}
	spread.add(mixWith("spread", []any{"a.example/k"}, "spreadSpotOver"))
	limits.add(mixWith("limits", []any{map[string]any{"topologyKey": "kubernetes.io/hostname", "maxPercent": int64(1)}}, "maxPerDomain"))
	for i := range spreads {
		spread.patches = append(spread.patches, fmt.Sprintf(`{"spec":{"spreadSpotOver":["a.example/k%d","b.example/k%d"]}}`, i, i))
		limits.patches = append(limits.patches, fmt.Sprintf(
			`{"spec":{"maxPerDomain":[{"topologyKey":"a.example/k%d","maxCount":1},{"topologyKey":"kubernetes.io/hostname","maxPercent":%d}]}}`, i, 1+i%100))
	}
	flapping.add(builders.Deployment("hostile", 3), mixWith("flapping", int64(40), "spotPercent"))
	for i := range flaps {
		flapping.patches = append(flapping.patches, fmt.Sprintf(`{"spec":{"spotPercent":%d}}`, 40+i%20))
	}
	same := row{name: "200 mixes that select the same pods"}
	same.add(builders.Deployment("hostile", 3))
	for i := range 200 {
		same.add(mixWith(fmt.Sprint("same-", i), int64(i%100), "spotPercent"))
	}
	return []row{mixNumbers(), mixTexts(), spread, limits, flapping, same}
}

// sizes are ResourceLimits with any value in a field, and pods that name them.
func sizes() row {
	r := row{name: "fields of a ResourceLimit"}
	for i, field := range []string{"cpu", "memory", "cpuLimit", "memoryLimit", "ephemeralStorage"} {
		highest := "1Pi"
		if strings.HasPrefix(field, "cpu") {
			highest = "1M"
		}
		for j, quantity := range []any{int64(1), int64(1_000_000), highest, "1n"} {
			name := fmt.Sprintf("size-%d-%d", i, j)
			r.add(custom("ResourceLimit", name, map[string]any{}, quantity, field), builders.Pod("sized", name, builders.OfSize(name)))
		}
		for j, quantity := range []any{int64(0), int64(-1), "-1", "x", long, "", int64(1<<63 - 1), "9223372036854775807", "1E", "1e300"} {
			r.refuse("spec."+field, custom("ResourceLimit", fmt.Sprintf("refused-%d-%d", i, j), map[string]any{}, quantity, field))
		}
	}
	many := map[string]any{}
	for i := range 1000 {
		many[fmt.Sprint("v", i)] = map[string]any{"size": "1Gi"}
	}
	r.refuse("spec.volumes", custom("ResourceLimit", "volumes", map[string]any{}, many, "volumes"))
	r.refuse("spec.description", custom("ResourceLimit", "description", map[string]any{}, long, "description"))
	return r
}

// nodes are those of an administrator who labels them badly; none of them takes pods.
func nodes() row {
	r := row{name: "labels of nodes"}
	node := func(name, key, value string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "hostile-" + name, Labels: map[string]string{key: value}},
			Spec:       corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "hostile", Effect: corev1.TaintEffectNoSchedule}}},
		}
	}
	for i, key := range []string{"karpenter.sh/capacity-type", "topology.kubernetes.io/zone", corev1.LabelHostname} {
		for j, value := range []string{"", "0", "-1", "spot", "SPOT", most32, strings.Repeat("x", 63)} {
			if j != 2 { // a label value starts with a letter or digit
				r.add(node(fmt.Sprintf("%d-%d", i, j), key, value))
			}
		}
		r.refuse("metadata.labels", node(fmt.Sprint("long-", i), key, long))
	}
	labelled := node("labelled", "a", "b")
	for i := range 5000 {
		labelled.Labels[fmt.Sprint("l-", i)] = strings.Repeat("v", 60)
	}
	r.add(labelled)
	return r
}

// quotas are workloads of which the namespace's quota lets some pods be created, while their sizes change.
func quotas() row {
	r := row{name: "workloads that grow beyond their quota", quota: 5}
	r.add(builders.CapacityMix("hostile", 50, 1), builders.Deployment("hostile", 3))
	for _, n := range []string{"0", "1", most32, "10000000", "1", most32} {
		r.patches = append(r.patches, fmt.Sprintf(`{"spec":{"replicas":%s}}`, n))
	}
	return r
}
