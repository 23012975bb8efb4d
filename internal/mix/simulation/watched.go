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

const (
	// maxBehind bounds the nodes that are read again for a question. A watch that is behind for more of them shows no capacity.
	maxBehind = 20
	// maxReads bounds the pods that are read one by one. More of them are read with all others.
	maxReads = 100
)

// pods are those of a snapshot, with the nodes that they are on.
type pods struct {
	nodes []*corev1.Node
	all   []*clusterstate.Pod
	// assumed are the replacements that are not there yet.
	assumed []*clusterstate.Pod
	// replaces has the pods that these replace, by their own UIDs.
	replaces map[types.UID]types.UID
	// read lists pods; nil if none need to be listed, because all are of one moment. current are the nodes whose pods were listed.
	read    func(ctx context.Context, fields string) ([]*clusterstate.Pod, error)
	current map[string]bool
}

// watchedPods reads what the watches do not keep.
func watchedPods(
	ctx context.Context, client kubernetes.Interface, nodes []*corev1.Node, watched *clusterstate.State,
) (pods, error) {
	kept := pods{nodes: nodes, current: map[string]bool{}}
	kept.read = func(ctx context.Context, fields string) ([]*clusterstate.Pod, error) {
		return listPods(ctx, client, notTerminated+fields)
	}
	large := 0
	for _, p := range watched.Scheduled() {
		if p.Filtered != clusterstate.TooLarge {
			kept.all = append(kept.all, p)
			continue
		}
		if large++; large > maxReads {
			return kept, kept.readAll(ctx)
		}
		named, err := kept.read(ctx, ",metadata.namespace="+p.Namespace+",metadata.name="+p.Name)
		if err != nil {
			return pods{}, err
		}
		kept.all = append(kept.all, named...)
	}
	return kept, nil
}

// readAll has the pods be those of one moment.
func (p *pods) readAll(ctx context.Context) (err error) {
	if p.all, err = p.read(ctx, ""); err == nil {
		p.read = nil
	}
	return err
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

// update reads the pods of a node, and those that are nominated to it, unless that was done, and reports whether they are others than
// before.
func (s *Snapshot) update(ctx context.Context, node string) (changed bool, err error) {
	if s.pods.read == nil || s.pods.current[node] {
		return false, nil
	}
	bound, err := s.pods.read(ctx, ",spec.nodeName="+node)
	if err != nil {
		return false, err
	}
	nominated, err := s.pods.read(ctx, ",status.nominatedNodeName="+node)
	if err != nil {
		return false, err
	}
	if changed = s.pods.replace(node, len(bound), append(bound, nominated...)); changed {
		err = s.rebuild()
	}
	s.pods.current[node] = err == nil
	return changed, err
}

// replace has the pods of a node, of which the first bound ones are there and the others are nominated to it, be those of now. It
// reports whether they are others than those that were known.
func (p *pods) replace(node string, bound int, now []*clusterstate.Pod) (changed bool) {
	listed := make(map[types.UID]*clusterstate.Pod, len(now))
	for _, is := range now {
		listed[is.UID] = is
	}
	there, same := 0, 0
	for _, was := range p.all {
		if was.Node == node {
			there++
		}
		if is := listed[was.UID]; is != nil && was.Node == is.Node && was.Filtered == is.Filtered && maps.Equal(was.Labels, is.Labels) {
			same++
		}
	}
	if there == bound && same == len(now) {
		return false
	}
	p.all = slices.DeleteFunc(p.all, func(was *clusterstate.Pod) bool { return was.Node == node || listed[was.UID] != nil })
	p.all = append(p.all, now...)
	return true
}

// readOthers reads all pods for a replacement whose filters count those on other nodes: the watch may be behind for any of them.
func (s *Snapshot) readOthers(ctx context.Context, q *Question) error {
	next := q.next()
	if s.pods.read == nil || q.Confined == nil && !s.profile.replays[next.Spec.SchedulerName].spreadsByDefault() && !readsOthers(next) {
		return nil
	}
	if err := s.pods.readAll(ctx); err != nil {
		return err
	}
	return s.rebuild()
}

// FitAll answers questions about pods that start together: each counts the ones before it as scheduled to the nodes of their answers.
// It ends with the first pod that does not fit. The cluster that the snapshot is of is not changed.
func (s *Snapshot) FitAll(ctx context.Context, all []Question) (answers []Answer, err error) {
	assumed := s.assumed()
	defer func() { err = errors.Join(err, s.assumeOnly(assumed)) }()
	for _, q := range all {
		a, err := s.Fits(ctx, q)
		if err != nil {
			return nil, err
		}
		if answers = append(answers, a); !a.Fits {
			break
		}
		s.assume(q.next(), a.Node, q.Pod.UID)
	}
	return answers, nil
}

func (s *Snapshot) assumed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pods.assumed)
}

// assumeOnly forgets all replacements but the first ones.
func (s *Snapshot) assumeOnly(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pods.assumed) == n {
		return nil
	}
	for _, p := range s.pods.assumed[n:] {
		delete(s.pods.replaces, p.UID)
	}
	s.pods.assumed = s.pods.assumed[:n:n]
	return s.rebuild()
}

// errBehind means that the watch of the pods shows capacity which is not there.
var errBehind = errors.New("the watch of the pods is behind")

// Fits answers a question. It does not change the cluster that the snapshot is of.
func (s *Snapshot) Fits(ctx context.Context, q Question) (Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.readOthers(ctx, &q); err != nil {
		return Answer{}, err
	}
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
