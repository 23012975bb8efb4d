// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/robustness/history"
	"berth.dev/berth/test/robustness/judge"
	"berth.dev/berth/test/robustness/network"
	"berth.dev/berth/test/robustness/plan"
	"berth.dev/berth/test/testenv"
)

const (
	// settle bounds the time until all mixes are exact after the last fault.
	settle = 4 * time.Minute
	// patience bounds the attempts of one operation of the traffic: components may have been away until now.
	patience = time.Minute
	// grace is how long the controller moves nothing after a start or an outage.
	grace = 5 * time.Second
	// moveTimeout is after how long a move has failed.
	moveTimeout = time.Minute
)

// replicas are the names of the two controllers, of which one leads.
var replicas = []string{"controller-a", "controller-b"}

// tuned is the configuration of a run: its waits are short, so that faults meet moves.
func tuned(c *controller.Configuration) {
	testenv.Impatient(c)
	c.Mix.Rebalance.StartupGraceSeconds = int32(grace.Seconds())
	c.Mix.Rebalance.BackoffSeconds, c.Mix.Rebalance.MaxBackoffSeconds = 2, 20
	c.Mix.Rebalance.MoveTimeoutSeconds = int32(moveTimeout.Seconds())
	c.Mix.Rebalance.Storm.QuietSeconds = 20
	c.Mix.AnnotationRepairsPerMinute = 6000 // those of a mix that changes each second are done soon after
}

// workload is one of the plan, as it is now.
type workload struct {
	*plan.Workload
	object client.Object
	paused bool
	// forbidden is set while its disruption budget allows nothing.
	forbidden bool
}

// runner takes the steps of a run.
type runner struct {
	*testenv.World
	seed uint64
	plan *plan.Plan
	// binaries and env are those of programs that are not built and run as they are.
	binaries map[history.Program]string
	env      map[history.Program][]string
	// configs are files in place of the configurations of controllers, by the names of those.
	configs     map[string]string
	networks    map[string]*network.Proxy
	kubeconfigs map[string]string
	scheduler   *cluster.Scheduler
	// rival is the stock kube-scheduler, nil if no workload has it.
	rival       *cluster.Scheduler
	controllers map[string]*cluster.Controller
	workloads   map[string]*workload
	// order has the names of the workloads in the order of the plan.
	order []string
	jobs  []string
	// disturbed are the nodes on which the last step of a kind left its effect.
	disturbed map[plan.Kind]string
	steps     []history.Step
	began     time.Time
	recorder  *history.Recorder
}

// newRunner makes the nodes and begins to record.
func newRunner(w *testenv.World, seed uint64) *runner {
	w.T.Helper()
	r := &runner{
		World: w, seed: seed, began: time.Now(), networks: map[string]*network.Proxy{}, kubeconfigs: map[string]string{},
		controllers: map[string]*cluster.Controller{}, workloads: map[string]*workload{}, disturbed: map[plan.Kind]string{},
		binaries: map[history.Program]string{}, env: map[history.Program][]string{},
	}
	r.ApplyFiles("manifests/rbac/records", "manifests/rbac/environments", "manifests/templates")
	r.T.Cleanup(r.release)
	var err error
	r.recorder, err = history.NewRecorder(w.Ctx, w.Cluster.EtcdURL())
	require.NoError(w.T, err)
	return r
}

// nodeCPU are the CPUs of a node.
const nodeCPU = "4"

// nodes are those of both types. Small nodes take a few pods: bindings compete for the last CPU.
func nodes(n int) []cluster.NodeSpec {
	small := func(n *cluster.NodeSpec) { n.CPU, n.Memory = nodeCPU, "16Gi" }
	return append(cluster.Nodes("spot", n, small), cluster.Nodes("on-demand", n, small)...)
}

// connect makes the network between a program and the API server.
func (r *runner) connect(name, user string) string {
	r.T.Helper()
	if path := r.kubeconfigs[name]; path != "" {
		return path
	}
	config, err := r.Cluster.ConfigFor(user, name)
	require.NoError(r.T, err)
	transport, err := rest.TransportFor(config)
	require.NoError(r.T, err)
	target, err := url.Parse(config.Host)
	require.NoError(r.T, err)
	p := network.New(target, transport, r.seed)
	r.T.Cleanup(p.Close)
	path := filepath.Join(r.T.TempDir(), name+".kubeconfig")
	require.NoError(r.T, p.WriteKubeconfig(path))
	r.networks[name], r.kubeconfigs[name] = p, path
	return path
}

func (r *runner) startScheduler() {
	r.T.Helper()
	o := testenv.SchedulerOptions(testenv.SecondScheduler)
	o.Kubeconfig = r.connect(string(history.Scheduler), cluster.BerthSchedulerUser)
	if binary := r.binaries[history.Scheduler]; binary != "" {
		o.Binary = binary
	}
	o.Env = r.env[history.Scheduler]
	r.scheduler = r.RunScheduler(o)
}

func (r *runner) startController(name string, changes ...func(*controller.Configuration)) {
	r.T.Helper()
	user, configure := cluster.BerthControllerUser, withRecords
	if name == environments {
		user, configure = cluster.BerthEnvironmentsUser, withEnvironments
	}
	r.controllers[name] = r.StartControllerWith(cluster.ProgramOptions{
		Name: name, Kubeconfig: r.connect(name, user), NoWait: true,
		Binary: r.binaries[history.Controller], Env: r.env[history.Controller], ConfigFile: r.configs[name],
	}, append([]func(*controller.Configuration){configure}, changes...)...)
}

// replaceController ends a controller as a rollout does, and starts another one.
func (r *runner) replaceController(name string) {
	r.T.Helper()
	testenv.End(r.controllers[name], false)
	r.startController(name)
}

// replaceScheduler ends the scheduler as a rollout does, and starts another one.
func (r *runner) replaceScheduler() {
	r.T.Helper()
	r.scheduler.Terminate()
	<-r.scheduler.Done()
	r.startScheduler()
}

// begin starts the programs, creates the workloads and declares the products.
func (r *runner) begin(p *plan.Plan) {
	r.T.Helper()
	r.plan = p
	r.startScheduler()
	for _, name := range append(slices.Clone(replicas), environments) {
		r.startController(name)
	}
	r.CreateForTest(r.priorityClass())
	for _, m := range commonMixes() {
		r.Create(m)
	}
	r.Create(commonOwners()...)
	for i := range p.Workloads {
		r.add(&p.Workloads[i])
	}
	if slices.ContainsFunc(p.Workloads, func(w plan.Workload) bool { return w.Rival }) {
		r.rival = r.StartStock()
	}
	for _, name := range plan.Products {
		r.declare(&plan.Step{Product: name, Parts: 2, Replicas: 1, Version: "0"})
	}
}

// add creates a workload.
func (r *runner) add(w *plan.Workload) {
	r.T.Helper()
	template := []func(*corev1.PodTemplateSpec){builders.CPU("1")}
	if w.Gated {
		template = append(template, builders.Gated)
	}
	if w.Rival {
		template = append(template, builders.ByDefault)
	}
	now := &workload{Workload: w}
	switch w.Owner {
	case plan.Deployment:
		now.object = builders.Deployment(w.Name, w.Replicas, template...)
	case plan.StatefulSet:
		now.object = builders.StatefulSet(w.Name, w.Replicas, appsv1.ParallelPodManagement, template...)
	case plan.Ordered:
		now.object = builders.StatefulSet(w.Name, w.Replicas, appsv1.OrderedReadyPodManagement, template...)
	case plan.ReplicaSet:
		now.object = builders.ReplicaSet(w.Name, w.Replicas, template...)
	}
	switch {
	case w.Invalid:
		now.object.SetAnnotations(invalidMix)
	case w.NoMix:
	case w.Annotated:
		now.object.SetAnnotations(mixAnnotations(w.Mix))
	default:
		r.Create(mixOf(w))
	}
	if w.Budgeted {
		r.Create(builders.PodDisruptionBudget(w.Name, builders.MaxUnavailable("1")))
	}
	r.Create(now.object)
	r.workloads[w.Name] = now
	r.order = append(r.order, w.Name)
}

// mixOf is the CapacityMix of a workload.
func mixOf(w *plan.Workload) *v1alpha1.CapacityMix {
	return builders.CapacityMix(w.Name, w.Mix.SpotPercent, w.Mix.MinOnDemand)
}

// invalidMix are annotations that are no mix.
var invalidMix = map[string]string{v1alpha1.SpotPercentAnnotation: "most"}

func mixAnnotations(m split.Mix) map[string]string {
	return builders.MixAnnotations(int(m.SpotPercent), int(m.MinOnDemand))
}

// step takes one step, and pauses for the moment that the plan has.
func (r *runner) step(s *plan.Step) {
	r.T.Helper()
	r.restart()
	done := history.Step{
		Text: s.String(), Fault: s.Fault(), Began: time.Now(),
		Down: s.Target == plan.APIServer && s.Kind == plan.Outage, Outage: isOutage(s),
	}
	if s.Kind == plan.RemoveCRD {
		done.Removed = mixes
	}
	r.T.Log(done.Text)
	actions[s.Kind](r, s)
	done.Ended = time.Now()
	r.steps = append(r.steps, done)
	r.wait(s.Pause)
}

// isOutage reports whether a controller has to notice that the API server is away: a watch that breaks is tried again after up to two
// seconds, and a call ends after five. After a shorter outage the watches have missed nothing.
func isOutage(s *plan.Step) bool {
	least := map[plan.Kind]time.Duration{plan.Outage: 3 * time.Second, plan.Stop: 8 * time.Second}[s.Kind]
	return s.Target == plan.APIServer && s.For >= least
}

// rest waits until Berth writes nothing, and then for two resyncs, in which it must write nothing.
func (r *runner) rest() {
	r.T.Helper()
	const quiet = 7 * time.Second // longer than a resync
	r.Within(patience, "the controllers lead", func() (bool, string) {
		return slices.ContainsFunc(replicas, r.leads) && (r.controllers[environments] == nil || r.leads(environments)), ""
	})
	writes := r.Count(func(q testenv.Request) bool {
		ours := []string{cluster.BerthControllerUser, cluster.BerthSchedulerUser, cluster.BerthEnvironmentsUser}
		return slices.Contains(ours, q.User) && q.Write() && !slices.Contains(judge.Harmless, q.Resource)
	})
	last, since := 0, time.Now()
	r.Within(patience, "nothing is written any more", func() (bool, string) {
		if n := writes(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > quiet, fmt.Sprintf("%d writes since all mixes are exact", last)
	})
	began := time.Now()
	r.wait(testenv.Holds)
	r.steps = append(r.steps, history.Step{Text: "rest", Rest: true, Began: began, Ended: time.Now()})
}

// during takes the steps of traffic during a fault, which lasts at least as long as the plan has it.
func (r *runner) during(s *plan.Step) {
	r.T.Helper()
	until := time.Now().Add(s.For)
	for i := range s.During {
		inner := &s.During[i]
		done := history.Step{Text: inner.String(), Began: time.Now()}
		actions[inner.Kind](r, inner)
		done.Ended = time.Now()
		r.steps = append(r.steps, done)
		r.wait(inner.Pause)
	}
	r.wait(time.Until(until))
}

func (r *runner) wait(d time.Duration) { pause(r.Ctx, d) }

// cacheExit is why the framework of kube-scheduler ends a scheduler whose watch of pods broke while a pod was replaced by one of the same
// name on another node: https://github.com/kubernetes/kubernetes/pull/141255.
const cacheExit = "Pod updated on a different node than previously added to"

// restart does what a kubelet does for a controller that has ended because it lost its lease. A scheduler has none, and ends by itself
// only for cacheExit.
func (r *runner) restart() {
	r.T.Helper()
	r.restartControllers()
	if r.ended(r.scheduler) {
		r.startScheduler()
	}
	if r.rival != nil && r.ended(r.rival) {
		r.rival = r.StartStock()
	}
}

func (r *runner) restartControllers() {
	r.T.Helper()
	for name, c := range r.controllers {
		if runs, _ := testenv.Runs(c); !runs {
			r.startController(name)
		}
	}
}

// ended reports whether a scheduler has ended, which it does only for cacheExit.
func (r *runner) ended(s *cluster.Scheduler) bool {
	r.T.Helper()
	runs, log := testenv.Runs(s)
	if !runs {
		require.Contains(r.T, log, cacheExit, "the scheduler ended by itself")
		r.T.Log("a scheduler ended: its cache has a pod of the same name on another node")
	}
	return !runs
}

// settle ends the faults, and waits until all workloads are exactly in their mix.
func (r *runner) settle() {
	r.T.Helper()
	for _, p := range r.networks {
		p.Set(network.Fault{})
	}
	for k := range r.disturbed {
		r.undo(k)
	}
	r.restart()
	for _, name := range r.order {
		w := r.workloads[name]
		if w.paused {
			r.pauseRollout(&plan.Step{Workload: name})
		}
		if w.forbidden {
			r.budget(&plan.Step{Workload: name})
		}
	}
	deadline := time.Now().Add(settle)
	r.waitAllSettled(deadline)
	r.waitProducts(deadline)
	for _, name := range r.jobs {
		r.Within(time.Until(deadline), name+" completes", func() (bool, string) {
			r.restart()
			j := &batchv1.Job{}
			err := r.Client.Get(r.Ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, j)
			// One that is gone has succeeded: only those that have are deleted.
			return apierrors.IsNotFound(err) || err == nil && j.Status.Succeeded == *j.Spec.Completions, fmt.Sprintf("%v %+v", err, j.Status)
		})
	}
	for app, n := range map[string]int{bare: 0, singles: manyOwners, units: unitSize * manyOwners} {
		r.Within(time.Until(deadline), "the pods of "+app+" run", func() (bool, string) {
			r.restart()
			pods := r.Live(app)
			return len(pods) >= n && len(testenv.Where(pods, testenv.Ready)) == len(pods), r.SplitOf(pods).String()
		})
	}
	r.rest()
}

func (r *runner) waitAllSettled(deadline time.Time) {
	r.T.Helper()
	for _, name := range r.order {
		r.waitSettled(r.workloads[name], deadline)
	}
}

func (r *runner) waitSettled(w *workload, deadline time.Time) {
	r.T.Helper()
	var n int // an autoscaler may have the last word
	r.Within(time.Until(deadline), w.Name+" is rolled out and in its mix", func() (bool, string) {
		r.restart()
		if err := r.Client.Get(r.Ctx, client.ObjectKeyFromObject(w.object), w.object); err != nil {
			return false, err.Error()
		}
		n = int(*replicasOf(w.object))
		split, ready := r.Split(w.Name), len(testenv.Where(r.Live(w.Name), testenv.Ready))
		inMix := w.NoMix || split == testenv.SplitBy(w.Mix, n)
		return rolledOut(w.object) && ready == n && inMix, fmt.Sprint(split, ", ", ready, " Ready, wanted ", w.Mix, " of ", n)
	})
	if !w.NoMix {
		r.WaitExact(w.Name, w.Mix, n, time.Until(deadline))
	}
}

// rolledOut reports whether all pods of a workload are of its template: two revisions have slots of their own.
func rolledOut(o client.Object) bool {
	switch o := o.(type) {
	case *appsv1.Deployment:
		s := &o.Status
		return s.ObservedGeneration == o.Generation && s.UpdatedReplicas == *o.Spec.Replicas && s.Replicas == *o.Spec.Replicas
	case *appsv1.StatefulSet:
		s := &o.Status
		return s.ObservedGeneration == o.Generation && s.UpdateRevision == s.CurrentRevision && s.Replicas == *o.Spec.Replicas
	}
	return true
}

// history is what happened until now.
func (r *runner) history() *history.History {
	r.T.Helper()
	h := &history.History{Run: history.Run{
		Seed: r.seed, Plan: r.plan, Steps: r.steps, Grace: grace, MoveTimeout: moveTimeout,
		Versions: map[string]string{}, Configurations: map[string]string{},
	}}
	if v, err := r.Kube.Discovery().ServerVersion(); err == nil {
		h.Versions["kube-apiserver"], h.Versions["go"] = v.GitVersion, v.GoVersion
	}
	var err error
	h.Changes, err = r.recorder.Close(r.Ctx)
	require.NoError(r.T, err)
	r.AuditAll(func(testenv.Request) bool { return false }) // waits until the log has what was answered before
	entries, err := r.Cluster.ReadAuditLog(func(e *cluster.AuditEvent) bool { _, ok := history.RequestOf(e, r.began); return ok })
	require.NoError(r.T, err)
	for i := range entries {
		if request, ok := history.RequestOf(&entries[i], r.began); ok {
			h.Requests = append(h.Requests, request)
		}
	}
	history.SortRequests(h.Requests)
	for name, c := range r.controllers {
		h.Configurations[name] = testenv.ReadFile(r.T, c.ConfigFile)
	}
	h.Configurations[string(history.Scheduler)] = testenv.ReadFile(r.T, testenv.Path(testenv.SecondScheduler))
	return h
}

// keep writes a history that was judged to be bad, with the logs of the programs.
func (r *runner) keep(h *history.History) string {
	r.T.Helper()
	for _, name := range append(slices.Sorted(maps.Keys(r.controllers)), string(history.Scheduler)) {
		log, err := os.ReadFile(filepath.Join(r.Cluster.LogDir(), name+".log"))
		require.NoError(r.T, err)
		for text := range strings.Lines(string(log)) {
			h.Logs = append(h.Logs, history.Line{Program: name, Text: strings.TrimSuffix(text, "\n")})
		}
	}
	path := testenv.Path(filepath.Join("out", "robustness", strings.ReplaceAll(r.T.Name(), "/", "-")+".jsonl"))
	require.NoError(r.T, os.MkdirAll(filepath.Dir(path), 0o755))
	f, err := os.Create(path)
	require.NoError(r.T, err)
	require.NoError(r.T, h.Write(f))
	require.NoError(r.T, f.Close())
	return path
}
