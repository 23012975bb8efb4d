// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
)

// modelHold is capacity on a node. It is free without a pod.
type modelHold struct {
	node, pod string
	binding   bool
}

func free(h modelHold) bool { return h.pod == "" }

// modelReservation is a Reservation in the model. The object is that of the API server.
type modelReservation struct {
	object *v1alpha1.Reservation
	holds  []modelHold
	retry  time.Time
	tries  int
}

func (r *modelReservation) replicas() int { return int(*r.object.Spec.Replicas) }

func (r *modelReservation) once() bool { return r.object.Spec.AllocateOnce == nil }

func (r *modelReservation) expired(now time.Time) bool {
	return !now.Before(r.object.CreationTimestamp.Add(time.Duration(*r.object.Spec.ExpirationSeconds) * time.Second))
}

func (r *modelReservation) finished(now time.Time) bool {
	used := func(h modelHold) bool { return !free(h) && !h.binding }
	return r.expired(now) || r.once() && len(r.holds) >= r.replicas() && !slices.ContainsFunc(r.holds, func(h modelHold) bool { return !used(h) })
}

func (r *modelReservation) of(pod string) *modelHold {
	for i := range r.holds {
		if r.holds[i].pod == pod {
			return &r.holds[i]
		}
	}
	return nil
}

// drop drops what is free and has a property, first where no pod can run, the last first, as long as there is more than wanted.
func (m *model) drop(r *modelReservation, wanted int, which func(modelHold) bool) {
	m.dropThose(r, wanted, func(h modelHold) bool { return which(h) && (m.stranded(h) || !slices.Contains(m.nodes, h.node)) })
	m.dropThose(r, wanted, which)
}

func (m *model) dropThose(r *modelReservation, wanted int, which func(modelHold) bool) {
	for i := len(r.holds) - 1; i >= 0 && len(r.holds) > wanted; i-- {
		if free(r.holds[i]) && which(r.holds[i]) {
			r.holds = slices.Delete(r.holds, i, i+1)
			m.moved = true
		}
	}
}

func all(modelHold) bool { return true }

// modelPod is a pod that waits, is being bound, or runs.
type modelPod struct {
	pod *corev1.Pod
	// of is the name of the Reservation whose capacity it uses, empty while it waits.
	of, node string
	runs     bool
	// written is set if a status has it that the pod uses capacity.
	written bool
}

// model is a cluster as it should be, with the Holdings that is tested.
type model struct {
	l            *Holdings
	now          time.Time
	reservations map[string]*modelReservation
	pods         map[string]*modelPod
	nodes        []string
	cordoned     map[string]bool
	created      int

	// freed is that of the Holdings at the last check. moved is set if capacity was released or came to be held since, and
	// unsure if the Holdings may count that or not.
	freed         int64
	moved, unsure bool
}

func newModel() *model {
	m := &model{now: began, reservations: map[string]*modelReservation{}, pods: map[string]*modelPod{}, nodes: []string{"n1", "n2"}, cordoned: map[string]bool{}, l: NewHoldings()}
	m.setNodes()
	m.l.Lead()
	return m
}

var names = []string{"r1", "r2", "r3"}

// pick draws one of the values of a map that have a property, and skips the step if there is none.
func pick[V any](t *rapid.T, from map[string]V, which func(V) bool) (string, V) {
	var keys []string
	for k, v := range from {
		if which(v) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		t.Skip("there is none")
	}
	k := rapid.SampledFrom(slices.Sorted(slices.Values(keys))).Draw(t, "which")
	return k, from[k]
}

func anyOf(*modelReservation) bool { return true }

func (m *model) create(t *rapid.T) {
	name := rapid.SampledFrom(names).Draw(t, "name")
	if m.reservations[name] != nil {
		t.Skip("it exists")
	}
	for _, p := range m.pods {
		if p.of == name && !p.runs {
			t.Skip("by its annotation a pod that is bound later belongs to the new one")
		}
	}
	m.now = m.now.Add(time.Second) // the API server has seconds, and a pod was bound to an older one before
	m.created++
	r := reservation(name, replicas(rapid.Int32Range(1, 3).Draw(t, "replicas")), expires(rapid.Int32Range(1, 60).Draw(t, "expires")), ttl(10))
	r.UID, r.CreationTimestamp = types.UID(name+"-"+strconv.Itoa(m.created)), metav1.NewTime(m.now)
	r.Spec.PodSelector.MatchLabels = map[string]string{"app": rapid.SampledFrom([]string{"web", "db"}).Draw(t, "app")}
	if rapid.Bool().Draw(t, "repeatedly") {
		repeatedly(&r.Spec)
	}
	m.reservations[name] = &modelReservation{object: r}
	m.l.Set(r)
}

func (m *model) respec(t *rapid.T) *modelReservation {
	_, r := pick(t, m.reservations, anyOf)
	if rapid.Bool().Draw(t, "what") {
		r.object = next(r.object, replicas(rapid.Int32Range(1, 3).Draw(t, "replicas")))
	} else {
		r.object = next(r.object, expires(rapid.Int32Range(1, 120).Draw(t, "expires")))
	}
	m.drop(r, r.replicas(), all)
	return r
}

func (m *model) remove(name string) {
	m.settle()
	m.moved = m.moved || slices.ContainsFunc(m.reservations[name].holds, free)
	delete(m.reservations, name)
	m.l.Delete("shop", name)
}

func (m *model) place(t *rapid.T) {
	m.dropGone()
	var waits []*modelReservation
	for _, r := range m.reservations {
		if !r.finished(m.now) && m.ready(r) < r.replicas() && !m.now.Before(r.retry) {
			waits = append(waits, r)
		}
	}
	got := m.l.Next(m.now)
	if len(waits) == 0 {
		require.Nil(t, got)
		t.Skip("nothing is to be placed")
	}
	first := slices.MinFunc(waits, func(a, b *modelReservation) int {
		return cmp.Or(a.retry.Compare(b.retry), a.object.CreationTimestamp.Compare(b.object.CreationTimestamp.Time), cmp.Compare(a.object.Name, b.object.Name))
	})
	require.NotNil(t, got)
	require.Equal(t, first.object.Name, got.Object.Name, "the one that has waited longest")
	usable := slices.DeleteFunc(slices.Clone(m.nodes), func(n string) bool { return m.cordoned[n] })
	if len(usable) == 0 || rapid.IntRange(0, 3).Draw(t, "no node") == 0 {
		m.l.NotHeld(got, "no node", m.now)
		first.retry = m.now.Add(min(time.Second<<first.tries, 15*time.Second))
		first.tries++
		return
	}
	node := rapid.SampledFrom(usable).Draw(t, "node")
	if len(first.holds) >= first.replicas() {
		at := slices.IndexFunc(first.holds, m.stranded)
		first.holds = slices.Delete(first.holds, at, at+1)
	}
	m.l.Hold(got, node, m.now)
	first.holds, first.retry, first.tries, m.moved = append(first.holds, modelHold{node: node}), m.now, 0, true
}

// write writes the statuses, whose events come before the response, or after it, or late.
func (m *model) write(t *rapid.T) {
	m.dropGone()
	for _, u := range m.l.Updates(m.now) {
		r := m.reservations[u.Object.Name]
		require.NotNil(t, r)
		if u.Delete {
			require.True(t, r.finished(m.now))
			m.remove(u.Object.Name)
			continue
		}
		require.Equal(t, r.object.ResourceVersion, u.Object.ResourceVersion, "what the API server has")
		before := r.object
		r.object = next(u.Object)
		m.requireStatus(t, r)
		if rapid.Bool().Draw(t, "event first") {
			m.l.Set(r.object)
			m.unsure = true
		}
		m.l.Written(r.object)
		if rapid.Bool().Draw(t, "old event") {
			m.l.Set(before)
		}
		m.l.Set(r.object)
	}
	for _, p := range m.pods {
		p.written = p.runs
	}
	require.Empty(t, m.l.Updates(m.now), "all is written")
}

func (m *model) requireStatus(t *rapid.T, r *modelReservation) {
	var want []v1alpha1.Hold
	held, used := 0, 0
	for _, h := range r.holds {
		w := v1alpha1.Hold{NodeName: h.node}
		if !free(h) && !h.binding {
			w.PodName, w.PodUID = h.pod, h.pod
			used++
		} else if h.binding || !m.cordoned[h.node] {
			held++
		}
		want = append(want, w)
	}
	s := &r.object.Status
	require.ElementsMatch(t, want, s.Holds)
	require.Equal(t, []int32{int32(held), int32(used)}, []int32{s.HeldCount, s.UsedCount})
	require.Equal(t, r.object.Generation, s.ObservedGeneration)
	require.Equal(t, !r.finished(m.now) && m.ready(r) >= r.replicas(), condition(r.object).Status == metav1.ConditionTrue)
}

func (m *model) addPod(t *rapid.T) {
	m.created++
	p := pod("p" + strconv.Itoa(m.created))
	p.Labels["app"] = rapid.SampledFrom([]string{"web", "db"}).Draw(t, "app")
	m.pods[p.Name] = &modelPod{pod: p}
}

// take has a pod use capacity, some time after it was looked for.
func (m *model) take(t *rapid.T) {
	_, p := pick(t, m.pods, func(p *modelPod) bool { return p.of == "" })
	own := m.own(p.pod)
	m.requireOwn(t, p.pod, own)
	if len(own) == 0 {
		t.Skip("none is held for it")
	}
	node := rapid.SampledFrom(slices.Sorted(maps.Keys(own))).Draw(t, "node")
	m.now = m.now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 30}).Draw(t, "later")) * time.Second)
	r := m.reservations[own[node].Object.Name]
	took := m.l.Take(p.pod, own[node], node, m.now)
	require.Equal(t, !r.expired(m.now), took)
	if !took {
		return
	}
	h := &r.holds[slices.IndexFunc(r.holds, func(h modelHold) bool { return free(h) && h.node == node })]
	h.pod, h.binding, p.of, p.node = p.pod.Name, true, r.object.Name, node
}

func (m *model) requireOwn(t *rapid.T, p *corev1.Pod, own map[string]*Reservation) {
	want := map[string]string{}
	var sorted []*modelReservation
	for _, r := range m.reservations {
		sorted = append(sorted, r)
	}
	slices.SortFunc(sorted, func(a, b *modelReservation) int {
		return a.object.CreationTimestamp.Compare(b.object.CreationTimestamp.Time)
	})
	for _, r := range slices.Backward(sorted) {
		if !r.finished(m.now) && r.object.Spec.PodSelector.MatchLabels["app"] == p.Labels["app"] {
			for _, h := range r.holds {
				if free(h) {
					want[h.node] = r.object.Name
				}
			}
		}
	}
	got := map[string]string{}
	for node, r := range own {
		got[node] = r.Object.Name
	}
	require.Equal(t, want, got, "the oldest that has free capacity for the pod")
}

func (m *model) giveBack(t *rapid.T) {
	_, p := pick(t, m.pods, func(p *modelPod) bool { return !p.runs })
	m.l.Return(p.pod)
	if r := m.reservations[p.of]; r != nil {
		if h := r.of(p.pod.Name); h != nil {
			*h, m.moved = modelHold{node: h.node}, true
			m.drop(r, r.replicas(), all)
		}
	}
	p.of, p.node = "", ""
}

func (m *model) bind(t *rapid.T) {
	_, p := pick(t, m.pods, func(p *modelPod) bool { return p.of != "" && !p.runs })
	m.run(p)
	m.l.SetPod(p.pod)
}

func (m *model) run(p *modelPod) {
	p.runs, p.pod = true, bound(p.pod, p.of, p.node, m.now)
	if r := m.reservations[p.of]; r != nil && r.of(p.pod.Name) != nil {
		r.of(p.pod.Name).binding = false
	}
}

func (m *model) end(t *rapid.T) {
	_, p := pick(t, m.pods, func(p *modelPod) bool { return p.runs })
	if rapid.Bool().Draw(t, "succeeds") {
		p.pod = p.pod.DeepCopy()
		p.pod.Status.Phase = corev1.PodSucceeded
		m.l.SetPod(p.pod)
	}
	m.l.DeletePod(p.pod.UID)
	m.ended(p)
}

func (m *model) ended(p *modelPod) {
	delete(m.pods, p.pod.Name)
	if r := m.reservations[p.of]; r != nil && !r.once() {
		if h := r.of(p.pod.Name); h != nil {
			*h, m.moved = modelHold{node: h.node}, true
			m.drop(r, r.replicas(), all)
		}
	}
}

// forge runs a pod with an annotation that was written by hand.
func (m *model) forge(t *rapid.T) {
	m.created++
	p := bound(pod("p"+strconv.Itoa(m.created)), rapid.SampledFrom(names).Draw(t, "of"), "n1", m.now)
	p.Labels["app"] = "other"
	m.l.SetPod(p)
	m.pods[p.Name] = &modelPod{pod: p, of: "-", node: "n1", runs: true}
}

// restart kills the process some time after it wrote the statuses, and starts another one.
func (m *model) restart(t *rapid.T) {
	m.write(t)
	missed := false
	for _, name := range slices.Sorted(maps.Keys(m.pods)) {
		switch p := m.pods[name]; {
		case !p.runs && p.of != "" && m.enough(p.of) && rapid.Bool().Draw(t, "bound"):
			m.run(p)
			missed = true
		case p.runs && p.written && rapid.Bool().Draw(t, "ended"):
			m.ended(p)
			missed = true
		case !p.runs && p.of != "": // the process is killed before it has bound it
			if r := m.reservations[p.of]; r != nil && r.of(name) != nil {
				*r.of(name) = modelHold{node: r.of(name).node}
			}
			p.of, p.node = "", ""
		}
	}
	// After a change to fewer replicas, it depends on the order of the events what is kept of what the process missed.
	changed := !missed && rapid.Bool().Draw(t, "change") && len(m.reservations) > 0
	if changed {
		m.respec(t)
	}
	for _, r := range m.reservations {
		m.drop(r, r.replicas(), all)
	}
	m.l = NewHoldings()
	// Nor is it told apart which of too many holds no pod can use while the nodes are not there yet.
	if changed {
		m.setNodes()
	}
	podsFirst := rapid.Bool().Draw(t, "pods first")
	m.list(podsFirst)
	for _, name := range rapid.Permutation(slices.Sorted(maps.Keys(m.reservations))).Draw(t, "order") {
		m.l.Set(m.reservations[name].object)
	}
	m.list(!podsFirst)
	m.setNodes()
	m.l.Lead()
	m.settle()
	m.dropGone()
	m.l.Updates(m.now) // frees what pods used that have ended in between
	m.l.refresh(m.now)
	for name, r := range m.reservations {
		r.retry, r.tries = time.Time{}, 0
		var got []modelHold
		for _, h := range m.l.named(name).holds {
			got = append(got, modelHold{node: h.NodeName, pod: h.PodName, binding: h.binding})
		}
		require.ElementsMatch(t, r.holds, got, name)
		r.holds = got
	}
	m.freed, m.moved = m.l.Freed(m.now), false
}

// enough reports whether a Reservation has no more pods than replicas. With more, it depends on the order of the events which of the
// pods count that the status does not have.
func (m *model) enough(of string) bool {
	r := m.reservations[of]
	return r == nil || len(r.holds) <= r.replicas()
}

// list delivers the pods that run, if it is time.
func (m *model) list(now bool) {
	for _, p := range m.pods {
		if now && p.runs {
			m.l.SetPod(p.pod)
		}
	}
}

// settle drops what Reservations held that are finished.
func (m *model) settle() {
	for _, r := range m.reservations {
		if r.finished(m.now) {
			m.drop(r, 0, all)
		}
	}
}

func (m *model) check(t *rapid.T) {
	m.settle()
	pods, cpu := map[string]int64{}, map[string]int64{}
	for name, r := range m.reservations {
		for _, h := range r.holds {
			if free(h) {
				pods[h.node]++
				cpu[h.node] += 1000
			}
		}
		require.True(t, len(r.holds) <= r.replicas() || !slices.ContainsFunc(r.holds, free), "%s holds too much", name)
	}
	gotPods, gotCPU := map[string]int64{}, map[string]int64{}
	for node, h := range m.l.View(m.now).nodes {
		gotPods[node], gotCPU[node] = h.pods, h.total.MilliCPU
	}
	require.Equal(t, pods, gotPods)
	require.Equal(t, cpu, gotCPU)
	require.Equal(t, m.heldAgain(), slices.Sorted(maps.Keys(m.l.View(m.now).uses)))
	require.Equal(t, len(pods) == 0 && len(m.heldAgain()) == 0, m.l.View(m.now).Empty())
	used := map[string]string{}
	for name, r := range m.reservations {
		holds := m.l.named(name).holds
		require.Len(t, holds, len(r.holds))
		for _, h := range holds {
			if h.PodUID != "" {
				require.NotContains(t, used, h.PodUID, "no pod uses two")
				used[h.PodUID] = name
			}
		}
	}
	for _, p := range m.pods {
		own := m.own(p.pod)
		m.requireOwn(t, p.pod, own)
	}
	freed := m.l.Freed(m.now)
	if m.moved {
		require.Greater(t, freed, m.freed, "capacity was released, or came to be held")
	} else if !m.unsure {
		require.Equal(t, m.freed, freed, "nothing changed")
	}
	m.freed, m.moved, m.unsure = freed, false, false
}

func TestALedgerHoldsWhatAModelDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		t.Repeat(map[string]func(*rapid.T){
			"create": m.create,
			"change": func(t *rapid.T) { m.l.Set(m.respec(t).object) },
			"delete": func(t *rapid.T) {
				name, _ := pick(t, m.reservations, anyOf)
				m.remove(name)
			},
			"place 1": m.place, "place 2": m.place, "place 3": m.place, "write": m.write,
			"add a pod": m.addPod, "take 1": m.take, "take 2": m.take, "return": m.giveBack, "bind": m.bind, "end": m.end, "forge": m.forge,
			"nodes":   m.changeNodes,
			"restart": m.restart,
			"wait": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second)
			},
			"": m.check,
		})
	})
}
