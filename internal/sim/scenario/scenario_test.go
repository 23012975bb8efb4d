// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/sim/spottrace"
)

func TestAScenarioIsReadWithItsDefaultsAndTraces(t *testing.T) {
	s, err := Load("testdata/storm.yaml")
	require.NoError(t, err)
	assert.Equal(t, uint64(7), s.Seed)
	assert.Equal(t, 24*time.Hour, s.Duration.Duration)
	assert.Equal(t, 173*time.Second, s.Sample.Duration, "a 500th")

	a, b, onDemand := &s.NodePools[0], &s.NodePools[1], &s.NodePools[2]
	assert.Equal(t, []any{int32(110), int32(4), int32(20), int32(60), int32(30)}, []any{a.Pods, a.Nodes, *a.Max, a.LaunchSeconds, a.NoticeSeconds})
	assert.Equal(t, int32(16), a.Availability.Available(0), "twice the trace")
	assert.Equal(t, int32(0), a.Availability.Available(12*time.Hour))
	assert.InDelta(t, 0.035, *a.DollarsPerHour, 0)
	assert.Nil(t, b.Availability.Loaded)
	assert.Equal(t, int32(MaxNodes), b.Availability.Available(0))
	assert.InDelta(t, 7.5, *b.Availability.MonthlyInterruptionPercent, 0)
	assert.Equal(t, []any{int32(0), int32(120), (*float64)(nil), (*int32)(nil)}, []any{b.Nodes, b.NoticeSeconds, b.DollarsPerHour, b.Max})
	assert.Equal(t, []any{int32(29), int32(0), int32(0)}, []any{onDemand.Pods, onDemand.LaunchSeconds, onDemand.NoticeSeconds}, "0 is not the default")
	assert.Equal(t, "2", b.CPU.String(), "a number is a quantity")

	web, batch := &s.Workloads[0], &s.Workloads[1]
	assert.Equal(t, []any{"shop", int32(3), int32(0), intstr.FromString("25%")},
		[]any{web.Namespace, web.Copies, web.StartupSeconds, *web.MaxUnavailable})
	assert.Equal(t, []string{"web-0", "web-2", "batch"}, []string{web.NameOf(0), web.NameOf(2), batch.NameOf(0)})
	assert.Equal(t, []any{int32(20), int32(1)}, []any{web.Most(), batch.Most()})
	assert.Equal(t, &v1alpha1.CapacityMixSpec{SpotPercent: 70, MinOnDemand: 2, Rebalance: &v1alpha1.RebalanceSpec{
		Mode: v1alpha1.RebalanceModeEvict, StabilizationSeconds: ptr.To[int32](60),
	}}, web.Mix)
	assert.Equal(t, []any{8 * time.Hour, true, 20*time.Hour + 30*time.Minute}, []any{web.Events[0].At.Duration, web.Events[1].Rollout, web.Events[2].At.Duration})
	assert.Equal(t, []any{"default", int32(1), int32(10), intstr.FromInt32(1)},
		[]any{batch.Namespace, batch.Copies, batch.StartupSeconds, *batch.MaxUnavailable})
}

// storm is the valid scenario of which tests change lines.
func storm(t require.TestingT) string {
	text, err := os.ReadFile("testdata/storm.yaml")
	require.NoError(t, err)
	return string(text)
}

func loadTestdata(path string) (*spottrace.Trace, error) { return spottrace.Load("testdata/" + path) }

// fault is a line of the scenario that is replaced, and the error that this gives at the line, or at another one.
type fault struct{ line, with, want, at string }

var faults = []fault{
	{"seed: 7", "seed: -7", `seed: Invalid value: "-7": want a whole number from 0`, ""},
	{"duration: 24h", "duration: 24", `duration: Invalid value: "24": want a duration such as`, ""},
	{"duration: 24h", "duration: 9000h", `duration: Invalid value: "9000h0m0s": must be more than 0 and at most 8784h0m0s`, ""},
	{"duration: 24h", "duration: 0s", `duration: Invalid value: "0s": must be more than 0`, ""},
	{"duration: 24h", "duration: 24h0m1s", `nodePools[0].availability.trace: Invalid value: "storm.csv": its data end at 24h0m0s, before the duration`, "    trace: storm.csv"},
	{"seed: 7", "sample: 100ms", `sample: Invalid value: "100ms": must be between 1s and the duration`, ""},
	{"seed: 7", "sample: 25h", `sample: Invalid value: "25h0m0s": must be between 1s and the duration`, ""},
	{"seed: 7", "sed: 7", `Unsupported value: "sed": supported values: "seed", "duration", "sample", "nodePools", "workloads"`, ""},
	{"seed: 7", "duration: 7h", `Duplicate value: "duration"`, "duration: 24h"},
	{"seed: 7", "? [a]\n: b", `Invalid value: "[…]": want the name of a field`, ""},
	{"- name: spot-a", "- name: Spot_A", `nodePools[0].name: Invalid value: "Spot_A": a lowercase RFC 1123 label`, ""},
	{"- name: spot-a", "- name: on-demand", `nodePools[2].name: Duplicate value: "on-demand"`, "- name: on-demand\n  capacityType: on-demand"},
	{"- name: spot-a", "- name: 7", `nodePools[0].name: Invalid value: "7": want a text`, ""},
	{"- name: spot-a", "- zone: zone-a", `nodePools[0]: Duplicate value: "zone"`, "  zone: zone-a"},
	{"  capacityType: spot", "  capacityType: Spot", `nodePools[0].capacityType: Unsupported value: "Spot": supported values: "spot", "on-demand"`, ""},
	{"  instanceType: m5.large", "  instanceType: m5 large", `nodePools[0].instanceType: Invalid value: "m5 large"`, ""},
	{"  zone: zone-a", "  zone: " + strings.Repeat("z", 64), `nodePools[0].zone: Invalid value: "zzz`, ""},
	{`  cpu: "2"`, "  cpu: 2 cores", `nodePools[0].cpu: Invalid value: "2 cores": want a quantity such as 500m or 4Gi`, ""},
	{`  cpu: "2"`, "  cpu: 0", `nodePools[0].cpu: Invalid value: "0": must be more than 0`, ""},
	{`  cpu: "2"`, "  cpu: 1e999999999", `nodePools[0].cpu: Invalid value: "1e999999999": want a quantity`, ""},
	{"  memory: 8Gi", "  memory: 2Pi", `nodePools[0].memory: Invalid value: "2Pi": must be more than 0 and at most 1Pi`, ""},
	{"  nodes: 4", "  nodes: -4", `nodePools[0].nodes: Invalid value: -4: must be between 0 and 20000`, ""},
	{"  nodes: 4", "  nodes: 4.5", `nodePools[0].nodes: Invalid value: "4.5": want a whole number`, ""},
	{"  nodes: 4", "  nodes: 17", `nodePools[0].nodes: Invalid value: 17: the trace has 16 nodes at the start`, ""},
	{"  nodes: 4", "  nodes: 4000000000", `nodePools[0].nodes: Invalid value: "4000000000": want a whole number that is not above 2147483647`, ""},
	{"  max: 20", "  max: 3", `nodePools[0].max: Invalid value: 3: must be between 4 and 20000`, ""},
	{"  max: 20", "  max: 20\n  fixed: true", `nodePools[0].max: Forbidden: a pool of a fixed size has as many nodes as nodes has`, ""},
	{"  pods: 29", "  pods: 0", `nodePools[2].pods: Invalid value: 0: must be between 1 and 1000`, ""},
	{"  pods: 29", "  noticeSeconds: 0", `nodePools[2].noticeSeconds: Forbidden: only spot nodes are interrupted`, ""},
	{"  launchSeconds: 0", "  launchSeconds: 86401", `nodePools[2].launchSeconds: Invalid value: 86401: must be between 0 and 86400`, ""},
	{"  dollarsPerHour: 0.035", "  dollarsPerHour: -1", `nodePools[0].dollarsPerHour: Invalid value: -1: must be at least 0`, ""},
	{"  dollarsPerHour: 0.035", "  dollarsPerHour: .nan", `nodePools[0].dollarsPerHour: Invalid value: ".nan": want a number`, ""},
	{"    trace: storm.csv", "    trace: none.csv", `nodePools[0].availability.trace: Invalid value: "none.csv": open testdata/none.csv`, ""},
	{"    trace: storm.csv", "    trace: storm.yaml", `nodePools[0].availability.trace: Invalid value: "storm.yaml": testdata/storm.yaml:1: `, ""},
	{"    trace: storm.csv", "    monthlyInterruptionPercent: 100", `nodePools[0].availability.monthlyInterruptionPercent: Invalid value: 100: must be`, ""},
	{"    times: 2", "    monthlyInterruptionPercent: 5", `nodePools[0].availability.monthlyInterruptionPercent: Forbidden: the trace has`, ""},
	{"    times: 2", "    times: 0", `nodePools[0].availability.times: Invalid value: 0: must be between 1 and`, ""},
	{"- name: web", "- name: " + strings.Repeat("w", 64), `workloads[0].name: Invalid value: "www`, ""},
	{"- name: web", "- nam: web", `workloads[0]: Unsupported value: "nam": supported values: "namespace"`, ""},
	{"- name: batch", "- name: web-1\n  namespace: shop", `workloads[1].name: Duplicate value: "web-1"`, ""},
	{"  namespace: shop", "  namespace: Shop", `workloads[0].namespace: Invalid value: "Shop"`, ""},
	{"  copies: 3", "  copies: 0", `workloads[0].copies: Invalid value: 0: must be between 1 and 200000`, ""},
	{"  replicas: 10", "  replicas: -1", `workloads[0].replicas: Invalid value: -1: must be between 0 and 200000`, ""},
	{"  replicas: 10", "  replicas: ten", `workloads[0].replicas: Invalid value: "ten": want a whole number`, ""},
	{"  cpu: 500m", "  cpu: -1", `workloads[0].cpu: Invalid value: "-1": must be between 0 and 100k`, ""},
	{"  startupSeconds: 0", "  startupSeconds: -1", `workloads[0].startupSeconds: Invalid value: -1: must be between 0 and 86400`, ""},
	{"  maxUnavailable: 25%", "  maxUnavailable: 101%", `workloads[0].maxUnavailable: Invalid value: "101%": must not be above 100%`, ""},
	{"  maxUnavailable: 25%", "  maxUnavailable: some", `workloads[0].maxUnavailable: Invalid value: "some": a valid percent string`, ""},
	{"  maxUnavailable: 25%", "  maxUnavailable: -1", `workloads[0].maxUnavailable: Invalid value: -1: must be between 0 and`, ""},
	{"  maxUnavailable: 25%", "  maxUnavailable: true", `workloads[0].maxUnavailable: Invalid value: "true": want a whole number, or a percentage`, ""},
	{"    spotPercent: 70", "    selector: {matchLabels: {a: b}}\n    spotPercent: 70", `workloads[0].mix.selector: Forbidden: a simulation has no use for it`, ""},
	{"    minOnDemand: 2", "    minOnDemad: 2", `workloads[0].mix: Unsupported value: "minOnDemad"`, ""},
	{"      mode: Evict", "      mode: evict", `workloads[0].mix.rebalance.mode: Unsupported value: "evict"`, ""},
	{"      mode: Evict", "      windows: [{schedule: 0 0 * * *, durationSeconds: 60}]", `workloads[0].mix.rebalance.windows: Forbidden: a simulation has no date`, ""},
	{"  - at: 20h30m", "  - at: 24h", `workloads[0].events[2].at: Invalid value: "24h0m0s": must be before the end at 24h0m0s`, ""},
	{"  - at: 20h30m", "  - at: 7h", `workloads[0].events[2].at: Invalid value: "7h0m0s": must not be before the event above it, at 8h0m0s`, ""},
	{"  - at: 20h30m", "  - at: -1h", `workloads[0].events[2].at: Invalid value: "-1h0m0s": must not be negative`, ""},
	{"    rollout: true", "    rollout: maybe", `workloads[0].events[1].rollout: Invalid value: "maybe": want true or false`, ""},
	{"    rollout: true", "    rollout: false", `workloads[0].events[1]: Required value: want replicas, a rollout or both`, "  - at: 8h\n    rollout: false"},
	{"    replicas: 20", "    replicas: 200001", `workloads[0].events[0].replicas: Invalid value: 200001: must be between 0 and 200000`, ""},
	{"nodePools:", "nodePools: all\nnodes:", `nodePools: Invalid value: "all": want a list`, ""},
	{"workloads:", "other:\n  \"a\\nb\\x1b\": 1\nworkloads:", `Unsupported value: "other": supported values`, ""},
}

// broken is the scenario with a fault, and the line of it.
func broken(text string, f fault) (string, int) {
	before, after, found := strings.Cut(text, "\n"+f.line+"\n")
	if !found {
		panic("no line " + f.line)
	}
	return before + "\n" + f.with + "\n" + after, strings.Count(before, "\n") + 2
}

func TestAnErrorNamesTheLineTheFieldAndTheValue(t *testing.T) {
	for _, f := range faults {
		text, line := broken(storm(t), f)
		if f.at != "" {
			before, _, found := strings.Cut(text, "\n"+f.at+"\n")
			require.True(t, found, f.at)
			line = strings.Count(before, "\n") + 2
		}
		_, err := Parse("storm.yaml", []byte(text), loadTestdata)
		require.ErrorContains(t, err, fmt.Sprintf("storm.yaml:%d: %s", line, f.want), f.with)
		for message := range strings.Lines(err.Error()) {
			assert.True(t, strings.HasPrefix(message, "storm.yaml:"), "%q", message)
		}
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "x:1: duration: Required value: want the simulated time, such as 72h\nx:1: nodePools: Required value: want at least one node pool",
		"- a":                         `x:1: Invalid value: "[…]": want fields`,
		"a":                           `x:1: Invalid value: "a": want fields`,
		"duration: 1h\nnodePools: []": "x:2: nodePools: Required value",
		"duration: 1h\nnodePools: [{}]": "x:2: nodePools[0].capacityType: Required value: want spot or on-demand\nx:2: nodePools[0].cpu: Required value: want what a node has for pods\n" +
			"x:2: nodePools[0].memory: Required value: want what a node has for pods\nx:2: nodePools[0].name: Required value: want a DNS label",
		"duration: 1h\nworkloads:\n- mix: {}":                                                         "x:3: workloads[0].mix.spotPercent: Required value",
		"workloads:\n- name: a":                                                                       "x:2: workloads[0].replicas: Required value",
		"workloads:\n- events:\n  - replicas: 1":                                                      "x:3: workloads[0].events[0].at: Required value: want the time",
		"nodePools:\n- capacityType: spot\n  availability: {times: 2}":                                "x:3: nodePools[0].availability: Required value: want a trace or monthlyInterruptionPercent",
		"nodePools:\n- capacityType: spot\n  availability: {monthlyInterruptionPercent: 1, times: 2}": "x:3: nodePools[0].availability.times: Forbidden: it multiplies",
		"workloads:\n- copies: 11\n  name: " + strings.Repeat("w", 61):                                `x:3: workloads[0].name: Invalid value: "www`,
		"workloads:\n-":             "x:2: workloads[0].name: Required value",
		"a: b: c":                   "x:1: mapping values are not allowed",
		"a: &x b":                   "x:1: &x is an anchor: anchors and aliases are not allowed",
		"a: 1\n---\nb: 2":           "x:1: is more than one document",
		"seed: 1\n\tduration: 1h\n": "x:2: found a tab character",
		strings.Repeat("[", 20) + strings.Repeat("]", 20): "x:1: is nested deeper than 16",
		strings.Repeat("#", MaxBytes+1):                   "x:1: has 4194305 bytes, more than 4194304",
	} {
		_, err := Parse("x", []byte(text), loadTestdata)
		require.ErrorContains(t, err, want, "%.100s", text)
	}
}

func TestAPodThatFitsOnNoNodeIsRefused(t *testing.T) {
	const pools = "duration: 1h\nnodePools:\n- {name: a, capacityType: spot, cpu: 2, memory: 1Gi}\n- {name: b, capacityType: spot, cpu: 1, memory: 2Gi}\n" +
		"- {name: none, capacityType: spot, cpu: 9, memory: 9Gi, max: 0}\nworkloads:\n- name: w\n  replicas: 0\n"
	for requests, want := range map[string]string{
		"  cpu: 2\n  memory: 1Gi": "", "  cpu: 1\n  memory: 2Gi": "",
		"  cpu: 2\n  memory: 2Gi": `x:7: workloads[0]: Invalid value: "cpu 2, memory 2Gi": no pool has a node for such a pod`,
		"  cpu: 2001m":            "no pool has a node",
	} {
		_, err := Parse("x", []byte(pools+requests), nil)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}

func TestTheTotalsAreBounded(t *testing.T) {
	const pool = "duration: 1h\nnodePools:\n- {name: a, capacityType: spot, cpu: 2, memory: 1Gi, nodes: %d}\n- {name: b, capacityType: spot, cpu: 2, memory: 1Gi, nodes: 1}\nworkloads:\n"
	for workloads, want := range map[string]string{
		"- {name: a, copies: 1000, replicas: 200}":                                                     "",
		"- {name: a, copies: 1000, replicas: 200}\n- {name: b, replicas: 1}":                           "x:7: workloads[1]: Forbidden: with this workload, more than 200000 pods are wanted",
		"- {name: a, copies: 100001, replicas: 1, events: [{at: 1m, replicas: 2}]}":                    "x:6: workloads[0]: Forbidden",
		"- {name: a, copies: 200000, replicas: 200000}\n- {name: b, copies: 200000, replicas: 200000}": "x:6: workloads[0]: Forbidden",
		"- {name: a, copies: 200000, replicas: 0}\n- {name: b, copies: 200000, replicas: 0}":           "x:7: workloads[1]: Forbidden",
	} {
		_, err := Parse("x", fmt.Appendf(nil, pool+workloads, 1), nil)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n", "it is reported once")
	}
	_, err := Parse("x", fmt.Appendf(nil, pool, MaxNodes), nil)
	require.ErrorContains(t, err, "x:4: nodePools[1].nodes: Invalid value: 1: with this pool, there are more than 20000 nodes")
}

func TestATraceHasNoMoreNodesThanAScenario(t *testing.T) {
	text, _ := broken(storm(t), fault{line: "    times: 2", with: "    times: 4000"})
	_, err := Parse("x", []byte(text), loadTestdata)
	require.ErrorContains(t, err, `x:16: nodePools[0].availability.trace: Invalid value: "storm.csv": has 32000 nodes at 0s, more than 20000`)
}

func TestAllErrorsOfAFileAreNamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, want := storm(t), map[string]bool{}
		for _, f := range rapid.SliceOfN(rapid.SampledFrom(faults), 1, 8).Draw(t, "faults") {
			if strings.Contains(f.with, "\n") || !strings.Contains(text, "\n"+f.line+"\n") || !strings.Contains(f.want, "Invalid value") ||
				f.at != "" || strings.Contains(f.line, "duration") || strings.Contains(f.line, "max: ") || strings.Contains(f.line, "capacityType") || strings.Contains(f.line, "trace") || strings.Contains(f.want, "the trace has") {
				continue // other errors depend on it
			}
			var line int
			text, line = broken(text, f)
			want[fmt.Sprintf("x:%d: %s", line, f.want)] = true
		}
		_, err := Parse("x", []byte(text), loadTestdata)
		for message := range want {
			require.ErrorContains(t, err, message)
		}
		if len(want) == 0 {
			require.NoError(t, err)
		}
	})
}

func TestManyErrorsAreCounted(t *testing.T) {
	_, err := Parse("x", []byte(strings.Repeat("a: 1\n", 200)), nil)
	require.Error(t, err)
	assert.Equal(t, mostPrinted+1, strings.Count(err.Error(), "\n")+1)
	assert.Contains(t, err.Error(), "x: and 152 more")
	problems, is := errors.AsType[*Problems](err)
	require.True(t, is)
	assert.Len(t, problems.List, 202)
	_, err = Parse("x", []byte(strings.Repeat("k", 10_000)+": 1"), nil)
	assert.Less(t, len(err.Error()), 1000, "values are shortened")
}

func TestAMissingFileIsNamed(t *testing.T) {
	_, err := Load("testdata/none.yaml")
	require.ErrorContains(t, err, "testdata/none.yaml")
	_, err = Load("testdata")
	require.ErrorContains(t, err, "testdata: read testdata")
}

func FuzzParse(f *testing.F) {
	f.Add(storm(f))
	for _, fault := range faults {
		text, _ := broken(storm(f), fault)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("file", []byte(text), func(string) (*spottrace.Trace, error) {
			return &spottrace.Trace{Steps: []spottrace.Step{{Available: 3}}, End: time.Hour}, nil
		})
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				require.True(t, strings.HasPrefix(line, "file:"), "%q", line)
			}
			return
		}
		require.NotEmpty(t, s.NodePools)
		require.True(t, s.Duration.Duration > 0 && s.Sample.Duration > 0)
		pods := 0
		for i := range s.Workloads {
			w := &s.Workloads[i]
			require.Positive(t, w.Copies)
			pods += int(w.Copies) * int(w.Most())
		}
		require.LessOrEqual(t, pods, MaxPods)
	})
}

// A namespace has a bounded number of mixes: those above it would govern no pod.
func TestANamespaceHasNoMoreMixesThanGovern(t *testing.T) {
	const text = "duration: 1h\nnodePools:\n- {name: a, capacityType: spot, cpu: 2, memory: 1Gi}\nworkloads:\n" +
		"- {name: a, copies: 999, replicas: 1, mix: {spotPercent: 50}}\n- {name: b, copies: %d, replicas: 1, mix: {spotPercent: 50}}\n" +
		"- {name: c, copies: 2000, replicas: 1}\n- {namespace: other, name: d, copies: 1000, replicas: 1, mix: {spotPercent: 50}}\n"
	_, err := Parse("x", fmt.Appendf(nil, text, 1), nil)
	require.NoError(t, err)
	_, err = Parse("x", fmt.Appendf(nil, text, 2), nil)
	require.ErrorContains(t, err, "x:6: workloads[1].mix: Forbidden: with this workload, namespace default has 1001 mixes, and at most 1000 govern its pods")
	require.NotContains(t, err.Error(), "\n", "it is reported once")
}

func TestTenThousandWorkloadsAreWithinTheBounds(t *testing.T) {
	var text strings.Builder
	text.WriteString("duration: 720h\nnodePools:\n- {name: a, capacityType: spot, cpu: 4, memory: 16Gi}\nworkloads:\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "- namespace: team-%d\n  name: web-%d\n  replicas: 10\n  cpu: 250m\n  memory: 512Mi\n  maxUnavailable: 1\n"+
			"  mix:\n    spotPercent: 70\n    minOnDemand: 2\n  events:\n  - at: 12h\n    replicas: 20\n", i/1000, i)
	}
	s, err := Parse("x", []byte(text.String()), nil)
	require.NoError(t, err)
	assert.Len(t, s.Workloads, 10_000)
}
