// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
)

// Annotation families that can be read.
const (
	PrefixBerth    = "berth.dev"
	PrefixSpotalis = "spotalis.io"
)

// A family is one set of annotation keys for a mix.
type family struct {
	percent, floor string
	// enabled is a label that must be "true" on the workload; empty: none.
	enabled string
	// floorAlone: the floor key is a rule without the percentage, which is then 0.
	floorAlone bool
}

var families = map[string]family{
	PrefixBerth: {percent: v1alpha1.SpotPercentAnnotation, floor: v1alpha1.MinOnDemandAnnotation},
	// Spotalis reads only labelled workloads, and its percentage defaults to 0.
	PrefixSpotalis: {
		percent:    PrefixSpotalis + "/spot-percentage",
		floor:      PrefixSpotalis + "/min-on-demand",
		enabled:    PrefixSpotalis + "/enabled",
		floorAlone: true,
	},
}

// InvalidAnnotation is a mix annotation that could not be read. The pod is then
// governed by the next source, if any: a typing error never keeps it Pending.
type InvalidAnnotation struct {
	// Object carries the annotation: the pod or its controller.
	Object metav1.Object
	Key    string
	// Value is shortened: an annotation may have 256 kB.
	Value string
	// Problem completes the sentence "value is invalid: …".
	Problem string
}

func (i InvalidAnnotation) String() string {
	return fmt.Sprintf("annotation %s: %q is invalid: %s", i.Key, i.Value, i.Problem)
}

// fromAnnotations reads the mix that an object's annotations request. A nil
// policy without an invalid annotation means that the object requests none.
func (f family) fromAnnotations(object metav1.Object, source string) (*Policy, *InvalidAnnotation) {
	annotations := object.GetAnnotations()
	percentText, hasPercent := annotations[f.percent]
	floorText, hasFloor := annotations[f.floor]
	if !hasPercent && !hasFloor {
		return nil, nil
	}
	if !hasPercent && !f.floorAlone {
		return nil, &InvalidAnnotation{Object: object, Key: f.floor, Value: shortened(floorText), Problem: "it needs " + f.percent + " beside it"}
	}
	p := &Policy{Source: source, Mix: split.New(0, 0), BorrowOnDemand: true, GatedSpotWait: DefaultGatedSpotWait}
	var problem string
	if hasPercent {
		if p.Mix.SpotPercent, problem = parse(strings.TrimSuffix(percentText, "%"), 100); problem != "" {
			return nil, &InvalidAnnotation{Object: object, Key: f.percent, Value: shortened(percentText), Problem: problem}
		}
	}
	if hasFloor {
		if p.Mix.MinOnDemand, problem = parse(floorText, split.MaxBound); problem != "" {
			return nil, &InvalidAnnotation{Object: object, Key: f.floor, Value: shortened(floorText), Problem: problem}
		}
	}
	return p, nil
}

// maxDigits is more than any number has that an annotation can hold. Longer
// text is not parsed, since errors of strconv copy it.
const maxDigits = 10

// parse reads a whole number from 0 to highest.
func parse(text string, highest int32) (value int32, problem string) {
	if len(text) <= maxDigits {
		if n, err := strconv.ParseInt(text, 10, 32); err == nil && n >= 0 && n <= int64(highest) {
			return int32(n), ""
		}
	}
	return 0, fmt.Sprintf("it must be a whole number from 0 to %d", highest)
}

// shownBytes is how much of an invalid value is kept, and shown.
const shownBytes = 64

// shortened returns the beginning of a value that is long. It does not keep the
// whole value in memory.
func shortened(text string) string {
	if len(text) <= shownBytes {
		return text
	}
	return strings.ToValidUTF8(text[:shownBytes], "") + "…"
}
