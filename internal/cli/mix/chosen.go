// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/overview"
)

// chosen are the mixes and workloads that a status shows.
type chosen struct {
	// mix is the name of the only mix, "" for all.
	mix string
	// kind and name are those of the only workload, "" for all.
	kind, name string
	// selector chooses workloads by the labels of their pods; nil chooses all.
	selector labels.Selector
}

// chosenBy reads the arguments of status.
func chosenBy(u *live.User, args []string, namespace string, selector labels.Selector) (*chosen, error) {
	c := &chosen{selector: selector}
	if selector != nil && selector.Empty() {
		c.selector = nil
	}
	if len(args) == 0 {
		return c, nil
	}
	if namespace == "" {
		return nil, fmt.Errorf("a name requires one namespace: use -n, not -A")
	}
	target, err := command.TargetOf(args[0])
	if err != nil {
		return nil, err
	}
	if target.Kind == "" {
		c.mix = target.Name
		return c, nil
	}
	kind, err := u.Kind(target.Kind)
	switch {
	case err != nil:
		return nil, err
	case kind == "CapacityMix":
		c.mix = target.Name
	default:
		c.kind, c.name = kind, target.Name
	}
	return c, nil
}

// workload identifies a row.
type workload struct{ namespace, kind, name, revision, role, source string }

// of counts what is chosen of a cluster, and returns the slots of each workload.
func (c *chosen) of(cluster *overview.Cluster) (*overview.Status, map[workload]string) {
	s := overview.StatusOf(cluster, c.mix)
	all := cluster.Overview(c.selector).Workloads
	slots := map[workload]string{}
	for i := range all {
		w := &all[i]
		slots[workload{w.Namespace, w.Kind, w.Name, w.Revision, w.Role, w.Source}] = w.Ribbon(maxRibbon)
	}
	if c.kind == "" && c.selector == nil {
		return s, slots
	}
	governing := map[string]bool{}
	s.Workloads = slices.DeleteFunc(s.Workloads, func(w overview.WorkloadStatus) bool {
		_, selected := slots[keyOf(&w)]
		if !selected || c.kind != "" && !c.names(&w) {
			return true
		}
		governing[w.Namespace+"/"+w.Source] = true
		return false
	})
	s.Mixes = slices.DeleteFunc(s.Mixes, func(m overview.MixStatus) bool { return !governing[m.Namespace+"/capacitymix/"+m.Name] })
	return s, slots
}

// names reports whether a workload is the only one. A ReplicaSet is named by its revision, too.
func (c *chosen) names(w *overview.WorkloadStatus) bool {
	return w.Kind == c.kind && w.Name == c.name || c.kind == "ReplicaSet" && w.Revision == c.name
}

func keyOf(w *overview.WorkloadStatus) workload {
	return workload{w.Namespace, w.Kind, w.Name, w.Revision, w.Role, w.Source}
}
