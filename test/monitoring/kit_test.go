// SPDX-License-Identifier: Apache-2.0

// Package monitoring_test holds the monitoring kit to what the binaries have:
// alerts, dashboard and docs name metrics, labels and values that exist.
package monitoring_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/internal/mix/rebalance"
)

const runbooks = "docs/monitoring.md"

// The parts of prometheus-operator's kinds that Berth uses. Parsing is strict:
// a field that is not here is a mistake, or has to be looked up and added.
type prometheusRule struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metadata `json:"metadata"`
	Spec            struct {
		Groups []struct {
			Name  string  `json:"name"`
			Rules []alert `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

type serviceMonitor struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metadata `json:"metadata"`
	Spec            struct {
		NamespaceSelector struct {
			MatchNames []string `json:"matchNames"`
		} `json:"namespaceSelector"`
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port            string `json:"port"`
			Scheme          string `json:"scheme"`
			Path            string `json:"path"`
			Interval        string `json:"interval"`
			HonorLabels     bool   `json:"honorLabels"`
			BearerTokenFile string `json:"bearerTokenFile"`
			TLSConfig       struct {
				InsecureSkipVerify bool `json:"insecureSkipVerify"`
			} `json:"tlsConfig"`
			Relabelings []struct {
				TargetLabel string `json:"targetLabel"`
				Replacement string `json:"replacement"`
			} `json:"relabelings"`
		} `json:"endpoints"`
	} `json:"spec"`
}

type metadata struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels"`
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return b
}

// objects are the documents of a YAML file.
func objects[T any](t *testing.T, path string) (list []T) {
	t.Helper()
	r := kyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(read(t, path))))
	for {
		b, err := r.Read()
		if errors.Is(err, io.EOF) {
			require.NotEmpty(t, list)
			return list
		}
		require.NoError(t, err)
		var o T
		require.NoError(t, yaml.UnmarshalStrict(b, &o), path)
		list = append(list, o)
	}
}

func alerts(t *testing.T) []alert {
	t.Helper()
	rules := objects[prometheusRule](t, "manifests/monitoring/prometheus-rules.yaml")
	require.Len(t, rules, 1)
	r := rules[0]
	assert.Equal(t, metav1.TypeMeta{APIVersion: "monitoring.coreos.com/v1", Kind: "PrometheusRule"}, r.TypeMeta)
	assert.Equal(t, "berth-system", r.Metadata.Namespace)
	require.Len(t, r.Spec.Groups, 1)
	return r.Spec.Groups[0].Rules
}

func monitors(t *testing.T) []serviceMonitor {
	t.Helper()
	list := objects[serviceMonitor](t, "manifests/monitoring/servicemonitor.yaml")
	require.Len(t, list, 4)
	return list
}

// jobs are the values of the label job that the ServiceMonitors give.
func jobs(t *testing.T) (names []string) {
	t.Helper()
	for _, m := range monitors(t) {
		for _, e := range m.Spec.Endpoints {
			for _, r := range e.Relabelings {
				assert.Equal(t, "job", r.TargetLabel)
				names = append(names, r.Replacement)
			}
		}
	}
	return names
}

// leaseNames are the leases that the programs hold with the manifests' configurations.
func leaseNames(t *testing.T) (names []string) {
	t.Helper()
	for _, program := range []string{"controller", "records", "environments"} {
		c, err := controller.Parse(read(t, "manifests/"+program+"/config.yaml"))
		require.NoError(t, err)
		names = append(names, c.LeaseName())
	}
	return names
}

// catalogue is what an expression may read.
type catalogue struct {
	metrics map[string]*metric
	jobs    []string
}

func newCatalogue(t *testing.T) *catalogue {
	t.Helper()
	c := &catalogue{metrics: berth(t), jobs: jobs(t)}
	maps.Copy(c.metrics, stock(t))
	return c
}

// problems are what is wrong about an expression. Shown are the labels that a
// text names which is filled in from its result.
func (c *catalogue) problems(expr string, shown []string) (list []string) {
	q, err := parse(expr)
	if err != nil {
		return []string{err.Error()}
	}
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	var labels []string
	for _, s := range q.selectors {
		m, of := c.find(s.metric)
		if m == nil {
			add("no metric %s", s.metric)
			continue
		}
		labels = append(labels, of...)
		for _, x := range s.matchers {
			if !slices.Contains(of, x.label) && x.label != "job" {
				add("%s has no label %s", s.metric, x.label)
			}
			values := m.values[x.label]
			if x.label == "job" {
				values = c.jobs
			}
			for v := range strings.SplitSeq(x.value, "|") {
				if len(values) > 0 && !slices.Contains(values, v) {
					add("%s of %s is never %q", x.label, s.metric, v)
				}
			}
		}
	}
	for _, l := range q.grouping {
		if !slices.Contains(labels, l) {
			add("no metric of it has the label %s", l)
		}
	}
	for _, l := range shown {
		if !slices.Contains(q.grouping, l) {
			add("its result has no label %s", l)
		}
	}
	return list
}

// named returns the names that a pattern finds in a text, its first group.
func named(pattern *regexp.Regexp, text string) (names []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// find returns a metric by the name of its series, and the labels of these.
func (c *catalogue) find(series string) (*metric, []string) {
	if m := c.metrics[series]; m != nil && !m.histogram {
		return m, m.labels
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		name, cut := strings.CutSuffix(series, suffix)
		if m := c.metrics[name]; cut && m != nil && m.histogram {
			if suffix == "_bucket" {
				return m, append(slices.Clone(m.labels), "le")
			}
			return m, m.labels
		}
	}
	return nil, nil
}

// A check that cannot fail is none.
func TestTheCatalogueRefuses(t *testing.T) {
	c := newCatalogue(t)
	for expr, want := range map[string]string{
		"berth_mix_pods_total":                                    "no metric berth_mix_pods_total",
		"rate(berth_mix_simulation_duration_seconds[5m])":         "no metric berth_mix_simulation_duration_seconds",
		"berth_mix_pods_bucket":                                   "no metric berth_mix_pods_bucket",
		`berth_mix_pods{workload="web"}`:                          "berth_mix_pods has no label workload",
		`berth_mix_pods{type="Spot"}`:                             `type of berth_mix_pods is never "Spot"`,
		`berth_mix_moves_total{outcome=~"failed|lost"}`:           `outcome of berth_mix_moves_total is never "lost"`,
		`berth_mix_evictions_total{result="done"}`:                `result of berth_mix_evictions_total is never "done"`,
		`up{job="berth"}`:                                         `job of up is never "berth"`,
		`leader_election_master_status{name="other"}`:             `name of leader_election_master_status is never "other"`,
		"sum by (type) (berth_mix_pending_pods)":                  "no metric of it has the label type",
		"sum by (le) (berth_mix_simulation_duration_seconds_sum)": "no metric of it has the label le",
		"sum by (slot_type) (berth_scheduler_placements_total)":   "its result has no label node_type",
		"sum(berth_scheduler_placements":                          `["("] is not closed in "sum(berth_scheduler_placements"`,
	} {
		var shown []string
		if strings.Contains(want, "result has") {
			shown = []string{"node_type"}
		}
		assert.Contains(t, c.problems(expr, shown), want, expr)
	}
	assert.Empty(t, c.problems(`sum by (type) (berth_mix_pods{namespace=~"$namespace", type="spot"})`, []string{"type"}))
}

func TestAlertsReadWhatThereIs(t *testing.T) {
	var names []string
	c, text := newCatalogue(t), string(read(t, runbooks))
	shown := regexp.MustCompile(`\$labels\.([a-z_]+)`)
	for _, a := range alerts(t) {
		names = append(names, a.Alert)
		t.Run(a.Alert, func(t *testing.T) {
			labels := named(shown, a.Annotations["summary"]+a.Annotations["description"])
			assert.Empty(t, c.problems(a.Expr, labels))
			q, err := parse(a.Expr)
			require.NoError(t, err)
			for _, l := range q.grouping {
				assert.Contains(t, labels, l, "the description does not say which %s", l)
			}
			assert.Contains(t, []string{"critical", "warning", "info"}, a.Labels["severity"])
			assert.NotEmpty(t, a.Annotations["summary"])
			assert.NotEmpty(t, a.Annotations["description"])
			if a.For != "" {
				_, err := time.ParseDuration(a.For)
				require.NoError(t, err)
			}
			// The page is in the repository. No URL: nothing publishes the page.
			assert.Equal(t, runbooks+"#"+strings.ToLower(a.Alert), a.Annotations["runbook"])
			assert.NotContains(t, a.Annotations, "runbook_url")
			assert.Contains(t, text, "\n### "+a.Alert+"\n", "no runbook")
		})
	}
	assert.ElementsMatch(t, []string{
		"BerthMixOutOfBounds", "BerthSchedulerNotReady", "BerthPodsPending",
		"BerthRebalancerThrashing", "BerthSpotStorm", "BerthControllerNotLeading", "BerthSpotUnavailable", "BerthGatesFailedOpen",
		"BerthConfigurationNotInForce", "BerthEnvironmentsNotLeading", "BerthRecordsNotLeading", "BerthRecordsDegraded", "BerthEnvironmentsFailed",
		"BerthDatabaseBackupOverdue", "BerthEnvironmentRestarting", "BerthEnvironmentMemoryNearLimit",
		"BerthServiceFailing", "BerthServiceRejecting", "BerthServicePanicked", "BerthResourceLimitMissing",
	}, names)
}

// The leader's gauge goes to the registry whose package is linked. Each binary
// has to have the one that it serves, and not the other's.
func TestTheGaugeOfTheLeaderIsWhereItIsScraped(t *testing.T) {
	const (
		ofScheduler  = "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection"
		ofController = "sigs.k8s.io/controller-runtime/pkg/metrics"
	)
	for command, want := range map[string]struct{ has, not string }{
		"berth-scheduler":  {has: ofScheduler, not: ofController},
		"berth-controller": {has: ofController, not: ofScheduler},
	} {
		out, err := exec.Command("go", "list", "-deps", "berth.dev/berth/cmd/"+command).Output()
		require.NoError(t, err)
		deps := strings.Fields(string(out))
		assert.True(t, slices.Contains(deps, want.has), "%s lacks %s", command, want.has)
		assert.False(t, slices.Contains(deps, want.not), "%s has %s", command, want.not)
	}
}

func TestServiceMonitorsScrapeWithTLSAndAToken(t *testing.T) {
	// What Prometheus adds to every sample. A metric's own label of such a name would be renamed.
	target := []string{"namespace", "service", "pod", "container", "endpoint", "instance", "job"}
	own := map[string]map[string]*metric{"berth-scheduler": ofScheduler(t), "berth-controller": ofController(t), "berth-records": ofController(t), "berth-environments": ofController(t)}
	role := objects[rbacv1.ClusterRole](t, "manifests/monitoring/metrics-reader.yaml")[0]
	for _, m := range monitors(t) {
		assert.Equal(t, metav1.TypeMeta{APIVersion: "monitoring.coreos.com/v1", Kind: "ServiceMonitor"}, m.TypeMeta)
		assert.Equal(t, "berth-system", m.Metadata.Namespace)
		assert.Equal(t, []string{"berth-system"}, m.Spec.NamespaceSelector.MatchNames)
		assert.Equal(t, m.Metadata.Name, m.Spec.Selector.MatchLabels["app.kubernetes.io/name"])
		require.Len(t, m.Spec.Endpoints, 1)
		e := m.Spec.Endpoints[0]
		assert.Equal(t, "https", e.Port)
		assert.Equal(t, "https", e.Scheme)
		assert.NotEmpty(t, e.BearerTokenFile)
		require.Len(t, e.Relabelings, 1)
		assert.Equal(t, m.Metadata.Name, e.Relabelings[0].Replacement)
		require.Contains(t, own, m.Metadata.Name)
		clash := false
		for _, metric := range own[m.Metadata.Name] {
			for _, l := range metric.labels {
				clash = clash || slices.Contains(target, l)
			}
		}
		assert.Equal(t, clash, e.HonorLabels, "%s: honorLabels", m.Metadata.Name)
		require.Len(t, role.Rules, 1)
		assert.Equal(t, []string{e.Path}, role.Rules[0].NonResourceURLs)
		assert.Equal(t, []string{"get"}, role.Rules[0].Verbs)
	}
	lines := strings.Split(string(read(t, "manifests/monitoring/servicemonitor.yaml")), "\n")
	for i, l := range lines {
		if strings.Contains(l, "insecureSkipVerify: true") {
			assert.Contains(t, lines[i-1], "#", "no comment has why the certificate is not checked")
		}
	}
}

func TestDocsNameEveryMetricWithItsLabels(t *testing.T) {
	all, named := berth(t), map[string]bool{}
	row := regexp.MustCompile("(?m)^\\| `(berth_[a-z_]+)` \\|([^|]*)\\|")
	for _, path := range []string{"docs/configuration.md", runbooks} {
		for _, m := range row.FindAllStringSubmatch(string(read(t, path)), -1) {
			name := m[1]
			if assert.NotNil(t, all[name], "%s names %s, which there is not", path, name) {
				labels := strings.FieldsFunc(m[2], func(r rune) bool { return strings.ContainsRune(" ,`", r) })
				assert.ElementsMatch(t, all[name].labels, labels, "%s: labels of %s", path, name)
			}
			named[name] = true
		}
	}
	for name := range all {
		assert.True(t, named[name], "%s is in no table of the docs", name)
	}
}

// An operator on call finds every reason in the runbook, and every
// result and outcome.
func TestRunbooksNameEveryReason(t *testing.T) {
	var reasons []string
	for _, r := range rebalance.Reasons() {
		if r.Action != "" {
			reasons = append(reasons, r.Name)
		}
	}
	all := ofController(t)
	require.NotNil(t, all["berth_mix_moves_total"])
	for head, want := range map[string][]string{
		"reason":                    reasons,
		"`result` of an eviction":   all["berth_mix_evictions_total"].values["result"],
		"`outcome` of a move":       all["berth_mix_moves_total"].values["outcome"],
		"`result` of a placeholder": all["berth_mix_placeholders_total"].values["result"],
	} {
		_, table, found := strings.Cut(string(read(t, runbooks)), "\n| "+head+" | ")
		require.True(t, found, head)
		table, _, _ = strings.Cut(table, "\n\n")
		var got []string
		for _, row := range strings.Split(table, "\n")[2:] {
			for i, word := range strings.Split(strings.Split(row, "|")[1], "`") {
				if i%2 == 1 {
					got = append(got, word)
				}
			}
		}
		assert.ElementsMatch(t, want, got, head)
	}
}

// dashboard is what of a dashboard of Grafana's matters here.
type dashboard struct {
	Title         string `json:"title"`
	UID           string `json:"uid"`
	SchemaVersion int    `json:"schemaVersion"`
	Templating    struct {
		List []struct {
			Name  string          `json:"name"`
			Type  string          `json:"type"`
			Query json.RawMessage `json:"query"`
		} `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type panel struct {
	ID         int                      `json:"id"`
	Type       string                   `json:"type"`
	Title      string                   `json:"title"`
	GridPos    struct{ X, Y, W, H int } `json:"gridPos"`
	Datasource dataSource               `json:"datasource"`
	Targets    []struct {
		Datasource   dataSource `json:"datasource"`
		Expr         string     `json:"expr"`
		LegendFormat string     `json:"legendFormat"`
	} `json:"targets"`
}

type dataSource struct{ Type, UID string }

func TestTheDashboardReadsWhatThereIs(t *testing.T) {
	var d dashboard
	require.NoError(t, json.Unmarshal(read(t, "manifests/monitoring/grafana-dashboard.json"), &d))
	assert.GreaterOrEqual(t, d.SchemaVersion, 39)
	c := newCatalogue(t)
	types, query := map[string]string{}, regexp.MustCompile(`^label_values\((.*), ([a-z]+)\)$`)
	for _, v := range d.Templating.List {
		types[v.Name] = v.Type
		var q struct{ Query string }
		if v.Type == "query" {
			require.NoError(t, json.Unmarshal(v.Query, &q))
			m := query.FindStringSubmatch(q.Query)
			require.NotNil(t, m, q.Query)
			assert.Empty(t, c.problems("sum by ("+m[2]+") ("+m[1]+")", nil))
		}
	}
	assert.Equal(t, map[string]string{"datasource": "datasource", "namespace": "query", "mix": "query"}, types)
	variable, shown := regexp.MustCompile(`\$(?:\{)?([a-z_]+)`), regexp.MustCompile(`\{\{([a-z_]+)\}\}`)
	templated := dataSource{Type: "prometheus", UID: "${datasource}"}
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		assert.False(t, ids[p.ID], "two panels have id %d", p.ID)
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			assert.Less(t, x, 24, p.Title)
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				assert.Empty(t, cells[[2]int{x, y}], "%s covers another panel", p.Title)
				cells[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		assert.Equal(t, templated, p.Datasource, p.Title)
		assert.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			assert.Equal(t, templated, target.Datasource, p.Title)
			assert.Empty(t, c.problems(target.Expr, named(shown, target.LegendFormat)), p.Title)
			for _, name := range named(variable, target.Expr) {
				if name != "__rate_interval" {
					assert.Contains(t, types, name, p.Title)
				}
			}
		}
	}
}
