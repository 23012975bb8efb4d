// SPDX-License-Identifier: Apache-2.0

package ungate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/plugins/internal/admission"
	"berth.dev/berth/plugins/internal/taints"
)

const (
	// placesAge is the maximum age of a view of the free places.
	placesAge = time.Second
	// placesShare is the maximum age of a view that shows no place, as a multiple of the time that the view took. An older view may
	// lack the place that the rebalancer made for a pod, and a newer one would take more than a tenth of the time.
	placesShare = 10
	// maxSearches bounds the searches without a result for pods of one namespace in one view: each tries all spot nodes.
	maxSearches = 16
)

// places finds spot nodes with room for a pod. It is used only where spot was not available lately, and reads the caches by itself: the
// scheduler's own snapshot belongs to its cycles. It is not safe for concurrent use.
type places struct {
	clock      clock.PassiveClock
	pods       corelisters.PodLister
	nodes      corelisters.NodeLister
	classifier *capacity.Classifier
	admission  admission.Check

	// at is when the view was read, took how long that and the searches in it took.
	at    time.Time
	took  time.Duration
	infos []fwk.NodeInfo
	// known are the pods of the view. What a pod requests is summed once.
	known map[types.UID]fwk.PodInfo
	// none are the kinds of pods for which no node had room. Others of the same kind need not try all nodes again. tried is how many of
	// the searches without a result were for pods of a namespace.
	none  map[string]bool
	tried map[string]int
	// held are the pods that got a place and may not be bound yet.
	held map[types.UID]place
}

type place struct {
	pod   *corev1.Pod
	node  string
	until time.Time
}

// find reports whether a spot node has room for a pod that is limited to spot; kind is the same for pods that are alike. hold keeps the
// place for the pod for a while.
func (p *places) find(pod *corev1.Pod, kind string, hold bool) bool {
	began := p.clock.Now()
	defer func() { p.took += p.clock.Since(began) }()
	if began.Before(p.at) || began.Sub(p.at) >= placesAge {
		p.read(began)
	}
	if _, has := p.held[pod.UID]; has {
		return true
	}
	if p.search(began, pod, kind, hold) {
		return true
	}
	if began.Sub(p.at) <= placesShare*p.took {
		return false
	}
	p.read(began)
	return p.search(began, pod, kind, hold)
}

// search is find in the view.
func (p *places) search(now time.Time, pod *corev1.Pod, kind string, hold bool) bool {
	if p.none[kind] || p.tried[pod.Namespace] >= maxSearches {
		return false
	}
	for _, info := range p.infos {
		if p.admits(info, pod) {
			if hold {
				p.held[pod.UID] = place{pod, info.Node().Name, now.Add(leaderGracePeriod)}
				info.AddPodInfo(p.admission.PodInfo(pod))
			}
			return true
		}
	}
	p.none[kind] = true
	p.tried[pod.Namespace]++
	return false
}

// release gives up the place that is kept for a pod. The next view shows it as free.
func (p *places) release(uid types.UID) { delete(p.held, uid) }

// read reads nodes and pods from the caches.
func (p *places) read(now time.Time) {
	p.at, p.took, p.infos, p.none, p.tried = now, 0, nil, map[string]bool{}, map[string]int{}
	byName := map[string]fwk.NodeInfo{}
	nodes, _ := p.nodes.List(labels.Everything()) // a cache does not fail
	for _, node := range nodes {
		if t, _ := p.classifier.Classify(node); t != capacity.Spot || !capacity.Accepting(node) {
			continue
		}
		info := p.admission.NodeInfo(node)
		byName[node.Name] = info
		p.infos = append(p.infos, info)
	}
	before := p.known
	p.known = map[types.UID]fwk.PodInfo{}
	if len(p.infos) == 0 {
		p.held = map[types.UID]place{}
		return
	}
	all, _ := p.pods.List(labels.Everything())
	for _, pod := range all {
		if info := byName[pod.Spec.NodeName]; info != nil && !pods.Finished(pod) {
			info.AddPodInfo(p.keep(pod, before[pod.UID]))
		}
	}
	kept := map[types.UID]place{}
	for uid, h := range p.held {
		if info := byName[h.node]; info != nil && p.known[uid] == nil && now.Before(h.until) {
			info.AddPodInfo(p.admission.PodInfo(h.pod))
			kept[uid] = h
		}
	}
	p.held = kept
}

// keep keeps a pod of the view. before is that of the last view.
func (p *places) keep(pod *corev1.Pod, before fwk.PodInfo) fwk.PodInfo {
	if before == nil || before.GetPod() != pod {
		before = p.admission.PodInfo(pod)
	}
	p.known[pod.UID] = before
	return before
}

// admits reports whether a node has room for a pod, and the pod selects and tolerates the node.
func (p *places) admits(info fwk.NodeInfo, pod *corev1.Pod) bool {
	_, untolerated := taints.Untolerated(info.Node(), pod, taints.Repels)
	return !untolerated && len(p.admission.Refusals(pod, info, false)) == 0
}
