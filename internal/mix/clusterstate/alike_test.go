// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/policy"
)

// informers are controllers as the scheduler has them.
type informers map[types.UID]metav1.Object

func (i informers) Controller(namespace string, ref *metav1.OwnerReference) metav1.Object {
	if o := i[ref.UID]; o != nil && o.GetNamespace() == namespace {
		return o
	}
	return nil
}

func drawMixes(t *rapid.T) *policy.Store {
	mixes := policy.NewStore()
	for _, name := range []string{"first", "second"} {
		cm := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
		cm.Spec.SpotPercent = rapid.SampledFrom([]int32{0, 30, 100}).Draw(t, "percent")
		cm.Spec.Selector = v1alpha1.PodSelector{MatchLabels: map[string]string{"app": drawText(t, "selects", "web", "db")}}
		if rapid.Bool().Draw(t, "a mix") {
			require.NoError(t, mixes.Set(cm))
		}
	}
	return mixes
}

// Pods have assignments under the policy that the scheduler places them by, and no others have one, whatever the labels and
// annotations of their siblings.
func TestResolvesAsTheSchedulerDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := options()
		o.Mixes = drawMixes(t)
		f, owners, pods := New(o), informers{}, map[types.UID]*corev1.Pod{}
		for range rapid.IntRange(0, 3).Draw(t, "owners") {
			owner := drawOwner(t)
			if rs, is := owner.(*appsv1.ReplicaSet); is && *rs.Spec.Replicas == 0 {
				continue // it has no pods
			}
			owners[owner.GetUID()] = owner
			f.SetOwner(owner)
		}
		for range rapid.IntRange(1, 8).Draw(t, "pods") {
			p := drawPod(t)
			if f.Pod(p.Namespace, p.Name) == nil {
				pods[p.UID] = p
				f.SetPod(p)
			}
		}
		scheduler := policy.Resolver{Prefixes: o.Prefixes, Mixes: o.Mixes, Controllers: owners}
		for _, namespace := range propertyNamespaces {
			for _, g := range f.Groups(namespace) {
				for _, s := range g.Assignments {
					want, _ := scheduler.Resolve(pods[s.Pod.UID])
					if want == nil && policy.Governable(pods[s.Pod.UID]) {
						want = o.Defaults[s.Pod.SchedulerName]
					}
					require.NotNil(t, want, "pod %s has an assignment, and no mix", s.Pod.Name)
					require.Equal(t, want.Source, g.Policy.Source, "pod %s", s.Pod.Name)
					require.Equal(t, want.Mix, g.Policy.Mix, "pod %s", s.Pod.Name)
				}
			}
		}
	})
}
