// SPDX-License-Identifier: Apache-2.0

// Package sweep makes scenarios that differ in fields of their mixes.
package sweep

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/sim/scenario"
)

const (
	// MaxVariants bounds the combinations of values.
	MaxVariants = 200
	// longestValue bounds a value in a message.
	longestValue = 60
)

// flag is the option of berth-sim.
var flag = field.NewPath("--sweep")

// Variant is a combination of values, one of each field.
type Variant []value

// value is what a field is set to. Its text is that of the user.
type value struct {
	field, text string
	set         func(*v1alpha1.CapacityMixSpec)
}

// axis is a field with its values.
type axis struct {
	field  string
	values []value
}

// Parse returns the combinations of the values of some fields, each written as field=value,value. The values of the last field change
// first.
func Parse(texts []string) ([]Variant, error) {
	var axes []axis
	var counts []string
	total := 1
	for _, text := range texts {
		a, err := parseAxis(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(axes, func(other axis) bool { return other.field == a.field }) {
			return nil, field.Duplicate(flag, a.field)
		}
		axes = append(axes, a)
		counts = append(counts, strconv.Itoa(len(a.values)))
		total = min(total*len(a.values), MaxVariants+1) // does not overflow
	}
	if total > MaxVariants {
		return nil, fmt.Errorf("%s: the values have %s combinations, and at most %d are simulated", flag, strings.Join(counts, " × "), MaxVariants)
	}
	return product(axes), nil
}

func parseAxis(text string) (axis, error) {
	name, list, found := strings.Cut(text, "=")
	if !found {
		return axis{}, field.Invalid(flag, short(text), "want a field and its values, such as spotPercent=50,70")
	}
	i := slices.IndexFunc(Fields, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return axis{}, field.NotSupported(flag, short(name), Names())
	}
	a, seen, path := axis{field: name}, map[string]bool{}, field.NewPath(flag.String()+" "+name)
	for text := range strings.SplitSeq(list, ",") {
		set, err := Fields[i].parse(text)
		if err != nil {
			return axis{}, field.Invalid(path, short(text), err.Error())
		}
		var has mix
		set(&has)
		effect, err := json.Marshal(&has) // the same for values that differ in their notation only
		if err != nil {
			return axis{}, err
		}
		if seen[string(effect)] {
			return axis{}, field.Duplicate(path, short(text))
		}
		seen[string(effect)] = true
		a.values = append(a.values, value{name, text, set})
		if len(a.values) > MaxVariants {
			return axis{}, field.TooMany(path, len(a.values), MaxVariants)
		}
	}
	return a, nil
}

// product has each combination once, none without a field.
func product(axes []axis) []Variant {
	if len(axes) == 0 {
		return nil
	}
	variants := []Variant{nil}
	for _, a := range axes {
		next := make([]Variant, 0, len(variants)*len(a.values))
		for _, v := range variants {
			for _, value := range a.values {
				next = append(next, append(slices.Clip(v), value))
			}
		}
		variants = next
	}
	return variants
}

// String has each field with its value.
func (v Variant) String() string {
	texts := make([]string, len(v))
	for i, value := range v {
		texts[i] = value.field + "=" + value.text
	}
	return strings.Join(texts, " ")
}

// Values are those of the fields.
func (v Variant) Values() map[string]string {
	values := make(map[string]string, len(v))
	for _, value := range v {
		values[value.field] = value.text
	}
	return values
}

// Apply returns the scenario with the values in the mix of each workload that has one. It copies what it changes, and the pools
// and workloads, so that simulations of both may run at a time: a Quantity keeps its text once it is printed.
func (v Variant) Apply(s *scenario.Scenario) *scenario.Scenario {
	changed := *s
	changed.NodePools, changed.Workloads = slices.Clone(s.NodePools), slices.Clone(s.Workloads)
	for i := range changed.Workloads {
		w := &changed.Workloads[i]
		if w.Mix == nil {
			continue
		}
		w.Mix = w.Mix.DeepCopy()
		for _, value := range v {
			value.set(w.Mix)
		}
	}
	return &changed
}

// Scenarios returns the scenario of each variant. None is left out: one that is not valid is an error with its values.
func Scenarios(s *scenario.Scenario, variants []Variant) ([]*scenario.Scenario, error) {
	if len(variants) > 0 && !slices.ContainsFunc(s.Workloads, func(w scenario.Workload) bool { return w.Mix != nil }) {
		return nil, field.Forbidden(flag, "no workload of the scenario has a mix")
	}
	list := make([]*scenario.Scenario, len(variants))
	var refused []string
	for i, v := range variants {
		list[i] = v.Apply(s)
		if errs := scenario.ValidateMixes(list[i]); len(errs) > 0 {
			refused = append(refused, fmt.Sprintf("%s: %s", v, describe(errs)))
		}
	}
	switch n := len(refused); {
	case n > 1:
		return nil, fmt.Errorf("%s %s; %s not valid", flag, refused[0], display.Clause(n-1, "more combination", "is", "are"))
	case n == 1:
		return nil, fmt.Errorf("%s %s", flag, refused[0])
	}
	return list, nil
}

// describe has the first error, and how many there are.
func describe(errs field.ErrorList) string {
	if more := len(errs) - 1; more > 0 {
		return fmt.Sprintf("%s (and %s)", errs[0], display.Count(more, "more error"))
	}
	return errs[0].Error()
}

// Names are those of the fields.
func Names() []string {
	names := make([]string, len(Fields))
	for i, f := range Fields {
		names[i] = f.Name
	}
	return names
}

func short(text string) string { return display.Inert(text, longestValue) }
