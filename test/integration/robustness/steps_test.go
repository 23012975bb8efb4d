// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/robustness/history"
	"berth.dev/berth/test/robustness/judge"
	"berth.dev/berth/test/robustness/network"
	"berth.dev/berth/test/robustness/plan"
	"berth.dev/berth/test/testenv"
)

// actions take the steps of each kind.
var actions map[plan.Kind]func(*runner, *plan.Step)

func init() {
	actions = map[plan.Kind]func(*runner, *plan.Step){
		plan.Scale: (*runner).scale, plan.Remix: (*runner).remix, plan.RollOut: (*runner).rollOut, plan.RollBack: (*runner).rollOut,
		plan.PauseRollout: (*runner).pauseRollout, plan.DeletePods: (*runner).deletePods, plan.RunJob: (*runner).runJob,
		plan.Budget: (*runner).budget, plan.Cordon: (*runner).cordon, plan.Drain: (*runner).drain, plan.Taint: (*runner).taint,
		plan.Relabel: (*runner).relabel, plan.LoseNode: (*runner).loseNode,
		plan.Calm:     func(r *runner, s *plan.Step) { r.wait(s.For) },
		plan.BarePods: (*runner).barePods,
		plan.Quota:    (*runner).quota, plan.NoQuota: (*runner).quota, plan.Autoscale: (*runner).autoscale, plan.Preempt: (*runner).preempt,
		plan.SlowDown: (*runner).slowDown, plan.RemoveCRD: (*runner).removeCRD,
		plan.Declare: (*runner).declare, plan.Withdraw: (*runner).withdraw,
		plan.Kill: (*runner).kill, plan.Stop: (*runner).stop, plan.Outage: (*runner).outage, plan.Disturb: (*runner).disturb,
	}
}

// attempt makes a request of the traffic until it succeeds. What is not there any more is none.
func (r *runner) attempt(what string, request func(ctx context.Context) error) {
	r.T.Helper()
	r.Within(patience, what, func() (bool, string) {
		ctx, cancel := context.WithTimeout(r.Ctx, 10*time.Second)
		defer cancel()
		err := client.IgnoreNotFound(request(ctx))
		return err == nil, fmt.Sprint(err)
	})
}

// change reads an object, changes it and writes the difference.
func (r *runner) change(o client.Object, change func()) {
	r.T.Helper()
	r.attempt("change "+o.GetName(), func(ctx context.Context) error {
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		before := o.DeepCopyObject().(client.Object)
		change()
		return r.Client.Patch(ctx, o, client.MergeFrom(before))
	})
}

func replicasOf(o client.Object) *int32 {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return o.Spec.Replicas
	case *appsv1.StatefulSet:
		return o.Spec.Replicas
	case *appsv1.ReplicaSet:
		return o.Spec.Replicas
	}
	return nil
}

func templateOf(o client.Object) *corev1.PodTemplateSpec {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *appsv1.ReplicaSet:
		return &o.Spec.Template
	}
	return nil
}

func (r *runner) scale(s *plan.Step) {
	o := r.workloads[s.Workload].object
	r.change(o, func() { *replicasOf(o) = s.Replicas })
}

func (r *runner) remix(s *plan.Step) {
	w := r.workloads[s.Workload]
	w.Mix = s.Mix
	if w.Annotated {
		r.change(w.object, func() {
			all := w.object.GetAnnotations() // with those of the Deployment's controller
			maps.Copy(all, mixAnnotations(s.Mix))
			w.object.SetAnnotations(all)
		})
		return
	}
	m := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: s.Workload}}
	r.change(m, func() { m.Spec.SpotPercent, m.Spec.MinOnDemand = s.Mix.SpotPercent, s.Mix.MinOnDemand })
}

// rollOut also rolls back: to the template that had the version.
func (r *runner) rollOut(s *plan.Step) {
	o := r.workloads[s.Workload].object
	r.change(o, func() {
		t := templateOf(o)
		if t.Annotations == nil {
			t.Annotations = map[string]string{}
		}
		if t.Annotations["version"] = s.Version; s.Version == "" {
			delete(t.Annotations, "version")
		}
	})
}

func (r *runner) pauseRollout(s *plan.Step) {
	w := r.workloads[s.Workload]
	w.paused = !w.paused
	d := w.object.(*appsv1.Deployment)
	r.change(d, func() { d.Spec.Paused = w.paused })
}

func (r *runner) deletePods(s *plan.Step) {
	var pods []corev1.Pod
	r.attempt("list the pods of "+s.Workload, func(ctx context.Context) error {
		list := &corev1.PodList{}
		err := r.Client.List(ctx, list, client.InNamespace(r.Namespace), client.MatchingLabels(builders.Labels(s.Workload)))
		pods = list.Items
		return err
	})
	for i := range pods[:min(s.Count, len(pods))] {
		r.attempt("delete pod "+pods[i].Name, func(ctx context.Context) error { return r.Client.Delete(ctx, &pods[i]) })
	}
}

// jobs is the app of all jobs, bare that of all pods without a controller: one mix governs each. The pods of many owners are one group
// of single pods, and one of units.
const jobs, bare, singles, units = "jobs", "bare", "singles", "units"

const (
	manyOwners = 5
	unitSize   = 2
)

// commonMixes are those that no workload of the plan has.
func commonMixes() []*v1alpha1.CapacityMix {
	bySelector := func(m *v1alpha1.CapacityMix) { m.Spec.Group = v1alpha1.PodGroupingSelector }
	byUnit := func(m *v1alpha1.CapacityMix) {
		m.Spec.Unit = &v1alpha1.PodUnit{Type: v1alpha1.PodUnitLabel, LabelKey: judge.UnitLabel}
	}
	return []*v1alpha1.CapacityMix{
		builders.CapacityMix(jobs, 50, 0), builders.CapacityMix(bare, 50, 1), builders.CapacityMix(singles, 60, 1, bySelector),
		builders.CapacityMix(units, 50, 1, bySelector, byUnit),
	}
}

// commonOwners are those of the pods of singles and units.
func commonOwners() (all []client.Object) {
	for i := range manyOwners {
		for app, n := range map[string]int32{singles: 1, units: unitSize} {
			name := fmt.Sprintf("%s-%d", app, i)
			rs := builders.ReplicaSet(app, n, func(t *corev1.PodTemplateSpec) {
				t.Labels["owner"], t.Labels[judge.GroupLabel] = name, app
				if app == units {
					t.Labels[judge.UnitLabel] = name
				}
			})
			rs.Name, rs.Spec.Selector.MatchLabels = name, map[string]string{"owner": name}
			all = append(all, rs)
		}
	}
	return all
}

func (r *runner) runJob(*plan.Step) {
	j := builders.Job(jobs, 2, batchv1.NonIndexedCompletion, builders.CPU("1"), builders.SucceedsAfter(time.Second))
	j.Name = fmt.Sprintf("job-%d", len(r.jobs))
	j.Spec.BackoffLimit = new(int32(100))           // nodes and pods are lost
	j.Spec.TTLSecondsAfterFinished = new(int32(30)) // a long run keeps no more of them than a short one
	r.jobs = append(r.jobs, j.Name)
	r.put(j)
}

// barePods runs pods without a controller, and deletes those of the step before.
func (r *runner) barePods(s *plan.Step) {
	r.deletePods(&plan.Step{Workload: bare, Count: math.MaxInt})
	r.deletePods(&plan.Step{Workload: singles, Count: s.Count})
	r.deletePods(&plan.Step{Workload: units, Count: s.Count})
	for i := range s.Count {
		r.put(builders.Pod(bare, fmt.Sprintf("%s-%d-%d", bare, len(r.steps), i), builders.CPU("1")))
	}
}

func (r *runner) budget(s *plan.Step) {
	w := r.workloads[s.Workload]
	w.forbidden = !w.forbidden
	most := intstr.FromInt32(1)
	if w.forbidden {
		most = intstr.FromInt32(0)
	}
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: s.Workload}}
	r.change(b, func() { b.Spec.MaxUnavailable = &most })
}

// onNode undoes the last step of the kind, and changes another node.
func (r *runner) onNode(s *plan.Step, change func(n *corev1.Node)) {
	r.undo(s.Kind)
	r.disturbed[s.Kind] = s.Node
	r.changeNode(s.Node, change)
}

func (r *runner) changeNode(name string, change func(n *corev1.Node)) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	r.change(n, func() { change(n) })
}

// undo undoes the last step of a kind, unless the node was lost meanwhile.
func (r *runner) undo(k plan.Kind) {
	name := r.disturbed[k]
	if name == "" {
		return
	}
	delete(r.disturbed, k)
	switch k {
	case plan.Cordon, plan.Drain:
		r.changeNode(name, func(n *corev1.Node) { n.Spec.Unschedulable = false })
	case plan.Taint:
		r.changeNode(name, func(n *corev1.Node) { n.Spec.Taints = nil })
	case plan.Relabel:
		r.changeNode(name, func(n *corev1.Node) { n.Labels[cluster.CapacityTypeLabel] = typeOf(name) })
	case plan.Autoscale:
		r.remove(autoscaler(name))
	case plan.Preempt:
		r.remove(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}})
	case plan.Quota:
		r.liftQuota(name)
	case plan.LoseNode:
		for _, spec := range nodes(plan.NodesOfType) {
			if spec.Name == name {
				r.attempt("add node "+name, func(ctx context.Context) error {
					err := r.Cluster.AddNodes(ctx, spec)
					if apierrors.IsAlreadyExists(err) {
						return nil
					}
					return err
				})
			}
		}
	}
}

// typeOf is the capacity type that a node began with.
func typeOf(node string) string { return node[:strings.LastIndex(node, "-")] }

func (r *runner) cordon(s *plan.Step) {
	r.onNode(s, func(n *corev1.Node) { n.Spec.Unschedulable = true })
}

func (r *runner) drain(s *plan.Step) {
	r.cordon(s)
	for _, p := range r.podsOn(s.Node) {
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
		r.attempt("evict pod "+p.Name, func(ctx context.Context) error {
			err := r.Kube.PolicyV1().Evictions(p.Namespace).Evict(ctx, eviction)
			if apierrors.IsTooManyRequests(err) {
				return nil // its budget does not allow it: it stays
			}
			return err
		})
	}
}

func (r *runner) podsOn(node string) (pods []corev1.Pod) {
	r.attempt("list the pods of node "+node, func(ctx context.Context) error {
		list := &corev1.PodList{}
		err := r.Client.List(ctx, list, client.InNamespace(r.Namespace), client.MatchingFields{"spec.nodeName": node})
		pods = list.Items
		return err
	})
	return pods
}

func (r *runner) taint(s *plan.Step) {
	r.onNode(s, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "test.berth.dev/broken", Effect: corev1.TaintEffectNoSchedule}}
	})
}

func (r *runner) relabel(s *plan.Step) {
	other := map[string]string{"spot": "on-demand", "on-demand": "spot"}
	r.onNode(s, func(n *corev1.Node) { n.Labels[cluster.CapacityTypeLabel] = other[typeOf(s.Node)] })
}

// loseNode deletes a node. Its pods are gone with it, as the garbage collector of pods finds a minute later.
func (r *runner) loseNode(s *plan.Step) {
	r.undo(s.Kind)
	r.disturbed[s.Kind] = s.Node
	r.attempt("delete node "+s.Node, func(ctx context.Context) error {
		return r.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.Node}}, client.GracePeriodSeconds(0))
	})
	for _, p := range r.podsOn(s.Node) {
		r.attempt("delete pod "+p.Name, func(ctx context.Context) error { return r.Client.Delete(ctx, &p, client.GracePeriodSeconds(0)) })
	}
}

// leader is the name of the controller that leads; the first one if none reports it.
func (r *runner) leader() string {
	return replicas[max(0, slices.IndexFunc(replicas, r.leads))]
}

// leading is the metric of a controller that leads.
var leading = regexp.MustCompile(`leader_election_master_status{.*} 1\n`)

// leads reports whether a controller runs, and reports that it leads.
func (r *runner) leads(name string) bool {
	c := r.controllers[name]
	if runs, _ := testenv.Runs(c); !runs {
		return false
	}
	ctx, cancel := context.WithTimeout(r.Ctx, 2*time.Second)
	defer cancel()
	text, err := c.Get(ctx, "/metrics")
	return err == nil && leading.Match(text)
}

// kill kills a program; with the leading controller the one that runs Environments, too.
func (r *runner) kill(s *plan.Step) {
	if s.Target == plan.Scheduler {
		testenv.Kill(r.scheduler)
		r.startScheduler()
		return
	}
	for _, name := range []string{r.leader(), environments} {
		testenv.End(r.controllers[name], true)
		r.startController(name)
	}
}

// stop pauses a program while there is traffic, or a component.
func (r *runner) stop(s *plan.Step) {
	type stopped interface {
		Pause()
		Resume()
	}
	var p stopped
	switch s.Target {
	case plan.Scheduler:
		p = r.scheduler
	case plan.Leader:
		p = r.controllers[r.leader()]
	case plan.APIServer:
		p = r.Cluster.Component(cluster.APIServer)
	case plan.Etcd:
		p = r.Cluster.Component(cluster.Etcd)
	}
	p.Pause()
	defer p.Resume()
	r.during(s)
}

// outage kills a component, and starts it again.
func (r *runner) outage(s *plan.Step) {
	name := map[plan.Target]string{plan.APIServer: cluster.APIServer, plan.Etcd: cluster.Etcd}[s.Target]
	require.NoError(r.T, r.Cluster.StopComponent(name))
	r.wait(s.For)
	require.NoError(r.T, r.Cluster.StartComponent(r.Ctx, name))
}

// disturb has a fault in the network of a program, for the leading controller also that of the one of Environments, while there is traffic.
func (r *runner) disturb(s *plan.Step) {
	names := []string{string(history.Scheduler)}
	if s.Target == plan.Leader {
		names = []string{r.leader(), environments}
	}
	for _, name := range names {
		r.networks[name].Set(s.Network)
		defer r.networks[name].Set(network.Fault{})
	}
	r.during(s)
}
