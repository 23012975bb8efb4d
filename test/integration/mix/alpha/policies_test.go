// SPDX-License-Identifier: Apache-2.0

package alpha_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	lifecycleapply "k8s.io/client-go/applyconfigurations/lifecycle/v1alpha1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
)

// RBAC grants these writes; platform/profiles has those that every API server serves.
func TestPoliciesRefuseWhatAStolenTokenWritesOfEvictions(t *testing.T) {
	const other = "example.com/operator"
	w := newWorld(t, cluster.Nodes("on-demand", 1)...)
	w.ApplyFiles("manifests/rbac")
	pod := builders.Pod("web", "web", builders.SchedulerName("none"))
	w.Create(pod)
	config, err := w.Cluster.ConfigFor(cluster.BerthControllerUser)
	require.NoError(t, err)
	stolen, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	as := metav1.ApplyOptions{FieldManager: "stolen", Force: true, DryRun: []string{metav1.DryRunAll}}

	// active is an Eviction for which a responder is the active one, and another one the next.
	active := func(name, responder, next string) {
		e := &lifecyclev1alpha1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}}
		e.Spec.Target.Pod = &lifecyclev1alpha1.EvictionPodReference{Name: pod.Name, UID: pod.UID}
		_, err := w.Kube.LifecycleV1alpha1().Evictions(w.Namespace).Create(w.Ctx, e, metav1.CreateOptions{})
		require.NoError(t, err)
		status := lifecycleapply.EvictionStatus().WithObservedGeneration(1)
		for i, r := range []string{responder, next} {
			target, answer := lifecycleapply.TargetResponder().WithName(r).WithPriority(int32(5000-i)), lifecycleapply.ResponderStatus().WithName(r)
			target.WithState(lifecyclev1alpha1.ResponderStateInactive)
			if r == responder {
				target.WithState(lifecyclev1alpha1.ResponderStateActive)
				answer.WithStartTime(metav1.Now())
			}
			status.WithTargetResponders(target).WithResponders(answer)
		}
		_, err = w.Kube.LifecycleV1alpha1().Evictions(w.Namespace).ApplyStatus(w.Ctx,
			lifecycleapply.Eviction(name, w.Namespace).WithStatus(status), metav1.ApplyOptions{FieldManager: "stand-in", Force: true})
		require.NoError(t, err)
	}
	active("of-berth", v1alpha1.EvictionResponder, other)
	active("of-other", other, v1alpha1.EvictionResponder)
	answers := func(name, responder string, change ...func(*lifecycleapply.EvictionStatusApplyConfiguration)) func(context.Context) error {
		return func(ctx context.Context) error {
			status := lifecycleapply.EvictionStatus().WithResponders(
				lifecycleapply.ResponderStatus().WithName(responder).WithHeartbeatTime(metav1.Now()).WithMessage("It ends."),
			)
			for _, c := range change {
				c(status)
			}
			_, err := stolen.LifecycleV1alpha1().Evictions(w.Namespace).ApplyStatus(ctx,
				lifecycleapply.Eviction(name, w.Namespace).WithStatus(status), as)
			return err
		}
	}
	condition := func(s *lifecycleapply.EvictionStatusApplyConfiguration) {
		s.WithConditions(metav1apply.Condition().WithType("Stolen").WithStatus(metav1.ConditionTrue).
			WithReason("Stolen").WithMessage("").WithLastTransitionTime(metav1.NewTime(time.Now())))
	}
	requests := func(name, requester string) *lifecycleapply.EvictionRequestApplyConfiguration {
		target := lifecycleapply.EvictionRequestPodReference().WithName(pod.Name).WithUID(pod.UID)
		return lifecycleapply.EvictionRequest(name, w.Namespace).WithSpec(lifecycleapply.EvictionRequestSpec().WithRequester(requester).
			WithIntent(lifecyclev1alpha1.EvictionRequestIntentEviction).WithTarget(lifecycleapply.EvictionRequestTarget().WithPod(target)))
	}
	_, err = w.Kube.LifecycleV1alpha1().EvictionRequests(w.Namespace).Apply(w.Ctx, requests("of-other", "example.com/drain"),
		metav1.ApplyOptions{FieldManager: "drain"})
	require.NoError(t, err)
	request := func(name, requester string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := stolen.LifecycleV1alpha1().EvictionRequests(w.Namespace).Apply(ctx, requests(name, requester), as)
			return err
		}
	}
	withdraw := func(ctx context.Context) error {
		_, err := stolen.LifecycleV1alpha1().EvictionRequests(w.Namespace).Patch(ctx, "of-other", types.MergePatchType,
			[]byte(`{"spec":{"intent":"Withdrawn"}}`), metav1.PatchOptions{DryRun: as.DryRun})
		return err
	}
	const evictions, ofRequests = "berth-controller-evictions", "berth-controller-eviction-requests"
	for name, tc := range map[string]struct {
		write  func(context.Context) error
		policy string
	}{
		"its own answer":                       {answers("of-berth", v1alpha1.EvictionResponder), ""},
		"the answer of another responder":      {answers("of-other", other), evictions},
		"a condition beside its answer":        {answers("of-berth", v1alpha1.EvictionResponder, condition), evictions},
		"its own request":                      {request("own", v1alpha1.EvictionRequester), ""},
		"a request in the name of another one": {request("forged", "example.com/drain"), ofRequests},
		"a withdrawal of another's request":    {withdraw, ofRequests},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.policy == "" {
				require.NoError(t, tc.write(w.Ctx))
				return
			}
			w.Fails("the policy refuses it", func(err error) bool {
				return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+tc.policy+"'")
			}, func() error { return tc.write(w.Ctx) })
		})
	}
}
