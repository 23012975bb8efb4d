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

// rule forbids the packages of some folders to import others.
type rule struct {
	from, to []string
	// except allows some imports all the same.
	except func(from, to string) bool
	why    string
	// refuses are imports that the rule refuses: one that cannot fail is none.
	refuses []edge
}

// edge is an import.
type edge struct{ from, to string }

// withIO are the packages of internal that read or write, as docs/architecture.md names them. All others decide.
var withIO = []string{
	"internal/kube", "internal/live", "internal/cli", "internal/console", "internal/config/program",
	"internal/environments/backup", "internal/environments/change", "internal/environments/orphans",
	"internal/mix/autoscaler", "internal/mix/pricefeed", "internal/mix/simulation", "internal/policies/decision", "internal/records/prometheus",
	"internal/sim/scenario", "internal/sim/snapshot", "internal/sim/spottrace",
}

func TestArchitectureNamesThePackagesWithIO(t *testing.T) {
	page := strings.Join(strings.Fields(read(t, "docs/architecture.md")), " ")
	var names []string
	for _, p := range withIO {
		names = append(names, "`"+strings.TrimPrefix(p, "internal/")+"`")
	}
	last := len(names) - 1
	assert.Contains(t, page, "without I/O except in "+strings.Join(names[:last], ", ")+" and "+names[last]+".")
}

var rules = map[string]rule{
	"the pure packages import the standard library and Kubernetes API types only": {
		from: ours("internal/mix/split", "internal/mix/capacity"), to: []string{""},
		except: func(from, to string) bool {
			return !strings.Contains(strings.SplitN(to, "/", 2)[0], ".") || in(to, "k8s.io/api", "k8s.io/apimachinery") ||
				in(from, ours("internal/mix/split")...) && to == module+"internal/mix/capacity"
		},
		why:     "the mix must stay a function that everything can share",
		refuses: []edge{{module + "internal/mix/split", module + "internal/mix/governing"}},
	},
	"what decides reads no API": {
		from: ours("internal"), to: []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "net/http"},
		except:  func(from, _ string) bool { return in(from, ours(withIO...)...) },
		why:     "decisions are functions of values; I/O is around them",
		refuses: []edge{{module + "internal/mix/rebalance", "k8s.io/client-go/kubernetes"}},
	},
	"apis imports nothing of ours": {
		from: ours("apis"), to: ours(""),
		except:  func(_, to string) bool { return in(to, ours("apis")...) },
		why:     "clients import apis without the rest of Berth",
		refuses: []edge{{module + "apis/v1alpha1", module + "internal/mix/split"}},
	},
	"the scheduler side imports nothing of the cluster side": {
		from: ours("plugins", "scheduler"), to: ours("controllers", "services"),
		why:     "they speak through API objects",
		refuses: []edge{{module + "plugins/capacitymix", module + "controllers/mix/rebalance"}},
	},
	"the cluster side imports nothing of the scheduler side": {
		from: ours("controllers", "services"), to: ours("plugins", "scheduler"),
		why:     "they speak through API objects",
		refuses: []edge{{module + "services/limits", module + "plugins/resourcelimit"}},
	},
	"the simulator runs both sides, and only programs and tests use it": {
		from: ours("apis", "internal", "plugins", "scheduler", "controllers", "services"), to: ours("simulator"),
		why:     "what is simulated must not depend on it",
		refuses: []edge{{module + "internal/cli/mix", module + "simulator"}},
	},
	"internal imports neither side": {
		from: ours("internal"), to: ours("plugins", "scheduler", "controllers", "services", "cmd", "hack", "test"),
		why:     "internal is below all others",
		refuses: []edge{{module + "internal/mix/governing", module + "plugins/capacitymix"}},
	},
	"command groups of the CLI stand side by side": {
		from: ours("internal/cli"), to: ours(commandGroups...),
		except: func(from, to string) bool {
			group := slices.IndexFunc(commandGroups, func(g string) bool { return in(to, ours(g)...) })
			return from == module+"internal/cli" || from == module+"internal/cli/reports" || in(from, ours(commandGroups[group])...)
		},
		why:     "what two groups share is in command, access, show, printers, live or mix/overview; the root and the reports of the console call all",
		refuses: []edge{{module + "internal/cli/doctor", module + "internal/cli/environments"}},
	},
	"services and pages import no command line": {
		from: ours("services", "internal/console", "internal/live"), to: ours("internal/cli"),
		why:     "a server runs no command: it calls functions, which its main provides",
		refuses: []edge{{module + "services/console", module + "internal/cli"}, {module + "internal/live", module + "internal/cli/printers"}},
	},
	"pages read no cluster": {
		from: ours("internal/console"), to: ours("internal/live", "internal/mix/simulation", "internal/kube/client"),
		why:     "a page is made of a structure of internal/mix/overview; a Source reads the cluster",
		refuses: []edge{{module + "internal/console", module + "internal/live"}},
	},
	"products do not import tools or tests": {
		from: ours("apis", "internal", "plugins", "scheduler", "controllers", "services", "cmd"), to: ours("hack", "test"),
		why:     "hack and test are not shipped",
		refuses: []edge{{module + "plugins/capacitymix", module + "hack/cluster"}},
	},
	"the CapacityMix plugin has extension points only": {
		from: ours("plugins/capacitymix"), to: append(ours("internal/kube", "plugins/internal/crdinformer"), "k8s.io/client-go"),
		except: func(from, _ string) bool { return from != module+"plugins/capacitymix" },
		why:    "what is read or watched belongs to its packages state, lookup and ungate",
		refuses: []edge{
			{module + "plugins/capacitymix", "k8s.io/client-go/kubernetes"}, {module + "plugins/capacitymix", module + "internal/kube/client"},
		},
	},
	"the packages of the CapacityMix plugin have one direction": {
		from: ours("plugins/capacitymix"), to: ours("plugins/capacitymix"),
		except: func(from, to string) bool {
			const plugin = module + "plugins/capacitymix"
			name := strings.TrimPrefix(to, plugin+"/")
			return name == "ledger" || from == plugin || slices.Contains(capacityMixImports[strings.TrimPrefix(from, plugin+"/")], name)
		},
		why:     "the ungater uses the state, the state uses the others, and all use the ledger",
		refuses: []edge{{module + "plugins/capacitymix/state", module + "plugins/capacitymix/ungate"}},
	},
	"k8s.io/kubernetes is imported by the scheduler side only": {
		from: ours(""), to: []string{"k8s.io/kubernetes"},
		except: func(from, _ string) bool {
			_, ofPlugins := kubernetesInPlugins[strings.TrimPrefix(from, module)]
			return ofPlugins || in(from, ours("scheduler", "simulator", "internal/mix/arguments/scheme", "internal/mix/simulation", "test")...)
		},
		why: "its API is not stable, and it makes every binary large; plugins use k8s.io/kube-scheduler/framework",
		refuses: []edge{
			{module + "controllers/mix/rebalance", "k8s.io/kubernetes/pkg/scheduler"},
			{module + "plugins/reservation", "k8s.io/kubernetes/pkg/scheduler/framework"},
		},
	},
	"scheduler alone uses kube-scheduler beyond its plugins": {
		from: ours(""), to: []string{"k8s.io/kubernetes/cmd/kube-scheduler", "k8s.io/kubernetes/pkg/scheduler"},
		except: func(from, to string) bool {
			return in(from, ours("scheduler", "test")...) ||
				in(to, "k8s.io/kubernetes/pkg/scheduler") && to != "k8s.io/kubernetes/pkg/scheduler" && !in(to, "k8s.io/kubernetes/pkg/scheduler/backend")
		},
		why: "what is missing upstream is in one place (docs/extension-points.md)",
		refuses: []edge{
			{module + "plugins/topologyspread", "k8s.io/kubernetes/pkg/scheduler"},
			{module + "plugins/topologyspread", "k8s.io/kubernetes/pkg/scheduler/backend/cache"},
			{module + "cmd/berth-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler/app"},
		},
	},
	"what places does not import what creates workloads": {
		from: ours("internal/mix", "internal/limits", "internal/policies", "plugins", "scheduler", "controllers/mix", "controllers/limits",
			"controllers/policies", "controllers/state", "controllers/podwebhook", "services/limits"),
		to:      ours(workloads...),
		why:     "docs/decisions/0035-one-module.md",
		refuses: []edge{{module + "controllers/mix/rebalance", module + "internal/environments/render"}},
	},
	"what creates workloads does not import what places": {
		from: ours(workloads...), to: ours("internal/mix", "internal/limits", "internal/policies", "plugins", "scheduler", "controllers/mix"),
		why:     "docs/decisions/0035-one-module.md",
		refuses: []edge{{module + "internal/records/render", module + "internal/mix/split"}},
	},
	"plugins do not import the scheduler": {
		from: ours("plugins"), to: ours("scheduler"),
		why:     "they declare the interfaces that they need of it",
		refuses: []edge{{module + "plugins/reservation", module + "scheduler/upstream"}},
	},
}

// kubernetesInPlugins are the packages of plugins that import k8s.io/kubernetes, and why each has to.
var kubernetesInPlugins = map[string]string{
	"plugins/topologyspread":  "it wraps the in-tree plugin PodTopologySpread",
	"plugins/internal/taints": "the names of feature gates are in no staging module",
}

// workloads are the folders of what creates workloads, without the console, which shows both halves.
var workloads = []string{
	"internal/records", "internal/environments", "controllers/records", "controllers/environments", "controllers/backups",
	"services/records", "services/environments",
}

// commandGroups are the folders of the commands of kubectl berth.
var commandGroups = []string{
	"internal/cli/mix", "internal/cli/imports", "internal/cli/policies", "internal/cli/reservations", "internal/cli/records",
	"internal/cli/environments", "internal/cli/doctor", "internal/cli/top", "internal/cli/ui", "internal/cli/snapshot",
}

// capacityMixImports are the imports between the packages of the CapacityMix plugin, without the ledger.
var capacityMixImports = map[string][]string{
	"ungate": {"events", "state"},
	"state":  {"events", "lookup", "stages", "wakeup"},
	"lookup": {"wakeup"},
}

// ours are the paths of folders of Berth.
func ours(folders ...string) (paths []string) {
	for _, folder := range folders {
		paths = append(paths, strings.TrimSuffix(module+folder, "/"))
	}
	return paths
}

// in reports whether a package is in one of the folders; "" has all packages.
func in(pkg string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return folder == "" || pkg == folder || strings.HasPrefix(pkg, folder+"/") })
}

func (r *rule) forbids(from, to string) bool {
	return in(from, r.from...) && in(to, r.to...) && (r.except == nil || !r.except(from, to))
}

func TestEachExceptionOfPluginsIsNeeded(t *testing.T) {
	packages, err := importtable.Packages("../..")
	require.NoError(t, err)
	for exception := range kubernetesInPlugins {
		assert.True(t, slices.ContainsFunc(packages, func(p importtable.Package) bool {
			return p.ImportPath == module+exception &&
				slices.ContainsFunc(p.Imports, func(to string) bool { return in(to, "k8s.io/kubernetes") })
		}), "%s does not import k8s.io/kubernetes", exception)
	}
}

func TestImportRules(t *testing.T) {
	packages, err := importtable.Packages("../..")
	require.NoError(t, err)
	require.Greater(t, len(packages), 10)
	for name, r := range rules {
		t.Run(name, func(t *testing.T) {
			require.NotEmpty(t, r.refuses)
			for _, e := range r.refuses {
				assert.True(t, r.forbids(e.from, e.to), "%s may import %s", e.from, e.to)
			}
			for _, p := range packages {
				for _, to := range p.Imports {
					assert.False(t, r.forbids(p.ImportPath, to), "%s imports %s: %s", p.ImportPath, to, r.why)
				}
			}
		})
	}
}
