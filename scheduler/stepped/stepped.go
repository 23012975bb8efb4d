// SPDX-License-Identifier: Apache-2.0

// Package stepped has kube-scheduler with Berth's plugin CapacityMix, which places one pod at each step by a clock of its caller: what a
// simulation needs. The queue, the plugins and their order are those of berth-scheduler.
package stepped

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/utils/clock"

	_ "berth.dev/berth/internal/mix/arguments/scheme" // decodes the arguments of the plugin
	"berth.dev/berth/plugins/capacitymix"
	"berth.dev/berth/plugins/topologyspread"
)

// Window is how often the scheduling queue looks for pods whose back-off is over, at full seconds.
const Window = time.Second

const (
	// flushEvery is how often kube-scheduler looks for pods that wait without an event for as long as maxUnschedulable.
	flushEvery       = 30 * time.Second
	maxUnschedulable = 5 * time.Minute
	// bindingEnds is the name of the plugin that is called as a binding cycle ends.
	bindingEnds = "BindingEnds"
)

// Clock is that of a scheduler.
type Clock interface {
	clock.WithTicker
	clock.WithDelayedExecution
}

// profiles are the profiles: berth-scheduler, as manifests/scheduler/second-scheduler.yaml has it for pods without policies, limits
// and reservations, and default-scheduler as Kubernetes has it.
const profiles = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: berth-scheduler
  plugins:
    multiPoint: {enabled: [{name: CapacityMix, weight: 3}]}
    postFilter: {enabled: [{name: CapacityMix}]}
    podGroupPostFilter: {enabled: [{name: CapacityMix}]}
    preFilter: {enabled: [{name: PodTopologySpread}]}
    preScore: {enabled: [{name: TopologySpreadScore}], disabled: [{name: PodTopologySpread}]}
    score: {enabled: [{name: TopologySpreadScore, weight: 2}], disabled: [{name: PodTopologySpread}]}
    bind: {enabled: [{name: CapacityMix}]}
- schedulerName: default-scheduler
`

// Options are what a scheduler is created with.
type Options struct {
	Clock  Clock
	Client kubernetes.Interface
	// Informers deliver each change before the call returns that makes it.
	Informers informers.SharedInformerFactory
}

// Scheduler places pods, one at each step. It is for one goroutine.
type Scheduler struct {
	// Mix is the plugin CapacityMix of the profile berth-scheduler.
	Mix *capacitymix.CapacityMix

	upstream *scheduler.Scheduler
	clock    Clock
	stop     context.CancelFunc
	ctx      context.Context //nolint:containedctx // that of its life
	// tried is set once nodes are selected for a pod, ended receives the end of its cycle.
	tried bool
	ended chan struct{}
	// active is how many pods there are at least in the active queue.
	active int
	// refused are the pods that were tried without success, until they are bound or gone.
	refused map[types.UID]*framework.QueuedPodInfo
	// look is when pods that wait are looked at next, flush when those without an event were last.
	look, flush time.Time
}

// timeless turns off the feature gates of kube-scheduler whose results depend on how long something took. They are those of the process, so
// it does so once, before the first scheduler: several may run at a time.
var timeless = sync.OnceValue(func() error {
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		string(features.OpportunisticBatching): false, string(features.SchedulerAsyncPreemption): false,
	})
})

// New returns a scheduler. Feature gates of kube-scheduler whose results depend on how long something took are turned off in the process.
func New(ctx context.Context, o Options) (*Scheduler, error) {
	if err := timeless(); err != nil {
		return nil, err
	}
	configuration, err := decode()
	if err != nil {
		return nil, fmt.Errorf("configure the scheduler: %w", err)
	}
	ctx, stop := context.WithCancel(klog.NewContext(ctx, klog.Logger{}))
	s := &Scheduler{
		clock: o.Clock, ctx: ctx, stop: stop, ended: make(chan struct{}, 1), flush: o.Clock.Now(),
		refused: map[types.UID]*framework.QueuedPodInfo{},
	}
	for i := range configuration.Profiles {
		p := configuration.Profiles[i].Plugins
		p.PostBind.Enabled = append(p.PostBind.Enabled, schedconfig.Plugin{Name: bindingEnds})
	}
	s.upstream, err = scheduler.New(ctx, o.Client, o.Informers, nil, withoutEvents,
		scheduler.WithClock(o.Clock), scheduler.WithParallelism(1), scheduler.WithProfiles(configuration.Profiles...),
		scheduler.WithPercentageOfNodesToScore(configuration.PercentageOfNodesToScore),
		scheduler.WithPodInitialBackoffSeconds(configuration.PodInitialBackoffSeconds),
		scheduler.WithPodMaxBackoffSeconds(configuration.PodMaxBackoffSeconds),
		scheduler.WithFrameworkOutOfTreeRegistry(s.registry(o.Clock)))
	if err != nil {
		stop()
		return nil, fmt.Errorf("create the scheduler: %w", err)
	}
	for name, f := range s.upstream.Profiles {
		s.upstream.Profiles[name] = ordered{f}
	}
	fail := s.upstream.FailureHandler
	s.upstream.FailureHandler = func(ctx context.Context, f framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status,
		nominated *fwk.NominatingInfo, start time.Time,
	) {
		fail(ctx, f, pod, status, nominated, start)
		s.refused[pod.Pod.UID] = pod
		s.ended <- struct{}{}
	}
	place := s.upstream.SchedulePod
	s.upstream.SchedulePod = func(ctx context.Context, f framework.Framework, state fwk.CycleState, pod *framework.QueuedPodInfo) (
		scheduler.ScheduleResult, error,
	) {
		s.tried = true
		return place(ctx, f, state, pod)
	}
	if err := s.Mix.Startup.Wait(ctx); err != nil {
		stop()
		return nil, err
	}
	return s, nil
}

func decode() (*schedconfig.KubeSchedulerConfiguration, error) {
	c := &schedconfig.KubeSchedulerConfiguration{}
	_, _, err := schedscheme.Codecs.UniversalDecoder().Decode([]byte(profiles), nil, c)
	return c, err
}

// registry has the plugins that are not in kube-scheduler.
func (s *Scheduler) registry(c Clock) frameworkruntime.Registry {
	create := capacitymix.NewFactory(capacitymix.WithClock(c))
	return frameworkruntime.Registry{
		capacitymix.Name: func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			p, err := create(ctx, args, handle)
			s.Mix, _ = p.(*capacitymix.CapacityMix) // nil with an error
			return p, err
		},
		topologyspread.Name: topologyspread.New,
		bindingEnds:         func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return end{s}, nil },
	}
}

// Close ends what the plugins have running.
func (s *Scheduler) Close() { s.stop() }

// Step tries the first pod of the queue, and returns once it is bound or was refused. It returns false if no pod is to be tried now.
func (s *Scheduler) Step() bool {
	if s.active == 0 {
		if now := s.clock.Now(); !now.Before(s.look) {
			s.look = now.Truncate(Window).Add(Window)
			s.requeue(now)
		}
		if s.active = len(s.upstream.SchedulingQueue.PodsInActiveQ()); s.active == 0 {
			return false
		}
	}
	s.active--
	s.tried = false
	if s.upstream.ScheduleOne(s.ctx); s.tried {
		<-s.ended // the binding cycle has a goroutine of its own
	}
	return true
}

// Gone has a deleted pod forgotten. The queue is counted again before the next step: it may have had the pod.
func (s *Scheduler) Gone(uid types.UID) {
	s.active = 0
	delete(s.refused, uid)
}

// requeue activates the pods whose back-off is over, and those that have waited for so long that kube-scheduler tries them without an
// event. Goroutines of the queue do so in kube-scheduler.
func (s *Scheduler) requeue(now time.Time) {
	queue := s.upstream.SchedulingQueue
	var due []*framework.QueuedPodInfo
	collect := func(pods []*corev1.Pod, over func(*framework.QueuedPodInfo) bool) {
		for _, pod := range pods {
			if info := s.refused[pod.UID]; info != nil && over(info) {
				due = append(due, info)
			}
		}
	}
	collect(queue.PodsInBackoffQ(), func(p *framework.QueuedPodInfo) bool { return !p.GetBackoffExpiration().After(now) })
	if now.Sub(s.flush) >= flushEvery {
		s.flush = now
		collect(queue.UnschedulablePods(), func(p *framework.QueuedPodInfo) bool {
			return now.Sub(p.GetTimestamp()) > maxUnschedulable
		})
	}
	// One by one, in their order: several at a time are activated in the order of a map.
	slices.SortStableFunc(due, func(a, b *framework.QueuedPodInfo) int {
		if c := a.GetTimestamp().Compare(b.GetTimestamp()); c != 0 {
			return c
		}
		return strings.Compare(string(a.Pod.UID), string(b.Pod.UID))
	})
	for _, info := range due {
		queue.Activate(klog.Logger{}, map[string]*corev1.Pod{info.Pod.Namespace + "/" + info.Pod.Name: info.Pod})
	}
}

// end is called as a binding cycle ends.
type end struct{ *Scheduler }

func (end) Name() string { return bindingEnds }

func (e end) PostBind(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	delete(e.refused, pod.UID) // who waits for the end does not read it meanwhile
	e.ended <- struct{}{}
}

// withoutEvents returns recorders that record nothing.
func withoutEvents(string) events.EventRecorderLogger { return silent{} }

type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

func (s silent) WithLogger(klog.Logger) events.EventRecorderLogger { return s }

var _ profile.RecorderFactory = withoutEvents

// ordered is the framework of a profile in which nodes of the same score have an order. In kube-scheduler it is often that of a map, and so
// chance: a simulation would not be the same twice.
type ordered struct{ framework.Framework }

func (f ordered) RunScorePlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (
	[]fwk.NodePluginScores, *fwk.Status,
) {
	scores, status := f.Framework.RunScorePlugins(ctx, state, pod, nodes)
	slices.SortFunc(scores, func(a, b fwk.NodePluginScores) int {
		return cmp.Or(cmp.Compare(hash(a.Name), hash(b.Name)), strings.Compare(a.Name, b.Name))
	})
	return scores, status
}

// hash has no relation to the order of names: the first node of a name would have more pods than others.
func hash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return h.Sum64()
}
