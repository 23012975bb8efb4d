// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"html/template"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

// Without a status, its numbers are unknown and not zero, and one of an older spec is not shown as if it were current.
func TestAStatusThatIsNotCurrentIsShownAsSuch(t *testing.T) {
	paths := map[string][]string{
		"/mixes":                  {`data-label="Workloads">?</td>`, `data-label="Spot">?</td>`, `data-label="On-demand">?</td>`, "not reported"},
		"/policies":               {`data-label="Pods">?</td>`, "not reported"},
		"/policies/shop/packed":   {"<dt>Pods</dt><dd>?</dd>"},
		"/reservations":           {`data-label="Held">?</td>`, `data-label="Used">?</td>`, "not reported"},
		"/reservations/shop/hold": {"<dt>Held</dt><dd>?</dd>", "<dt>Used</dt><dd>?</dd>", "The number of holds is unknown: the scheduler has not reported them."},
		"/mixes/shop/web":         {"not reported"},
	}
	absent, old := shop(), shop()
	absent.Mixes[0].Status, absent.Policies[0].Status = v1alpha1.CapacityMixStatus{}, v1alpha1.SchedulingPolicyStatus{}
	absent.Reservations[0].Status = v1alpha1.ReservationStatus{}
	old.Mixes[0].Generation, old.Policies[0].Generation, old.Reservations[0].Generation = 2, 2, 2
	for path, wants := range paths {
		for _, want := range wants {
			assert.Contains(t, at(t, absent, path), want, path)
		}
		assert.NotContains(t, at(t, absent, path), "It holds no capacity", path)
		assert.Contains(t, at(t, old, path), "(of an older spec)", path)
		assert.NotContains(t, at(t, shop(), path), "(of an older spec)", path)
	}
	page := at(t, old, "/mixes")
	assert.Contains(t, page, `data-label="Spot">6/7 <span class="dim">(of an older spec)</span></td>`)
}

// The page of a mix has whether its floor is protected, and why not.
func TestThePageOfAMixHasItsFloor(t *testing.T) {
	r := shop()
	m := r.Mixes[0]
	assert.NotContains(t, at(t, r, "/mixes/shop/web"), "<dt>Floor</dt>", "it is not protected")
	m.Spec.ProtectFloor = true
	assert.Contains(t, at(t, r, "/mixes/shop/web"), `<dt>Floor</dt><dd><span class="dim">not reported</span>`)
	for status, want := range map[metav1.ConditionStatus]string{
		metav1.ConditionTrue:  `<span class="badge ok">Protected</span>`,
		metav1.ConditionFalse: `<span class="badge bad">OverlappingBudget</span>`,
	} {
		m.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionFloorProtected, Status: status, Reason: v1alpha1.ReasonOverlappingBudget, Message: "PodDisruptionBudget theirs",
		}}
		page := at(t, r, "/mixes/shop/web")
		assert.Contains(t, page, "<dt>Floor</dt><dd>"+want)
		assert.Contains(t, page, "FloorProtected")
		assert.Contains(t, page, "PodDisruptionBudget theirs")
	}
}

// A Reservation that was used has ended as it was to, and one that has expired holds nothing.
func TestAReservationThatHasEndedIsNoFailure(t *testing.T) {
	r := shop()
	hold := r.Reservations[0]
	for reason, wants := range map[string][]string{
		v1alpha1.ReasonUsed: {`<span class="badge plain">Used</span>`}, v1alpha1.ReasonExpired: {`<span class="badge plain">Expired</span>`, `<span class="dim">released</span>`},
		v1alpha1.ReasonUnschedulable: {`<span class="badge bad">Unschedulable</span>`, `<span class="dim">free</span>`},
	} {
		hold.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReserved, Status: metav1.ConditionFalse, Reason: reason}}
		for _, want := range wants {
			assert.Contains(t, at(t, r, "/reservations/shop/hold"), want)
		}
		assert.Contains(t, at(t, r, "/reservations"), wants[0])
	}
}

// That mixes could not be listed does not mean that no mix governs a pod.
func TestAPodIsOfNoMixOnlyIfTheMixesWereListed(t *testing.T) {
	r := shop()
	assert.Contains(t, at(t, r, "/nodes/spot-10"), "no mix governs it")
	r.Unread = []string{overview.MixesResource}
	page := at(t, r, "/nodes/spot-10")
	assert.NotContains(t, page, "no mix governs it")
	assert.Contains(t, page, `<td data-label="Workload">?</td>`)
}

// In a rollout, the page of a policy leads to the workload and not to one of its revisions, which may be the one that ends.
func TestAPolicyLeadsToItsWorkloadInARollout(t *testing.T) {
	r := shop()
	old := workload("shop", "web")
	r.Overview.Workloads[0].Revision, old.Revision = "new", "old"
	r.Overview.Workloads = append(r.Overview.Workloads, old)
	r.Governed[[2]string{"shop", "packed"}] = append(r.Governed[[2]string{"shop", "packed"}], overview.PolicyWorkload{Namespace: "shop", Kind: "Pod", Name: "alone", Pods: 1})
	page := at(t, r, "/policies/shop/packed")
	assert.Contains(t, page, `<a href="/workloads/shop/Deployment/web">Deployment/web</a>`)
	assert.Contains(t, page, `<a href="/pods/shop/alone">Pod/alone</a>`)
}

// Pictures are drawn for the rows that a page shows, however many there are.
func TestOnlyRowsThatAreShownAreDrawn(t *testing.T) {
	drawn := 0
	l := listing[int]{id: "many", row: func(i int) string { return fmt.Sprint(i) }, columns: []column[int]{
		{"n", "Number", true, numberValue},
		{"picture", "Picture", false, func(int) value {
			return value{draw: func() template.HTML {
				drawn++
				return "<svg></svg>"
			}}
		}},
	}}
	all := make([]int, 5*perPage)
	for i := range all {
		all[i] = i
	}
	parts := l.parts("/many", url.Values{"sort": {"-n"}, "page": {"2"}}, all)
	require.Len(t, parts[1].rows, perPage)
	assert.Contains(t, parts[1].HTML(), "<svg></svg>")
	assert.Equal(t, perPage, drawn)
	drawn = 0
	l.parts("/many", url.Values{"filter": {"499"}}, all)
	assert.Equal(t, 1, drawn)
}

// A page makes the cells of the rows that it shows, and of all rows those of the column that sorts them.
func TestOnlyCellsThatAreShownAreMade(t *testing.T) {
	made := map[string]int{}
	of := func(id string) column[int] {
		return column[int]{id, id, true, func(n int) value {
			made[id]++
			return numberValue(n)
		}}
	}
	l := listing[int]{id: "many", row: func(i int) string { return fmt.Sprint(i) }, columns: []column[int]{of("a"), of("b")}}
	all := make([]int, 5*perPage)
	for i := range all {
		all[i] = len(all) - i
	}
	l.parts("/many", url.Values{"page": {"2"}}, all)
	assert.Equal(t, map[string]int{"a": perPage, "b": perPage}, made)
	clear(made)
	parts := l.parts("/many", url.Values{"sort": {"b"}}, all)
	assert.Equal(t, map[string]int{"a": perPage, "b": perPage + len(all)}, made)
	assert.Contains(t, parts[1].rows[0].html, ">1</")
	assert.Equal(t, len(all), all[0], "the rows of others stay in their order")
}

// The document has the keys of all pages.
func TestTheDocumentNamesTheKeys(t *testing.T) {
	text, err := os.ReadFile("../../docs/console.md")
	require.NoError(t, err)
	for _, l := range navOf("/") {
		assert.Contains(t, strings.ToLower(string(text)), "`"+l.Key+"` "+strings.ToLower(l.Name))
	}
}
