// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/suggest"
)

// writeMixes prints the mixes to review, in the order of their adoption, with the reasons as comments.
func writeMixes(o *command.Options, s *overview.Suggestions) error {
	var b strings.Builder
	steps, governed, blocked := 0, 0, 0
	for i := range s.Suggestions {
		switch one := &s.Suggestions[i]; {
		case one.Mix == nil:
			blocked++
		case one.Step == 0:
			governed++
		default:
			steps++
		}
	}
	b.WriteString("# Review each mix, and apply one after the other: `kubectl berth plan -f` shows what it would move.\n")
	for _, line := range s.Notes(o.Now()) {
		fmt.Fprintf(&b, "# %s\n", display.Inert(line, maxNote))
	}
	if governed > 0 {
		fmt.Fprintf(&b, "# No mix for %s: a mix governs them already.\n", printers.Count(governed, "workload"))
	}
	if blocked > 0 {
		fmt.Fprintf(&b, "# No mix for %s: without -o yaml, the command shows what would have to change first.\n",
			printers.Count(blocked, "workload"))
	}
	for i := range s.Suggestions {
		if one := &s.Suggestions[i]; one.Step > 0 {
			text, err := manifest(one, steps)
			if err != nil {
				return err
			}
			b.WriteString("---\n" + text)
		}
	}
	_, err := fmt.Fprint(o.Out, b.String())
	return err
}

// manifest is a mix with its reasons.
func manifest(s *suggest.Suggestion, steps int) (string, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s.CapacityMix())
	if err != nil {
		return "", err
	}
	unstructured.RemoveNestedField(object, "status")
	unstructured.RemoveNestedField(object, "metadata", "creationTimestamp")
	text, err := yaml.Marshal(object)
	if err != nil {
		return "", err
	}
	return strings.Join(comments(s, steps), "\n") + "\n" + string(text), nil
}

func comments(s *suggest.Suggestion, steps int) []string {
	lines := []string{
		fmt.Sprintf("# Step %d of %d: %s/%s", s.Step, steps, s.Kind, s.Name),
		fmt.Sprintf("# Replicas: %d, of these %d on spot nodes and %d on on-demand nodes", s.Replicas, s.Spot, s.OnDemand),
		fmt.Sprintf("# Saving: %s a month, by the prices of %d of %s", savingOf(s), s.Priced, printers.Count(s.Pods, "pod")),
		fmt.Sprintf("# Interruptions of replicas a month: %s", interruptionsOf(s)),
		fmt.Sprintf("# Risk: %s", s.Risk),
	}
	for _, f := range s.Findings {
		line := fmt.Sprintf("# %s: %s", f.Reason, f.Message)
		if f.Field != "" && f.Change != "" {
			line += fmt.Sprintf(" (%s: %s)", f.Field, f.Change)
		}
		lines = append(lines, line)
	}
	return lines
}
