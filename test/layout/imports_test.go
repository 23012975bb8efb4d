// SPDX-License-Identifier: Apache-2.0

// Package layout_test holds the rules of who may import whom (docs/architecture.md).
package layout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/importtable"
)

const module = "berth.dev/berth/"

// rule forbids imports. It returns why an import is not allowed, "" if it is.
type rule func(from, to string) string

var rules = map[string]rule{
	"the pure packages import the standard library and Kubernetes API types only": func(from, to string) string {
		pure := under(from, "internal/mix/split") || under(from, "internal/mix/capacity")
		switch {
		case !pure, !strings.Contains(strings.SplitN(to, "/", 2)[0], "."),
			strings.HasPrefix(to, "k8s.io/api/"), strings.HasPrefix(to, "k8s.io/apimachinery/"),
			under(from, "internal/mix/split") && to == module+"internal/mix/capacity":
			return ""
		}
		return "the mix must stay a function that everything can share"
	},
	"what decides reads no API": func(from, to string) string {
		for _, pure := range []string{"internal/mix/policy", "internal/mix/clusterstate", "internal/mix/rebalance", "internal/mix/arguments", "internal/records/render", "internal/environments/render", "internal/mix/fallback", "internal/mix/gate", "internal/limits", "internal/records/nfr", "internal/kube/nodeselector", "internal/limits/defaulting", "internal/limits/mcpimport"} {
			if under(from, pure) && (strings.HasPrefix(to, "k8s.io/client-go") || strings.HasPrefix(to, "sigs.k8s.io/controller-runtime")) {
				return "decisions are functions of values; I/O stands around them"
			}
		}
		return ""
	},
	"apis imports nothing of ours": func(from, to string) string {
		if under(from, "apis") && strings.HasPrefix(to, module) && !under(to, "apis") {
			return "clients import apis without the rest of Berth"
		}
		return ""
	},
	"the scheduler side and the cluster side speak through API objects": func(from, to string) string {
		for _, other := range []string{"controllers", "services"} {
			if under(from, "plugins") && under(to, other) || under(from, other) && under(to, "plugins") {
				return "plugins and " + other + " never import each other"
			}
		}
		return ""
	},
	"internal imports neither side": func(from, to string) string {
		for _, other := range []string{"plugins", "controllers", "services", "cmd", "hack", "test"} {
			if under(from, "internal") && under(to, other) {
				return "internal stands below " + other
			}
		}
		return ""
	},
	"command groups of the CLI stand side by side": func(from, to string) string {
		group := func(pkg string) string {
			for _, g := range []string{"mix", "limits", "records", "environments", "doctor"} {
				if under(pkg, "internal/cli/"+g) {
					return g
				}
			}
			return ""
		}
		switch {
		case under(to, "internal/cli/clitest"):
			return "clitest is for tests"
		case !under(from, "internal/cli"), from == module+"internal/cli", group(to) == "", group(from) == group(to):
			return ""
		}
		return "what two groups share is in command, live or printers"
	},
	"products do not import tools or tests": func(from, to string) string {
		for _, product := range []string{"apis", "internal", "plugins", "controllers", "services", "cmd"} {
			if under(from, product) && (under(to, "hack") || under(to, "test")) {
				return "hack and test are not shipped"
			}
		}
		return ""
	},
	"the CapacityMix plugin has extension points only": func(from, to string) string {
		if from != module+"plugins/capacitymix" {
			return ""
		}
		for _, io := range []string{"k8s.io/client-go/", "berth.dev/berth/internal/kube/", "berth.dev/berth/plugins/internal/crdinformer"} {
			if strings.HasPrefix(to, io) {
				return "what is read or watched belongs to its packages state, lookup and ungate"
			}
		}
		return ""
	},
	"the packages of the CapacityMix plugin have one direction": func(from, to string) string {
		if !under(from, "plugins/capacitymix") || !under(to, "plugins/capacitymix") {
			return ""
		}
		plugin := module + "plugins/capacitymix"
		name := strings.TrimPrefix(strings.TrimPrefix(to, plugin), "/")
		if name == "ledger" || from == plugin || slices.Contains(capacityMixImports[strings.TrimPrefix(from, plugin+"/")], name) {
			return ""
		}
		return "the ungater uses the state, the state uses the others, and all use the ledger"
	},
	"k8s.io/kubernetes is imported by the scheduler side only": func(from, to string) string {
		if !strings.HasPrefix(to, "k8s.io/kubernetes/") {
			return ""
		}
		for _, may := range []string{"plugins", "cmd/berth-scheduler", "apis/config", "internal/mix/simulation", "test"} {
			if under(from, may) {
				return ""
			}
		}
		return "its API is not stable, and it makes every binary large"
	},
}

// capacityMixImports are the imports between the packages of the CapacityMix plugin, without the ledger.
var capacityMixImports = map[string][]string{
	"ungate": {"events", "state"},
	"state":  {"events", "lookup", "wakeup"},
	"lookup": {"wakeup"},
}

func under(pkg, folder string) bool {
	return pkg == module+folder || strings.HasPrefix(pkg, module+folder+"/")
}

func TestImportRules(t *testing.T) {
	packages, err := importtable.Packages("../..")
	require.NoError(t, err)
	require.Greater(t, len(packages), 10)
	for name, r := range rules {
		t.Run(name, func(t *testing.T) {
			for _, p := range packages {
				for _, to := range p.Imports {
					if why := r(p.ImportPath, to); why != "" {
						t.Errorf("%s imports %s: %s", p.ImportPath, to, why)
					}
				}
			}
		})
	}
}

// Each rule refuses something: a rule that cannot fail is none.
func TestEveryImportRuleCanFail(t *testing.T) {
	for name, edge := range map[string][2]string{
		"the pure packages import the standard library and Kubernetes API types only": {"internal/mix/split", "internal/mix/policy"},
		"apis imports nothing of ours":                                      {"apis/v1alpha1", "internal/mix/split"},
		"the scheduler side and the cluster side speak through API objects": {"plugins/capacitymix", "controllers/mix/rebalance"},
		"internal imports neither side":                                     {"internal/mix/policy", "plugins/capacitymix"},
		"products do not import tools or tests":                             {"plugins/capacitymix", "hack/cluster"},
		"command groups of the CLI stand side by side":                      {"internal/cli/doctor", "internal/cli/environments"},
		"the CapacityMix plugin has extension points only":                  {"plugins/capacitymix", "internal/kube/client"},
		"the packages of the CapacityMix plugin have one direction":         {"plugins/capacitymix/state", "plugins/capacitymix/ungate"},
	} {
		assert.NotEmpty(t, rules[name](module+edge[0], module+edge[1]), name)
	}
	assert.NotEmpty(t, rules["what decides reads no API"](module+"internal/mix/rebalance", "k8s.io/client-go/kubernetes"))
	assert.NotEmpty(t, rules["the CapacityMix plugin has extension points only"](module+"plugins/capacitymix", "k8s.io/client-go/kubernetes"))
	assert.NotEmpty(t, rules["k8s.io/kubernetes is imported by the scheduler side only"](module+"controllers/mix/rebalance", "k8s.io/kubernetes/pkg/scheduler"))
}
