// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/suggest"
)

// The tables of reasons are between these lines.
const beginReasons, endReasons = "<!-- reasons: make generate, from internal/mix/%s/reasons.go -->\n", "\n<!-- /reasons -->\n"

// writeReasons replaces the tables of reasons in the pages about rebalancing, monitoring and suggestions.
func writeReasons(docs string) error {
	return errors.Join(replaceReasons(docs+"/rebalancing.md", "rebalance", meanings()),
		replaceReasons(docs+"/monitoring.md", "rebalance", actions()), replaceReasons(docs+"/suggest.md", "suggest", suggestions()))
}

// effects are cells of the table of suggestions.
var effects = map[suggest.Effect]string{suggest.Blocks: "no mix", suggest.Limits: "fewer on spot nodes", suggest.Notes: "none"}

// suggestions has a row for each reason of a suggestion.
func suggestions() string {
	var b strings.Builder
	b.WriteString("| reason | effect | meaning | what changes it |\n|---|---|---|---|\n")
	for _, r := range suggest.Reasons() {
		effect := effects[r.Effect]
		if r.Percent > 0 {
			effect = fmt.Sprintf("at most %d %%", r.Percent)
		}
		if r.Raises {
			effect += ", more risk"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Name, effect, r.Meaning, r.Remedy())
	}
	return b.String()
}

func replaceReasons(path, source, table string) error {
	beginReasons := fmt.Sprintf(beginReasons, source)
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(page), beginReasons)
	_, after, ends := strings.Cut(rest, endReasons)
	if !begins || !ends {
		return fmt.Errorf("%s has no table between %q and %q", path, beginReasons, endReasons)
	}
	return os.WriteFile(path, []byte(before+beginReasons+table+endReasons+after), 0o600)
}

func meanings() string {
	var b strings.Builder
	b.WriteString("| reason | meaning | ends with |\n|---|---|---|\n")
	for _, r := range rebalance.Reasons() {
		if r.Meaning != "" {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Name, r.Meaning, r.Ends)
		}
	}
	return b.String()
}

// actions has one row for reasons with the same action.
func actions() string {
	names := map[string][]string{}
	for _, r := range rebalance.Reasons() {
		names[r.Action] = append(names[r.Action], "`"+r.Name+"`")
	}
	var b strings.Builder
	b.WriteString("| reason | action |\n|---|---|\n")
	for _, r := range rebalance.Reasons() {
		if r.Action != "" && names[r.Action] != nil {
			fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(names[r.Action], ", "), r.Action)
			delete(names, r.Action)
		}
	}
	return b.String()
}
