// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/controller"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
)

// What SkyServe does (Mao et al., EuroSys 2025), with the settings of its documentation and of the experiments of the paper.
const (
	// decideEvery is how often it sets the numbers of replicas.
	decideEvery = 20 * time.Second
	// overprovision is how many more spot replicas it has than are wanted: num_overprovision.
	overprovision = 1
)

// spotHedge is the rule of SpotHedge: as many spot replicas as wanted, less those that are always on-demand (minOnDemand, as
// base_ondemand_fallback_replicas), and one more; and an on-demand replica for each of them that is not Ready, up to the wanted number.
func spotHedge(m split.Mix, wanted, readySpot int32) (spot, onDemand int32) {
	if wanted <= 0 {
		return 0, 0
	}
	base := min(m.MinOnDemand, wanted)
	spot = wanted + overprovision - base
	return spot, min(wanted, base+max(0, spot-readySpot))
}

// hedge has the replicas of a workload in a Deployment for each capacity type. The workload counts the pods of both.
type hedge struct{ spot, onDemand *workload }

// placer selects zones for spot replicas. lost is when a replica was lost in a zone, or found no node there.
type placer struct{ lost map[string]time.Time }

// addHedge creates the Deployments of a workload, and has their sizes set from now on.
func (w *world) addHedge(of *workload) {
	of.hedge = &hedge{spot: of.part(capacity.Spot), onDemand: of.part(capacity.OnDemand)}
	of.hedge.spot.placer = &placer{lost: map[string]time.Time{}}
	of.hedge.spot.wanted, of.hedge.onDemand.wanted = w.policy.Sizes(*of.mix, of.wanted, 0)
	w.deploy(of.hedge.spot)
	w.deploy(of.hedge.onDemand)
	w.after(decideEvery, func() { w.decide(of) })
}

// part is the Deployment of a workload for a type. No workload of a scenario has a dot in its name.
func (of *workload) part(t capacity.Type) *workload {
	part := &workload{Workload: of.Workload, name: of.name + "." + t.String(), template: *of.template.DeepCopy(), pods: map[types.UID]*corev1.Pod{}}
	part.deployment = types.NamespacedName{Namespace: of.Namespace, Name: part.name}
	part.template.Spec.NodeSelector = map[string]string{typeLabel: t.String()}
	return part
}

// decide sets the sizes of the Deployments, and has the next decision come.
func (w *world) decide(of *workload) {
	if of.tally.waiting > 0 || len(of.hedge.spot.placer.lost) > 0 {
		w.review(of.hedge.spot)
	}
	spot, onDemand := w.policy.Sizes(*of.mix, of.wanted, int32(of.tally.spot)) //nolint:gosec // bounded by the scenario
	w.resize(of.hedge.spot, spot)
	w.resize(of.hedge.onDemand, onDemand)
	w.after(decideEvery, func() { w.decide(of) })
}

// resize sets the size of a part.
func (w *world) resize(part *workload, size int32) {
	if part.wanted != size {
		part.wanted = size
		w.scaleTo(part, size)
		w.syncSoon(part)
	}
}

// place selects the zone of a spot replica that is created: of those that lost none lately, the one with the fewest replicas, and the
// cheapest of these. Where all zones lost some, none is left out.
func (w *world) place(part *workload, pod *corev1.Pod) {
	zones := w.spotZones()
	if len(zones) < 2 {
		return
	}
	active := slices.DeleteFunc(slices.Clone(zones), func(z string) bool { return !part.placer.lost[z].IsZero() })
	if len(active) == 0 {
		clear(part.placer.lost)
		active = zones
	}
	replicas := map[string]int{}
	for _, other := range part.pods {
		if controller.IsPodActive(other) {
			replicas[zoneOf(other)]++
		}
	}
	zone := slices.MinFunc(active, func(a, b string) int { // the first of equal ones: the zones are in the order of their price
		return cmp.Compare(replicas[a], replicas[b])
	})
	pod.Spec.NodeSelector = maps.Clone(pod.Spec.NodeSelector)
	pod.Spec.NodeSelector[corev1.LabelTopologyZone] = zone
}

// spotZones are the zones with spot nodes, the cheapest first. It is empty where a pool has no zone, which no pod can select.
func (w *world) spotZones() (zones []string) {
	pools := slices.DeleteFunc(slices.Clone(w.pools), func(p *pool) bool { return p.is != capacity.Spot })
	slices.SortStableFunc(pools, func(a, b *pool) int { return cmp.Or(cmp.Compare(a.price(), b.price()), cmp.Compare(a.Zone, b.Zone)) })
	for _, p := range pools {
		if p.Zone == "" {
			return nil
		}
		if !slices.Contains(zones, p.Zone) {
			zones = append(zones, p.Zone)
		}
	}
	return zones
}

func zoneOf(pod *corev1.Pod) string { return pod.Spec.NodeSelector[corev1.LabelTopologyZone] }

// review has replicas that find no node in their zone replaced by others in another zone, as SkyServe does with launches that fail. A zone
// in which a replica became Ready after the last loss is used again.
func (w *world) review(part *workload) {
	zones, lost := w.spotZones(), part.placer.lost
	if len(zones) < 2 {
		return
	}
	for _, pod := range part.sorted(nil) {
		zone := zoneOf(pod)
		at, was := lost[zone]
		switch {
		case was && becameReady(pod).After(at):
			delete(lost, zone)
		case hasCondition(pod, corev1.PodScheduled, corev1.ConditionFalse) && !w.mayLaunchIn(zone):
			lost[zone] = w.clock.Now()
			if slices.ContainsFunc(zones, func(z string) bool { return lost[z].IsZero() }) {
				_ = cluster{w}.Delete(pod) // pods can always be deleted
			}
		}
	}
}

// becameReady is when a pod became Ready, the zero time if it is not.
func becameReady(pod *corev1.Pod) (at time.Time) {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			at = c.LastTransitionTime.Time
		}
	}
	return at
}

// mayLaunchIn reports whether a spot node may come in a zone.
func (w *world) mayLaunchIn(zone string) bool {
	return slices.ContainsFunc(w.pools, func(p *pool) bool {
		return p.is == capacity.Spot && p.Zone == zone && (w.mayLaunch(p) || p.launches > 0)
	})
}

// lost notes that a pod is lost with its node.
func (w *world) lost(pod *corev1.Pod, zone string) {
	if of := w.ownerOf(pod); of != nil && of.placer != nil {
		of.placer.lost[zone] = w.clock.Now()
	}
}
