// SPDX-License-Identifier: Apache-2.0

package replacement_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// strayed has a workload of four on on-demand, of which half belongs on spot.
func strayed(t *testing.T) *testenv.World {
	t.Helper()
	w := newWorld(t)
	lane := testenv.Lane("web")
	w.AddNodes(lane.Node(onDemand, onDemand, "16"))
	w.Create(builders.CapacityMix("web", 50, 1), builders.Deployment("web", 4, lane.Pods))
	w.WaitReady("web", 4)
	w.AddNodes(lane.Node(spot, spot, "16"))
	return w
}

func TestAPolicyThatRefusesNewPodsHoldsMoves(t *testing.T) {
	w := strayed(t)
	expression := fmt.Sprintf("request.namespace != '%s' || 'team' in object.metadata.labels", w.Namespace)
	fail := admissionv1.Fail
	w.CreateForTest(&admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: w.Namespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}}}},
			Validations: []admissionv1.Validation{{Expression: expression, Message: "pods need the label team"}},
		},
	})
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: w.Namespace},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: w.Namespace, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	w.CreateForTest(binding)
	w.Fails("the policy is enforced", func(err error) bool { return err != nil }, func() error { return w.DryRun(builders.Pod("other", "other")) })
	before := w.UIDs()
	w.Controller(testenv.Impatient)
	w.WaitBlocked("web", "ReplacementRefused", "pods need the label team", "spec.template of ReplicaSet web-")
	testenv.Stays(w, testenv.Holds, "nothing is evicted", 0, w.Evicted)
	assert.Equal(t, before, w.UIDs())
	tries := w.Audit(func(r testenv.Request) bool { return r.DryRun && r.User == cluster.BerthControllerUser })
	assert.LessOrEqual(t, len(tries), 2, "it is not tried again and again")

	require.NoError(t, w.Client.Delete(w.Ctx, binding))
	w.WaitRepaired("web", split.New(50, 1), 4, letGo)
	assert.Len(t, w.Evictions(), 2)
}

// A quota has no place for the replacement beside the replica, and one in its place.
func TestAQuotaThatIsUsedUpAllowsMoves(t *testing.T) {
	w := strayed(t)
	w.Quota(corev1.ResourcePods, 4)
	w.Controller(testenv.Impatient)
	w.WaitRepaired("web", split.New(50, 1), 4, letGo)
	assert.Len(t, w.Evictions(), 2)
}

// Operators name a Deployment as the controller of pods that they create: its replicas are those of its ReplicaSets.
func TestADeploymentCountsOnlyPodsThatItCreated(t *testing.T) {
	w := newWorld(t)
	lane := testenv.Lane("worker")
	w.AddNodes(lane.Node(onDemand, onDemand, "16"), lane.Node(spot, spot, "16"))
	d := builders.Deployment("operator", 1, lane.Pods)
	w.Create(builders.CapacityMix("worker", 50, 1), d)
	owner := *metav1.NewControllerRef(d, d.GroupVersionKind())
	owner.APIVersion, owner.Kind = "apps/v1", "Deployment"
	for i := range 10 {
		w.Create(builders.Pod("worker", fmt.Sprintf("worker-%d", i), lane.Pods, builders.OwnedBy(owner)))
	}
	w.WaitReady("worker", 10)
	w.RequireExact("worker", split.New(50, 1), 10)
	w.Controller(testenv.Impatient)
	w.WaitSatisfied("worker")
	w.ChangeMix("worker", builders.SpotPercent(0))
	w.WaitBlocked("worker", "ReplacementUnknown", "Deployment operator")
	testenv.Stays(w, testenv.Holds, "nothing is evicted", 0, w.Evicted)
}
