// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/limits/registry"
)

var began = time.Unix(1_750_000_000, 0)

func usage(pods int, workloads ...string) *Usage {
	u := newUsage()
	u.Pods = pods
	for _, w := range workloads {
		kind, name, _ := strings.Cut(w, "/")
		u.Workloads.Insert(v1alpha1.WorkloadReference{Kind: kind, Namespace: "shop", Name: name})
	}
	return u
}

func object(change func(*v1alpha1.ResourceLimit)) *v1alpha1.ResourceLimit {
	l := &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "size", Generation: 4, Finalizers: []string{"other", v1alpha1.ResourceLimitFinalizer}}}
	if change != nil {
		change(l)
	}
	return l
}

func deleting(l *v1alpha1.ResourceLimit) { l.DeletionTimestamp = new(metav1.NewTime(began)) }

func annotate(l *v1alpha1.ResourceLimit, force string) {
	metav1.SetMetaDataAnnotation(&l.ObjectMeta, v1alpha1.ForceDeleteAnnotation, force)
}

func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		change     func(*v1alpha1.ResourceLimit)
		referenced bool
		want       verdict
	}{
		"it is guarded":                       {nil, true, keep},
		"the guard is missing":                {func(l *v1alpha1.ResourceLimit) { l.Finalizers = []string{"other"} }, false, guard},
		"deleted, not in use":                 {deleting, false, release},
		"deleted, in use":                     {deleting, true, keep},
		"deleted by force":                    {func(l *v1alpha1.ResourceLimit) { deleting(l); annotate(l, "true") }, true, force},
		"force is true and nothing else":      {func(l *v1alpha1.ResourceLimit) { deleting(l); annotate(l, "yes") }, true, keep},
		"force without a deletion":            {func(l *v1alpha1.ResourceLimit) { annotate(l, "true") }, true, keep},
		"deleted, another finalizer holds it": {func(l *v1alpha1.ResourceLimit) { deleting(l); l.Finalizers = []string{"other"} }, false, keep},
	} {
		assert.Equal(t, tc.want, decide(object(tc.change), tc.referenced), name)
	}
}

func TestConditionsReportUseConflictsAndErrors(t *testing.T) {
	conflict := usage(0)
	conflict.Older.Insert("first", "second")
	tooMany := usage(0)
	tooMany.Exceeds = true
	many := usage(12, "Deployment/a", "Deployment/b", "Deployment/c", "Deployment/d", "Deployment/e", "StatefulSet/f", "StatefulSet/g")
	for name, tc := range map[string]struct {
		change            func(*v1alpha1.ResourceLimit)
		invalid           error
		usage             *Usage
		wantAccepted      string
		wantInUse         string
		acceptedHas, says string
	}{
		"not in use": {nil, nil, usage(0), v1alpha1.ReasonAccepted, v1alpha1.ReasonNotReferenced, "", "no pod and no workload"},
		"one has it": {nil, nil, usage(1, "Pod/a"), v1alpha1.ReasonAccepted, v1alpha1.ReasonReferenced, "", "1 pod of Pod shop/a"},
		"many have it": {
			nil, nil, many, v1alpha1.ReasonAccepted, v1alpha1.ReasonReferenced, "",
			"12 pods of Deployment shop/a, Deployment shop/b, Deployment shop/c, Deployment shop/d, Deployment shop/e and 2 more",
		},
		"a workload without pods": {nil, nil, usage(0, "CronJob/a"), v1alpha1.ReasonAccepted, v1alpha1.ReasonReferenced, "", "0 pods of CronJob shop/a"},
		"its deletion waits": {
			deleting, nil, usage(1, "Pod/a"), v1alpha1.ReasonAccepted, v1alpha1.ReasonDeletionBlocked, "",
			`it is not deleted while it is in use: 1 pod of Pod shop/a; the annotation berth.dev/force-delete: "true" deletes it nevertheless`,
		},
		"an older one": {nil, nil, conflict, v1alpha1.ReasonConflict, v1alpha1.ReasonNotReferenced, "first, second", ""},
		"too many": {
			nil, nil, tooMany, v1alpha1.ReasonTooMany, v1alpha1.ReasonNotReferenced, budget.Exceeded("ResourceLimits with spec.selector", registry.MaxSelecting), "",
		},
		"invalid": {nil, errors.New("spec.selector: bad"), conflict, v1alpha1.ReasonInvalid, v1alpha1.ReasonNotReferenced, "spec.selector: bad", ""},
	} {
		s := compose(object(tc.change), tc.invalid, tc.usage, began)
		accepted, used := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionAccepted), meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionInUse)
		assert.Equal(t, tc.wantAccepted, accepted.Reason, name)
		assert.Equal(t, tc.wantAccepted == v1alpha1.ReasonAccepted, accepted.Status == metav1.ConditionTrue, name)
		assert.Contains(t, accepted.Message, tc.acceptedHas, name)
		assert.Equal(t, tc.wantInUse, used.Reason, name)
		assert.Equal(t, tc.wantInUse != v1alpha1.ReasonNotReferenced, used.Status == metav1.ConditionTrue, name)
		assert.Contains(t, used.Message, tc.says, name)
		assert.Equal(t, int64(4), s.ObservedGeneration)
	}
}

func TestTheListIsBoundedAndInOrder(t *testing.T) {
	u := usage(100)
	for i := range 60 {
		u.Workloads[v1alpha1.WorkloadReference{Kind: "Deployment", Namespace: fmt.Sprintf("ns-%d", i%7), Name: strings.Repeat("x", 200) + fmt.Sprint(i)}] = struct{}{}
	}
	s := compose(object(nil), errors.New(strings.Repeat("ü", 2000)), u, began)
	assert.Len(t, s.Workloads, maxWorkloads)
	assert.Equal(t, int32(60), s.WorkloadCount)
	assert.True(t, slices.IsSortedFunc(s.Workloads, func(a, b v1alpha1.WorkloadReference) int { return cmp.Compare(a.Namespace, b.Namespace) }))
	for _, c := range s.Conditions {
		assert.LessOrEqual(t, len(c.Message), maxMessage)
	}
}

func TestAPodWithoutAControllerIsNoWorkload(t *testing.T) {
	s := compose(object(nil), nil, usage(3, "Pod/a", "Pod/b", "Deployment/c"), began)
	assert.Equal(t, []int32{3, 1}, []int32{s.PodCount, s.WorkloadCount})
	assert.Len(t, s.Workloads, 3, "all users are listed")
}

// What was written is not written again: times stay while nothing changes.
func TestTheSameStateIsTheSameStatus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := usage(rapid.IntRange(0, 3).Draw(t, "pods"), rapid.SliceOfDistinct(rapid.SampledFrom([]string{"Pod/a", "Job/b", "Deployment/c"}), rapid.ID[string]).Draw(t, "workloads")...)
		l := object(nil)
		l.Status = compose(l, nil, u, began)
		require.Equal(t, l.Status, compose(l, nil, u, began.Add(time.Hour)))
	})
}
