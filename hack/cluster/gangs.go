// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const (
	// Gangs is the name of berth-scheduler with the plugins of scheduler-plugins.
	Gangs = "berth-scheduler-gangs"
	// gangsModule is its folder.
	gangsModule = "cmd/" + Gangs

	pluginsModule   = "sigs.k8s.io/scheduler-plugins"
	coscheduling    = "pkg/coscheduling/coscheduling.go"
	coschedulers    = "pkg/coscheduling/core/core.go"
	quotas          = "pkg/capacityscheduling/capacity_scheduling.go"
	frameworkImport = "\t\"k8s.io/kubernetes/pkg/scheduler/framework\"\n"
)

// gangsEdits let scheduler-plugins, whose newest release is for Kubernetes 1.34, compile with 1.37. The types of plugins are
// in the other of the two packages that are called framework, the queue sorts pods and groups of them, and preemption passes
// the pods that it would evict, which these plugins choose themselves. They are dropped when a release fits.
var gangsEdits = []edit{
	{
		pluginsModule, coscheduling, frameworkImport,
		"\tframework \"k8s.io/kube-scheduler/framework\"\n\tschedulerframework \"k8s.io/kubernetes/pkg/scheduler/framework\"\n",
	},
	{
		pluginsModule, coscheduling,
		"Less(podInfo1, podInfo2 fwk.QueuedPodInfo) bool {\n",
		`Less(entity1, entity2 fwk.QueuedEntityInfo) bool {
	podInfo1, ok1 := entity1.(*schedulerframework.QueuedPodInfo)
	podInfo2, ok2 := entity2.(*schedulerframework.QueuedPodInfo)
	if !ok1 || !ok2 { // a group that the scheduler itself keeps: as without Coscheduling
		if p1, p2 := entity1.GetPriority(), entity2.GetPriority(); p1 != p2 {
			return p1 > p2
		}
		return entity1.GetTimestamp().Before(entity2.GetTimestamp())
	}
`,
	},
	{pluginsModule, coschedulers, "framework.SharedLister", "fwk.SharedLister"},
	{
		pluginsModule, quotas, frameworkImport,
		"\tframework \"k8s.io/kube-scheduler/framework\"\n\tschedulerframework \"k8s.io/kubernetes/pkg/scheduler/framework\"\n" +
			"\t\"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature\"\n",
	},
	{pluginsModule, quotas, "framework.Resource", "schedulerframework.Resource"},
	{pluginsModule, quotas, "framework.NodeToStatusMap", "framework.NodeToStatusReader"},
	{pluginsModule, quotas, "\t\tfalse, // enableAsyncPreemption\n", "\t\tpreemption.NewExecutor(c.fh, feature.Features{}),\n"},
	{
		pluginsModule, quotas,
		"\tnodeInfo fwk.NodeInfo,\n\tpdbs []*policy.PodDisruptionBudget) ([]*v1.Pod,",
		"\tnodeInfo fwk.NodeInfo,\n\t_ []*preemption.DomainVictim,\n\tpdbs []*policy.PodDisruptionBudget) ([]*v1.Pod,",
	},
}

// BuildGangs builds ./cmd/berth-scheduler-gangs of the repository into the cache, as BuildScheduler does the scheduler.
func BuildGangs(ctx context.Context, repoRoot string, out io.Writer, race bool) (string, error) {
	root, err := filepath.Abs(repoRoot)
	if err != nil {
		return "", err
	}
	modfile, err := Modfile(ctx, root, gangsModule)
	if err != nil {
		return "", err
	}
	return buildCommandIn(ctx, filepath.Join(root, gangsModule), out, Gangs, race, "-modfile="+modfile, ".")
}

// Modfile returns the go.mod file that the module in a folder of the repository, which requires scheduler-plugins, is built with.
// The copy with the edits is made once.
func Modfile(ctx context.Context, repoRoot, folder string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	module := filepath.Join(repoRoot, folder)
	key, err := moduleKey(module, source{edits: gangsEdits})
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "edited", key)
	lock, err := lockFile(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer lock.unlock()
	if err := editedOnce(ctx, module, dir); err != nil {
		return "", fmt.Errorf("build %s: %w", folder, err)
	}
	return filepath.Join(dir, "go.mod"), nil
}

// editedOnce is editedModules with a folder that keeps the copy: the go command then sees that an unchanged program is up to date.
func editedOnce(ctx context.Context, nested, dir string) error {
	if !exists(dir) {
		partial := dir + ".partial"
		if err := os.RemoveAll(partial); err != nil {
			return err
		}
		if _, err := editedModules(ctx, nested, partial, gangsEdits); err != nil {
			return err
		}
		if err := os.Rename(partial, dir); err != nil {
			return err
		}
	}
	_, err := replacedIn(nested, dir, map[string]string{pluginsModule: filepath.Join(dir, "module-0")})
	return err
}
