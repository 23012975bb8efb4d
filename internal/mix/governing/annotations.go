// SPDX-License-Identifier: Apache-2.0

package governing

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
)

// Supported annotation families.
const (
	PrefixBerth    = "berth.dev"
	PrefixSpotalis = "spotalis.io"
)

// Conventions are the names of annotations and kinds by which a mix and its groups are found.
type Conventions struct {
	// Prefixes are the families of mix annotations that are read, in order.
	Prefixes []string
	// SpotalisNamespaces are the namespaces in which those of Spotalis are read. Nil means all.
	SpotalisNamespaces sets.Set[string]
	// OnePodKinds are the kinds of owners that have one pod each.
	OnePodKinds OnePodKinds
}

// SameMix reports whether two sets of annotations have the same values for a mix and its group.
func (a Conventions) SameMix(x, y map[string]string) bool {
	return !slices.ContainsFunc(a.Prefixes, func(prefix string) bool {
		f := families[prefix]
		return slices.ContainsFunc([]string{f.percent, f.floor, f.group}, func(key string) bool {
			before, had := x[key]
			after, has := y[key]
			return had != has || before != after
		})
	})
}

// optedIn reports whether annotations of Spotalis are read in a namespace.
func (a Conventions) optedIn(namespace string) bool {
	return a.SpotalisNamespaces == nil || a.SpotalisNamespaces.Has(namespace)
}

// A family is one set of annotation keys for a mix.
type family struct {
	percent, floor string
	// group is the key of the grouping. Empty: none.
	group string
	// schedule and duration are the keys of a window for moves. Empty: none.
	schedule, duration string
	// enabled is a label that must be "true" on the workload. Empty: none.
	enabled string
	// floorAlone: the floor key is valid without the percentage, which then defaults to 0.
	floorAlone bool
}

var families = map[string]family{
	PrefixBerth: {
		percent: v1alpha1.SpotPercentAnnotation, floor: v1alpha1.MinOnDemandAnnotation, group: v1alpha1.GroupAnnotation,
	},
	// Spotalis reads only labeled workloads, and its percentage defaults to 0.
	PrefixSpotalis: {
		percent:    PrefixSpotalis + "/spot-percentage",
		floor:      PrefixSpotalis + "/min-on-demand",
		schedule:   PrefixSpotalis + "/disruption-schedule",
		duration:   PrefixSpotalis + "/disruption-duration",
		enabled:    PrefixSpotalis + "/enabled",
		floorAlone: true,
	},
}

// InvalidAnnotation is a mix annotation that cannot be parsed. The next source, if any, then governs the pod: a typing
// error never keeps it Pending.
type InvalidAnnotation struct {
	// Object has the annotation: the pod or its controller.
	Object metav1.Object
	Key    string
	// Value is truncated: an annotation may have 256 kB.
	Value string
	// Problem completes the sentence "value is invalid: …".
	Problem string
}

func (i InvalidAnnotation) String() string {
	return fmt.Sprintf("annotation %s: %q is invalid: %s", i.Key, i.Value, i.Problem)
}

// fromAnnotations parses the mix in an object's annotations. A nil mix without an invalid annotation means that the
// object has none.
func (f family) fromAnnotations(object metav1.Object, source string) (*Mix, *InvalidAnnotation) {
	annotations := object.GetAnnotations()
	percentText, hasPercent := annotations[f.percent]
	floorText, hasFloor := annotations[f.floor]
	if !hasPercent && !hasFloor {
		return nil, nil
	}
	if !hasPercent && !f.floorAlone {
		return nil, &InvalidAnnotation{
			Object: object, Key: f.floor, Value: shortened(floorText),
			Problem: "it requires the annotation " + f.percent,
		}
	}
	m := &Mix{Source: source, Mix: split.New(0, 0), BorrowOnDemand: true, GatedSpotWait: DefaultGatedSpotWait}
	var problem string
	if hasPercent {
		if m.Mix.SpotPercent, problem = parse(strings.TrimSuffix(percentText, "%"), 100); problem != "" {
			return nil, &InvalidAnnotation{Object: object, Key: f.percent, Value: shortened(percentText), Problem: problem}
		}
	}
	if hasFloor {
		if m.Mix.MinOnDemand, problem = parse(floorText, split.MaxBound); problem != "" {
			return nil, &InvalidAnnotation{Object: object, Key: f.floor, Value: shortened(floorText), Problem: problem}
		}
	}
	if text, hasGroup := annotations[f.group]; hasGroup && f.group != "" {
		if m.Grouping, problem = parseGrouping(text); problem != "" {
			return nil, &InvalidAnnotation{Object: object, Key: f.group, Value: shortened(text), Problem: problem}
		}
	}
	m.Window = f.window(annotations)
	return m, nil
}

// window returns the window in annotations, nil if there is none.
func (f family) window(annotations map[string]string) *Window {
	if f.schedule == "" {
		return nil
	}
	schedule, hasSchedule := annotations[f.schedule]
	duration, hasDuration := annotations[f.duration]
	if !hasSchedule && !hasDuration {
		return nil
	}
	return &Window{Schedule: shortened(schedule), Duration: shortened(duration), Annotations: f.schedule + " and " + f.duration}
}

// maxDigits is more than any valid number has. Longer text is not parsed, because the errors of strconv copy it.
const maxDigits = 10

// parse parses an integer from 0 to highest.
func parse(text string, highest int32) (value int32, problem string) {
	if len(text) <= maxDigits {
		if n, err := strconv.ParseInt(text, 10, 32); err == nil && n >= 0 && n <= int64(highest) {
			return int32(n), ""
		}
	}
	return 0, fmt.Sprintf("it must be a whole number from 0 to %d", highest)
}

// shownBytes is the number of bytes that are kept and shown of an invalid value.
const shownBytes = 64

// shortened truncates a long value. The result does not keep the whole value in memory.
func shortened(text string) string {
	if len(text) <= shownBytes {
		return text
	}
	return strings.ToValidUTF8(text[:shownBytes], "") + "…"
}
