// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/perf/bench"
	"berth.dev/berth/test/testenv"
)

const (
	// qps and parallelism are those of all peers; 16 and verbosity 0 are the defaults.
	qps         = 5000
	parallelism = 16
	// floorWorkers is how many requests the API floor has under way.
	floorWorkers = 64
)

// stockConfig is the unchanged scheduler; its profile has the default plugins.
const stockConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
`

// equal sets what all schedulers have in common, and has them place the pods that name no scheduler.
func equal(c testenv.Config) {
	c["clientConnection"] = map[string]any{"qps": qps, "burst": qps}
	c["leaderElection"] = map[string]any{"leaderElect": false}
	c["parallelism"] = parallelism
	for _, profile := range c.Profiles() {
		profile["schedulerName"] = corev1.DefaultSchedulerName
	}
}

// schedulers are the programs and configurations of the peers.
type schedulers struct {
	p     *plane
	dir   string
	paths struct{ stock, berth string }
}

func (p *plane) schedulers(ctx context.Context) *schedulers {
	p.t.Helper()
	s := &schedulers{p: p, dir: p.t.TempDir()}
	var err error
	s.paths.stock, err = cluster.Binary(ctx, os.Stderr, cluster.StockScheduler)
	require.NoError(p.t, err)
	if s.paths.berth = os.Getenv(envBinary); s.paths.berth == "" {
		s.paths.berth, err = cluster.BuildScheduler(ctx, testenv.Path("."), os.Stderr, false)
		require.NoError(p.t, err)
	}
	return s
}

// stock starts the unchanged scheduler.
func (s *schedulers) stock(ctx context.Context) *decider {
	return s.start(ctx, "stock", s.paths.stock, []byte(stockConfig))
}

// stockUnspread starts it without the constraints that it gives to pods of a
// workload that have none: they are off in the profile that Berth ships, and
// most of what a cycle of the stock scheduler costs in a large cluster.
func (s *schedulers) stockUnspread(ctx context.Context) *decider {
	return s.start(ctx, "stock-unspread", s.paths.stock, []byte(stockConfig), func(c testenv.Config) {
		for _, profile := range c.Profiles() {
			profile["pluginConfig"] = []any{map[string]any{"name": "PodTopologySpread", "args": map[string]any{"defaultingType": "List"}}}
		}
	})
}

// berth starts Berth's with the profile that it ships, and a sample of so many nodes.
func (s *schedulers) berth(sample int) starter {
	return func(ctx context.Context) *decider {
		profile, err := os.ReadFile(testenv.Path(testenv.SecondScheduler))
		require.NoError(s.p.t, err)
		return s.start(ctx, fmt.Sprintf("berth-%d", sample), s.paths.berth, profile,
			testenv.PluginArgs("CapacityMix", map[string]any{"nodeSampleSize": sample}))
	}
}

// start starts a scheduler as the same user as any other: the API server's
// priorities and its rights are the same for all.
func (s *schedulers) start(ctx context.Context, name, binary string, config []byte, changes ...func(testenv.Config)) *decider {
	t := s.p.t
	t.Helper()
	c := testenv.Config{}
	require.NoError(t, yaml.Unmarshal(config, &c))
	for _, change := range append(changes, equal) {
		change(c)
	}
	text, err := yaml.Marshal(c)
	require.NoError(t, err)
	file := filepath.Join(s.dir, name+".yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	process, err := s.p.StartScheduler(ctx, cluster.ProgramOptions{Name: name, Binary: binary, ConfigFile: file, NoWait: true})
	require.NoError(t, err)
	return &decider{process: process, stop: func() { testenv.Kill(process) }}
}

// floor binds every pod that waits and records the Event that a scheduler does,
// in this process, and decides nothing: what the API server takes.
func (p *plane) floor(workers int) starter {
	return func(ctx context.Context) *decider {
		config, err := p.ConfigFor(cluster.BerthSchedulerUser)
		require.NoError(p.t, err)
		config.QPS, config.Burst, config.ContentType = qps, qps, runtime.ContentTypeProtobuf
		c := kubernetes.NewForConfigOrDie(config)
		pods, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		require.NoError(p.t, err)
		nodes, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		require.NoError(p.t, err)
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() {
			_, _, err := bench.Saturated(workers, len(pods.Items), func(i int) error {
				return bind(ctx, c, &pods.Items[i], nodes.Items[i%len(nodes.Items)].Name)
			})
			done <- err
		}()
		return &decider{stop: func() { cancel(); <-done }}
	}
}

// bind writes for a pod what a scheduler does.
func bind(ctx context.Context, c kubernetes.Interface, p *corev1.Pod, node string) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	if err := c.CoreV1().Pods(p.Namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	now := time.Now()
	_, err := c.EventsV1().Events(p.Namespace).Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: fmt.Sprintf("%s.%x", p.Name, now.UnixNano())},
		EventTime:  metav1.NewMicroTime(now), ReportingController: "default-scheduler", ReportingInstance: "default-scheduler-floor",
		Action: "Binding", Reason: "Scheduled", Type: corev1.EventTypeNormal,
		Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID, APIVersion: "v1", ResourceVersion: p.ResourceVersion},
		Note:      fmt.Sprintf("Successfully assigned %s/%s to %s", p.Namespace, p.Name, node),
	}, metav1.CreateOptions{})
	return err
}
