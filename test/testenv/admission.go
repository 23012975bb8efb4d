// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/hack/cluster"
)

// Forbid makes the API server refuse to create a resource of pods, such as "pods/binding", by a prefix of their names, and
// waits until an attempt is refused. It returns what ends that. Pods of berth-controller are not refused: as with
// any policy that decides by user, the dry run of a replacement does not show it.
func (w *World) Forbid(prefix, resource string, try func() error) (allow func()) {
	w.T.Helper()
	name := w.Namespace
	create := admissionv1.NamedRuleWithOperations{}
	create.Operations = []admissionv1.OperationType{admissionv1.Create}
	create.Rule = admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}}
	rule := fmt.Sprintf("request.namespace != %q || !request.name.startsWith(%q)", w.Namespace, prefix)
	if resource == "pods" {
		rule += fmt.Sprintf(" || request.userInfo.username == %q", cluster.BerthControllerUser)
	}
	p := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{create}},
		Validations:      []admissionv1.Validation{{Expression: rule, Message: "not now"}},
	}}
	b := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	b.Spec = admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}
	w.CreateForTest(p, b)
	w.Fails("requests are refused", func(err error) bool { return err != nil && strings.Contains(err.Error(), "not now") }, try)
	return func() {
		w.T.Helper()
		w.Delete(b)
		w.Delete(p)
		w.Succeeds("requests are allowed", try)
	}
}
