// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/kube/pods"
)

// progress is what has happened to the pods of the nodes so far.
type progress struct {
	// released are the replicas that run beside their replacements, gone how many are not there any more, and left the other pods, by
	// namespace and name.
	released map[types.UID]string
	gone     int
	left     []string
	// changed is when a replica was released or went last.
	changed time.Time
}

func newProgress(now time.Time) *progress {
	return &progress{released: map[types.UID]string{}, changed: now}
}

// observe takes over the pods of the nodes as they are, and returns lines about what is new.
func (p *progress) observe(all []corev1.Pod, now time.Time) (lines []string) {
	there := map[types.UID]string{}
	p.left = nil
	for i := range all {
		pod := &all[i]
		name := pod.Namespace + "/" + pod.Name
		switch _, released := pods.ReleasedFrom(pod); {
		case pods.Finished(pod), ofNode(pod):
		case released:
			there[pod.UID] = name
		case pod.DeletionTimestamp == nil:
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
	if len(lines) > 0 {
		p.changed = now
	}
	p.released = there
	slices.Sort(p.left)
	return lines
}

// ofNode reports whether a pod belongs to its node, and stays until that is gone.
func ofNode(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	return ref != nil && (ref.Kind == "DaemonSet" || ref.Kind == "Node")
}

// done reports whether nothing more is expected: no released replica is left, and none was released for a while.
func (p *progress) done(now time.Time, quiet time.Duration) bool {
	return len(p.released) == 0 && (len(p.left) == 0 || now.Sub(p.changed) >= quiet)
}

// unfinished is what is waited for.
func (p *progress) unfinished() string {
	names := slices.Sorted(maps.Values(p.released))
	if len(names) == 0 {
		return "the controller may still release replicas"
	}
	return display.Clause(len(names), "released replica", "is", "are") + " still there (" + some(names) + ")"
}

// maxNames bounds how many pods a line names.
const maxNames = 5

func some(names []string) string {
	if more := len(names) - maxNames; more > 0 {
		return strings.Join(names[:maxNames], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// summary prints what was done, and what is left to do.
func (d *drainer) summary(p *progress, nodes []string) {
	fmt.Fprintf(d.Out, "%s left %s.\n", display.Count(p.gone, "replica"), display.Count(len(nodes), "node"))
	if len(p.left) == 0 {
		return
	}
	fmt.Fprintf(d.Out, "%s left, which no mix releases: %s. Evict them with:\n  kubectl drain %s --ignore-daemonsets\n",
		display.Clause(len(p.left), "pod", "is", "are"), some(p.left), strings.Join(nodes, " "))
}
