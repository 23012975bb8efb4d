// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/internal/mix/clusterstate"
)

// maxBehind bounds the nodes that are read again for a question. A watch that is behind for more of them shows no capacity.
const maxBehind = 20

// pods are those of a snapshot, with the nodes that they are on.
type pods struct {
	nodes []*corev1.Node
	all   []*clusterstate.Pod
	// assumed are the replacements that are not there yet.
	assumed []*clusterstate.Pod
	// on lists the pods of a node; nil if none need to be listed, because all are of one moment. current are the nodes whose
	// pods were listed.
	on      func(ctx context.Context, node string) ([]*clusterstate.Pod, error)
	current map[string]bool
}

// watchedPods reads what the watches do not keep.
func watchedPods(
	ctx context.Context, client kubernetes.Interface, nodes []*corev1.Node, watched *clusterstate.State,
) (pods, error) {
	kept := pods{
		nodes: nodes, all: watched.Scheduled(), current: map[string]bool{},
		on: func(ctx context.Context, node string) ([]*clusterstate.Pod, error) {
			return listPods(ctx, client, notTerminated+",spec.nodeName="+node)
		},
	}
	for i, p := range kept.all {
		if p.Filtered != clusterstate.TooLarge {
			continue
		}
		named, err := listPods(ctx, client, notTerminated+",metadata.namespace="+p.Namespace+",metadata.name="+p.Name)
		if err != nil {
			return pods{}, err
		}
		kept.all[i] = nil
		if len(named) > 0 {
			kept.all[i] = named[0]
		}
	}
	kept.all = slices.DeleteFunc(kept.all, func(p *clusterstate.Pod) bool { return p == nil })
	return kept, nil
}

// rebuild makes the state of the pods as they are known now.
func (s *Snapshot) rebuild() error {
	all := make([]snapshotPod, 0, len(s.pods.all)+len(s.pods.assumed))
	for _, list := range [][]*clusterstate.Pod{s.pods.all, s.pods.assumed} {
		for _, p := range list {
			pod, err := s.records.of(p)
			if err != nil {
				return err
			}
			all = append(all, pod)
		}
	}
	s.base = newState(s.pods.nodes, all)
	s.view.state = s.base
	return nil
}

// distinguish makes sure that the records have the labels that the filters of a pod read.
func (s *Snapshot) distinguish(next *corev1.Pod) error {
	if s.records.topology || !s.profile.replays[next.Spec.SchedulerName].spreadsByDefault() && !readsTopology(next) {
		return nil
	}
	s.records = newRecords(true)
	return s.rebuild()
}

// update reads the pods of a node, unless that was done, and reports whether they are others than before.
func (s *Snapshot) update(ctx context.Context, node string) (changed bool, err error) {
	if s.pods.on == nil || s.pods.current[node] {
		return false, nil
	}
	now, err := s.pods.on(ctx, node)
	if err != nil {
		return false, err
	}
	s.pods.current[node] = true
	before := map[types.UID]*clusterstate.Pod{}
	for _, p := range s.pods.all {
		if p.Node == node {
			before[p.UID] = p
		}
	}
	same := len(now) == len(before)
	for _, p := range now {
		was := before[p.UID]
		same = same && was != nil && was.Filtered == p.Filtered && maps.Equal(was.Labels, p.Labels)
	}
	if same {
		return false, nil
	}
	s.pods.all = slices.DeleteFunc(s.pods.all, func(p *clusterstate.Pod) bool { return p.Node == node })
	s.pods.all = append(s.pods.all, now...)
	return true, s.rebuild()
}

// errBehind means that the watch of the pods shows capacity which is not there.
var errBehind = errors.New("the watch of the pods is behind")

// Fits answers a question. It does not change the cluster that the snapshot is of.
func (s *Snapshot) Fits(ctx context.Context, q Question) (Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range maxBehind {
		a, err := s.fits(ctx, q)
		if err != nil || !a.Fits {
			return a, err
		}
		changed, err := s.update(ctx, a.Node)
		switch {
		case err != nil:
			return Answer{}, fmt.Errorf("read the pods of node %s: %w", a.Node, err)
		case !changed:
			return a, nil
		}
	}
	return Answer{}, errBehind
}
