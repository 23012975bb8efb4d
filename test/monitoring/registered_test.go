// SPDX-License-Identifier: Apache-2.0

package monitoring_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/component-base/metrics/legacyregistry"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"berth.dev/berth/controllers/backups"
	"berth.dev/berth/controllers/environments"
	_ "berth.dev/berth/controllers/limits"           // likewise
	_ "berth.dev/berth/controllers/mix/gatefailopen" // likewise
	"berth.dev/berth/controllers/mix/interruptions"
	mover "berth.dev/berth/controllers/mix/rebalance"
	"berth.dev/berth/controllers/mix/status"
	"berth.dev/berth/controllers/mix/workloads"
	_ "berth.dev/berth/controllers/podwebhook" // likewise
	_ "berth.dev/berth/controllers/policies"   // likewise
	"berth.dev/berth/controllers/records"
	"berth.dev/berth/hack/codegen/metricsource"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
	_ "berth.dev/berth/services/server" // registers its metrics
)

const (
	// root is where the paths of this package begin.
	root = "../../"
	// pluginFolder has the scheduler's metrics.
	pluginFolder = "plugins"
)

// metric is one that a binary has.
type metric struct {
	labels    []string
	histogram bool
	// values are the values that a label may have, where the code fixes them.
	values map[string][]string
}

// described are the metrics of a collector. Descriptions do not show their
// fields but as text.
func described(t *testing.T, c prometheus.Collector) map[string]*metric {
	t.Helper()
	ch := make(chan *prometheus.Desc)
	go func() { c.Describe(ch); close(ch) }()
	shape := regexp.MustCompile(
		`^Desc\{fqName: "([a-z0-9_]+)", .*constLabels: \{\}, variableLabels: \{([a-z0-9_,]*)\}\}$`)
	found := map[string]*metric{}
	for d := range ch {
		m := shape.FindStringSubmatch(d.String())
		if strings.Contains(d.String(), `fqName: "berth_`) {
			require.NotNil(t, m, "a metric with constant labels, or client_golang writes descriptions otherwise: %s", d)
		}
		if m != nil {
			labels := strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' })
			found[m[1]] = &metric{labels: labels, values: map[string][]string{}}
		}
	}
	return found
}

// learn adds what samples have: the values of labels whose values the code fixes.
func learn(all map[string]*metric, families []*dto.MetricFamily, fixed ...string) {
	for _, f := range families {
		m := all[f.GetName()]
		if m == nil {
			continue
		}
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				if slices.Contains(fixed, l.GetName()) && !slices.Contains(m.values[l.GetName()], l.GetValue()) {
					m.values[l.GetName()] = append(m.values[l.GetName()], l.GetValue())
				}
			}
		}
	}
}

// ofController are all metrics of berth-controller's registry.
func ofController(t *testing.T) map[string]*metric {
	t.Helper()
	all := described(t, metrics.Registry.(prometheus.Collector))
	families, err := metrics.Registry.Gather()
	require.NoError(t, err)
	learn(all, families, "outcome", "result")

	// The collector that Add registers. A pedantic registry refuses what was not described.
	b := workloads.NewStore()
	b.Put(rebalance.Entry{
		Group: clusterstate.Group{Key: governing.GroupKey{Namespace: "shop", ID: "web"}, Governing: &governing.Mix{Mix: split.New(70, 2)}, Replicas: 10},
		Mix:   "web", Verdict: rebalance.Verdict{Reason: rebalance.ReasonInsufficientCapacity},
	})
	c := &status.Collector{Workloads: b, Clock: testingclock.NewFakePassiveClock(time.Unix(0, 0))}
	own := described(t, c)
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(c))
	families, err = r.Gather()
	require.NoError(t, err)
	assert.Len(t, families, len(own), "the store does not give every metric that the collector describes")
	learn(own, families, "type")
	maps.Copy(all, own)
	maps.Copy(all, described(t, &status.SavingsCollector{}))
	maps.Copy(all, described(t, &mover.Controller{}))
	maps.Copy(all, described(t, &interruptions.Controller{}))
	maps.Copy(all, described(t, environments.NewCollector(nil)))
	maps.Copy(all, described(t, environments.NewUsageCollector(nil, nil, nil)))
	for _, collector := range backups.NewCollectors(nil) {
		maps.Copy(all, described(t, collector))
	}
	maps.Copy(all, described(t, records.NewCollector(nil)))
	for name, m := range ofSource(t) {
		if all[name] != nil {
			all[name].histogram = m.histogram // a description does not have it
		}
	}

	for name, fixed := range map[string]struct {
		label  string
		values []string
	}{
		"berth_mix_evictions_total":     {"result", constants(t, "controllers/mix/rebalance", "result")},
		"leader_election_master_status": {"name", leaseNames(t)},
	} {
		require.NotNil(t, all[name], "%s is not registered", name)
		all[name].values[fixed.label] = fixed.values
	}
	return all
}

// ofSource are Berth's metrics in the controller, from the source.
func ofSource(t *testing.T) map[string]*metric {
	t.Helper()
	all := declared(t, "controllers")
	maps.Copy(all, declared(t, "services"))
	return all
}

// ofScheduler are Berth's metrics in the scheduler, from the plugin's source:
// its variables are its own.
func ofScheduler(t *testing.T) map[string]*metric {
	t.Helper()
	return declared(t, pluginFolder)
}

// configFolder is what the programs that read a ControllerConfiguration share.
const configFolder = "internal/config/program"

// berth are the metrics that Berth's own code has, in both binaries.
func berth(t *testing.T) map[string]*metric {
	t.Helper()
	all := declared(t, "cmd/berth-controller")
	maps.Copy(all, declared(t, configFolder))
	maps.Copy(all, ofScheduler(t))
	for name, m := range ofController(t) {
		if strings.HasPrefix(name, "berth_") {
			all[name] = m
		}
	}
	return all
}

// stock are the metrics of others that the kit reads.
func stock(t *testing.T) map[string]*metric {
	t.Helper()
	return map[string]*metric{
		// Prometheus itself, of every target.
		"up": {},
		// sigs.k8s.io/controller-runtime/pkg/metrics in the controller,
		// k8s.io/component-base/metrics/prometheus/clientgo/leaderelection in the scheduler.
		"leader_election_master_status": ofController(t)["leader_election_master_status"],
		// k8s.io/kubernetes/pkg/scheduler/metrics
		"scheduler_scheduling_attempt_duration_seconds": {labels: []string{"result", "profile"}, histogram: true},
	}
}

func TestTheSchedulersStockMetricsAreAsListed(t *testing.T) {
	schedulermetrics.Register()
	schedulermetrics.PodScheduled("p", 0.1)
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	for name, want := range stock(t) {
		if !strings.HasPrefix(name, "scheduler_") {
			continue
		}
		i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == name })
		require.GreaterOrEqual(t, i, 0, name)
		var labels []string
		for _, l := range families[i].GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		assert.ElementsMatch(t, want.labels, labels, name)
		assert.Equal(t, want.histogram, families[i].GetType() == dto.MetricType_HISTOGRAM, name)
	}
}

// What the source declares is what the registries hold: nothing is forgotten.
func TestEveryDeclaredMetricIsRegistered(t *testing.T) {
	held := ofController(t)
	source := ofSource(t)
	require.NotEmpty(t, source)
	for name, m := range source {
		if assert.NotNil(t, held[name], "%s is declared, and not registered", name) {
			assert.ElementsMatch(t, m.labels, held[name].labels, name)
		}
	}
	for name, m := range berth(t) {
		assert.True(t, strings.HasPrefix(name, "berth_"), name)
		for _, l := range m.labels {
			assert.NotContains(t, []string{"pod", "node", "workload"}, l, "%s has a series for each", name)
		}
	}
	for name := range declared(t, "internal") {
		assert.Contains(t, declared(t, configFolder), name, "metrics belong to the binaries: add the folder to berth()")
	}
}

// constants are the values of a package's string constants with a prefix.
func constants(t *testing.T, folder, prefix string) (values []string) {
	t.Helper()
	for name, value := range sourceOf(t, folder).Constants {
		if strings.HasPrefix(name, prefix) {
			values = append(values, value)
		}
	}
	require.NotEmpty(t, values, "%s: no constant %s…", folder, prefix)
	return values
}

func sourceOf(t *testing.T, folder string) *metricsource.Source {
	t.Helper()
	s, err := metricsource.Read(root + folder)
	require.NoError(t, err)
	return s
}

// declared are the metrics that are made below a folder. Those of the scheduler
// must be handed to MustRegister too.
func declared(t *testing.T, folder string) map[string]*metric {
	t.Helper()
	s := sourceOf(t, folder)
	found := map[string]*metric{}
	for _, m := range s.Metrics {
		assert.NotEmpty(t, m.Help, "%s has no help text", m.Name)
		found[m.Name] = &metric{labels: m.Labels, histogram: m.Kind == "histogram", values: map[string][]string{}}
	}
	if folder == pluginFolder {
		for v, name := range s.Variables {
			assert.True(t, s.Registered[v], "%s is not registered", name)
		}
	}
	return found
}
