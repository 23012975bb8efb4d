// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
)

// surviving are the objects that a recount has to start from.
type surviving struct {
	pods   map[types.NamespacedName]*corev1.Pod
	nodes  map[string]*corev1.Node
	owners map[types.UID]metav1.Object
}

func (s *surviving) recount(o Options) *State {
	f := New(o)
	for _, n := range s.nodes {
		f.SetNode(n)
	}
	for _, owner := range s.owners {
		f.SetOwner(owner)
	}
	for _, p := range s.pods {
		f.SetPod(p)
	}
	return f
}

var (
	propertyNamespaces = []string{"a", "b"}
	propertyNodes      = []string{"n0", "n1", "n2", "n3"}
	// The controllers of these tests; ds governs no pod.
	propertyOwners = []struct{ apiVersion, kind, name string }{
		{"apps/v1", "ReplicaSet", "rs"},
		{"apps/v1", "StatefulSet", "set"},
		{"batch/v1", "Job", "job"},
		{"apps/v1", "DaemonSet", "ds"},
		{"apps.kruise.io/v1alpha1", "CloneSet", "clone"},
		{"actions.github.com/v1alpha1", "EphemeralRunner", "runner"},
	}
)

// groupedOptions are those of a state with a kind that has one pod for each owner.
func groupedOptions() Options {
	o := options()
	o.Conventions.OnePodKinds = governing.OnePodKinds{{Group: "actions.github.com", Kind: "EphemeralRunner"}: "scale-set"}
	return o
}

// drawUnit draws the labels of sets and units.
func drawUnit(t *rapid.T, p *corev1.Pod) {
	switch drawText(t, "set", "", "", "", "lws", "jobset", "runners") {
	case "lws":
		p.Labels["leaderworkerset.sigs.k8s.io/name"] = drawText(t, "lws", "vllm", "sglang")
		p.Labels["leaderworkerset.sigs.k8s.io/group-index"] = drawText(t, "index", "0", "1", "x")
		p.Labels["leaderworkerset.sigs.k8s.io/group-key"] = p.Labels["leaderworkerset.sigs.k8s.io/group-index"]
	case "jobset":
		p.Labels["jobset.sigs.k8s.io/jobset-name"] = "train"
		p.Labels["jobset.sigs.k8s.io/job-key"] = drawText(t, "job key", "a", "b")
	case "runners":
		p.Labels["scale-set"] = "small"
	}
	if rapid.Bool().Draw(t, "in a unit") {
		p.Labels["unit"] = drawText(t, "unit", "", "x", "y")
	}
}

func drawText(t *rapid.T, label string, of ...string) string {
	return rapid.SampledFrom(of).Draw(t, label)
}

func drawContainers(t *rapid.T, label string, most int) []corev1.Container {
	var list []corev1.Container
	for i := range rapid.IntRange(0, most).Draw(t, label) {
		c := corev1.Container{Name: fmt.Sprintf("%s-%d", label, i)}
		if rapid.Bool().Draw(t, "asks") {
			c.Resources.Requests = requestsOf(drawText(t, "cpu", "0", "1m", "500m", "3"), drawText(t, "memory", "0", "1", "64Mi", "5Gi"))
		}
		if label == "init" && rapid.Bool().Draw(t, "sidecar") {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		list = append(list, c)
	}
	return list
}

func drawPod(t *rapid.T) *corev1.Pod {
	name := fmt.Sprintf("p-%d", rapid.IntRange(0, 9).Draw(t, "name"))
	p := podNamed(name, made(rapid.IntRange(0, 3).Draw(t, "age")))
	p.Namespace = drawText(t, "namespace", propertyNamespaces...)
	p.UID = types.UID(fmt.Sprintf("%s-%s-%d", p.Namespace, name, rapid.IntRange(0, 1).Draw(t, "life")))
	p.ResourceVersion = fmt.Sprint(rapid.IntRange(0, 100).Draw(t, "version"))
	p.Labels = map[string]string{"app": drawText(t, "app", "web", "db"), v1alpha1.AnnotationPrefix + "/x": drawText(t, "label", "1", "2")}
	p.Spec.NodeName = drawText(t, "node", append([]string{"", "never-seen"}, propertyNodes...)...)
	p.Spec.SchedulerName = drawText(t, "scheduler", scheduler, scheduler, "other")
	if rapid.Bool().Draw(t, "owned") {
		o := rapid.SampledFrom(propertyOwners).Draw(t, "owner")
		ownedBy(o.apiVersion, o.kind, o.name, types.UID(p.Namespace+"-"+o.name))(p)
	}
	drawUnit(t, p)
	drawPodAnnotations(t, p)
	drawPodStatus(t, p)
	drawPodSpec(t, p)
	drawPodGate(t, p)
	return p
}

func drawPodAnnotations(t *rapid.T, p *corev1.Pod) {
	for _, a := range [][]string{
		{v1alpha1.SlotAnnotation, "0", "1", "5", "x"},
		{v1alpha1.PodDeletionCostAnnotation, "-0", "-1", "7"},
		{v1alpha1.SpotPercentAnnotation, "50", "100%", "bad"},
		{v1alpha1.GroupAnnotation, "Controller", "Top", "batch", "other", "Bad!"},
		{batchv1.JobCompletionIndexAnnotation, "0", "2"},
		{pods.SafeToEvict, "true", "false"},
		{pods.SafeToEvictVolumes, "tmp", "tmp, host"},
		{pods.DoNotDisrupt, "true", "1h"},
		{pods.PreferNoEviction, ""},
		{corev1.MirrorPodAnnotationKey, "x"},
		{"example.com/other", "1", "2"},
	} {
		if rapid.IntRange(0, 3).Draw(t, a[0]) == 0 {
			annotated(a[0], drawText(t, a[0], a[1:]...))(p)
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "managers") {
		manager := drawText(t, "manager", "kubectl-annotate", schedulerManager, controllerManager)
		fields := drawText(t, "fields", string(costField), string(slotField), string(slotField)+string(createdField), "other")
		managedBy(manager, fields)(p)
	}
}

// drawPodGate draws what the gate made of a pod: nothing, one that waits, one
// that was limited to a type, one that carries what another pod was given, or one ungated without a slot.
func drawPodGate(t *rapid.T, p *corev1.Pod) {
	limited := rapid.SampledFrom([]capacity.Type{capacity.Spot, capacity.OnDemand}).Draw(t, "limited to")
	switch drawText(t, "gate", "", "", "waits", "another's", "ungated", "ungated", "copied", "let go") {
	case "waits":
		gated(p)
	case "another's":
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
	case "ungated":
		limitedTo(limited)(p)
	case "copied":
		limitedTo(limited)(p)
		annotated(v1alpha1.ClaimAnnotation, "somebody-else/spot")(p)
	case "let go":
		gate.Release(p)
	}
}

func drawPodStatus(t *rapid.T, p *corev1.Pod) {
	p.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed}).Draw(t, "phase")
	if rapid.IntRange(0, 4).Draw(t, "terminating") == 0 {
		terminating(p)
	}
	if rapid.Bool().Draw(t, "has been ready") {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled}, {
			Type: corev1.PodReady, Status: rapid.SampledFrom([]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}).Draw(t, "ready"),
			LastTransitionTime: metav1.NewTime(epoch.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "since")) * time.Second)), Message: "why",
		}}
	}
	if rapid.IntRange(0, 4).Draw(t, "resize cannot be done") == 0 {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible})
	}
}

func drawPodSpec(t *rapid.T, p *corev1.Pod) {
	p.Spec.Containers, p.Spec.InitContainers = drawContainers(t, "container", 2), drawContainers(t, "init", 2)
	for _, c := range p.Spec.Containers {
		s := corev1.ContainerStatus{Name: c.Name, Image: "an-image", AllocatedResources: requestsOf("200m", "32Mi"), Resources: &corev1.ResourceRequirements{Requests: requestsOf("100m", "64Mi")}}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, s)
	}
	switch rapid.IntRange(0, 5).Draw(t, "more") {
	case 0:
		p.Spec.Overhead = requestsOf("250m", "120Mi")
	case 1:
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: requestsOf("10", "10Gi")}
		if rapid.Bool().Draw(t, "resized as a whole") {
			has := requestsOf(rapid.SampledFrom([]string{"5", "20"}).Draw(t, "has"), "5Gi")
			p.Status.AllocatedResources, p.Status.Resources = has, &corev1.ResourceRequirements{Requests: has}
		}
	case 2:
		p.Spec.NodeSelector = map[string]string{"karpenter.sh/capacity-type": "spot"}
	case 3:
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "karpenter.sh/capacity-type", Operator: corev1.NodeSelectorOpExists}}}},
		}}}
	}
	if rapid.IntRange(0, 3).Draw(t, "grouped") == 0 {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new(drawText(t, "pod group", "gang", "other"))}
	}
	for _, v := range []corev1.Volume{
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}},
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
	} {
		if rapid.IntRange(0, 3).Draw(t, v.Name) == 0 {
			p.Spec.Volumes = append(p.Spec.Volumes, v)
		}
	}
}

func drawNode(t *rapid.T) *corev1.Node {
	n := nodeOf(drawText(t, "node", propertyNodes...), rapid.SampledFrom([]capacity.Type{capacity.Spot, capacity.OnDemand, capacity.Unknown}).Draw(t, "type"))
	n.Status.Allocatable[corev1.ResourcePods] = *resource.NewQuantity(rapid.Int64Range(0, 4).Draw(t, "pods"), resource.DecimalSI)
	if rapid.IntRange(0, 3).Draw(t, "departs") == 0 {
		departing(n)
	}
	n.Spec.Unschedulable = rapid.IntRange(0, 3).Draw(t, "cordoned") == 0
	return n
}

func drawOwner(t *rapid.T) metav1.Object {
	ns := drawText(t, "namespace", propertyNamespaces...)
	replicas := rapid.Int32Range(0, 5).Draw(t, "replicas")
	meta := metav1.ObjectMeta{
		Namespace: ns, Generation: rapid.Int64Range(1, 2).Draw(t, "generation"), ResourceVersion: fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "version")),
		Labels: map[string]string{"spotalis.io/enabled": drawText(t, "enabled", "true", "false")},
	}
	if rapid.Bool().Draw(t, "annotated") {
		meta.Annotations = map[string]string{drawText(t, "key", v1alpha1.SpotPercentAnnotation, "spotalis.io/spot-percentage", "example.com/x"): "40"}
		if rapid.Bool().Draw(t, "grouped") {
			meta.Annotations[v1alpha1.GroupAnnotation] = drawText(t, "group", "Controller", "Top", "batch")
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "owned") == 0 { // also in a circle
		o := drawText(t, "above", "rs", "set", "job", "deployment")
		meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Any", Name: o, UID: types.UID(ns + "-" + o), Controller: new(true)}}
	}
	name := drawText(t, "owner", "rs", "set", "job", "deployment")
	meta.Name, meta.UID = name, types.UID(ns+"-"+name)
	switch name {
	case "rs":
		rs := &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas}, Status: appsv1.ReplicaSetStatus{Replicas: rapid.Int32Range(0, 2).Draw(t, "has")}}
		if rapid.Bool().Draw(t, "under a Deployment") {
			under(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "deployment", UID: types.UID(ns + "-deployment")}})(rs)
		}
		return rs
	case "set":
		s := statefulSet(name, replicas)
		s.ObjectMeta = meta
		s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: rapid.Int32Range(0, 2).Draw(t, "start")}
		s.Status.UpdateRevision = drawText(t, "revision", "a", "b")
		return s
	case "job":
		return &batchv1.Job{ObjectMeta: meta}
	}
	d := deployment(name, replicas)
	d.ObjectMeta = meta
	d.Status.UpdatedReplicas = rapid.Int32Range(0, 5).Draw(t, "updated")
	return d
}

// same demands that two states answer alike.
func same(t *rapid.T, want, got *State) {
	for _, ns := range propertyNamespaces {
		require.Equal(t, byValue(want.Groups(ns)), byValue(got.Groups(ns)), "groups of %s", ns)
		for i, g := range got.Current(ns) {
			require.Same(t, g, got.Group(g.Key))
			require.Same(t, g, got.Current(ns)[i], "what has not changed is not composed again")
		}
		byName := func(a, b *Pod) int { return cmp.Compare(a.Name, b.Name) }
		require.Equal(t, slices.SortedFunc(slices.Values(want.Pods(ns)), byName), slices.SortedFunc(slices.Values(got.Pods(ns)), byName))
	}
	require.Equal(t, want.Gated(), got.Gated())
	require.Equal(t, want.Placeholders(""), got.Placeholders(""))
	require.ElementsMatch(t, want.Namespaces(), got.Namespaces())
	require.ElementsMatch(t, want.Nodes(), got.Nodes())
	for name, n := range want.nodes {
		require.NotNil(t, got.nodes[name], "node %s", name)
		w, g := *n, *got.nodes[name]
		require.Len(t, g.pods, len(w.pods), "pods of node %s", name)
		w.pods, g.pods = nil, nil
		require.Equal(t, w, g, "use of node %s", name)
	}
	require.Len(t, got.nodes, len(want.nodes))
	for _, p := range []*Pod{{}, {CPU: 1}, {CPU: 900, Memory: 1 << 30}, {CPU: 3500, Memory: 7 << 30}} {
		for _, typ := range []capacity.Type{capacity.Spot, capacity.OnDemand, capacity.Unknown} {
			require.Equal(t, want.MayFit(typ, p), got.MayFit(typ, p))
			require.Equal(t, want.Count(typ), got.Count(typ))
		}
	}
}

// byValue has groups compare equal that were composed at different times: mixes from annotations are created again with them.
func byValue(groups []Group) []Group {
	out := slices.Clone(groups)
	for i := range out {
		p := *out[i].Governing
		out[i].Governing, out[i].Version = &p, 0
	}
	return out
}

// told is what a cluster state has reported as changed since the last check.
type told struct {
	keys map[governing.GroupKey]bool
	// seen are the groups and capacity that were there then.
	seen map[governing.GroupKey]Group
	room map[capacity.Type]uint64
	fits map[string]bool
}

// check demands that whatever differs from before was reported.
func (c *told) check(t *rapid.T, f *State) {
	now := map[governing.GroupKey]Group{}
	for _, ns := range propertyNamespaces {
		for _, g := range byValue(f.Groups(ns)) {
			now[g.Key] = g
		}
	}
	known := func(key governing.GroupKey) bool {
		return c.keys[key] || c.keys[governing.GroupKey{Namespace: key.Namespace}] || c.keys[governing.GroupKey{}]
	}
	for key, g := range now {
		if !known(key) {
			require.Equal(t, c.seen[key], g, "%s was not reported", key)
		}
	}
	for key := range c.seen {
		require.True(t, known(key) || now[key].Governing != nil, "the end of %s was not reported", key)
	}
	fits, room := map[string]bool{}, map[capacity.Type]uint64{}
	for _, typ := range []capacity.Type{capacity.Spot, capacity.OnDemand, capacity.Unknown} {
		room[typ] = f.CapacityVersion(typ)
		for i, p := range []*Pod{{}, {CPU: 900, Memory: 1 << 30}, {CPU: 3500, Memory: 7 << 30}} {
			what := fmt.Sprint(typ, i)
			fits[what] = f.MayFit(typ, p)
			require.True(t, !fits[what] || c.fits[what] || room[typ] != c.room[typ], "the free capacity of %s was not reported", typ)
		}
	}
	*c = told{keys: map[governing.GroupKey]bool{}, seen: now, room: room, fits: fits}
}

func drawMix(t *rapid.T) *v1alpha1.CapacityMix {
	cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: drawText(t, "namespace", propertyNamespaces...), Name: drawText(t, "mix", "m", "n")}}
	cm.Spec.SpotPercent = rapid.Int32Range(0, 100).Draw(t, "percent")
	cm.Spec.Selector.MatchLabels = map[string]string{"app": drawText(t, "app", "web", "db")}
	drawGrouping(t, cm)
	return cm
}

// drawGrouping draws the settings for groups of a mix.
func drawGrouping(t *rapid.T, cm *v1alpha1.CapacityMix) {
	cm.Spec.Group = rapid.SampledFrom([]v1alpha1.PodGrouping{"", "", v1alpha1.PodGroupingController, v1alpha1.PodGroupingSelector, v1alpha1.PodGroupingTop}).Draw(t, "group by")
	switch drawText(t, "unit by", "", "", "pod", "label", "gang") {
	case "pod":
		cm.Spec.Unit = &v1alpha1.PodUnit{Type: v1alpha1.PodUnitPod}
	case "label":
		cm.Spec.Unit = &v1alpha1.PodUnit{Type: v1alpha1.PodUnitLabel, LabelKey: "unit"}
	case "gang":
		cm.Spec.Unit = &v1alpha1.PodUnit{Type: v1alpha1.PodUnitSchedulingGroup}
	}
	if rapid.IntRange(0, 2).Draw(t, "roles") == 0 {
		role := v1alpha1.MixRole{Name: "driver", CapacityType: drawText(t, "type of the role", "spot", "on-demand")}
		role.Selector.MatchLabels = map[string]string{v1alpha1.AnnotationPrefix + "/x": "1"}
		cm.Spec.Roles = []v1alpha1.MixRole{role}
	}
}

func TestTheStateIsARecountOfTheObjectsThatSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := groupedOptions()
		f := New(o)
		news := &told{keys: map[governing.GroupKey]bool{}}
		f.Changed = func(key governing.GroupKey) { news.keys[key] = true }
		f.sweepAt = 3 // so that it sweeps all the time
		s := surviving{pods: map[types.NamespacedName]*corev1.Pod{}, nodes: map[string]*corev1.Node{}, owners: map[types.UID]metav1.Object{}}
		pod := func(t *rapid.T) {
			p := drawPod(t)
			f.SetPod(p)
			s.pods[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = p
		}
		t.Repeat(map[string]func(*rapid.T){
			"a pod is added or changed": pod,
			"another pod is added":      pod,
			"a pod is deleted": func(t *rapid.T) {
				p := drawPod(t)
				name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
				uid := types.UID(rapid.SampledFrom([]string{"", string(p.UID)}).Draw(t, "uid"))
				f.DeletePod(name, uid)
				if old := s.pods[name]; old != nil && (uid == "" || uid == old.UID) {
					delete(s.pods, name)
				}
			},
			"the pods are listed again": func(t *rapid.T) {
				var all []*corev1.Pod
				for _, name := range slices.SortedFunc(maps.Keys(s.pods), func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) }) {
					if rapid.Bool().Draw(t, "gone") {
						delete(s.pods, name)
					} else {
						all = append(all, s.pods[name])
					}
				}
				f.ReplacePods(all)
			},
			"a node is added or changed": func(t *rapid.T) {
				n := drawNode(t)
				f.SetNode(n)
				s.nodes[n.Name] = n
			},
			"a node is deleted": func(t *rapid.T) {
				name := drawText(t, "node", propertyNodes...)
				f.DeleteNode(name)
				delete(s.nodes, name)
			},
			"the nodes are listed again": func(t *rapid.T) {
				for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
					if rapid.Bool().Draw(t, "gone") {
						delete(s.nodes, name)
					}
				}
				f.ReplaceNodes(slices.Collect(maps.Values(s.nodes)))
			},
			"a controller is added or changed": func(t *rapid.T) {
				owner := drawOwner(t)
				f.SetOwner(owner)
				s.owners[owner.GetUID()] = owner
			},
			"a controller is deleted": func(t *rapid.T) {
				owner := drawOwner(t)
				f.DeleteOwner(owner.GetUID())
				delete(s.owners, owner.GetUID())
			},
			"a mix is added or changed": func(t *rapid.T) {
				cm := drawMix(t)
				require.NoError(t, o.Mixes.Set(cm))
				news.keys[governing.GroupKey{Namespace: cm.Namespace}] = true // whoever fills the store reports it
			},
			"a mix is deleted": func(t *rapid.T) {
				cm := drawMix(t)
				o.Mixes.Delete(cm.Namespace, cm.Name)
				news.keys[governing.GroupKey{Namespace: cm.Namespace}] = true
			},
			"": func(t *rapid.T) {
				if rapid.IntRange(0, 2).Draw(t, "nobody reads") == 0 {
					return // what is reported must not depend on who reads in between
				}
				same(t, s.recount(o), f)
				news.check(t, f)
			},
		})
	})
}

func TestAStrippedControllerIsTheSameToThePolicy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOwner(t)
		f := newClusterState()
		f.SetOwner(o)
		kept := f.objects[o.GetUID()]
		if rs, ok := o.(*appsv1.ReplicaSet); ok && *rs.Spec.Replicas == 0 && rs.Status.Replicas == 0 {
			require.Nil(t, kept)
			return
		}
		require.Same(t, kept, Strip(kept), "nothing more is lost the second time")
		p := drawPod(t)
		p.Namespace = o.GetNamespace()
		resolver := *f.resolver
		want, invalid := resolver.Resolve(p)
		slot, identity := governing.IdentitySlot(p, resolver.Controllers)
		resolver.Controllers = informers{o.GetUID(): o} // as the API server has it
		plain, plainInvalid := resolver.Resolve(p)
		require.Equal(t, plain, want)
		require.Equal(t, plainInvalid, invalid)
		plainSlot, plainIdentity := governing.IdentitySlot(p, resolver.Controllers)
		require.Equal(t, plainSlot, slot)
		require.Equal(t, plainIdentity, identity)
	})
}

// Two label sets share a record exactly when they are equal, whatever is in them.
func TestOnlyEqualSetsShareARecord(t *testing.T) {
	share := func(x, y map[string]string) bool {
		all := newSets(texts{})
		return sameSet(all.one(x), all.one(y))
	}
	// One pod must not be able to write annotations that pass for another's.
	assert.False(t, share(map[string]string{"a": "b\x00c\x00d"}, map[string]string{"a": "b", "c": "d"}))
	assert.False(t, share(map[string]string{"a": "1:b"}, map[string]string{"a": "", "b": ""}))
	text := rapid.SampledFrom([]string{"", "a", "b", "\x00", "a\x00b", "a\x00b\x00", "1:a", "=", "\x00\x00"})
	set := rapid.MapOfN(text, text, 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		x, y := set.Draw(t, "x"), set.Draw(t, "y")
		assert.Equal(t, maps.Equal(x, y), share(x, y), "%q and %q", x, y)
	})
	all := newSets(texts{})
	a := all.one(map[string]string{"a": "1"})
	_, hash := all.find(map[string]string{"b": "2"})
	all.byHash[hash] = a // as if the hash was that of another set, too
	assert.Equal(t, map[string]string{"b": "2"}, all.one(map[string]string{"b": "2"}))
}

func TestReadersMayReadWhileTheClusterStateChanges(t *testing.T) {
	f := newClusterState()
	f.sweepAt = 5
	f.Changed = func(key governing.GroupKey) { f.Group(key); f.Groups(key.Namespace) } // called without locks held
	f.NodeLeft = func(d Departure) { f.Node(d.Name) }
	rs := replicaSet("rs", 20)
	var work sync.WaitGroup
	for w := range 4 {
		work.Go(func() {
			for i := range 300 {
				p := podNamed(fmt.Sprintf("p-%d-%d", w, i%20), owned(rs), slot(i%20), on(fmt.Sprintf("n%d", i%5)), asks("10m", "1Mi"), made(i))
				p.Labels["i"] = fmt.Sprint(i)
				switch i % 7 {
				case 0:
					f.SetNode(nodeOf(fmt.Sprintf("n%d", i%5), capacity.Spot))
				case 1:
					f.SetOwner(rs)
				case 2:
					f.DeletePod(types.NamespacedName{Namespace: namespaceName, Name: p.Name}, "")
				case 3:
					f.DeleteNode(fmt.Sprintf("n%d", i%5))
				default:
					f.SetPod(p)
				}
			}
		})
		work.Go(func() {
			for range 100 {
				for _, g := range f.Groups(namespaceName) {
					g.WrongSide()
					for _, s := range g.Assignments {
						f.Resolve(s.Pod)
						f.MayFit(capacity.Spot, s.Pod)
						_ = s.Pod.Labels["i"] + s.Pod.Owner.Name
					}
				}
				f.Pods(namespaceName)
				f.Nodes()
				f.Count(capacity.Spot)
				f.Namespaces()
			}
		})
	}
	work.Wait()
	f.ReplacePods(nil)
	assert.Empty(t, f.Groups(namespaceName))
	assert.Empty(t, f.Namespaces())
}

// informers are controllers as the scheduler has them.
type informers map[types.UID]metav1.Object

func (i informers) Controller(namespace string, ref *metav1.OwnerReference) metav1.Object {
	if o := i[ref.UID]; o != nil && o.GetNamespace() == namespace {
		return o
	}
	return nil
}

func drawMixes(t *rapid.T) *governing.Registry {
	mixes := governing.NewRegistry()
	for _, name := range []string{"first", "second"} {
		cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
		cm.Spec.SpotPercent = rapid.SampledFrom([]int32{0, 30, 100}).Draw(t, "percent")
		cm.Spec.Selector = v1alpha1.PodSelector{MatchLabels: map[string]string{"app": drawText(t, "selects", "web", "db")}}
		drawGrouping(t, cm)
		if rapid.Bool().Draw(t, "a mix") {
			require.NoError(t, mixes.Set(cm))
		}
	}
	return mixes
}

// Pods have assignments under the mix that the scheduler places them by, in the group and the unit that it counts them in, and no
// others have one, whatever the labels and annotations of their siblings.
func TestResolvesAsTheSchedulerDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := groupedOptions()
		o.Mixes = drawMixes(t)
		f, owners, pods := New(o), informers{}, map[types.UID]*corev1.Pod{}
		for range rapid.IntRange(0, 3).Draw(t, "owners") {
			owner := drawOwner(t)
			if rs, is := owner.(*appsv1.ReplicaSet); is && *rs.Spec.Replicas == 0 {
				continue // it has no pods
			}
			owners[owner.GetUID()] = owner
			f.SetOwner(owner)
		}
		for range rapid.IntRange(1, 8).Draw(t, "pods") {
			p := drawPod(t)
			if f.Pod(p.Namespace, p.Name) == nil {
				pods[p.UID] = p
				f.SetPod(p)
			}
		}
		scheduler := governing.Resolver{Conventions: o.Conventions, Mixes: o.Mixes, Controllers: owners}
		for _, namespace := range propertyNamespaces {
			for _, g := range f.Groups(namespace) {
				for i := range g.Assignments {
					resolvesAs(t, &scheduler, o.Defaults, pods, &g, &g.Assignments[i])
				}
				containsWhatItHas(t, f, pods, &g)
			}
		}
	})
}

// containsWhatItHas demands that of the pods of a namespace, as the API server has them, exactly those of a group belong to it.
func containsWhatItHas(t *rapid.T, f *State, pods map[types.UID]*corev1.Pod, g *Group) {
	for uid, p := range pods {
		if p.Namespace == g.Key.Namespace && f.Pod(p.Namespace, p.Name).Live() {
			has := slices.ContainsFunc(g.Assignments, func(s Assignment) bool { return s.Has(uid) })
			require.Equal(t, has, f.Contains(g, p), "pod %s in %s", p.Name, g.Key)
		}
	}
}

func resolvesAs(
	t *rapid.T, scheduler *governing.Resolver, defaults map[string]*governing.Mix, pods map[types.UID]*corev1.Pod, g *Group, s *Assignment,
) {
	for _, p := range s.Members() {
		o := pods[p.UID]
		want, _ := scheduler.Resolve(o)
		if want == nil && governing.Governable(o) {
			want = defaults[p.SchedulerName]
		}
		require.NotNil(t, want, "pod %s has an assignment, and no mix", p.Name)
		require.Equal(t, want.Source, g.Governing.Source, "pod %s", p.Name)
		require.Equal(t, want.Mix, g.Governing.Mix, "pod %s", p.Name)
		member, ok := scheduler.Member(o, want)
		require.True(t, ok)
		require.Equal(t, g.Key, member.Group, "group of pod %s", p.Name)
		require.Equal(t, s.Unit, member.Unit, "unit of pod %s", p.Name)
	}
}
