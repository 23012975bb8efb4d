// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/mix/clusterstate"
)

// snapshotPod is what a snapshot has of a pod: its node or nominated node, and its resources there.
type snapshotPod struct {
	uid types.UID
	// node is the pod's node, nominated the one that it is nominated to.
	node, nominated string
	// info is shared by pods that no filter can distinguish. Its pod has the name of one of them.
	info fwk.PodInfo
}

// records are those of a snapshot. Pods that no filter can distinguish, as the replicas of a workload mostly are, have one.
type records struct {
	// topology is set if the zone and the region in the labels of a pod distinguish it from others. The API server copies them
	// from the node, as of Kubernetes 1.35, so each workload would have a record for each zone.
	topology bool
	infos    map[record]fwk.PodInfo
	pods     map[string]*corev1.Pod              // by what is decoded
	labels   map[clusterstate.LabelSet]*labelSet // of a cluster state, in which equal sets are one
}

// record is what distinguishes pods.
type record struct{ filtered, namespace, labels string }

// labelSet is the labels of a record, and their canonical text. of keeps the set that it is made of, by whose address it is found.
type labelSet struct {
	of, labels map[string]string
	text       string
}

func newRecords(topology bool) *records {
	return &records{
		topology: topology,
		infos:    map[record]fwk.PodInfo{}, pods: map[string]*corev1.Pod{}, labels: map[clusterstate.LabelSet]*labelSet{},
	}
}

func (r *records) of(p *clusterstate.Pod) (snapshotPod, error) {
	set := r.labelsOf(p)
	key := record{p.Filtered, p.Namespace, set.text}
	info, known := r.infos[key]
	if !known {
		decoded, err := r.decode(p.Filtered)
		if err != nil {
			return snapshotPod{}, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		pod := *decoded
		pod.Namespace, pod.Labels = p.Namespace, set.labels
		if pod.Name == "" {
			// A NodeInfo removes a pod by its UID. That of a pod that has changed since could be that of another record, too.
			pod.Name, pod.UID = p.Name, types.UID("record-"+strconv.Itoa(len(r.infos)))
		}
		info = infoOf(&pod)
		r.infos[key] = info
	}
	return snapshotPod{uid: p.UID, node: p.Node, nominated: info.GetPod().Status.NominatedNodeName, info: info}, nil
}

// decode decodes what several workloads may have in common once.
func (r *records) decode(filtered string) (*corev1.Pod, error) {
	if known := r.pods[filtered]; known != nil {
		return known, nil
	}
	pod := &corev1.Pod{}
	if err := pod.Unmarshal([]byte(filtered)); err != nil {
		return nil, err
	}
	r.pods[filtered] = pod
	return pod, nil
}

func (r *records) labelsOf(p *clusterstate.Pod) *labelSet {
	if known := r.labels[p.LabelSet()]; known != nil {
		return known
	}
	set := &labelSet{of: p.Labels, labels: p.Labels}
	if _, there := p.Labels[corev1.LabelTopologyZone]; !r.topology && (there || p.Labels[corev1.LabelTopologyRegion] != "") {
		set.labels = maps.Clone(p.Labels)
		delete(set.labels, corev1.LabelTopologyZone)
		delete(set.labels, corev1.LabelTopologyRegion)
	}
	set.text = labels.Set(set.labels).String()
	r.labels[p.LabelSet()] = set
	return set
}

// scheduled is the record of a pod that was read.
func scheduled(p *corev1.Pod) *clusterstate.Pod {
	return &clusterstate.Pod{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, Node: p.Spec.NodeName, Labels: p.Labels, Filtered: string(Filtered(p)),
	}
}

// readsOthers reports whether the filters of a pod count pods on other nodes than the candidate.
func readsOthers(p *corev1.Pod) bool {
	if slices.ContainsFunc(p.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule
	}) {
		return true
	}
	return slices.ContainsFunc(requiredTerms(p), func(t corev1.PodAffinityTerm) bool { return t.TopologyKey != corev1.LabelHostname })
}

// requiredTerms are the terms of pod affinity and of pod anti-affinity that filters read.
func requiredTerms(p *corev1.Pod) (terms []corev1.PodAffinityTerm) {
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		terms = append(terms, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		terms = append(terms, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	return terms
}

// readsTopology reports whether the filters of a pod read the zone or the region in the labels of others.
func readsTopology(p *corev1.Pod) bool {
	for i := range p.Spec.TopologySpreadConstraints {
		c := &p.Spec.TopologySpreadConstraints[i]
		if selectsTopology(c.LabelSelector) || isTopology(c.MatchLabelKeys...) {
			return true
		}
	}
	terms := requiredTerms(p)
	for i := range terms {
		if selectsTopology(terms[i].LabelSelector) || isTopology(terms[i].MatchLabelKeys...) || isTopology(terms[i].MismatchLabelKeys...) {
			return true
		}
	}
	return false
}

func selectsTopology(s *metav1.LabelSelector) bool {
	if s == nil {
		return false
	}
	for key := range s.MatchLabels {
		if isTopology(key) {
			return true
		}
	}
	for i := range s.MatchExpressions {
		if isTopology(s.MatchExpressions[i].Key) {
			return true
		}
	}
	return false
}

func isTopology(keys ...string) bool {
	for _, key := range keys {
		if key == corev1.LabelTopologyZone || key == corev1.LabelTopologyRegion {
			return true
		}
	}
	return false
}
