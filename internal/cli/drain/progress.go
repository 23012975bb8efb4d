// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/rebalance"
)

// progress is what has happened to the pods of the nodes so far.
type progress struct {
	// released are the replicas that run beside their replacements, gone how many are not there any more. Due are the replicas of mixes
	// that release them, with the mix, and left the other pods, by namespace and name.
	released map[types.UID]string
	gone     int
	due      []string
	left     []string
}

func newProgress() *progress { return &progress{released: map[types.UID]string{}} }

// observe takes over the pods of the nodes as they are, and returns lines about what is new. Releases has the mix that releases a pod.
func (p *progress) observe(all []corev1.Pod, releases func(*corev1.Pod) (mix string, is bool)) (lines []string) {
	there := map[types.UID]string{}
	p.left, p.due = nil, nil
	for i := range all {
		pod := &all[i]
		name := pod.Namespace + "/" + pod.Name
		mix, due := releases(pod)
		switch {
		case pods.Finished(pod), pods.OfNode(metav1.GetControllerOfNoCopy(pod)):
		case pods.Leaves(pod):
			there[pod.UID] = name
		case pod.DeletionTimestamp != nil:
		case due && rebalance.HasRevision(pod):
			p.due = append(p.due, name+" of "+mix)
		default:
			p.left = append(p.left, name)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(there)) {
		if _, known := p.released[uid]; !known {
			lines = append(lines, fmt.Sprintf("pod %s released: its replacement is being created", there[uid]))
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(p.released)) {
		if _, still := there[uid]; !still {
			lines = append(lines, fmt.Sprintf("pod %s gone", p.released[uid]))
			p.gone++
		}
	}
	p.released = there
	slices.Sort(p.left)
	slices.Sort(p.due)
	return lines
}

// done reports whether nothing more is expected: no replica is left that is released, or is to be.
func (p *progress) done() bool { return len(p.released) == 0 && len(p.due) == 0 }

// unfinished is what is waited for.
func (p *progress) unfinished() string {
	if len(p.released) > 0 {
		names := slices.Sorted(maps.Values(p.released))
		return display.Clause(len(names), "released replica", "is", "are") + " still there (" + some(names) + ")"
	}
	return display.Clause(len(p.due), "replica", "was", "were") + " not released (" + some(p.due) + ")"
}

// maxNames bounds how many pods a line names.
const maxNames = 5

func some(names []string) string { return display.ListedUpTo(maxNames, names) }

// summary prints what was done, and what is left to do.
func (d *drainer) summary(p *progress, nodes []string) {
	fmt.Fprintf(d.Out, "%s left %s.\n", display.Count(p.gone, "replica"), display.Count(len(nodes), "node"))
	if len(p.left) == 0 {
		return
	}
	fmt.Fprintf(d.Out, "%s left, which no mix releases: %s. Evict them with:\n  kubectl drain %s --ignore-daemonsets\n",
		display.Clause(len(p.left), "pod", "is", "are"), some(p.left), strings.Join(nodes, " "))
}
