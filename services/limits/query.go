// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	orchestratorv1 "berth.dev/berth/apis/proto/mcp/orchestrator/v1"
	"berth.dev/berth/services/server"
)

// maxConditions is the maximum number of keys and values in a query.
const maxConditions = 1000

// conditions counts the keys and values of a query.
func conditions(q *orchestratorv1.LabelQuery) int {
	n := len(q.GetEqual()) + len(q.GetNotEqual()) + len(q.GetContainKey()) + len(q.GetNotContainKey())
	for _, x := range slices.Concat(q.GetIn(), q.GetNotIn()) {
		n += 1 + len(x.GetValues())
	}
	return n
}

// selector compiles a query: all its conditions must hold. None select everything.
func selector(q *orchestratorv1.LabelQuery) (labels.Selector, error) {
	if n := conditions(q); n > maxConditions {
		return nil, server.InvalidField("label", fmt.Sprintf("has %d keys and values, and must have at most %d", n, maxConditions))
	}
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
	violations   server.Violations
}

func (b *selectorBuilder) add(list string, i int, key string, op selection.Operator, values ...string) {
	if (op == selection.In || op == selection.NotIn) && len(values) == 0 {
		b.violations.Add(fmt.Sprintf("label.%s[%d]", list, i), "has no values, and must have at least one")
		return
	}
	r, err := labels.NewRequirement(key, op, values)
	if err != nil {
		b.violations.Add(fmt.Sprintf("label.%s[%d]", list, i), err.Error())
		return
	}
	b.requirements = append(b.requirements, *r)
}
