// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"berth.dev/berth/apis/config"
)

const shipped = "../../../manifests/scheduler"

func TestShippedProfiles(t *testing.T) {
	for file, want := range map[string]struct{ schedulers, skipped []string }{
		"second-scheduler.yaml": {schedulers: []string{"berth-scheduler"}},
		"replace-default.yaml":  {schedulers: []string{"default-scheduler", "berth-scheduler"}},
		"gangs-and-quota.yaml":  {schedulers: []string{"berth-scheduler"}, skipped: []string{"CapacityScheduling", "Coscheduling"}},
	} {
		t.Run(file, func(t *testing.T) {
			p, err := LoadProfile(filepath.Join(shipped, file))
			require.NoError(t, err)
			assert.Equal(t, want.schedulers, p.SchedulerNames)
			assert.Equal(t, want.skipped, p.Skipped)
			assert.Equal(t, []string{"berth.dev"}, p.Args.AnnotationPrefixes, "defaulted")
			assert.Len(t, p.ArgsOf, len(want.schedulers))
			assert.Same(t, p.Args, p.ArgsOf[want.schedulers[0]])
			s := snapshot(t, p, nil, nil)
			for _, name := range want.schedulers {
				require.Contains(t, s.frameworks, name)
				if want.skipped == nil { // the others sign no pod at all
					first := s.frameworks[name].ListPlugins().PreFilter.Enabled[0].Name
					assert.Equal(t, names.PodTopologySpread, first, "it refuses to sign before others sign without effect")
				}
			}
		})
	}
	files, err := filepath.Glob(filepath.Join(shipped, "*.yaml"))
	require.NoError(t, err)
	var profiles int
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		if strings.Contains(string(text), "\nkind: KubeSchedulerConfiguration\n") {
			profiles++
		}
	}
	assert.Equal(t, 3, profiles, "every shipped profile is replayed")
}

func TestTheDefaultProfileHasTheDefaultArguments(t *testing.T) {
	p := DefaultProfile()
	assert.Equal(t, []string{"berth-scheduler"}, p.SchedulerNames)
	assert.Equal(t, config.BuiltinNodeRulesAppend, p.Args.BuiltinNodeRules)
	assert.Equal(t, int32(32), p.Args.NodeSampleSize)
	assert.Empty(t, p.Skipped)
}

func TestWrongConfigurationsAreRefusedByField(t *testing.T) {
	const (
		head  = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
		mix   = head + "profiles: [{schedulerName: a, plugins: {multiPoint: {enabled: [{name: CapacityMix}]}}, "
		named = `profiles[0].plugins.preScore: Invalid value: `
	)
	for name, c := range map[string]struct{ text, want string }{
		"an unknown field of the configuration":    {head + "profilez: []\n", `unknown field "profilez"`},
		"an unknown field of a plugin's arguments": {mix + "pluginConfig: [{name: CapacityMix, args: {nodeRulez: []}}]}]\n", `unknown field "nodeRulez"`},
		"an unknown field of another plugin's arguments": {
			head + "profiles: [{schedulerName: a, pluginConfig: [{name: NodeAffinity, args: {addedAffiniti: {}}}]}]\n",
			`unknown field "addedAffiniti"`,
		},
		"a wrong value of a plugin's arguments": {
			mix + "pluginConfig: [{name: CapacityMix, args: {nodeSampleSize: 3}}]}]\n", "profiles[0].pluginConfig[0].args.nodeSampleSize",
		},
		"a wrong value of another plugin of ours": {
			head + "profiles: [{schedulerName: a, plugins: {multiPoint: {enabled: [{name: CapacityMix}, {name: ResourceLimit}]}}, " +
				"pluginConfig: [{name: ResourceLimit, args: {defaultNamespace: A_B}}]}]\n",
			"profiles[0].pluginConfig[0].args.defaultNamespace",
		},
		"a profile that the scheduler itself would refuse": {head + "parallelism: -1\n", "parallelism"},
		"a plugin that scores by what it did not prepare": {
			head + "profiles: [{schedulerName: a, plugins: {multiPoint: {enabled: [{name: CapacityMix}]}, " +
				"preScore: {disabled: [{name: PodTopologySpread}]}}}]\n",
			named + `"PodTopologySpread": must be enabled here because it is enabled under score`,
		},
		"one of ours": {
			head + "profiles: [{schedulerName: a, plugins: {multiPoint: {enabled: [{name: CapacityMix}, {name: TopologySpreadScore}]}, " +
				"preScore: {disabled: [{name: '*'}], enabled: [{name: PodTopologySpread}]}}}]\n",
			named + `"TopologySpreadScore"`,
		},
		"no profile with the plugin": {head + "profiles: [{schedulerName: a}]\n", "profiles: no profile enables the plugin CapacityMix"},
		"another kind": {
			"apiVersion: kubescheduler.config.k8s.io/v1\nkind: CapacityMixArgs\n", "kind: want KubeSchedulerConfiguration",
		},
		"not YAML":       {"{", "decode"},
		"nothing at all": {"", "decode"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "scheduler.yaml")
			require.NoError(t, os.WriteFile(file, []byte(c.text), 0o600))
			_, err := LoadProfile(file)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, file)
		})
	}
	_, err := LoadProfile(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// profileOf is a configuration with some fields.
func profileOf(t *testing.T, fields string) *Profile {
	t.Helper()
	p, err := ParseProfile([]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" + fields))
	require.NoError(t, err)
	return p
}

func TestWhatCannotBeReplayedIsNamed(t *testing.T) {
	p := profileOf(t, `
profiles:
- schedulerName: a
  plugins:
    bind: {enabled: [{name: CapacityMix}]}
    filter: {enabled: [{name: Zebra}]}
    score: {enabled: [{name: ScoresOnly}]}
- schedulerName: b
  plugins: {preFilter: {enabled: [{name: Ant}, {name: CapacityMix}]}}
- schedulerName: c
extenders: [{urlPrefix: "http://scores", prioritizeVerb: p, weight: 1}, {urlPrefix: "http://filters", filterVerb: f}]
`)
	assert.Equal(t, []string{"a", "b"}, p.SchedulerNames)
	assert.Equal(t, []string{"Ant", "Zebra", "extender http://filters"}, p.Skipped)
	assert.Equal(t, []string{"Ant", "extender http://filters"}, p.replays["b"].skipped)
}

func TestOnlyHardSpreadDefaultsAreKept(t *testing.T) {
	p := profileOf(t, `
profiles:
- schedulerName: hard
  plugins: {multiPoint: {enabled: [{name: CapacityMix}]}}
  pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints:
      - {maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}
      - {maxSkew: 1, topologyKey: b, whenUnsatisfiable: ScheduleAnyway}
- schedulerName: default
`)
	hard, system := spreadArgs(t, p, "hard"), spreadArgs(t, p, "default")
	require.Len(t, hard.DefaultConstraints, 1)
	assert.Equal(t, "a", hard.DefaultConstraints[0].TopologyKey)
	assert.Empty(t, system.DefaultConstraints)
	assert.Equal(t, schedconfig.ListDefaulting, system.DefaultingType)
}

func spreadArgs(t *testing.T, p *Profile, scheduler string) *schedconfig.PodTopologySpreadArgs {
	t.Helper()
	for _, c := range p.replays[scheduler].profile.PluginConfig {
		if c.Name == names.PodTopologySpread {
			return c.Args.(*schedconfig.PodTopologySpreadArgs)
		}
	}
	require.Fail(t, "no arguments")
	return nil
}

func TestHardDefaultConstraintsCountTheWorkloadsPods(t *testing.T) {
	p := profileOf(t, `
profiles:
- schedulerName: berth-scheduler
  plugins: {multiPoint: {enabled: [{name: CapacityMix}]}}
  pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]
`)
	of := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: new(true)}}
	}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	nodes := []*corev1.Node{node("n1", "4", inZone("a")), node("n2", "4", inZone("b"))}
	victim := pod("victim", "n1", of)
	s := snapshot(t, p, nodes, []*corev1.Pod{victim, pod("sibling", "n2", of)}, set)
	a := ask(t, s, Question{Pod: victim, Gone: []types.UID{"victim"}, Nodes: func(n *corev1.Node) bool { return n.Name == "n2" }})
	assert.Equal(t, "0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints.", a.Message())
	assert.Equal(t, "n1", ask(t, s, Question{Pod: victim, Gone: []types.UID{"victim"}}).Node)
}

func TestConcurrentQuestionsAreIndependent(t *testing.T) {
	victim := pod("victim", "n1")
	s := snapshot(t, DefaultProfile(), []*corev1.Node{node("n1", "1")}, []*corev1.Pod{victim})
	var asking sync.WaitGroup
	for i := range 16 {
		asking.Go(func() {
			q := Question{Pod: victim}
			if i%2 == 0 {
				q.Gone = []types.UID{"victim"}
			}
			a, err := s.Fits(t.Context(), q)
			assert.NoError(t, err)
			assert.Equal(t, i%2 == 0, a.Fits)
			s.Assume(victim, "no such node")
		})
	}
	asking.Wait()
}
