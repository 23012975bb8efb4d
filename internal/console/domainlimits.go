// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"strconv"
	"strings"

	"berth.dev/berth/apis/v1alpha1"
)

// A form has the limits of maxPerDomain as text, one in a line: the key of the label, "=", a number of replicas or a percentage, and what
// happens to a pod when its domains are full if that is set, as in "topology.kubernetes.io/zone=40% ScheduleAnyway".

// The fields of a limit.
const topologyKey, maxPercent, maxCount, whenUnsatisfiable = "topologyKey", "maxPercent", "maxCount", "whenUnsatisfiable"

// limitText is a limit of a list as a line.
func limitText(v any) string {
	limit, _ := v.(map[string]any)
	text := fmt.Sprintf("%v=", limit[topologyKey])
	if n, is := limit[maxCount]; is {
		text += fmt.Sprint(n)
	}
	if n, is := limit[maxPercent]; is {
		text += fmt.Sprintf("%v%%", n)
	}
	if when, is := limit[whenUnsatisfiable]; is {
		text += fmt.Sprintf(" %v", when)
	}
	return text
}

// domainLimitsOf are the limits of the lines of a text.
func domainLimitsOf(text string) (any, error) {
	var limits []any
	for line := range filledLines(text) {
		limit, err := domainLimitOf(line)
		if err != nil {
			return nil, err
		}
		limits = append(limits, limit)
	}
	return limits, nil
}

func domainLimitOf(line string) (map[string]any, error) {
	key, rest, is := strings.Cut(line, "=")
	words := strings.Fields(rest)
	if !is || len(words) == 0 || len(words) > 2 {
		return nil, fmt.Errorf("%q must be a label key, =, and a number or a percentage, such as topology.kubernetes.io/zone=40%%, and may end with %s or %s",
			line, v1alpha1.WhenDomainFullDoNotSchedule, v1alpha1.WhenDomainFullScheduleAnyway)
	}
	number, percent := strings.CutSuffix(words[0], "%")
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%q in %q must be a whole number or a percentage", words[0], line)
	}
	limit := map[string]any{topologyKey: strings.TrimSpace(key), maxCount: n}
	if percent {
		delete(limit, maxCount)
		limit[maxPercent] = n
	}
	if len(words) > 1 {
		limit[whenUnsatisfiable] = words[1]
	}
	return limit, nil
}
