// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/deployment/util"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/internal/sim/scenario"
	"berth.dev/berth/simulator/store"
)

const (
	// syncAfter is how long the controllers of workloads take to see a change.
	syncAfter = 20 * time.Millisecond
	// creation is how long it takes to create a pod.
	creation = time.Millisecond
	// The defaults of a Deployment.
	surge, unavailable = "25%", "25%"
	revisionHistory    = 10
)

// workload is a Deployment with its ReplicaSets and its pods.
type workload struct {
	*scenario.Workload
	name string
	// wanted is the number of replicas, and mix the rule for them, nil for none.
	wanted int32
	mix    *split.Mix
	// sets are the UIDs and names of the ReplicaSets, the oldest first.
	deployment types.NamespacedName
	sets       []string
	template   corev1.PodTemplateSpec
	pods       map[types.UID]*corev1.Pod
	// made and revision count the pods and the templates.
	made, revision int
	queued         bool
	tally          tally
	// moves is how many of its replicas the rebalancer has evicted.
	moves int
	// closed is until when the webhook of a policy gives a type to no pod.
	closed map[capacity.Type]time.Time
	// hedge is set where the workload has a Deployment for each type, placer for the one of spot replicas.
	hedge  *hedge
	placer *placer
}

// addWorkloads creates the workloads of the scenario, and has their events come.
func (w *world) addWorkloads() {
	namespaces := map[string]bool{}
	for i := range w.Workloads {
		spec := &w.Workloads[i]
		if !namespaces[spec.Namespace] {
			namespaces[spec.Namespace] = true
			w.store.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: spec.Namespace}})
		}
		for n := range spec.Copies {
			w.addWorkload(spec, spec.NameOf(int(n)))
		}
	}
}

func (w *world) addWorkload(spec *scenario.Workload, name string) {
	of := &workload{Workload: spec, name: name, pods: map[types.UID]*corev1.Pod{}, tally: tally{since: start}}
	of.closed = map[capacity.Type]time.Time{}
	of.deployment = types.NamespacedName{Namespace: spec.Namespace, Name: name}
	labels := map[string]string{appLabel: name}
	of.template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: spec.CPU, corev1.ResourceMemory: spec.Memory},
		}}}},
	}
	of.template.Spec.SchedulerName = corev1.DefaultSchedulerName
	if spec.Mix != nil && w.policy.Apply != nil {
		w.policy.Apply(&of.template)
	}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	if spec.Mix != nil {
		mix := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: spec.Namespace, Name: name}, Spec: *spec.Mix.DeepCopy()}
		mix.Spec.Selector.MatchLabels = map[string]v1alpha1.LabelValue{appLabel: name}
		rule, _, err := governing.FromCapacityMix(mix)
		if err != nil {
			w.failed = err // the scenario is validated
			return
		}
		of.mix = &rule.Mix
		if w.policy.Mixes {
			w.store.Create(mix)
		}
	}
	if spec.MaxUnavailable != nil {
		w.store.Create(&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: spec.Namespace, Name: name},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector, MaxUnavailable: spec.MaxUnavailable},
		})
	}
	w.workloads = append(w.workloads, of)
	w.apps[of.deployment] = of
	w.measure.sized(w, of, spec.Replicas)
	if w.policy.Sizes != nil && of.mix != nil {
		w.addHedge(of)
	} else {
		w.deploy(of)
	}
	w.follows(of, 0)
}

// deploy creates the Deployment of a workload.
func (w *world) deploy(of *workload) {
	w.store.Create(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: of.name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(of.wanted), Selector: &metav1.LabelSelector{MatchLabels: of.template.Labels}, Template: of.template,
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxSurge: new(intstr.FromString(surge)), MaxUnavailable: new(intstr.FromString(unavailable)),
				},
			},
		},
	})
	w.rollOut(of)
}

// follows has an event of a workload come, and the next one after it.
func (w *world) follows(of *workload, i int) {
	if i < len(of.Events) {
		w.clock.At(start.Add(of.Events[i].At.Duration), func() {
			w.event(of, &of.Events[i])
			w.follows(of, i+1)
		})
	}
}

// event changes a workload as the scenario has it.
func (w *world) event(of *workload, e *scenario.Event) {
	if e.Replicas != nil {
		w.measure.sized(w, of, *e.Replicas)
	}
	deployments := []*workload{of}
	if of.hedge != nil { // its next decision has the number
		deployments = []*workload{of.hedge.spot, of.hedge.onDemand}
	} else if e.Replicas != nil {
		w.scaleTo(of, *e.Replicas)
	}
	for _, of := range deployments {
		if e.Rollout {
			w.rollOut(of)
		}
		w.syncSoon(of)
	}
}

// scaleTo sets the number of replicas of a Deployment.
func (w *world) scaleTo(of *workload, n int32) {
	deployment, _ := store.Get[*appsv1.Deployment](w.store, of.Namespace, of.name)
	deployment = deployment.DeepCopy()
	deployment.Spec.Replicas = &n
	deployment.Generation++
	w.store.Update(deployment)
}

// rollOut creates a ReplicaSet for a new template.
func (w *world) rollOut(of *workload) {
	of.revision++
	hash := fmt.Sprintf("r%d", of.revision)
	deployment, _ := store.Get[*appsv1.Deployment](w.store, of.Namespace, of.name)
	template := *of.template.DeepCopy()
	template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: of.name + "-" + hash, Labels: template.Labels,
			OwnerReferences: controlledBy(deployment, "Deployment"),
			Annotations:     map[string]string{"deployment.kubernetes.io/revision": strconv.Itoa(of.revision)},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template,
		},
	}
	w.store.Create(set)
	w.owners[set.UID] = of
	of.sets = append(of.sets, set.Name)
	w.prune(of)
	w.syncSoon(of)
}

// controlledBy are the owner references of what an object of the API group apps controls.
func controlledBy(o metav1.Object, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(o, appsv1.SchemeGroupVersion.WithKind(kind))}
}

// syncSoon has a workload synchronised in a moment.
func (w *world) syncSoon(of *workload) {
	if of.queued {
		return
	}
	of.queued = true
	w.after(syncAfter, func() {
		of.queued = false
		w.sync(of)
	})
}

// sync does what the controllers of Deployments, ReplicaSets and PodDisruptionBudgets do.
func (w *world) sync(of *workload) {
	var sets []*appsv1.ReplicaSet
	for _, name := range of.sets {
		set, _ := store.Get[*appsv1.ReplicaSet](w.store, of.Namespace, name)
		sets = append(sets, set)
	}
	w.release(of)
	sets = w.scale(of, sets)
	for i, set := range sets {
		w.syncSet(of, set)
		sets[i], _ = store.Get[*appsv1.ReplicaSet](w.store, of.Namespace, set.Name)
	}
	w.syncBudget(of)
}

// release has the pods go whose labels their ReplicaSet does not select any more, as the controller of ReplicaSets does.
func (w *world) release(of *workload) {
	for _, pod := range of.sorted(nil) {
		if pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] == "" {
			pod = changing(pod)
			controls := func(r metav1.OwnerReference) bool { return r.Controller != nil && *r.Controller }
			pod.OwnerReferences = slices.DeleteFunc(slices.Clone(pod.OwnerReferences), controls)
			w.store.Update(pod)
		}
	}
}

// prune deletes the oldest ReplicaSets without pods, of which a Deployment keeps ten.
func (w *world) prune(of *workload) {
	for len(of.sets) > revisionHistory+1 {
		set, _ := store.Get[*appsv1.ReplicaSet](w.store, of.Namespace, of.sets[0])
		if *set.Spec.Replicas > 0 || set.Status.Replicas > 0 {
			return
		}
		w.store.Delete(set)
		delete(w.owners, set.UID)
		of.sets = of.sets[1:]
	}
}

// scale sets the sizes of the ReplicaSets, as the controller of Deployments does.
func (w *world) scale(of *workload, sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	deployment, _ := store.Get[*appsv1.Deployment](w.store, of.Namespace, of.name)
	desired := strconv.Itoa(int(of.wanted))
	scaled := slices.ContainsFunc(controller.FilterActiveReplicaSets(sets), func(set *appsv1.ReplicaSet) bool {
		return set.Annotations[util.DesiredReplicasAnnotation] != desired
	})
	var sizes map[string]int32
	if scaled {
		sizes = resized(deployment, sets)
	} else if sizes, w.failed = of.rolled(deployment, sets); w.failed != nil {
		return sets
	}
	most := of.wanted + util.MaxSurge(*deployment)
	for i, set := range sets {
		size, changes := sizes[set.Name]
		if !changes {
			size = *set.Spec.Replicas
		}
		if size == *set.Spec.Replicas && set.Annotations[util.DesiredReplicasAnnotation] == desired {
			continue
		}
		set = set.DeepCopy()
		if size != *set.Spec.Replicas {
			set.Generation++
		}
		set.Spec.Replicas = &size
		util.SetReplicasAnnotations(set, of.wanted, most)
		w.store.Update(set)
		sets[i] = set
	}
	if scaled { // the rollout continues with what this changes
		w.syncSoon(of)
	}
	return sets
}

// resized returns the new sizes of ReplicaSets after the wanted number has changed: in a rollout, all have their part.
func resized(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) map[string]int32 {
	newest, old := sets[len(sets)-1], sets[:len(sets)-1]
	if only := util.FindActiveOrLatest(newest, old); only != nil {
		return map[string]int32{only.Name: *d.Spec.Replicas}
	}
	sizes := map[string]int32{}
	if util.IsSaturated(d, newest) {
		for _, set := range old {
			sizes[set.Name] = 0
		}
		return sizes
	}
	active := slices.Clone(controller.FilterActiveReplicaSets(sets))
	allowed := int32(0)
	if *d.Spec.Replicas > 0 {
		allowed = *d.Spec.Replicas + util.MaxSurge(*d)
	}
	add, added := allowed-util.GetReplicaCountForReplicaSets(active), int32(0)
	if add >= 0 {
		sort.Sort(controller.ReplicaSetsBySizeNewer(active))
	} else {
		sort.Sort(controller.ReplicaSetsBySizeOlder(active))
	}
	for _, set := range active {
		part := int32(0)
		if add != 0 {
			part = util.GetReplicaSetProportion(klog.Logger{}, set, *d, add, added)
		}
		sizes[set.Name], added = *set.Spec.Replicas+part, added+part
	}
	if len(active) > 0 {
		first := active[0].Name
		sizes[first] = max(0, sizes[first]+add-added)
	}
	return sizes
}

// rolled returns the next sizes in a rolling update. The newest ReplicaSet grows as far as the surge allows, the others shrink as far as
// enough replicas are available. Replicas that are not available go first.
func (of *workload) rolled(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) (map[string]int32, error) {
	newest, old := sets[len(sets)-1], sets[:len(sets)-1]
	grown, err := util.NewRSNewReplicas(d, sets, newest)
	if err != nil {
		return nil, err
	}
	available, all := map[string]int32{}, int32(0)
	for _, set := range sets {
		available[set.Name] = of.count(set, ready)
		all += available[set.Name]
	}
	fewest := util.MinAvailable(d)
	spare := util.GetReplicaCountForReplicaSets(sets) - fewest - (*newest.Spec.Replicas - available[newest.Name])
	sizes := map[string]int32{newest.Name: min(grown, of.wanted)}
	for _, set := range old {
		broken := max(0, min(spare, *set.Spec.Replicas-available[set.Name]))
		sizes[set.Name], spare = *set.Spec.Replicas-broken, spare-broken
	}
	spare = min(spare, all-fewest)
	for _, set := range old {
		less := max(0, min(spare, sizes[set.Name]))
		sizes[set.Name], spare = sizes[set.Name]-less, spare-less
	}
	return sizes, nil
}

// count returns how many pods of the workload, or of one of its ReplicaSets, are as wanted.
func (of *workload) count(set *appsv1.ReplicaSet, is func(*corev1.Pod) bool) (n int32) {
	for _, pod := range of.pods {
		if (set == nil || metav1.IsControlledBy(pod, set)) && is(pod) {
			n++
		}
	}
	return n
}

// sorted returns the active pods of the workload, or of one of its ReplicaSets, in an order that does not change.
func (of *workload) sorted(set *appsv1.ReplicaSet) (pods []*corev1.Pod) {
	for _, pod := range of.pods {
		if controller.IsPodActive(pod) && (set == nil || metav1.IsControlledBy(pod, set)) {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return pods
}

// syncSet creates or deletes pods. Which ones go is for the code of kube-controller-manager to decide.
func (w *world) syncSet(of *workload, set *appsv1.ReplicaSet) {
	pods := of.sorted(set)
	for n := int32(len(pods)); n < *set.Spec.Replicas; n++ { //nolint:gosec // bounded by the scenario
		w.createPod(of, set)
	}
	if surplus := len(pods) - int(*set.Spec.Replicas); surplus > 0 {
		on := map[string]int{}
		for _, pod := range of.sorted(nil) {
			on[pod.Spec.NodeName]++
		}
		ranked := controller.ActivePodsWithRanks{Pods: pods, Rank: make([]int, len(pods)), Now: metav1.NewTime(w.clock.Now())}
		for i, pod := range pods {
			ranked.Rank[i] = on[pod.Spec.NodeName]
		}
		sort.Sort(ranked)
		for _, pod := range ranked.Pods[:surplus] {
			_ = cluster{w}.Delete(pod) // pods can always be deleted
		}
	}
	w.updateStatus(of, set)
}

func (w *world) updateStatus(of *workload, set *appsv1.ReplicaSet) {
	status := appsv1.ReplicaSetStatus{
		ObservedGeneration: set.Generation, Replicas: of.count(set, controller.IsPodActive), ReadyReplicas: of.count(set, ready),
	}
	status.AvailableReplicas, status.FullyLabeledReplicas = status.ReadyReplicas, status.Replicas
	if !equality.Semantic.DeepEqual(status, set.Status) {
		set = set.DeepCopy()
		set.Status = status
		w.store.Update(set)
	}
	if set.Name != of.sets[len(of.sets)-1] {
		return
	}
	deployment, _ := store.Get[*appsv1.Deployment](w.store, of.Namespace, of.name)
	all := appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, UpdatedReplicas: status.Replicas,
		Replicas: of.count(nil, controller.IsPodActive), ReadyReplicas: of.count(nil, ready),
	}
	all.AvailableReplicas, all.UnavailableReplicas = all.ReadyReplicas, max(0, of.wanted-all.ReadyReplicas)
	if !equality.Semantic.DeepEqual(all, deployment.Status) {
		deployment = deployment.DeepCopy()
		deployment.Status = all
		w.store.Update(deployment)
	}
}

func (w *world) createPod(of *workload, set *appsv1.ReplicaSet) {
	of.made++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: fmt.Sprintf("%s-%05d", set.Name, of.made), Labels: set.Spec.Template.Labels,
			OwnerReferences: controlledBy(set, "ReplicaSet"),
		},
		Spec:   set.Spec.Template.Spec,
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable},
	}
	// All pods have the same priority. Without this, the scheduler looks for victims on each node, and finds none.
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = new(int32(0)), new(corev1.PreemptNever)
	w.admit(of, set, pod)
	w.store.Create(pod)
	w.clock.Pass(creation) // the scheduling queue orders pods by the time at which it sees them
}

// syncBudget updates the PodDisruptionBudget of a workload.
func (w *world) syncBudget(of *workload) {
	budget, found := store.Get[*policyv1.PodDisruptionBudget](w.store, of.Namespace, of.name)
	if !found {
		return
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(budget.Spec.MaxUnavailable, int(of.wanted), true)
	if err != nil {
		w.failed = err // the scenario is validated
		return
	}
	status := policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, ExpectedPods: of.wanted}
	status.DesiredHealthy = max(0, of.wanted-int32(n))               //nolint:gosec // as above
	status.CurrentHealthy = int32(of.tally.spot + of.tally.onDemand) //nolint:gosec // as above
	status.DisruptionsAllowed = max(0, status.CurrentHealthy-status.DesiredHealthy)
	if !equality.Semantic.DeepEqual(status, budget.Status) {
		budget = budget.DeepCopy()
		budget.Status = status
		w.store.Update(budget)
	}
}
