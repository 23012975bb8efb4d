// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	orchestratorv1 "berth.dev/berth/apis/proto/mcp/orchestrator/v1"
	"berth.dev/berth/services/server"
)

// selector compiles a query: all its conditions must hold. None select everything.
func selector(q *orchestratorv1.LabelQuery) (labels.Selector, error) {
	var b selectorBuilder
	for i, x := range q.GetEqual() {
		b.add("equal", i, x.GetKey(), selection.Equals, x.GetValue())
	}
	for i, x := range q.GetNotEqual() {
		b.add("not_equal", i, x.GetKey(), selection.NotEquals, x.GetValue())
	}
	for i, x := range q.GetIn() {
		b.add("in", i, x.GetKey(), selection.In, x.GetValues()...)
	}
	for i, x := range q.GetNotIn() {
		b.add("not_in", i, x.GetKey(), selection.NotIn, x.GetValues()...)
	}
	for i, key := range q.GetContainKey() {
		b.add("contain_key", i, key, selection.Exists)
	}
	for i, key := range q.GetNotContainKey() {
		b.add("not_contain_key", i, key, selection.DoesNotExist)
	}
	if len(b.violations) > 0 {
		return nil, server.Invalid(b.violations...)
	}
	return labels.NewSelector().Add(b.requirements...), nil
}

type selectorBuilder struct {
	requirements []labels.Requirement
	violations   []server.Violation
}

func (b *selectorBuilder) add(list string, i int, key string, op selection.Operator, values ...string) {
	if (op == selection.In || op == selection.NotIn) && len(values) == 0 {
		b.violations = append(b.violations, server.Violation{
			Field: fmt.Sprintf("label.%s[%d]", list, i), Description: "has no values, and must have at least one",
		})
		return
	}
	r, err := labels.NewRequirement(key, op, values)
	if err != nil {
		b.violations = append(b.violations, server.Violation{Field: fmt.Sprintf("label.%s[%d]", list, i), Description: err.Error()})
		return
	}
	b.requirements = append(b.requirements, *r)
}
