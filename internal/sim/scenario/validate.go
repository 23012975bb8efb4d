// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
)

const (
	// MaxPods bounds the pods that a scenario has at any time.
	MaxPods = 200_000
	// MaxNodes bounds its nodes.
	MaxNodes = 20_000

	// MaxPools bounds its node pools.
	MaxPools = 1000
	// MaxPodsPerNode bounds the pods of a node.
	MaxPodsPerNode = 1000
	// MaxDuration bounds the simulated time.
	MaxDuration = 366 * 24 * time.Hour

	maxEvents                       = 10_000
	maxSeconds, maxDollars          = 86_400, 1_000_000
	defaultPoints, maxPoints        = 500, 100_000
	leastSample, leastDefaultSample = time.Second, 10 * time.Second
)

// What no node has more of, so that sums do not overflow.
var (
	// MaxCPU bounds the CPU of nodes and pods.
	MaxCPU = resource.MustParse("100k")
	// MaxMemory bounds their memory.
	MaxMemory = resource.MustParse("1Pi")
)

// validator collects all that is wrong with a scenario.
type validator struct {
	s    *Scenario
	d    *decoder
	errs field.ErrorList
}

func (v *validator) report(err *field.Error) { v.errs = append(v.errs, err) }

func (v *validator) scenario() {
	duration, sample := field.NewPath("duration"), field.NewPath("sample")
	length := v.s.Duration.Duration
	switch {
	case !v.d.set(duration):
		v.report(field.Required(duration, "want the simulated time, such as 72h"))
	case length <= 0 || length > MaxDuration:
		v.report(field.Invalid(duration, length.String(), "must be more than 0 and at most "+MaxDuration.String()))
	}
	if every := v.s.Sample.Duration; v.d.set(sample) && length > 0 {
		least := max(leastSample, length/maxPoints)
		if every < least || every > length {
			v.report(field.Invalid(sample, every.String(), fmt.Sprintf("must be between %s and the duration", least)))
		}
	}
	v.pools()
	v.workloads()
}

// number reports a number that is out of its range.
func (v *validator) number(path *field.Path, n, least, most int32) {
	if n < least || n > most {
		v.report(field.Invalid(path, n, fmt.Sprintf("must be between %d and %d", least, most)))
	}
}

// text reports a text that a check of apimachinery refuses.
func (v *validator) text(path *field.Path, value string, check func(string) []string) bool {
	problems := check(value)
	for _, problem := range problems {
		v.report(field.Invalid(path, short(value), problem))
	}
	return len(problems) == 0
}

// required reports whether a field is in the file.
func (v *validator) required(path *field.Path, want string) bool {
	if v.d.set(path) {
		return true
	}
	v.report(field.Required(path, want))
	return false
}

// name reports whether a name is there and a DNS label.
func (v *validator) name(path *field.Path, name string) bool {
	return v.required(path, "want a DNS label") && v.text(path, name, validation.IsDNS1123Label)
}

func (v *validator) quantity(path *field.Path, q, most resource.Quantity) {
	if q.Sign() < 0 || q.Cmp(most) > 0 {
		v.report(field.Invalid(path, q.String(), "must be between 0 and "+most.String()))
	}
}

func workloadPath(i int) *field.Path { return field.NewPath("workloads").Index(i) }

func (v *validator) workloads() {
	names, mixes := map[string]bool{}, map[string]int64{}
	pods := int64(0)
	for i := range v.s.Workloads {
		w, path := &v.s.Workloads[i], workloadPath(i)
		v.workload(path, w)
		// A copy counts, even if it has no pod: it is a Deployment.
		before := pods
		if pods += int64(max(w.Copies, 0)) * int64(max(w.Most(), 1)); pods > MaxPods {
			if before <= MaxPods {
				v.report(field.Forbidden(path, fmt.Sprintf("with this workload, more than %d pods are wanted", MaxPods)))
			}
			continue
		}
		v.unique(path, w, names)
		v.mixes(path, w, mixes)
	}
}

// mixes reports a namespace with more mixes than govern its pods, once.
func (v *validator) mixes(path *field.Path, w *Workload, of map[string]int64) {
	if w.Mix == nil {
		return
	}
	before := of[w.Namespace]
	if of[w.Namespace] += int64(w.Copies); of[w.Namespace] > governing.MaxPerNamespace && before <= governing.MaxPerNamespace {
		v.report(field.Forbidden(path.Child("mix"), fmt.Sprintf("with this workload, namespace %s has %d mixes, and at most %d govern its pods",
			short(w.Namespace), of[w.Namespace], governing.MaxPerNamespace)))
	}
}

func (v *validator) workload(path *field.Path, w *Workload) {
	v.text(path.Child("namespace"), w.Namespace, validation.IsDNS1123Label)
	if v.name(path.Child("name"), w.Name) && w.Copies > 1 {
		v.text(path.Child("name"), w.NameOf(int(w.Copies)-1), validation.IsDNS1123Label)
	}
	v.number(path.Child("copies"), w.Copies, 1, MaxPods)
	if v.required(path.Child("replicas"), "want the number at the start") {
		v.number(path.Child("replicas"), w.Replicas, 0, MaxPods)
	}
	v.quantity(path.Child("cpu"), w.CPU, MaxCPU)
	v.quantity(path.Child("memory"), w.Memory, MaxMemory)
	v.number(path.Child("startupSeconds"), w.StartupSeconds, 0, maxSeconds)
	if w.MaxUnavailable != nil {
		v.unavailable(path.Child("maxUnavailable"), w.MaxUnavailable)
	}
	if w.Mix != nil {
		v.mix(path.Child("mix"), w.Mix)
	}
	v.fits(path, w)
	v.events(path.Child("events"), w)
}

// NameOf is the name of a copy.
func (w *Workload) NameOf(copied int) string {
	if w.Copies <= 1 {
		return w.Name
	}
	return w.Name + "-" + strconv.Itoa(copied)
}

// unique reports a workload of which a copy has the name of another one.
func (v *validator) unique(path *field.Path, w *Workload, names map[string]bool) {
	reported := false
	for i := range int(w.Copies) {
		key := w.Namespace + "/" + w.NameOf(i)
		if names[key] && !reported {
			v.report(field.Duplicate(path.Child("name"), short(w.NameOf(i))))
			reported = true
		}
		names[key] = true
	}
}

// unavailable allows what a PodDisruptionBudget allows, except percentages above 100.
func (v *validator) unavailable(path *field.Path, m *intstr.IntOrString) {
	if m.Type == intstr.Int {
		v.number(path, m.IntVal, 0, MaxPods)
		return
	}
	if !v.text(path, m.StrVal, validation.IsValidPercent) {
		return
	}
	if percent, err := intstr.GetScaledValueFromIntOrPercent(m, 100, true); err != nil || percent > 100 {
		v.report(field.Invalid(path, short(m.StrVal), "must not be above 100%"))
	}
}

// fits reports a pod that is larger than the nodes of all pools.
func (v *validator) fits(path *field.Path, w *Workload) {
	for i := range v.s.NodePools[:min(len(v.s.NodePools), MaxPools)] {
		p := &v.s.NodePools[i]
		none := p.Nodes == 0 && p.Max != nil && *p.Max == 0
		if !none && w.CPU.Cmp(p.CPU) <= 0 && w.Memory.Cmp(p.Memory) <= 0 {
			return
		}
	}
	if n := len(v.s.NodePools); n > 0 && n <= MaxPools {
		v.report(field.Invalid(path, fmt.Sprintf("cpu %s, memory %s", w.CPU.String(), w.Memory.String()), "no pool has a node for such a pod"))
	}
}

func (v *validator) events(path *field.Path, w *Workload) {
	if n := len(w.Events); n > maxEvents {
		v.report(field.TooMany(path, n, maxEvents))
		return
	}
	last := time.Duration(0)
	for i := range w.Events {
		e, at := &w.Events[i], path.Index(i)
		when := e.At.Duration
		switch {
		case !v.required(at.Child("at"), "want the time since the start, such as 12h30m"):
			continue
		case when < 0:
			v.report(field.Invalid(at.Child("at"), when.String(), "must not be negative"))
		case when >= v.s.Duration.Duration && v.s.Duration.Duration > 0:
			v.report(field.Invalid(at.Child("at"), when.String(), "must be before the end at "+v.s.Duration.Duration.String()))
		case when < last:
			v.report(field.Invalid(at.Child("at"), when.String(), "must not be before the event above it, at "+last.String()))
		}
		last = max(last, when)
		if e.Replicas == nil && !e.Rollout {
			v.report(field.Required(at, "want replicas, a rollout or both"))
		}
		if e.Replicas != nil {
			v.number(at.Child("replicas"), *e.Replicas, 0, MaxPods)
		}
	}
}

// capacityTypes are those of pools.
var capacityTypes = []string{v1alpha1.CapacityTypeSpot, v1alpha1.CapacityTypeOnDemand}
