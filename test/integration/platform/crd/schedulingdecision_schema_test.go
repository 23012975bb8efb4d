// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"strings"
	"testing"
)

// TestSchedulingDecisionSchema has what the schema refuses: whatever a scheduler writes has a bound.
func TestSchedulingDecisionSchema(t *testing.T) {
	t.Parallel()
	attempt := func(more string) string {
		return "{metadata: {name: web-0}, attempt: {id: '1', time: '2026-11-27T12:00:00.000000Z', outcome: Bound" + more + "}}"
	}
	several := func(n int, item string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(item+", ", n), ", ") + "]"
	}
	candidate, function, rejection := "{nodeName: a, score: '1'}", "{name: Binpacking, coefficient: '1'}", "{reason: Custom, nodeCount: 1}"
	long := strings.Repeat("m", 513)
	checkSchema(t, decision, map[string]schemaCase{
		"an attempt is accepted": {attempt(""), ""},
		"the longest lists are accepted": {
			attempt(", candidates: " + several(50, candidate) + ", functions: " + several(6, function) + ", rejections: " + several(16, rejection)), "",
		},
		"no attempt is refused":              {"{metadata: {name: web-0}}", "attempt: Required value"},
		"another outcome is refused":         {strings.Replace(attempt(""), "Bound", "Reserved", 1), `attempt.outcome: Unsupported value: "Reserved"`},
		"51 candidates are refused":          {attempt(", candidates: " + several(51, candidate)), "attempt.candidates: Too many: 51: must have at most 50 items"},
		"7 functions are refused":            {attempt(", functions: " + several(7, function)), "attempt.functions: Too many: 7: must have at most 6 items"},
		"17 rejections are refused":          {attempt(", rejections: " + several(17, rejection)), "attempt.rejections: Too many: 17: must have at most 16 items"},
		"7 values are refused":               {attempt(", candidates: [{nodeName: a, score: '1', values: " + several(7, "'1'") + "}]"), "attempt.candidates[0].values: Too many: 7: must have at most 6 items"},
		"a message that is long is accepted": {attempt(", message: " + long[1:]), ""},
		"a message too long is refused":      {attempt(", message: " + long), "attempt.message: Too long: may not be more than 512 bytes"},
		"a misspelt field is refused":        {attempt(", node: a"), `strict decoding error: unknown field "attempt.node"`},
	})
}
