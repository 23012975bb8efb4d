// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func nodeTypesPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/node-types.md")
	require.NoError(t, err)
	return string(page)
}

func TestDocsNameEveryShippedRuleAndSignal(t *testing.T) {
	page := nodeTypesPage(t)
	for _, r := range DefaultRules() {
		assert.True(t, strings.Contains(page, "`"+r.Key), "rule %s, key %s", r.Name, r.Key)
		for _, v := range r.Values {
			assert.True(t, strings.Contains(page, "`"+v+"`") || strings.Contains(page, "="+v+"`"), "rule %s, value %s", r.Name, v)
		}
		if r.Requires != "" {
			assert.True(t, strings.Contains(page, "`"+r.Requires+"`"), "rule %s, requires %s", r.Name, r.Requires)
		}
	}
	assert.True(t, strings.Contains(page, "| `"+reasonDeleted+"` |"))
	for _, table := range [][]signal{departingTaints, departingLabels, departingAnnotations, departingConditions} {
		for _, s := range table {
			_, row, _ := strings.Cut(page, "\n| `"+s.reason+"` |")
			row, _, _ = strings.Cut(row, "\n")
			assert.NotEmpty(t, row, "reason %s", s.reason)
			_, causes, _ := strings.Cut(row, " | ")
			assert.Contains(t, causes, string(s.cause), "cause of %s", s.reason)
			assert.True(t, strings.Contains(page, "`"+s.key), "signal %s", s.key)
		}
	}
	for _, key := range registrationTaints {
		assert.True(t, strings.Contains(page, "`"+key+"`"), "taint %s", key)
	}
}

// Facts about providers age: each row of the table has its source, and the page the date of the last check.
func TestDocsHaveASourceForEveryProvider(t *testing.T) {
	page := nodeTypesPage(t)
	assert.Regexp(t, `checked on 20\d\d-\d\d-\d\d against the sources`, page)
	_, table, found := strings.Cut(page, "| Provider | Spot | On-demand | Without configuration | Source |\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[1:]
	require.Greater(t, len(rows), 15)
	for _, row := range rows {
		cells := strings.Split(row, " | ")
		require.Len(t, cells, 5, row)
		assert.NotEqual(t, "|", cells[4], row)
	}
}

// Users copy the snippets of the page: each must compile together with the shipped rules and have the documented
// effect.
func TestDocsOptInLinesWork(t *testing.T) {
	nodes := map[string]*corev1.Node{
		"openshift-not-spot":            labelled("node.openshift.io/os_id", "rhcos"),
		"openshift-hosted-not-spot":     labelled("hypershift.openshift.io/nodePool", "p"),
		"oke-not-preemptible":           labelled("oci.oraclecloud.com/fault-domain", "FAULT-DOMAIN-1"),
		"kops-not-spot":                 labelled("kops.k8s.io/instancegroup", "nodes"),
		"cluster-api-not-interruptible": labelled(),
		"our-spot":                      labelled("example.com/pool", "cheap"),
		"our-on-demand":                 labelled("example.com/pool", "solid"),
	}
	for line := range strings.Lines(nodeTypesPage(t)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "- {name:") {
			continue
		}
		var parsed []struct {
			Name, Key, Operator, Requires, CapacityType string
			Values                                      []string
		}
		require.NoError(t, yaml.UnmarshalStrict([]byte(line), &parsed), line)
		p := parsed[0]
		typ, err := ParseType(p.CapacityType)
		require.NoError(t, err)
		c, err := NewClassifier(WithDefaults([]Rule{{
			Name: p.Name, Key: p.Key, Operator: Operator(p.Operator), Values: p.Values, Requires: p.Requires, Type: typ,
		}}))
		require.NoError(t, err)

		require.Contains(t, nodes, p.Name)
		assertType(t, c, typ, p.Name, nodes[p.Name])
		assertType(t, defaults(t), Unknown, "", nodes[p.Name])
		assertType(t, c, Spot, "karpenter-spot", labelled("karpenter.sh/capacity-type", "spot"))
		delete(nodes, p.Name)
	}
	assert.Empty(t, nodes, "lines that the page no longer has")
}
